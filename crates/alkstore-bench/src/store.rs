//! The workloads as every engine does them, through the contract's traits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alkstore::{Queue, QueueOpts, Store, StreamHandle};

use crate::Result;
use crate::line::Round;
use crate::load::{PAYLOAD, drain, rate, wakes};

/// The queue of every workload.
pub(crate) const QUEUE: &str = "bench";

const WORKER: &str = "worker-1";
const BATCH: usize = 1_000;

pub(crate) fn enqueue(round: &Round<'_>, store: &dyn Store, tasks: usize) -> Result<f64> {
    let queue = queue(round, store)?;
    Ok(rate(round, tasks, move || {
        let queue = queue.clone();
        async move {
            let enqueued = queue.enqueue(PAYLOAD.clone(), Default::default()).await;
            enqueued.expect("the store works");
        }
    }))
}

/// Rows per second; making the batches is the caller's work and not counted.
pub(crate) fn enqueue_batches(round: &Round<'_>, store: &dyn Store) -> Result<f64> {
    let queue = queue(round, store)?;
    let mut time = Duration::ZERO;
    for _ in 0..round.plan.batches {
        let batch = vec![(PAYLOAD.clone(), Default::default()); BATCH];
        let start = Instant::now();
        round.runtime.block_on(queue.enqueue_batch(batch))?;
        time += start.elapsed();
    }
    Ok((round.plan.batches * BATCH) as f64 / time.as_secs_f64())
}

pub(crate) fn drain_singly(round: &Round<'_>, store: &dyn Store, workers: usize) -> Result<f64> {
    let jobs = round.plan.jobs;
    let queue = filled(round, store, jobs)?;
    Ok(drain(round, jobs, workers, move || {
        let queue = queue.clone();
        async move {
            match queue.claim_one(WORKER).await.expect("the store works") {
                Some(job) => usize::from(job.ack().await.expect("the store works")),
                None => 0,
            }
        }
    }))
}

pub(crate) fn drain_batches(round: &Round<'_>, store: &dyn Store) -> Result<f64> {
    let jobs = round.plan.batched_jobs;
    let queue = filled(round, store, jobs)?;
    Ok(drain(round, jobs, 1, move || {
        let queue = queue.clone();
        async move {
            let jobs = queue.claim_batch(WORKER, 100).await.expect("the store works");
            let ids: Vec<i64> = jobs.iter().map(|job| job.job().id).collect();
            let acked = queue.ack_batch(&ids).await.expect("the store works");
            usize::try_from(acked).expect("a count")
        }
    }))
}

fn queue(round: &Round<'_>, store: &dyn Store) -> Result<Arc<dyn Queue>> {
    Ok(round.runtime.block_on(store.queue(QUEUE, QueueOpts::default()))?.into())
}

fn filled(round: &Round<'_>, store: &dyn Store, jobs: usize) -> Result<Arc<dyn Queue>> {
    let queue = queue(round, store)?;
    let batch = vec![(PAYLOAD.clone(), Default::default()); jobs];
    round.runtime.block_on(queue.enqueue_batch(batch))?;
    Ok(queue)
}

pub(crate) fn publish(round: &Round<'_>, store: &dyn Store, tasks: usize) -> Result<f64> {
    let stream = stream(round, store)?;
    Ok(rate(round, tasks, move || {
        let stream = stream.clone();
        async move {
            stream.publish(PAYLOAD.clone()).await.expect("the store works");
        }
    }))
}

/// Events per second.
pub(crate) fn publish_batches(round: &Round<'_>, store: &dyn Store, n: usize) -> Result<f64> {
    let stream = stream(round, store)?;
    let batches = rate(round, 1, move || {
        let stream = stream.clone();
        async move {
            let batch = vec![(None, PAYLOAD.clone()); n];
            stream.publish_batch(batch).await.expect("the store works");
        }
    });
    Ok(batches * n as f64)
}

/// Events per second.
pub(crate) fn read_pages(round: &Round<'_>, store: &dyn Store, page: i64) -> Result<f64> {
    let stream = stream(round, store)?;
    let batch = vec![(None, PAYLOAD.clone()); round.plan.events];
    round.runtime.block_on(stream.publish_batch(batch))?;
    paged(round, async |offset| {
        let events = stream.read_since(offset, page).await?;
        Ok((events.len(), events.last().map_or(offset, |event| event.offset)))
    })
}

/// Reads all events, page after page, and returns how many per second. A page says how many it
/// had and where the next one starts.
pub(crate) fn paged(
    round: &Round<'_>,
    page: impl AsyncFn(i64) -> Result<(usize, i64)>,
) -> Result<f64> {
    round.runtime.block_on(async {
        let start = Instant::now();
        let (mut read, mut offset) = (0, 0);
        loop {
            let (n, next) = page(offset).await?;
            if n == 0 {
                break;
            }
            read += n;
            offset = next;
        }
        assert_eq!(read, round.plan.events, "every event once");
        Ok(read as f64 / start.elapsed().as_secs_f64())
    })
}

pub(crate) fn notify<S>(round: &Round<'_>, store: &S, tasks: usize) -> Result<f64>
where
    S: Store + Clone + 'static,
{
    let store = store.clone();
    Ok(rate(round, tasks, move || {
        let store = store.clone();
        async move { store.notify(QUEUE, PAYLOAD.clone()).await.expect("the store works") }
    }))
}

pub(crate) fn wake_handler(round: &Round<'_>, store: &dyn Store) -> Result<f64> {
    let queue = queue(round, store)?;
    let producer = queue.clone();
    let produce = move || {
        let queue = producer.clone();
        async move {
            queue.enqueue(PAYLOAD.clone(), Default::default()).await.expect("the store works");
        }
    };
    Ok(wakes(round, produce, move || {
        let queue = queue.clone();
        async move {
            loop {
                queue.wait_ready(Duration::from_secs(60)).await.expect("the store works");
                if let Some(job) = queue.claim_one(WORKER).await.expect("the store works") {
                    tokio::spawn(job.ack());
                    return;
                }
            }
        }
    }))
}

pub(crate) fn wake_subscriber(round: &Round<'_>, store: &dyn Store) -> Result<f64> {
    let stream = stream(round, store)?;
    let events = round.runtime.block_on(stream.subscribe("bench"))?;
    let events = Arc::new(tokio::sync::Mutex::new(events));
    let produce = move || {
        let stream = stream.clone();
        async move {
            stream.publish(PAYLOAD.clone()).await.expect("the store works");
        }
    };
    Ok(wakes(round, produce, move || {
        let events = events.clone();
        async move {
            events.lock().await.recv().await.expect("open").expect("the store works");
        }
    }))
}

pub(crate) fn wake_listener<S>(round: &Round<'_>, store: &S) -> Result<f64>
where
    S: Store + Clone + 'static,
{
    let wakeups = round.runtime.block_on(store.listen(QUEUE))?;
    let wakeups = Arc::new(tokio::sync::Mutex::new(wakeups));
    let store = store.clone();
    let produce = move || {
        let store = store.clone();
        async move { store.notify(QUEUE, PAYLOAD.clone()).await.expect("the store works") }
    };
    Ok(wakes(round, produce, move || {
        let wakeups = wakeups.clone();
        async move {
            wakeups.lock().await.recv().await.expect("open");
        }
    }))
}

fn stream(round: &Round<'_>, store: &dyn Store) -> Result<Arc<dyn StreamHandle>> {
    Ok(round.runtime.block_on(store.stream(QUEUE))?.into())
}
