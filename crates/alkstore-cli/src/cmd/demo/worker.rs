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

type Claimed = Box<dyn JobHandle>;

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
        let jobs = shorten_leases(claimed).await?;
        if fault.strikes(store, &jobs).await? {
            return fault.hang(store, &jobs, started_us, stop).await;
        }
        send(store, pipeline, worker, started_us, &jobs).await?;
        let ids: Vec<i64> = jobs.iter().map(|job| job.job().id).collect();
        queue.ack_batch(&ids).await?;
    }
    Ok(())
}

/// A job that was enqueued in a transaction is claimed for 300 s; this worker needs less, and
/// its jobs shall not wait that long if it dies. Jobs whose claim is over are left out.
async fn shorten_leases(claimed: Vec<Claimed>) -> Result<Vec<Claimed>> {
    let held = try_join_all(claimed.iter().map(|job| job.heartbeat(LEASE_S))).await?;
    Ok(claimed.into_iter().zip(held).filter_map(|(job, held)| held.then_some(job)).collect())
}

/// Sends the emails and records them. A job may come again, so recording is idempotent.
pub(super) async fn send(
    store: &dyn Store,
    pipeline: &Pipeline,
    worker: &str,
    started_us: i64,
    jobs: &[Claimed],
) -> Result<()> {
    let mut tx = store.begin_tx().await?;
    for job in jobs {
        let order: Order = job.job().payload_as()?;
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
