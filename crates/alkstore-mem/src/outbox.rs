//! Outboxes: a queue under a reserved name, and its worker entry point.

use alkstore::engine::stamps::OUTBOX;
use alkstore::engine::{outbox_queue, text};
use alkstore::{Delivery, EnqueueOpts, JobHandle, Outbox, Queue, Result, async_trait};
use serde_json::Value;

use crate::conn::Conn;
use crate::queue::MemQueue;

/// An outbox.
#[derive(Debug)]
pub(crate) struct MemOutbox {
    name: String,
    queue: MemQueue,
}

impl MemOutbox {
    pub(crate) async fn new(conn: &Conn, name: &str) -> Result<Self> {
        let queue = MemQueue::new(conn, outbox_queue(name), OUTBOX).await?;
        Ok(Self { name: name.to_owned(), queue })
    }
}

#[async_trait]
impl Outbox for MemOutbox {
    fn name(&self) -> &str {
        &self.name
    }

    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64> {
        self.queue.enqueue(payload, opts).await
    }

    async fn run_once(&self, worker_id: &str, delivery: &mut dyn Delivery) -> Result<bool> {
        let mut claimed = None;
        self.queue.claim(worker_id, 1, |job| claimed = Some(job)).await?;
        let Some(job) = claimed else {
            return Ok(false);
        };
        // If the delivery ends the job itself, the twin's call is refused and changes nothing.
        let twin = Box::new(job.twin());
        match delivery.deliver(job).await {
            Ok(()) => twin.ack().await?,
            Err(error) => twin.retry(Some(text::chain(&error)), None).await?,
        };
        Ok(true)
    }
}
