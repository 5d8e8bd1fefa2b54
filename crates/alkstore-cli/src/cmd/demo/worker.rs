//! A worker process: claims email jobs, sends them, records them, acks them.

use std::time::Duration;

use alkstore::engine::clock::Clock;
use alkstore::{JobHandle, QueueOpts, Result, StopToken, Store};
use futures_util::future::try_join_all;

use crate::business::{self, params};

use super::fault::Fault;
use super::order::{Order, Pipeline};

/// Jobs claimed at once.
const BATCH: i64 = 20;

/// Seconds until another worker may take over what this one has claimed and not finished.
const LEASE_S: i64 = 2;

/// A claimed job, and the order in its payload.
pub(super) struct Email {
    job: Box<dyn JobHandle>,
    pub(super) order: Order,
}

/// Works until told to stop. When nothing is ready it sleeps; a commit wakes it.
pub(super) async fn run(
    store: &dyn Store,
    pipeline: &Pipeline,
    worker: &str,
    stop: &StopToken,
) -> Result<()> {
    let queue = store.queue(&pipeline.emails, QueueOpts::default()).await?;
    let mut fault = Fault::new(pipeline, worker);
    while !stop.is_cancelled() {
        let claimed = queue.claim_batch(worker, BATCH).await?;
        if claimed.is_empty() {
            tokio::select! {
                ready = queue.wait_ready(Duration::from_secs(60)) => ready?,
                () = stop.cancelled() => break,
            };
            continue;
        }
        let started_us = Clock::System.now_us();
        let emails = accept(claimed).await?;
        if fault.strikes(store, &emails).await? {
            return fault.hang(store, &emails, started_us, stop).await;
        }
        send(store, pipeline, worker, started_us, &emails).await?;
        let ids: Vec<i64> = emails.iter().map(|email| email.job.job().id).collect();
        queue.ack_batch(&ids).await?;
    }
    Ok(())
}

/// Shortens the claims: a job that was enqueued in a transaction is claimed for 300 s, and would
/// wait that long if this worker died. Drops what is not held any more, buries what is no order.
async fn accept(claimed: Vec<Box<dyn JobHandle>>) -> Result<Vec<Email>> {
    let held = try_join_all(claimed.iter().map(|job| job.heartbeat(LEASE_S))).await?;
    let mut emails = Vec::with_capacity(claimed.len());
    for (job, held) in claimed.into_iter().zip(held) {
        match job.job().payload_as() {
            Ok(order) if held => emails.push(Email { job, order }),
            Ok(_) => {}
            Err(error) => {
                job.fail(Some(error.to_string())).await?;
            }
        }
    }
    Ok(emails)
}

/// Sends the emails and records them. A job may come again, so recording is idempotent.
pub(super) async fn send(
    store: &dyn Store,
    pipeline: &Pipeline,
    worker: &str,
    started_us: i64,
    emails: &[Email],
) -> Result<()> {
    let mut tx = store.begin_tx().await?;
    for Email { job, order } in emails {
        let (attempts, sent_us) = (job.job().attempts, Clock::System.now_us());
        business::execute(
            &mut *tx,
            "INSERT INTO demo_email (run, seq, worker, attempts, sends, started_us, sent_us)
             VALUES ($1, $2, $3, $4, 1, $5, $6)
             ON CONFLICT (run, seq) DO UPDATE
             SET attempts = excluded.attempts, sends = demo_email.sends + 1",
            params![pipeline.run, order.seq, worker, attempts, started_us, sent_us],
        )
        .await?;
    }
    tx.commit().await
}
