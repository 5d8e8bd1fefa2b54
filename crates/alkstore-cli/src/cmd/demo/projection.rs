//! The projection process: follows the orders' stream and keeps totals, each event exactly once.

use alkstore::engine::store_closed;
use alkstore::{Result, StopToken, Store, StreamEvent};

use crate::business::{self, params};

use super::order::{Order, Pipeline};

/// The checkpoint's name.
pub(super) const CONSUMER: &str = "totals";

/// Events applied in one transaction at most.
const BATCH: usize = 100;

/// Follows the stream until told to stop.
pub(super) async fn run(store: &dyn Store, pipeline: &Pipeline, stop: &StopToken) -> Result<()> {
    let stream = store.stream(&pipeline.events).await?;
    let mut events = stream.subscribe(CONSUMER).await?;
    loop {
        let event = tokio::select! {
            event = events.recv() => event.ok_or_else(store_closed)??,
            () = stop.cancelled() => return Ok(()),
        };
        let mut batch = vec![event];
        while batch.len() < BATCH
            && let Some(event) = events.try_recv()?
        {
            batch.push(event);
        }
        apply(store, pipeline, &batch).await?;
    }
}

/// The totals and the checkpoint move in one transaction: a crash can neither lose nor repeat.
async fn apply(store: &dyn Store, pipeline: &Pipeline, events: &[StreamEvent]) -> Result<()> {
    let mut tx = store.begin_tx().await?;
    for event in events {
        // What is no order must not stop the consumer for ever.
        let Ok(order) = event.payload_as::<Order>() else { continue };
        business::execute(
            &mut *tx,
            "INSERT INTO demo_total (run, customer, orders, amount_cents) VALUES ($1, $2, 1, $3)
             ON CONFLICT (run, customer) DO UPDATE
             SET orders = demo_total.orders + 1,
                 amount_cents = demo_total.amount_cents + excluded.amount_cents",
            params![pipeline.run, order.customer.as_str(), order.amount_cents],
        )
        .await?;
    }
    if let Some(last) = events.last() {
        tx.save_offset_tx(&pipeline.events, CONSUMER, last.offset).await?;
    }
    tx.commit().await
}
