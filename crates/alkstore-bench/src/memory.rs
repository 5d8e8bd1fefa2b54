//! The workloads in memory, against a `BTreeMap` behind a mutex and one boxed future per call.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use alkstore::{BoxedFuture, encode_payload};
use alkstore_mem::MemStore;
use serde_json::Value;

use crate::line::{Floor, Line, Round};
use crate::load::{PAYLOAD, drain, rate};
use crate::{Durability, Result, store};

const BATCH: usize = 1_000;
const PAGE: usize = 256;
const TARGET: f64 = 0.5;

pub(crate) fn lines() -> Vec<Line> {
    vec![
        line("W1", "enqueue, one task", floor_enqueue, |round, ours| {
            store::enqueue(round, ours, 1)
        }),
        line("W1", "enqueue a batch of 1,000 (rows)", floor_batches, |round, ours| {
            store::enqueue_batches(round, ours)
        }),
        line("W2", "drain, claim and ack, one worker", floor_drain, |round, ours| {
            store::drain_singly(round, ours, 1)
        }),
        line("W4", "read pages of 256 (events)", floor_read, |round, ours| {
            store::read_pages(round, ours, i64::try_from(PAGE)?)
        }),
    ]
}

fn line(
    workload: &'static str,
    name: &'static str,
    floor: impl Fn(&Round<'_>) -> Result<f64> + 'static,
    ours: impl Fn(&Round<'_>, &MemStore) -> Result<f64> + 'static,
) -> Line {
    Line {
        engine: "memory",
        workload,
        name,
        durability: Durability::None,
        floors: vec![Floor { name: "map", target: Some(TARGET), side: Box::new(floor) }],
        ours: Box::new(move |round| ours(round, &MemStore::new())),
    }
}

/// What a claim hands out, but for the numbers: they are copied at no cost.
struct Claimed {
    id: i64,
    #[expect(dead_code, reason = "for the handler that is not there")]
    texts: (String, String, Vec<u8>),
}

/// What a reader gets.
struct Event {
    offset: i64,
    #[expect(dead_code, reason = "for the reader that is not there")]
    texts: (String, Option<String>, Vec<u8>),
}

/// The least that keeps jobs in claim order and events in theirs.
#[derive(Clone, Default)]
struct Map(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    last: i64,
    /// By priority, ready time and id.
    ready: BTreeMap<(Reverse<i64>, i64, i64), Vec<u8>>,
    claimed: BTreeMap<i64, Vec<u8>>,
    events: BTreeMap<i64, Vec<u8>>,
}

impl Map {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().expect("nothing panics under it")
    }

    fn enqueue(&self, payload: Value) -> BoxedFuture<'_, i64> {
        Box::pin(async move {
            let bytes = encode_payload(&payload).expect("a payload");
            self.lock().enqueue(bytes)
        })
    }

    fn enqueue_batch(&self, payloads: Vec<Value>) -> BoxedFuture<'_, Vec<i64>> {
        Box::pin(async move {
            let encode = |payload| encode_payload(payload).expect("a payload");
            let encoded: Vec<_> = payloads.iter().map(encode).collect();
            let mut tables = self.lock();
            encoded.into_iter().map(|bytes| tables.enqueue(bytes)).collect()
        })
    }

    fn claim(&self, worker: &'static str) -> BoxedFuture<'_, Option<Claimed>> {
        Box::pin(async move {
            let mut tables = self.lock();
            let ((.., id), bytes) = tables.ready.pop_first()?;
            tables.claimed.insert(id, bytes.clone());
            Some(Claimed { id, texts: (store::QUEUE.to_owned(), worker.to_owned(), bytes) })
        })
    }

    fn ack(&self, id: i64) -> BoxedFuture<'_, bool> {
        Box::pin(async move { self.lock().claimed.remove(&id).is_some() })
    }

    fn read(&self, offset: i64) -> BoxedFuture<'_, Vec<Event>> {
        Box::pin(async move {
            let tables = self.lock();
            let page = tables.events.range(offset + 1..).take(PAGE);
            let event = |(offset, bytes): (&i64, &Vec<u8>)| Event {
                offset: *offset,
                texts: (store::QUEUE.to_owned(), None, bytes.clone()),
            };
            page.map(event).collect()
        })
    }
}

impl Tables {
    fn enqueue(&mut self, bytes: Vec<u8>) -> i64 {
        self.last += 1;
        self.ready.insert((Reverse(0), 0, self.last), bytes);
        self.last
    }
}

fn floor_enqueue(round: &Round<'_>) -> Result<f64> {
    let map = Map::default();
    Ok(rate(round, 1, move || {
        let map = map.clone();
        async move {
            map.enqueue(PAYLOAD.clone()).await;
        }
    }))
}

fn floor_batches(round: &Round<'_>) -> Result<f64> {
    let map = Map::default();
    let mut time = std::time::Duration::ZERO;
    for _ in 0..round.plan.batches {
        let batch = vec![PAYLOAD.clone(); BATCH];
        let start = std::time::Instant::now();
        round.runtime.block_on(map.enqueue_batch(batch));
        time += start.elapsed();
    }
    Ok((round.plan.batches * BATCH) as f64 / time.as_secs_f64())
}

fn floor_drain(round: &Round<'_>) -> Result<f64> {
    let map = Map::default();
    round.runtime.block_on(map.enqueue_batch(vec![PAYLOAD.clone(); round.plan.jobs]));
    Ok(drain(round, round.plan.jobs, 1, move || {
        let map = map.clone();
        async move {
            match map.claim("worker-1").await {
                Some(job) => usize::from(map.ack(job.id).await),
                None => 0,
            }
        }
    }))
}

fn floor_read(round: &Round<'_>) -> Result<f64> {
    let map = Map::default();
    let bytes = encode_payload(&PAYLOAD)?;
    map.lock().events = (1..).zip(vec![bytes; round.plan.events]).collect();
    store::paged(round, async |offset| {
        let page = map.read(offset).await;
        Ok((page.len(), page.last().map_or(offset, |event| event.offset)))
    })
}
