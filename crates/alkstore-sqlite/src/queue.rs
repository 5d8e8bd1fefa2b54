//! Queues. A claim seeks the ready lane; what is not ready is in other lanes, out of its way.

use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::domain::{after, extent, is_expired, whole_seconds};
use alkstore::engine::hub::Kind;
use alkstore::engine::ledger::ClaimLedger;
use alkstore::engine::stamps::Stamps;
use alkstore::engine::text;
use alkstore::engine::wait::{Readiness, wait_ready};
use alkstore::{
    EnqueueOpts, Job, JobHandle, JobState, Queue, QueueOpts, Result, async_trait, encode_payload,
    validate_local_name,
};
use rusqlite::{Statement, params};
use serde_json::Value;

use crate::conn::{Core, Sequence, Session, Write};
use crate::job::{SqliteJob, bury};
use crate::rows::{self, LiveJob};
use crate::sql;

/// Rows that one write transaction moves between lanes or to the dead, and ids that it acks.
const CHUNK: i64 = 256;
const ACK_CHUNK: usize = 2_000;
/// Chunks of ready rows that one write transaction of a claim looks at.
const ROUNDS: usize = 4;

const READY: i64 = 0;
const TIMED: i64 = 1;
const PARKED: i64 = 2;

/// A handle to a queue.
#[derive(Debug)]
pub(crate) struct SqliteQueue {
    shared: Arc<Shared>,
    opts: QueueOpts,
}

/// What a handle shares with the claims that it gives out.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) name: Arc<str>,
    pub(crate) ledger: ClaimLedger,
}

impl SqliteQueue {
    pub(crate) fn new(core: Arc<Core>, name: &str, opts: QueueOpts) -> Self {
        let shared = Shared { core, name: name.into(), ledger: ClaimLedger::default() };
        Self { shared: Arc::new(shared), opts }
    }

    pub(crate) async fn claim(&self, worker_id: &str, n: i64) -> Result<Vec<SqliteJob>> {
        let Shared { core, name, ledger } = &*self.shared;
        let mut jobs = Vec::new();
        let mut promoted = false;
        loop {
            let left = n.saturating_sub(number(jobs.len()));
            let (queue, worker) = (name.clone(), worker_id.to_owned());
            let claimed = core.write(move |write| {
                // Once is enough: later it would bring back claims of this batch that lapse at once.
                if !promoted && promote(write, &queue)?.more {
                    return Ok(None);
                }
                claim(write, &queue, &worker, left).map(Some)
            });
            let Some(claimed) = claimed.await? else { continue };
            promoted = true;
            let claims = claimed.jobs.iter().map(|job| (job.row.id, job.claims, job.due_us));
            ledger.record(core.clock.now_us(), claims);
            let handle = |job| SqliteJob::new(&self.shared, job);
            jobs.extend(claimed.jobs.into_iter().map(handle));
            if !claimed.more {
                return Ok(jobs);
            }
        }
    }
}

/// A job that is ready to be written.
#[derive(Debug)]
pub(crate) struct NewJob {
    pub(crate) stamps: Stamps,
    pub(crate) payload: Vec<u8>,
}

impl NewJob {
    /// Resolves a job's options at this reading of the clock.
    pub(crate) fn new(
        now_us: i64,
        opts: &EnqueueOpts,
        queue: &QueueOpts,
        payload: Vec<u8>,
    ) -> Self {
        Self { stamps: Stamps::resolve(opts, queue, now_us), payload }
    }

