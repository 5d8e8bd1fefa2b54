//! The operator surface.

use std::sync::Arc;

use alkstore::engine::SCHEDULER_LOCK;
use alkstore::engine::domain::{extent, whole_seconds};
use alkstore::engine::hub::Kind;
use alkstore::engine::rows::{
    ConsumerRow, LockRow, QueueRow, ScheduleRow, StreamRow, stored_queue,
};
use alkstore::ops::{
    COUNT_BOUND, ConsumerInfo, Inspect, LockInfo, Operate, QueueInfo, ScheduleInfo, StreamInfo,
};
use alkstore::{Job, JobState, Result, async_trait, validate_local_name, validate_shared_name};
use rusqlite::{Row, params};

use crate::conn::{Sequence, Session, Write};
use crate::{SqliteStore, rows, sql};

/// Jobs that one write transaction moves.
const CHUNK: usize = 256;

#[async_trait]
impl Inspect for SqliteStore {
    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let now_us = self.core.clock.now_us();
        let rows = self.core.read(move |session| queues(session, now_us)).await?;
        let mut queues: Vec<QueueInfo> = rows.into_iter().map(QueueInfo::from).collect();
        queues.sort_by_cached_key(QueueInfo::address);
        Ok(queues)
    }

    async fn jobs(
        &self,
        queue: &str,
        state: Option<JobState>,
        after: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Job>> {
        let queue = stored_queue(queue)?;
        let Some(limit) = extent(limit) else {
            return Ok(Vec::new());
        };
        let after = after.unwrap_or(i64::MIN);
        self.core.read(move |session| jobs(session, &queue, state, after, limit)).await
    }

    async fn streams(&self) -> Result<Vec<StreamInfo>> {
        let rows = self.core.read(streams).await?;
        Ok(rows.into_iter().map(StreamInfo::from).collect())
    }

    async fn consumers(&self, stream: &str) -> Result<Vec<ConsumerInfo>> {
        validate_shared_name(stream)?;
        let stream = stream.to_owned();
        let rows = self.core.read(move |session| consumers(session, &stream)).await?;
        Ok(rows.into_iter().map(ConsumerInfo::from).collect())
    }

    async fn locks(&self) -> Result<Vec<LockInfo>> {
        let now_us = self.core.clock.now_us();
        let rows = self.core.read(move |session| locks(session, now_us)).await?;
        Ok(rows.into_iter().map(|row| row.info(now_us)).collect())
    }

    async fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        let rows = self.core.read(schedules).await?;
        Ok(rows.into_iter().map(ScheduleInfo::from).collect())
    }
}

#[async_trait]
impl Operate for SqliteStore {
    async fn redrive(&self, queue: &str, job_ids: &[i64]) -> Result<Vec<i64>> {
        let queue: Arc<str> = stored_queue(queue)?.into();
        let mut new_ids = Vec::with_capacity(job_ids.len());
        for ids in job_ids.chunks(CHUNK) {
            let (queue, ids) = (queue.clone(), ids.to_vec());
            new_ids.extend(self.core.write(move |write| redrive(write, &queue, &ids)).await?);
        }
        Ok(new_ids)
    }

    async fn discard(&self, queue: &str, job_ids: &[i64]) -> Result<i64> {
        let queue = stored_queue(queue)?;
        let mut discarded = 0;
        for ids in job_ids.chunks(CHUNK) {
            let (queue, ids) = (queue.clone(), ids.to_vec());
            discarded += self.core.write(move |write| discard(write, &queue, &ids)).await?;
        }
        Ok(discarded)
    }

    async fn retry_now(&self, queue: &str, job_ids: &[i64]) -> Result<i64> {
        let queue: Arc<str> = stored_queue(queue)?.into();
        let mut readied = 0;
        for ids in job_ids.chunks(CHUNK) {
            let (queue, ids) = (queue.clone(), ids.to_vec());
            readied += self.core.write(move |write| retry_now(write, &queue, &ids)).await?;
        }
        Ok(readied)
    }

    async fn set_offset(&self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        let (stream, consumer) = checked(stream, consumer)?;
        self.core.write_one(move |write| set_offset(write, &stream, &consumer, offset)).await
    }

    async fn forget_consumer(&self, stream: &str, consumer: &str) -> Result<bool> {
        let (stream, consumer) = checked(stream, consumer)?;
        self.core.write_one(move |write| forget_consumer(write, &stream, &consumer)).await
    }

    async fn release_lock(&self, name: &str) -> Result<bool> {
        // The scheduler's is shown by `locks`, so it can be freed as well.
        if name != SCHEDULER_LOCK {
            validate_shared_name(name)?;
        }
        let name = name.to_owned();
        self.core.write_one(move |write| release_lock(write, &name)).await
    }
}

fn checked(stream: &str, consumer: &str) -> Result<(String, String)> {
    validate_shared_name(stream)?;
    validate_local_name(consumer)?;
    Ok((stream.to_owned(), consumer.to_owned()))
}

fn queues(session: &Session, now_us: i64) -> rusqlite::Result<Vec<QueueRow>> {
    let names: Vec<String> = session.all(&sql::OPS_QUEUE_NAMES, [], |row| row.get(0))?;
    let figures = |queue: String| {
        let params = params![queue, COUNT_BOUND, now_us, whole_seconds(now_us)];
        session.one(&sql::OPS_QUEUE, params, |row| {
            let since_us: Option<i64> = row.get(4)?;
            Ok(QueueRow {
                pending: row.get::<_, i64>(0)?.min(COUNT_BOUND),
                ready: row.get::<_, i64>(1)?.min(COUNT_BOUND),
                processing: row.get::<_, i64>(2)?.min(COUNT_BOUND),
                dead: row.get(3)?,
                oldest_ready_age_s: since_us
                    .map(|since_us| whole_seconds(now_us.saturating_sub(since_us).max(0))),
                queue: queue.clone(),
            })
        })
    };
    names.into_iter().map(figures).collect()
}

