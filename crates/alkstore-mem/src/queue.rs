//! Queues: enqueue, claim, and the upkeep of expired and dead jobs.

use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::domain::{after, whole_seconds};
use alkstore::engine::hub::Kind;
use alkstore::engine::ledger::ClaimLedger;
use alkstore::engine::stamps::Stamps;
use alkstore::engine::text;
use alkstore::engine::wait::{Readiness, wait_ready};
use alkstore::{
    EnqueueOpts, Job, JobHandle, Queue, QueueOpts, Result, async_trait, encode_payload,
    validate_local_name,
};
use serde_json::Value;

use crate::conn::{Claim, Conn, Row, State, yield_now};
use crate::job::MemJob;

/// Rows that a sweep moves or deletes before it lets others go on.
const SWEEP_CHUNK: i64 = 1_000;

/// A queue, or the one behind an outbox.
#[derive(Debug)]
pub(crate) struct MemQueue {
    conn: Conn,
    name: String,
    opts: QueueOpts,
    ledger: Arc<ClaimLedger>,
}

impl MemQueue {
    pub(crate) fn new(conn: Conn, name: String, opts: QueueOpts) -> Self {
        Self {
            conn,
            name,
            opts,
            ledger: Arc::default(),
        }
    }

    pub(crate) fn claim(&self, worker_id: &str, n: i64) -> Result<Vec<MemJob>> {
        validate_local_name(worker_id)?;
        let claimed = self
            .conn
            .write(|state| claim(state, &self.name, worker_id, n))?;
        let entry = |c: &ClaimedJob| (c.job.id, c.fence, c.deadline_us);
        self.ledger
            .record(claimed.now_us, claimed.jobs.iter().map(entry));
        let handle = |c: ClaimedJob| MemJob::new(&self.conn, &self.ledger, c.job, c.fence);
        Ok(claimed.jobs.into_iter().map(handle).collect())
    }
}

#[async_trait]
impl Queue for MemQueue {
    fn name(&self) -> &str {
        &self.name
    }

    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64> {
        let payload = encode_payload(&payload)?;
        let id = self
            .conn
            .write(|state| enqueue(state, &self.name, &opts, &self.opts, payload))?;
        self.conn.wake(Kind::Queue, &self.name);
        Ok(id)
    }

    async fn claim_one(&self, worker_id: &str) -> Result<Option<Box<dyn JobHandle>>> {
        let claimed = self.claim(worker_id, 1)?.pop();
        Ok(claimed.map(|job| Box::new(job) as Box<dyn JobHandle>))
    }

    async fn claim_batch(&self, worker_id: &str, n: i64) -> Result<Vec<Box<dyn JobHandle>>> {
        let claimed = self.claim(worker_id, n)?;
        Ok(claimed
            .into_iter()
            .map(|job| Box::new(job) as Box<dyn JobHandle>)
            .collect())
    }

    async fn ack_batch(&self, ids: &[i64]) -> Result<i64> {
        let ids = self.ledger.fences(ids);
        let acked = self
            .conn
            .write(|state| ack_batch(state, &self.name, &ids))?;
        acked.iter().for_each(|id| self.ledger.forget(*id));
        Ok(count(acked.len()))
    }

    async fn cancel(&self, job_id: i64) -> Result<bool> {
        self.conn.write(|state| cancel(state, &self.name, job_id))
    }

    async fn get_job(&self, job_id: i64) -> Result<Option<Job>> {
        self.conn.read(|state| get_job(state, &self.name, job_id))
    }