    /// Encodes a batch.
    pub(crate) fn batch(
        now_us: i64,
        jobs: &[(Value, EnqueueOpts)],
        queue: &QueueOpts,
    ) -> Result<Vec<Self>> {
        let new = |(payload, opts): &(Value, EnqueueOpts)| {
            Ok(Self::new(now_us, opts, queue, encode_payload(payload)?))
        };
        jobs.iter().map(new).collect()
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    fn name(&self) -> &str {
        &self.shared.name
    }

    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64> {
        let payload = encode_payload(&payload)?;
        let now_us = self.shared.core.clock.now_us();
        let job = NewJob::new(now_us, &opts, &self.opts, payload);
        let queue = self.shared.name.clone();
        self.shared.core.write_one(move |write| enqueue(write, &queue, &job)).await
    }

    async fn claim_one(&self, worker_id: &str) -> Result<Option<Box<dyn JobHandle>>> {
        validate_local_name(worker_id)?;
        let job = self.claim(worker_id, 1).await?.pop();
        Ok(job.map(|job| -> Box<dyn JobHandle> { Box::new(job) }))
    }

    async fn claim_batch(&self, worker_id: &str, n: i64) -> Result<Vec<Box<dyn JobHandle>>> {
        validate_local_name(worker_id)?;
        let Some(n) = extent(n) else {
            return Ok(Vec::new());
        };
        let jobs = self.claim(worker_id, n).await?.into_iter();
        Ok(jobs.map(|job| -> Box<dyn JobHandle> { Box::new(job) }).collect())
    }

    async fn ack_batch(&self, ids: &[i64]) -> Result<i64> {
        let mut acked = 0;
        for chunk in self.shared.ledger.fences(ids).chunks(ACK_CHUNK) {
            let (queue, chunk) = (self.shared.name.clone(), chunk.to_vec());
            let gone =
                self.shared.core.write(move |write| ack_batch(write, &queue, &chunk)).await?;
            acked += gone.len();
            self.shared.ledger.forget(&gone);
        }
        Ok(number(acked))
    }

    async fn cancel(&self, job_id: i64) -> Result<bool> {
        let queue = self.shared.name.clone();
        self.shared.core.write_one(move |write| cancel(write, &queue, job_id)).await
    }

    async fn get_job(&self, job_id: i64) -> Result<Option<Job>> {
        let queue = self.shared.name.clone();
        self.shared.core.read(move |session| get_job(session, &queue, job_id)).await
    }

    async fn sweep_expired(&self) -> Result<i64> {
        let mut swept = 0;
        for step in [purge, expire, exhaust] {
            loop {
                let queue = self.shared.name.clone();
                let chunk = self.shared.core.write(move |write| step(write, &queue)).await?;
                swept += chunk.swept;
                if !chunk.more {
                    break;
                }
            }
        }
        Ok(swept)
    }

    async fn enqueue_batch(&self, jobs: Vec<(Value, EnqueueOpts)>) -> Result<Vec<i64>> {
        let jobs = NewJob::batch(self.shared.core.clock.now_us(), &jobs, &self.opts)?;
        let queue = self.shared.name.clone();
        self.shared.core.write(move |write| enqueue_batch(write, &queue, &jobs)).await
    }

    async fn wait_ready(&self, timeout: Duration) -> Result<bool> {
        let mut signal = self.shared.core.subscribe(Kind::Queue, &self.shared.name).await?;
        wait_ready(&self.shared.core.clock, &mut signal, timeout, || {
            let queue = self.shared.name.clone();
            let now_us = self.shared.core.clock.now_us();
            self.shared.core.read(move |session| readiness(session, &queue, now_us))
        })
        .await
    }
}

pub(crate) fn enqueue(
    write: &mut Write<'_>,
    queue: &Arc<str>,
    job: &NewJob,
) -> rusqlite::Result<i64> {
    let id = write.next_id(Sequence::Job)?;
    let lane = insert(&mut *write.prepared(&sql::QUEUE_ENQUEUE)?, queue, id, job, write.now_us())?;
    touch(write, queue, lane == READY);
    Ok(id)
}

pub(crate) fn enqueue_batch(
    write: &mut Write<'_>,
    queue: &Arc<str>,
    jobs: &[NewJob],
) -> rusqlite::Result<Vec<i64>> {
    let first = write.next_ids(Sequence::Job, number(jobs.len()))?;
    let now_us = write.now_us();
    let mut statement = write.prepared(&sql::QUEUE_ENQUEUE)?;
    let mut ready = false;
    for (id, job) in (first..).zip(jobs) {
        ready |= insert(&mut statement, queue, id, job, now_us)? == READY;
    }
    drop(statement);
    touch(write, queue, ready);
    Ok((first..).take(jobs.len()).collect())
}

/// Tells those who wait on the queue of new or returned jobs.
pub(crate) fn touch(write: &mut Write<'_>, queue: &Arc<str>, ready: bool) {
    if ready {
        write.touch_work(queue);
    } else {
        write.touch(Kind::Queue, queue);
    }
}

/// Writes a job and returns its lane.
fn insert(
    statement: &mut Statement<'_>,
    queue: &str,
    id: i64,
    job: &NewJob,
    now_us: i64,
) -> rusqlite::Result<i64> {
    let NewJob { stamps, payload } = job;
    let lane = if stamps.ready_us > now_us || stamps.max_attempts <= 0 {
        // A job without attempts is never ready: the claim that finds it due buries it.
        TIMED
    } else if is_expired(stamps.expires_at, now_us) {
        PARKED
    } else {
        READY
    };
    statement.execute((
        id,
        queue,
        lane,
        stamps.priority,
        stamps.run_at,
        stamps.ready_us,
        stamps.max_attempts,
        stamps.created_at,
        stamps.expires_at,
        stamps.visibility_timeout_s,
        stamps.backoff_base_s,
        stamps.dead_letter_retention_s,
        payload,
    ))?;
    Ok(lane)
}

fn number(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// What a claim came to; with `more`, the rest needs another write transaction.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) jobs: Vec<LiveJob>,
    more: bool,
}

/// Claims from the ready lane; due jobs must have been promoted to it.
pub(crate) fn claim(
    write: &mut Write<'_>,
    queue: &str,
    worker_id: &str,
    n: i64,
) -> rusqlite::Result<Claimed> {
    let mut jobs = Vec::new();
    let now_us = write.now_us();
    let mut lease = write.prepared(&sql::QUEUE_CLAIM)?;
    let mut limit = n.min(CHUNK);
    for _ in 0..ROUNDS {
        let ready = write.all(&sql::QUEUE_READY, (queue, limit), rows::live_job)?;
        let last_round = number(ready.len()) < limit;
        for mut job in ready {
            if number(jobs.len()) == n {
                return Ok(Claimed { jobs, more: false });
            }
            if is_expired(job.row.expires_at, now_us) {
                write.run(&sql::QUEUE_SET_LANE, (PARKED, job.row.id))?;
                continue;
            }
            take(&mut job, worker_id, now_us);
            lease.execute((worker_id, job.row.claimed_at, job.due_us, job.row.id))?;
            jobs.push(job);
        }
        if last_round || number(jobs.len()) == n {
            return Ok(Claimed { jobs, more: false });
        }
        // Rows past their expiry were in the way; there may be many.
        limit = CHUNK;
    }
    Ok(Claimed { jobs, more: true })
}

/// Makes the value what the row becomes when it is claimed.
fn take(job: &mut LiveJob, worker_id: &str, now_us: i64) {
    job.claims += 1;
    job.due_us = after(now_us, job.row.visibility_timeout_s);
    job.row.state = JobState::Processing;
    job.row.attempts = job.row.attempts.saturating_add(1);
    job.row.worker_id = Some(worker_id.to_owned());
    job.row.claimed_at = Some(whole_seconds(now_us));
    job.row.claim_expires_at = Some(whole_seconds(job.due_us));
}

/// What a chunk of maintenance did, and whether there is more to do.
#[derive(Debug)]
pub(crate) struct Chunk {
    swept: i64,
    pub(crate) more: bool,
}

impl Chunk {
    fn of(seen: usize, swept: usize) -> Self {
        let number = |n| i64::try_from(n).unwrap_or(i64::MAX);
        Self { swept: number(swept), more: number(seen) >= CHUNK }
    }
}

/// Brings timed jobs whose time has come to the ready lane; buries those without attempts left.
pub(crate) fn promote(write: &mut Write<'_>, queue: &str) -> rusqlite::Result<Chunk> {
    let now_us = write.now_us();
    let due = write.all(&sql::QUEUE_DUE, params![queue, now_us, CHUNK], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
    })?;
    let mut buried = 0;
    for (id, has_attempts) in &due {
        if *has_attempts {
            write.run(&sql::QUEUE_SET_LANE, params![READY, id])?;
        } else {
            bury(write, *id, text::MAX_ATTEMPTS_EXCEEDED, now_us)?;
            buried += 1;
        }
    }
    Ok(Chunk::of(due.len(), buried))
}

