//! A claim's handle. Every operation is one guarded statement: it lands while the claim is live.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use alkstore::engine::domain::{after, duration, whole_seconds};
use alkstore::engine::hub::Kind;
use alkstore::engine::{backoff, text};
use alkstore::{Job, JobHandle, Result, async_trait};
use rusqlite::params;

use crate::conn::Write;
use crate::queue::{Shared, touch};
use crate::rows::LiveJob;
use crate::sql;

/// A handle to a claim on a job.
#[derive(Debug)]
pub(crate) struct SqliteJob {
    claim: Claim,
    job: Job,
    deadline_us: AtomicI64,
}

/// What it takes to end a claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    shared: Arc<Shared>,
    id: i64,
    claims: i64,
    attempts: i64,
    max_attempts: i64,
    backoff_base_s: i64,
}

impl SqliteJob {
    pub(crate) fn new(shared: &Arc<Shared>, live: LiveJob) -> Self {
        let claim = Claim {
            shared: shared.clone(),
            id: live.row.id,
            claims: live.claims,
            attempts: live.row.attempts,
            max_attempts: live.row.max_attempts,
            backoff_base_s: live.row.backoff_base_s,
        };
        Self { claim, deadline_us: AtomicI64::new(live.due_us), job: live.row.into() }
    }

    pub(crate) fn claim(&self) -> Claim {
        self.claim.clone()
    }
}

#[async_trait]
impl JobHandle for SqliteJob {
    fn job(&self) -> &Job {
        &self.job
    }

    async fn ack(self: Box<Self>) -> Result<bool> {
        self.claim.ack().await
    }

    async fn retry(self: Box<Self>, err: Option<String>, delay: Option<i64>) -> Result<bool> {
        self.claim.retry(err, delay).await
    }

    async fn fail(self: Box<Self>, err: Option<String>) -> Result<bool> {
        self.claim.bury(err.unwrap_or_else(|| text::FAILED.to_owned())).await
    }

    async fn heartbeat(&self, extend: i64) -> Result<bool> {
        duration("extend", extend)?;
        let Claim { shared, id, claims, .. } = &self.claim;
        let (queue, id, claims) = (shared.name.clone(), *id, *claims);
        let before_us = self.deadline_us.load(Ordering::Relaxed);
        let renewed = shared.core.write_one(move |write| {
            let due_us = after(write.now_us(), extend);
            let renewed = heartbeat(write, id, claims, due_us)?;
            // Those who wait for the claim to lapse must hear of an earlier deadline.
            if renewed && due_us < before_us {
                write.touch(Kind::Queue, &queue);
            }
            Ok(renewed.then_some(due_us))
        });
        let due_us = renewed.await?;
        if let Some(due_us) = due_us {
            self.deadline_us.store(due_us, Ordering::Relaxed);
        }
        Ok(due_us.is_some())
    }

    async fn hand_back(self: Box<Self>) -> Result<bool> {
        let Claim { shared, id, claims, .. } = self.claim;
        let queue = shared.name.clone();
        shared.core.write_one(move |write| hand_back(write, &queue, id, claims)).await
    }
}

impl Claim {
    pub(crate) async fn ack(self) -> Result<bool> {
        let Self { shared, id, claims, .. } = self;
        let acked = shared.core.write_one(move |write| ack(write, id, claims)).await?;
        if acked {
            shared.ledger.forget(&[id]);
        }
        Ok(acked)
    }

    pub(crate) async fn retry(self, err: Option<String>, delay: Option<i64>) -> Result<bool> {
        if self.attempts >= self.max_attempts {
            let err = err.unwrap_or_else(|| text::MAX_ATTEMPTS_EXCEEDED.to_owned());
            return self.bury(err).await;
        }
        let curve = || backoff::delay(self.backoff_base_s, self.attempts, fastrand::u64(..));
        let delay = delay.unwrap_or_else(curve);
        let Self { shared, id, claims, .. } = self;
        let queue = shared.name.clone();
        shared.core.write_one(move |write| retry(write, &queue, id, claims, delay)).await
    }

    async fn bury(self, err: String) -> Result<bool> {
        let Self { shared, id, claims, .. } = self;
        let buried = shared.core.write(move |write| fail(write, id, claims, &err)).await?;
        if buried {
            shared.ledger.forget(&[id]);
        }
        Ok(buried)
    }
}

fn ack(write: &mut Write<'_>, id: i64, claims: i64) -> rusqlite::Result<bool> {
    Ok(write.run(&sql::JOB_ACK, params![id, claims, write.now_us()])? > 0)
}

fn retry(
    write: &mut Write<'_>,
    queue: &Arc<str>,
    id: i64,
    claims: i64,
    delay: i64,
) -> rusqlite::Result<bool> {
    let now_us = write.now_us();
    let run_at = whole_seconds(now_us).saturating_add(delay);
    let lane = i64::from(delay > 0);
    let due_us = after(now_us, delay);
    let retried =
        write.run(&sql::JOB_RETRY, params![lane, run_at, due_us, id, claims, now_us])? > 0;
    if retried {
        touch(write, queue, delay <= 0);
    }
    Ok(retried)
}

fn fail(write: &mut Write<'_>, id: i64, claims: i64, err: &str) -> rusqlite::Result<bool> {
    let now_us = write.now_us();
    let live = write.one(&sql::JOB_IS_LIVE, params![id, claims, now_us], |row| row.get(0))?;
    if live {
        bury(write, id, err, now_us)?;
    }
    Ok(live)
}

fn heartbeat(write: &mut Write<'_>, id: i64, claims: i64, due_us: i64) -> rusqlite::Result<bool> {
    Ok(write.run(&sql::JOB_HEARTBEAT, params![due_us, id, claims, write.now_us()])? > 0)
}

fn hand_back(
    write: &mut Write<'_>,
    queue: &Arc<str>,
    id: i64,
    claims: i64,
) -> rusqlite::Result<bool> {
    let handed = write.run(&sql::JOB_HAND_BACK, params![write.now_us(), id, claims])? > 0;
    if handed {
        write.touch_work(queue);
    }
    Ok(handed)
}

/// Moves a live job to the dead.
pub(crate) fn bury(
    write: &mut Write<'_>,
    id: i64,
    last_error: &str,
    now_us: i64,
) -> rusqlite::Result<()> {
    let last_error = text::stored(last_error);
    write.run(&sql::JOB_BURY, params![last_error, whole_seconds(now_us), id])?;
    write.run(&sql::JOB_BURY_REMOVE, [id])?;
    Ok(())
}
