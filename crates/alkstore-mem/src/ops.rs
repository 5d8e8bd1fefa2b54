//! The operator surface.

use alkstore::engine::SCHEDULER_LOCK;
use alkstore::engine::domain::whole_seconds;
use alkstore::engine::hub::Kind;
use alkstore::engine::rows::{ConsumerRow, QueueRow, StreamRow, stored_queue};
use alkstore::engine::stamps::Stamps;
use alkstore::ops::{
    COUNT_BOUND, ConsumerInfo, Inspect, LockInfo, Operate, QueueInfo, ScheduleInfo, StreamInfo,
};
use alkstore::{Job, JobState, Result, async_trait, validate_local_name, validate_shared_name};

use crate::conn::{Jobs, Row, State};
use crate::lock;
use crate::queue::{self, count};
use crate::store::MemStore;

#[async_trait]
impl Inspect for MemStore {
    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let rows = self.conn.write(queues).await?;
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
        let limit = usize::try_from(limit).unwrap_or(0);
        self.conn
            .read(|tables| {
                let jobs = tables.queues.get(&queue);
                jobs.map_or_else(Vec::new, |jobs| jobs.list(&queue, state, after, limit))
            })
            .await
    }

    async fn streams(&self) -> Result<Vec<StreamInfo>> {
        let mut streams = self.conn.read(streams).await?;
        streams.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(streams.into_iter().map(StreamInfo::from).collect())
    }

    async fn consumers(&self, stream: &str) -> Result<Vec<ConsumerInfo>> {
        validate_shared_name(stream)?;
        let mut consumers = self.conn.read(|state| consumers(state, stream)).await?;
        consumers.sort_by(|a, b| a.consumer.cmp(&b.consumer));
        Ok(consumers.into_iter().map(ConsumerInfo::from).collect())
    }

    async fn locks(&self) -> Result<Vec<LockInfo>> {
        self.conn
            .read(|state| {
                let held = state.locks.values().filter(|row| row.expires_us > state.now_us);
                held.map(|row| row.clone().info(state.now_us)).collect()
            })
            .await
    }

    async fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        self.conn
            .read(|state| state.schedules.values().cloned().map(ScheduleInfo::from).collect())
            .await
    }
}

#[async_trait]
impl Operate for MemStore {
    async fn redrive(&self, queue: &str, job_ids: &[i64]) -> Result<Vec<i64>> {
        let queue = stored_queue(queue)?;
        let ids = self.conn.write(|state| redrive(state, &queue, job_ids)).await?;
        if !ids.is_empty() {
            self.conn.wake(Kind::Queue, &queue);
        }
        Ok(ids)
    }

    async fn discard(&self, queue: &str, job_ids: &[i64]) -> Result<i64> {
        let queue = stored_queue(queue)?;
        self.conn.write(|state| discard(state, &queue, job_ids)).await
    }

    async fn retry_now(&self, queue: &str, job_ids: &[i64]) -> Result<i64> {
        let queue = stored_queue(queue)?;
        let changed = self.conn.write(|state| retry_now(state, &queue, job_ids)).await?;
        if changed > 0 {
            self.conn.wake(Kind::Queue, &queue);
        }
        Ok(changed)
    }

    async fn set_offset(&self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        self.conn.write(|state| state.log(stream).set_checkpoint(consumer, offset)).await
    }

    async fn forget_consumer(&self, stream: &str, consumer: &str) -> Result<bool> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        self.conn.write(|state| state.with_log(stream, |log| log.forget(consumer))).await
    }

    async fn release_lock(&self, name: &str) -> Result<bool> {
        // The scheduler's is shown by `locks`, so it can be freed as well.
        if name != SCHEDULER_LOCK {
            validate_shared_name(name)?;
        }
        self.conn.write(|state| release_lock(state, name)).await
    }
}

pub(crate) fn queues(state: &mut State) -> Vec<QueueRow> {
    let now_us = state.now_us;
    let bounded = |n: usize| count(n).min(COUNT_BOUND);
    let row = |(queue, jobs): (&String, &mut Jobs)| {
        jobs.promote(now_us);
        let (pending, processing, dead) = jobs.counts();
        let since_us = jobs.ready_since(now_us);
        QueueRow {
            queue: queue.clone(),
            pending: bounded(pending),
            ready: bounded(jobs.count_ready(now_us)),
            processing: bounded(processing),
            dead: bounded(dead),
            oldest_ready_age_s: since_us
                .map(|since_us| whole_seconds(now_us.saturating_sub(since_us))),
        }
    };
    state.queues.iter_mut().map(row).collect()
}

pub(crate) fn streams(state: &State) -> Vec<StreamRow> {
    let shown = state.streams.iter().filter(|(_, log)| {
        // A table may be there for an open transaction alone.
        !log.events().is_empty() || !log.consumers().is_empty()
    });
    shown
        .map(|(name, log)| StreamRow {
            name: name.clone(),
            first: log.events().first_key_value().map_or(0, |(offset, _)| *offset),
            head: log.head(),
            length: count(log.events().len()).min(COUNT_BOUND),
        })
        .collect()
}

pub(crate) fn consumers(state: &State, stream: &str) -> Vec<ConsumerRow> {
    let Some(log) = state.streams.get(stream) else {
        return Vec::new();
    };
    let mut by_offset: Vec<_> = log.consumers().iter().collect();
    by_offset.sort_unstable_by_key(|(_, offset)| std::cmp::Reverse(**offset));
    // One pass over the events, from the end, counts for all consumers.
    let mut beyond = log.events().keys().rev().peekable();
    let mut lag = 0;
    let row = |(consumer, &offset): (&String, &i64)| {
        while lag < COUNT_BOUND && beyond.next_if(|event| **event > offset).is_some() {
            lag += 1;
        }
        ConsumerRow {
            consumer: consumer.clone(),
            offset,
            lag,
            ahead_of_log: offset > log.head().max(log.trimmed()),
            trimmed_past: offset < log.trimmed(),
        }
    };
    by_offset.into_iter().map(row).collect()
}

pub(crate) fn redrive(state: &mut State, queue: &str, ids: &[i64]) -> Vec<i64> {
    let mut redriven = Vec::new();
    for id in ids {
        let Some(dead) = state.with_jobs(queue, |jobs, _| jobs.take_dead(*id)) else {
            continue;
        };
        let now = whole_seconds(state.now_us);
        let stamps = Stamps {
            run_at: now,
            ready_us: state.now_us,
            created_at: now,
            expires_at: None,
            ..dead.stamps
        };
        let id = state.next_job();
        queue::insert(state, queue, id, Row::new(stamps, dead.payload));
        redriven.push(id);
    }
    redriven
}

pub(crate) fn discard(state: &mut State, queue: &str, ids: &[i64]) -> i64 {
    state.with_jobs(queue, |jobs, _| {
        count(ids.iter().filter(|id| jobs.take_dead(**id).is_some()).count())
    })
}

pub(crate) fn retry_now(state: &mut State, queue: &str, ids: &[i64]) -> i64 {
    state.with_jobs(queue, |jobs, now_us| {
        let mut changed = 0;
        for id in ids {
            if jobs.live(*id).is_some_and(|row| row.is_delayed(now_us))
                && let Some(mut row) = jobs.take(*id)
            {
                row.stamps.run_at = whole_seconds(now_us);
                row.stamps.ready_us = now_us;
                jobs.put(*id, row, now_us);
                changed += 1;
            }
        }
        changed
    })
}

pub(crate) fn release_lock(state: &mut State, name: &str) -> bool {
    let held = lock::held(state, name).is_some();
    if held {
        lock::remove(state, name);
    }
    held
}
