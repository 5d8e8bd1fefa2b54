//! Claimed jobs: what their handles do to the row while the claim is theirs.

use std::sync::Arc;

use alkstore::engine::domain::{after, duration, whole_seconds};
use alkstore::engine::hub::Kind;
use alkstore::engine::ledger::ClaimLedger;
use alkstore::engine::{backoff, text};
use alkstore::{Job, JobHandle, Result, async_trait};

use crate::conn::{Conn, State};

/// One claim on a job.
#[derive(Debug)]
pub(crate) struct MemJob {
    conn: Conn,
    ledger: Arc<ClaimLedger>,
    job: Job,
    fence: i64,
}

impl MemJob {
    pub(crate) fn new(conn: &Conn, ledger: &Arc<ClaimLedger>, job: Job, fence: i64) -> Self {
        Self {
            conn: conn.clone(),
            ledger: ledger.clone(),
            job,
            fence,
        }
    }

    /// The same claim in another hand.
    pub(crate) fn twin(&self) -> Self {
        Self::new(&self.conn, &self.ledger, self.job.clone(), self.fence)
    }

    fn key(&self) -> ClaimKey<'_> {
        ClaimKey {
            queue: &self.job.queue,
            id: self.job.id,
            fence: self.fence,
        }
    }

    /// After the row's end.
    fn ended(&self, landed: bool) -> bool {
        if landed {
            self.ledger.forget(self.job.id);
        }
        landed
    }

    /// After a change that may let another claim find the row earlier.
    fn changed(&self, landed: bool) -> bool {
        if landed {
            self.conn.wake(Kind::Queue, &self.job.queue);
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
        let landed = self.conn.write(|state| ack(state, self.key()))?;
        Ok(self.ended(landed))
    }

    async fn retry(self: Box<Self>, err: Option<String>, delay: Option<i64>) -> Result<bool> {
        match self
            .conn
            .write(|state| retry(state, self.key(), err.as_deref(), delay))?
        {
            Retried::Refused => Ok(false),
            Retried::Pending => Ok(self.changed(true)),
            Retried::Dead => Ok(self.ended(true)),
        }
    }

    async fn fail(self: Box<Self>, err: Option<String>) -> Result<bool> {
        let landed = self
            .conn
            .write(|state| fail(state, self.key(), err.as_deref()))?;
        Ok(self.ended(landed))
    }

    async fn heartbeat(&self, extend: i64) -> Result<bool> {
        let extend = duration("extend", extend)?;
        let landed = self
            .conn
            .write(|state| heartbeat(state, self.key(), extend))?;
        Ok(self.changed(landed))
    }

    async fn hand_back(self: Box<Self>) -> Result<bool> {
        let landed = self.conn.write(|state| hand_back(state, self.key()))?;
        Ok(self.changed(landed))
    }
}

/// Where a claim's row is, and the fence that it must still have.
#[derive(Clone, Copy)]
pub(crate) struct ClaimKey<'a> {
    queue: &'a str,
    id: i64,
    fence: i64,
}

/// What became of a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retried {
    #[default]
    Refused,
    Pending,
    Dead,
}

pub(crate) fn ack(state: &mut State, at: ClaimKey<'_>) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        jobs.take_claimed(at.id, Some(at.fence), now_us).is_some()
    })
}

pub(crate) fn retry(
    state: &mut State,
    at: ClaimKey<'_>,
    err: Option<&str>,
    delay: Option<i64>,
) -> Retried {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(mut row) = jobs.take_claimed(at.id, Some(at.fence), now_us) else {
            return Retried::Refused;
        };
        if row.attempts >= row.stamps.max_attempts {
            let last_error = text::stored(err.unwrap_or(text::MAX_ATTEMPTS_EXCEEDED));
            jobs.bury(at.id, row, &last_error, now_us);
            return Retried::Dead;
        }
        let drawn = || backoff::delay(row.stamps.backoff_base_s, row.attempts, fastrand::u64(..));
        let delay = delay.unwrap_or_else(drawn);
        row.stamps.run_at = whole_seconds(now_us).saturating_add(delay);
        row.stamps.ready_us = after(now_us, delay);
        row.claim = None;
        jobs.put(at.id, row, now_us);
        Retried::Pending
    })
}

pub(crate) fn fail(state: &mut State, at: ClaimKey<'_>, err: Option<&str>) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(row) = jobs.take_claimed(at.id, Some(at.fence), now_us) else {
            return false;
        };
        jobs.bury(
            at.id,
            row,
            &text::stored(err.unwrap_or(text::FAILED)),
            now_us,
        );
        true
    })
}

pub(crate) fn heartbeat(state: &mut State, at: ClaimKey<'_>, extend_s: i64) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(mut row) = jobs.take_claimed(at.id, Some(at.fence), now_us) else {
            return false;
        };
        if let Some(claim) = &mut row.claim {
            claim.deadline_us = after(now_us, extend_s);
        }
        jobs.put(at.id, row, now_us);
        true
    })
}

pub(crate) fn hand_back(state: &mut State, at: ClaimKey<'_>) -> bool {
    state.with_jobs(at.queue, |jobs, now_us| {
        let Some(mut row) = jobs.take_claimed(at.id, Some(at.fence), now_us) else {
            return false;
        };
        // The claim counter stays: this handle's fence must not fit the next claim.
        row.attempts -= 1;
        row.claim = None;
        row.stamps.ready_us = row.stamps.ready_us.min(now_us);
        jobs.put(at.id, row, now_us);
        true
    })
}
