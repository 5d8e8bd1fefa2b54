//! Queues: enqueue, claim, and the upkeep of expired and dead jobs.

use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::hub::Kind;
use alkstore::engine::stamps::Stamps;
use alkstore::engine::text;
use alkstore::engine::wait::{Readiness, wait_ready};
use alkstore::{
    EnqueueOpts, Job, JobHandle, Queue, QueueOpts, Result, async_trait, encode_payload,
    validate_local_name,
};
use serde_json::Value;
use tokio::task::yield_now;

use crate::conn::{Conn, Fence, HandleId, Jobs, Row, State};
use crate::job::MemJob;

/// Rows that a sweep moves or deletes before it lets others go on.
const SWEEP_CHUNK: i64 = 1_000;

/// A queue, or the one behind an outbox. Clones are one handle.
#[derive(Clone, Debug)]
pub(crate) struct MemQueue(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    conn: Conn,
    name: String,
    opts: QueueOpts,
    id: HandleId,
}

impl MemQueue {
    pub(crate) async fn new(conn: &Conn, name: String, opts: QueueOpts) -> Result<Self> {
        let id = conn.write(State::next_handle).await?;
        Ok(Self(Arc::new(Handle { conn: conn.clone(), name, opts, id })))
    }

    pub(crate) fn conn(&self) -> &Conn {
        &self.0.conn
    }

    pub(crate) fn wake(&self) {
        self.conn().wake(Kind::Queue, self.name());
    }

    /// Claims up to `n` jobs and gives each, in claim order.
    pub(crate) async fn claim(
        &self,
        worker_id: &str,
        n: i64,
        mut give: impl FnMut(Box<MemJob>),
    ) -> Result<()> {
        validate_local_name(worker_id)?;
        let claimant = Claimant { handle: self.0.id, worker_id };
        let mut give = |job, fence| give(Box::new(MemJob::new(self.clone(), job, fence)));
        self.conn().write(|state| claim(state, self.name(), claimant, n, &mut give)).await
    }
}

#[async_trait]
impl Queue for MemQueue {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64> {
        let payload = encode_payload(&payload)?;
        let id = self
            .conn()
            .write(|state| enqueue(state, self.name(), &opts, &self.0.opts, payload))
            .await?;
        self.wake();
        Ok(id)
    }

    async fn claim_one(&self, worker_id: &str) -> Result<Option<Box<dyn JobHandle>>> {
        let mut claimed: Option<Box<dyn JobHandle>> = None;
        self.claim(worker_id, 1, |job| claimed = Some(job)).await?;
        Ok(claimed)
    }

    async fn claim_batch(&self, worker_id: &str, n: i64) -> Result<Vec<Box<dyn JobHandle>>> {
        let mut claimed: Vec<Box<dyn JobHandle>> = Vec::new();
        self.claim(worker_id, n, |job| claimed.push(job)).await?;
        Ok(claimed)
    }

    async fn ack_batch(&self, ids: &[i64]) -> Result<i64> {
        self.conn().write(|state| ack_batch(state, self.name(), self.0.id, ids)).await
    }

    async fn cancel(&self, job_id: i64) -> Result<bool> {
        self.conn().write(|state| cancel(state, self.name(), job_id)).await
    }

    async fn get_job(&self, job_id: i64) -> Result<Option<Job>> {
        self.conn().read(|state| get_job(state, self.name(), job_id)).await
    }

    async fn sweep_expired(&self) -> Result<i64> {
        let now_us = self.conn().read(|state| state.now_us).await?;
        let mut swept = 0;
        for part in [Sweep::Purge, Sweep::Expire, Sweep::Exhaust] {
            loop {
                let done =
                    self.conn().write(|state| sweep(state, self.name(), part, now_us)).await?;
                swept += done;
                if done < SWEEP_CHUNK {
                    break;
                }
                yield_now().await;
            }
        }
        Ok(swept)
    }

    async fn enqueue_batch(&self, jobs: Vec<(Value, EnqueueOpts)>) -> Result<Vec<i64>> {
        let jobs = encode_batch(jobs)?;
        let ids = self
            .conn()
            .write(|state| {
                let one = |(payload, opts): (Vec<u8>, EnqueueOpts)| {
                    enqueue(state, self.name(), &opts, &self.0.opts, payload)
                };
                jobs.into_iter().map(one).collect::<Vec<_>>()
            })
            .await?;
        if !ids.is_empty() {
            self.wake();
        }
        Ok(ids)
    }

    async fn wait_ready(&self, timeout: Duration) -> Result<bool> {
        let mut signal = self.conn().subscribe(Kind::Queue, self.name());
        let check = async || self.conn().write(|state| readiness(state, self.name())).await;
        wait_ready(self.conn().clock(), &mut signal, timeout, check).await
    }
}