    async fn sweep_expired(&self) -> Result<i64> {
        let now_us = self.conn.read(|state| state.now_us)?;
        let mut swept = 0;
        for part in [Sweep::Purge, Sweep::Expire, Sweep::Exhaust] {
            loop {
                let done = self
                    .conn
                    .write(|state| sweep(state, &self.name, part, now_us))?;
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
        let ids = self.conn.write(|state| {
            let one = |(payload, opts): (Vec<u8>, EnqueueOpts)| {
                enqueue(state, &self.name, &opts, &self.opts, payload)
            };
            jobs.into_iter().map(one).collect::<Vec<_>>()
        })?;
        if !ids.is_empty() {
            self.conn.wake(Kind::Queue, &self.name);
        }
        Ok(ids)
    }

    async fn wait_ready(&self, timeout: Duration) -> Result<bool> {
        let mut signal = self.conn.subscribe(Kind::Queue, &self.name);
        let check = async || self.conn.write(|state| readiness(state, &self.name));
        wait_ready(self.conn.clock(), &mut signal, timeout, check).await
    }
}

/// What a claim took.
pub(crate) struct Claimed {
    pub(crate) jobs: Vec<ClaimedJob>,
    pub(crate) now_us: i64,
}

pub(crate) struct ClaimedJob {
    pub(crate) job: Job,
    pub(crate) fence: i64,
    pub(crate) deadline_us: i64,
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
    jobs.into_iter()
        .map(|(payload, opts)| Ok((encode_payload(&payload)?, opts)))
        .collect()
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
) -> (i64, Row) {
    let stamps = Stamps::resolve(opts, stamps, state.now_us);
    (state.next_job(), Row::new(stamps, payload))
}

pub(crate) fn insert(state: &mut State, queue: &str, id: i64, row: Row) {
    let now_us = state.now_us;
    state.jobs(queue).put(id, row, now_us);
}

pub(crate) fn claim(state: &mut State, queue: &str, worker_id: &str, n: i64) -> Claimed {
    let now_us = state.now_us;
    let n = usize::try_from(n).unwrap_or(0);
    let mut claimed = Claimed {
        jobs: Vec::new(),
        now_us,
    };
    let Some(jobs) = state.queues.get_mut(queue).filter(|_| n > 0) else {
        return claimed;
    };
    while let Some(id) = jobs.first_exhausted(now_us) {
        if let Some(row) = jobs.take(id) {
            jobs.bury(id, row, text::MAX_ATTEMPTS_EXCEEDED, now_us);
        }
    }
    jobs.promote(now_us);
    let mut taken = Vec::new();
    while taken.len() < n
        && let Some((id, mut row)) = jobs.take_ready(now_us)
    {
        row.attempts += 1;
        row.claims += 1;
        let deadline_us = after(now_us, row.stamps.visibility_timeout_s);
        row.claim = Some(Claim {
            worker_id: worker_id.to_owned(),
            claimed_at: whole_seconds(now_us),
            deadline_us,
        });
        claimed.jobs.push(ClaimedJob {
            job: row.job(queue, id),
            fence: row.claims,
            deadline_us,
        });
        taken.push((id, row));
    }
    // Put back only now: a claim that lapses at once must not be taken twice in one batch.
    for (id, row) in taken {
        jobs.put(id, row, now_us);
    }
    claimed
}

/// Returns the ids that were acked.
pub(crate) fn ack_batch(state: &mut State, queue: &str, ids: &[(i64, Option<i64>)]) -> Vec<i64> {
    state.with_jobs(queue, |jobs, now_us| {
        let acked =
            |(id, fence): &(i64, Option<i64>)| jobs.take_claimed(*id, *fence, now_us).map(|_| *id);
        ids.iter().filter_map(acked).collect()
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
                _ => {
                    if let Some(row) = jobs.take(id) {
                        jobs.bury(id, row, last_error, now_us);
                    }
                }
            }
            swept += 1;
        }
        swept
    })
}

pub(crate) fn readiness(state: &mut State, queue: &str) -> Readiness {
    let now_us = state.now_us;
    state
        .queues
        .get_mut(queue)
        .map_or(Readiness::Idle, |jobs| jobs.readiness(now_us))
}

/// A count as the contract's numbers are.
pub(crate) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
