//! The relay process: delivers what the orders put into the outbox, at least once.

use std::time::Duration;

use alkstore::engine::clock::Clock;
use alkstore::{Delivery, JobHandle, Result, StopToken, Store, async_trait};
use futures_util::future::try_join_all;

use crate::business::{self, params};

use super::order::{Order, Pipeline};

/// Deliveries under way at a time.
const CONCURRENCY: usize = 4;

/// How long a relay sleeps when no order wakes it: retries come due without a notification.
const NAP: Duration = Duration::from_secs(1);

/// Every 25th webhook is refused the first time.
pub(super) fn is_refused(seq: i64, attempts: i64) -> bool {
    seq % 25 == 7 && attempts == 1
}

/// Delivers until told to stop.
pub(super) async fn run(store: &dyn Store, pipeline: &Pipeline, stop: &StopToken) -> Result<()> {
    let lanes = (1..=CONCURRENCY).map(|lane| deliver_all(store, pipeline, lane, stop));
    try_join_all(lanes).await.map(drop)
}

async fn deliver_all(
    store: &dyn Store,
    pipeline: &Pipeline,
    lane: usize,
    stop: &StopToken,
) -> Result<()> {
    let outbox = store.outbox(&pipeline.webhooks).await?;
    // Listening before looking: what commits in between is not missed.
    let mut wakes = store.listen(&pipeline.webhooks).await?;
    let mut webhook = Webhook { store, pipeline };
    let worker = format!("relay-{lane}");
    while !stop.is_cancelled() {
        if outbox.run_once(&worker, &mut webhook).await? {
            continue;
        }
        tokio::select! {
            wake = wakes.recv_timeout(NAP) => { wake?; }
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

/// What receives the deliveries: a table, in place of somebody's HTTP endpoint.
struct Webhook<'a> {
    store: &'a dyn Store,
    pipeline: &'a Pipeline,
}

#[async_trait]
impl Delivery for Webhook<'_> {
    async fn deliver(&mut self, job: Box<dyn JobHandle>) -> Result<()> {
        let order: Order = job.job().payload_as()?;
        let attempts = job.job().attempts;
        if is_refused(order.seq, attempts) {
            return job.retry(Some("the endpoint answered 503".into()), Some(1)).await.map(drop);
        }
        let mut tx = self.store.begin_tx().await?;
        business::execute(
            &mut *tx,
            "INSERT INTO demo_webhook (run, seq, attempts, deliveries, delivered_us)
             VALUES ($1, $2, $3, 1, $4)
             ON CONFLICT (run, seq) DO UPDATE
             SET attempts = excluded.attempts, deliveries = demo_webhook.deliveries + 1",
            params![self.pipeline.run, order.seq, attempts, Clock::System.now_us()],
        )
        .await?;
        tx.commit().await
    }
}
