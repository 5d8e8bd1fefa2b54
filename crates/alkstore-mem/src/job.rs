//! Claimed jobs: what their handles do to the row while the claim is theirs.

use alkstore::engine::domain::{after, duration, whole_seconds};
use alkstore::engine::{backoff, text};
use alkstore::{Job, JobHandle, Queue, Result, async_trait};

use crate::conn::{Fence, State};
use crate::queue::MemQueue;

/// One claim on a job.
#[derive(Debug)]
pub(crate) struct MemJob {
    queue: MemQueue,
    job: Job,
    fence: i64,
}

impl MemJob {
    pub(crate) fn new(queue: MemQueue, job: Job, fence: i64) -> Self {
        Self { queue, job, fence }
    }

    /// The same claim in another hand.
    pub(crate) fn twin(&self) -> Self {
        Self::new(self.queue.clone(), self.job.clone(), self.fence)
    }

    fn key(&self) -> ClaimKey<'_> {
        ClaimKey { queue: self.queue.name(), id: self.job.id, fence: Fence::Claim(self.fence) }
    }

    async fn write<T>(&self, f: impl FnOnce(&mut State, ClaimKey<'_>) -> T) -> Result<T> {
        self.queue.conn().write(|state| f(state, self.key())).await
    }

    /// After a change that may let another claim find the row earlier.
    fn changed(&self, landed: bool) -> bool {
        if landed {
            self.queue.wake();
        }
        landed
    }
}

#[async_trait]
impl JobHandle for MemJob {
    fn job(&self) -> &Job {
        &self.job
    }

    async fn ack(self: Box<Self>) -> Result<bool> {
        self.write(ack).await
    }

    async fn retry(self: Box<Self>, err: Option<String>, delay: Option<i64>) -> Result<bool> {
        let retried = self.write(|state, at| retry(state, at, err.as_deref(), delay)).await?;
        Ok(self.changed(retried))
    }

    async fn fail(self: Box<Self>, err: Option<String>) -> Result<bool> {
        self.write(|state, at| fail(state, at, err.as_deref())).await
    }

    async fn heartbeat(&self, extend: i64) -> Result<bool> {
        let extend = duration("extend", extend)?;
        let landed = self.write(|state, at| heartbeat(state, at, extend)).await?;
        Ok(self.changed(landed))
    }

    async fn hand_back(self: Box<Self>) -> Result<bool> {
        let landed = self.write(hand_back).await?;
        Ok(self.changed(landed))
    }
}

/// Where a claim's row is, and the fence that it must still have.
#[derive(Clone, Copy)]
pub(crate) struct ClaimKey<'a> {
    queue: &'a str,
    id: i64,
    fence: Fence,
}

pub(crate) fn ack(state: &mut State, at: ClaimKey<'_>) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| jobs.take_claimed(at.id, at.fence, now_us).is_some())
}

pub(crate) fn retry(
    state: &mut State,
    at: ClaimKey<'_>,
    err: Option<&str>,
    delay: Option<i64>,
) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(mut row) = jobs.take_claimed(at.id, at.fence, now_us) else {
            return false;
        };
        if row.attempts >= row.stamps.max_attempts {
            let last_error = text::stored(err.unwrap_or(text::MAX_ATTEMPTS_EXCEEDED));
            jobs.bury(at.id, row, &last_error, now_us);
            return true;
        }
        let drawn = || backoff::delay(row.stamps.backoff_base_s, row.attempts, fastrand::u64(..));
        let delay = delay.unwrap_or_else(drawn);
        row.stamps.run_at = whole_seconds(now_us).saturating_add(delay);
        row.stamps.ready_us = after(now_us, delay);
        row.end_claim();
        jobs.put(at.id, row, now_us);
        true
    })
}

pub(crate) fn fail(state: &mut State, at: ClaimKey<'_>, err: Option<&str>) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(row) = jobs.take_claimed(at.id, at.fence, now_us) else {
            return false;
        };
        jobs.bury(at.id, row, &text::stored(err.unwrap_or(text::FAILED)), now_us);
        true
    })
}

pub(crate) fn heartbeat(state: &mut State, at: ClaimKey<'_>, extend_s: i64) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(mut row) = jobs.take_claimed(at.id, at.fence, now_us) else {
            return false;
        };
        row.extend_claim(after(now_us, extend_s));
        jobs.put(at.id, row, now_us);
        true
    })
}

pub(crate) fn hand_back(state: &mut State, at: ClaimKey<'_>) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(mut row) = jobs.take_claimed(at.id, at.fence, now_us) else {
            return false;
        };
        row.attempts -= 1;
        row.end_claim();
        row.stamps.ready_us = now_us;
        jobs.put(at.id, row, now_us);
        true
    })
}