/// A sweep's first step: deletes dead jobs past their retention.
fn purge(write: &mut Write<'_>, queue: &str) -> rusqlite::Result<Chunk> {
    let now = whole_seconds(write.now_us());
    let purged = write.run(&sql::QUEUE_PURGE, params![queue, now, CHUNK])?;
    Ok(Chunk::of(purged, purged))
}

/// A sweep's second step: buries live jobs past their expiry, whatever their state.
fn expire(write: &mut Write<'_>, queue: &str) -> rusqlite::Result<Chunk> {
    let now_us = write.now_us();
    let found = params![queue, whole_seconds(now_us), CHUNK];
    let expired: Vec<i64> = write.all(&sql::QUEUE_EXPIRED, found, |row| row.get(0))?;
    for id in &expired {
        bury(write, *id, text::EXPIRED, now_us)?;
    }
    Ok(Chunk::of(expired.len(), expired.len()))
}

/// A sweep's third step: buries lapsed jobs without attempts left.
fn exhaust(write: &mut Write<'_>, queue: &str) -> rusqlite::Result<Chunk> {
    promote(write, queue)
}

/// Acks what is validly claimed and returns the ids that are gone.
fn ack_batch(
    write: &mut Write<'_>,
    queue: &str,
    ids: &[(i64, Option<i64>)],
) -> rusqlite::Result<Vec<i64>> {
    let now_us = write.now_us();
    let mut fenced = write.prepared(&sql::JOB_ACK)?;
    let mut gone = Vec::with_capacity(ids.len());
    for (id, fence) in ids {
        let deleted = match fence {
            Some(claims) => fenced.execute((id, claims, now_us))?,
            None => write.run(&sql::QUEUE_ACK_UNFENCED, (id, queue, now_us))?,
        };
        if deleted > 0 {
            gone.push(*id);
        }
    }
    Ok(gone)
}

