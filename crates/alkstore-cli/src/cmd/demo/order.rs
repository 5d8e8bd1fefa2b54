//! The order: one transaction for the application's row and everything that follows from it.

use alkstore::{EnqueueOpts, Result, Store};
use serde::{Deserialize, Serialize};
use serde_json::{json, to_value};

use crate::business::{self, params};

/// An order as it travels in payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) seq: i64,
    pub(super) customer: String,
    pub(super) amount_cents: i64,
}

impl Order {
    /// The nth order of a run without an input file.
    pub(super) fn sample(seq: i64) -> Self {
        let customer = format!("customer-{:02}", seq * 7 % 50);
        Self { seq, customer, amount_cents: 1_000 + seq * 37 % 9_000 }
    }

    /// Every tenth order is called off at the last moment.
    pub(super) fn is_called_off(&self) -> bool {
        self.seq % 10 == 0
    }
}

/// A run of the pipeline: the names of its queue, stream and outbox, and its size.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) run: i64,
    pub(super) orders: i64,
    pub(super) emails: String,
    pub(super) events: String,
    pub(super) webhooks: String,
    pub(super) housekeeping: String,
}

impl Pipeline {
    pub(super) fn new(run: i64, orders: i64) -> Self {
        let name = |what| format!("demo-{run}-{what}");
        Self {
            run,
            orders,
            emails: name("emails"),
            events: name("orders"),
            webhooks: name("webhooks"),
            housekeeping: name("housekeeping"),
        }
    }

    /// How many orders at the start are placed one by one, with a pause: the workers are idle
    /// then, and the time from commit to start is that of a wake.
    pub(super) fn calm_orders(&self) -> i64 {
        (self.orders / 10).min(200)
    }
}

/// Places an order: its row, an email job, an event and a webhook, all of them or none.
pub(super) async fn place(store: &dyn Store, pipeline: &Pipeline, order: &Order) -> Result<()> {
    let mut tx = store.begin_tx().await?;
    business::execute(
        &mut *tx,
        "INSERT INTO demo_order (run, seq, customer, amount_cents) VALUES ($1, $2, $3, $4)",
        params![pipeline.run, order.seq, order.customer.as_str(), order.amount_cents],
    )
    .await?;

    let payload = to_value(order)?;
    let patient = EnqueueOpts { max_attempts: Some(20), ..Default::default() };
    tx.enqueue_tx(&pipeline.emails, patient.clone(), payload.clone()).await?;
    let key = Some(order.customer.clone());
    tx.publish_with_key_tx(&pipeline.events, key, payload.clone()).await?;
    tx.outbox_enqueue_tx(&pipeline.webhooks, patient, payload).await?;
    tx.notify_tx(&pipeline.webhooks, json!(null)).await?;

    if order.is_called_off() {
        return tx.rollback().await;
    }
    tx.commit().await
}
