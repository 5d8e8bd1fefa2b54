//! Outboxes: a queue under a name that callers cannot give.

use std::sync::Arc;

use alkstore::engine::stamps::OUTBOX;
use alkstore::engine::{outbox_queue, text};
use alkstore::{Delivery, EnqueueOpts, Outbox, Queue, Result, async_trait, validate_local_name};
use serde_json::Value;

use crate::conn::Core;
use crate::queue::SqliteQueue;

/// A handle to an outbox.
#[derive(Debug)]
pub(crate) struct SqliteOutbox {
    name: String,
    queue: SqliteQueue,
}

impl SqliteOutbox {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        let queue = SqliteQueue::new(core, &outbox_queue(name), OUTBOX);
        Self { name: name.to_owned(), queue }
    }
}

#[async_trait]
impl Outbox for SqliteOutbox {
    fn name(&self) -> &str {
        &self.name
    }

    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64> {
        self.queue.enqueue(payload, opts).await
    }

    async fn run_once(&self, worker_id: &str, delivery: &mut dyn Delivery) -> Result<bool> {
        validate_local_name(worker_id)?;
        let Some(job) = self.queue.claim(worker_id, 1).await?.pop() else {
            return Ok(false);
        };
        let claim = job.claim();
        // If the delivery ended the job itself, these find the claim over and change nothing.
        match delivery.deliver(Box::new(job)).await {
            Ok(()) => claim.ack().await?,
            Err(error) => claim.retry(Some(text::chain(&error)), None).await?,
        };
        Ok(true)
    }
}