fn cancel(write: &mut Write<'_>, queue: &str, id: i64) -> rusqlite::Result<bool> {
    Ok(write.run(&sql::QUEUE_CANCEL, params![id, queue])? > 0)
}

pub(crate) fn get_job(session: &Session, queue: &str, id: i64) -> rusqlite::Result<Option<Job>> {
    if let Some(job) = session.first(&sql::QUEUE_GET, params![id, queue], rows::live_job)? {
        return Ok(Some(job.row.into()));
    }
    let dead = session.first(&sql::QUEUE_GET_DEAD, params![id, queue], rows::dead_job)?;
    Ok(dead.map(Job::from))
}

fn readiness(session: &Session, queue: &str, now_us: i64) -> rusqlite::Result<Readiness> {
    let (ready, due_us) = work(session, queue, now_us)?;
    Ok(match due_us {
        _ if ready => Readiness::Ready,
        Some(due_us) if due_us <= now_us => Readiness::Ready,
        Some(due_us) => Readiness::After(due_us - now_us),
        None => Readiness::Idle,
    })
}

/// Whether a claim may find work now, and the next time at which that may change by itself.
pub(crate) fn work(
    session: &Session,
    queue: &str,
    now_us: i64,
) -> rusqlite::Result<(bool, Option<i64>)> {
    let params = params![queue, CHUNK, whole_seconds(now_us)];
    session.one(&sql::QUEUE_WAIT, params, |row| Ok((row.get(0)?, row.get(1)?)))
}