fn jobs(
    session: &Session,
    queue: &str,
    state: Option<JobState>,
    after: i64,
    limit: i64,
) -> rusqlite::Result<Vec<Job>> {
    let live = |claimed: Option<bool>| {
        let params = params![queue, after, claimed, limit];
        let rows = session.all(&sql::OPS_JOBS, params, rows::live_job);
        rows.map(|jobs| jobs.into_iter().map(|job| job.row).collect::<Vec<_>>())
    };
    let dead = || session.all(&sql::OPS_DEAD, params![queue, after, limit], rows::dead_job);
    let rows = match state {
        None => {
            let mut all = live(None)?;
            all.extend(dead()?);
            all.sort_unstable_by_key(|job| job.id);
            all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            all
        }
        Some(JobState::Pending) => live(Some(false))?,
        Some(JobState::Processing) => live(Some(true))?,
        Some(_) => dead()?,
    };
    Ok(rows.into_iter().map(Job::from).collect())
}

fn streams(session: &Session) -> rusqlite::Result<Vec<StreamRow>> {
    let names: Vec<String> = session.all(&sql::OPS_STREAM_NAMES, [], |row| row.get(0))?;
    let figures = |name: String| {
        session.one(&sql::OPS_STREAM, params![name, COUNT_BOUND], |row| {
            Ok(StreamRow {
                first: row.get(0)?,
                head: row.get(1)?,
                length: row.get(2)?,
                name: name.clone(),
            })
        })
    };
    names.into_iter().map(figures).collect()
}

fn consumers(session: &Session, stream: &str) -> rusqlite::Result<Vec<ConsumerRow>> {
    session.all(&sql::OPS_CONSUMERS, params![stream, COUNT_BOUND], |row| {
        Ok(ConsumerRow {
            consumer: row.get(0)?,
            offset: row.get(1)?,
            lag: row.get(2)?,
            ahead_of_log: row.get(3)?,
            trimmed_past: row.get(4)?,
        })
    })
}

fn locks(session: &Session, now_us: i64) -> rusqlite::Result<Vec<LockRow>> {
    session.all(&sql::OPS_LOCKS, [now_us], |row| {
        Ok(LockRow {
            name: row.get(0)?,
            owner: row.get(1)?,
            fencing_token: row.get(2)?,
            expires_us: row.get(3)?,
        })
    })
}

fn schedules(session: &Session) -> rusqlite::Result<Vec<ScheduleRow>> {
    session.all(&sql::OPS_SCHEDULES, [], |row: &Row<'_>| rows::schedule(row))
}

fn redrive(write: &mut Write<'_>, queue: &Arc<str>, ids: &[i64]) -> rusqlite::Result<Vec<i64>> {
    let now_us = write.now_us();
    let mut new_ids = Vec::with_capacity(ids.len());
    for id in ids {
        let new_id = write.next_id(Sequence::Job)?;
        let params = params![new_id, whole_seconds(now_us), now_us, id, &**queue];
        if write.run(&sql::OPS_REDRIVE, params)? > 0 {
            write.run(&sql::OPS_DISCARD, params![id, &**queue])?;
            new_ids.push(new_id);
        }
    }
    if !new_ids.is_empty() {
        write.touch(Kind::Queue, queue);
    }
    Ok(new_ids)
}

fn discard(write: &mut Write<'_>, queue: &str, ids: &[i64]) -> rusqlite::Result<i64> {
    each(ids, |id| write.run(&sql::OPS_DISCARD, params![id, queue]))
}

fn retry_now(write: &mut Write<'_>, queue: &Arc<str>, ids: &[i64]) -> rusqlite::Result<i64> {
    let now_us = write.now_us();
    let now = whole_seconds(now_us);
    let readied =
        each(ids, |id| write.run(&sql::OPS_RETRY_NOW, params![now, now_us, id, &**queue]))?;
    if readied > 0 {
        write.touch(Kind::Queue, queue);
    }
    Ok(readied)
}

/// Runs a statement for each id and adds up the rows that it changed.
fn each(ids: &[i64], mut run: impl FnMut(i64) -> rusqlite::Result<usize>) -> rusqlite::Result<i64> {
    let mut changed = 0;
    for id in ids {
        changed += run(*id)?;
    }
    Ok(i64::try_from(changed).unwrap_or(i64::MAX))
}

fn set_offset(
    write: &mut Write<'_>,
    stream: &str,
    consumer: &str,
    offset: i64,
) -> rusqlite::Result<()> {
    write.run(&sql::OPS_SET_OFFSET, params![stream, consumer, offset])?;
    Ok(())
}

fn forget_consumer(write: &mut Write<'_>, stream: &str, consumer: &str) -> rusqlite::Result<bool> {
    Ok(write.run(&sql::OPS_FORGET_CONSUMER, params![stream, consumer])? > 0)
}

fn release_lock(write: &mut Write<'_>, name: &str) -> rusqlite::Result<bool> {
    Ok(write.run(&sql::OPS_RELEASE_LOCK, params![name, write.now_us()])? > 0)
}