/// Who claims: a queue handle, under a name of the caller's.
#[derive(Clone, Copy)]
pub(crate) struct Claimant<'a> {
    handle: HandleId,
    worker_id: &'a str,
}

/// One of the things that a sweep does.
#[derive(Clone, Copy)]
pub(crate) enum Sweep {
    Purge,
    Expire,
    Exhaust,
}

/// Checks the payloads of a batch before anything of it is written.
pub(crate) fn encode_batch(jobs: Vec<(Value, EnqueueOpts)>) -> Result<Vec<(Vec<u8>, EnqueueOpts)>> {
    jobs.into_iter().map(|(payload, opts)| Ok((encode_payload(&payload)?, opts))).collect()
}

pub(crate) fn enqueue(
    state: &mut State,
    queue: &str,
    opts: &EnqueueOpts,
    stamps: &QueueOpts,
    payload: Vec<u8>,
) -> i64 {
    let (id, row) = new_job(state, opts, stamps, payload);
    insert(state, queue, id, row);
    id
}

/// A job that is not in its queue yet.
pub(crate) fn new_job(
    state: &mut State,
    opts: &EnqueueOpts,
    stamps: &QueueOpts,
    payload: Vec<u8>,
) -> (i64, Box<Row>) {
    let stamps = Stamps::resolve(opts, stamps, state.now_us);
    (state.next_job(), Row::new(stamps, payload))
}

pub(crate) fn insert(state: &mut State, queue: &str, id: i64, row: Box<Row>) {
    let now_us = state.now_us;
    state.jobs(queue).put(id, row, now_us);
}

/// Claims up to `n` jobs and gives each, with its fence, in claim order.
pub(crate) fn claim(
    state: &mut State,
    queue: &str,
    claimant: Claimant<'_>,
    n: i64,
    give: &mut impl FnMut(Job, i64),
) {
    let now_us = state.now_us;
    let Some(jobs) = state.queues.get_mut(queue).filter(|_| n > 0) else {
        return;
    };
    while let Some(id) = jobs.first_exhausted(now_us) {
        bury(jobs, id, text::MAX_ATTEMPTS_EXCEEDED, now_us);
    }
    jobs.promote(now_us);
    for _ in 0..n {
        let Some((id, mut row)) = jobs.take_ready(now_us) else {
            return;
        };
        row.attempts += 1;
        row.begin_claim(claimant.handle, claimant.worker_id, now_us);
        give(row.job(queue, id), row.claims());
        jobs.put(id, row, now_us);
    }
}

/// Acks the valid claims but for those of others on jobs that this handle has had before.
pub(crate) fn ack_batch(state: &mut State, queue: &str, handle: HandleId, ids: &[i64]) -> i64 {
    state.with_jobs(queue, |jobs, now_us| {
        let fence = Fence::Handle(handle);
        count(ids.iter().filter(|id| jobs.take_claimed(**id, fence, now_us).is_some()).count())
    })
}

pub(crate) fn cancel(state: &mut State, queue: &str, id: i64) -> bool {
    state.with_jobs(queue, |jobs, _| jobs.take(id).is_some())
}

pub(crate) fn get_job(state: &State, queue: &str, id: i64) -> Option<Job> {
    state.queues.get(queue)?.job(queue, id)
}

/// Does one part of a sweep for up to [`SWEEP_CHUNK`] rows and returns for how many.
///
/// `now_us` is the whole sweep's: what its first parts move must not fall to its next chunk.
pub(crate) fn sweep(state: &mut State, queue: &str, part: Sweep, now_us: i64) -> i64 {
    state.with_jobs(queue, |jobs, _| {
        let mut swept = 0;
        while swept < SWEEP_CHUNK {
            let (found, last_error) = match part {
                Sweep::Purge => (jobs.first_purgeable(now_us), ""),
                Sweep::Expire => (jobs.first_expired(now_us), text::EXPIRED),
                Sweep::Exhaust => (jobs.first_exhausted(now_us), text::MAX_ATTEMPTS_EXCEEDED),
            };
            let Some(id) = found else { break };
            match part {
                Sweep::Purge => drop(jobs.take_dead(id)),
                _ => bury(jobs, id, last_error, now_us),
            }
            swept += 1;
        }
        swept
    })
}

fn bury(jobs: &mut Jobs, id: i64, last_error: &str, now_us: i64) {
    if let Some(row) = jobs.take(id) {
        jobs.bury(id, row, last_error, now_us);
    }
}

pub(crate) fn readiness(state: &mut State, queue: &str) -> Readiness {
    let now_us = state.now_us;
    state.queues.get_mut(queue).map_or(Readiness::Idle, |jobs| jobs.readiness(now_us))
}

/// A count as the contract's numbers are.
pub(crate) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
