//! The caller-held transaction: store operations that commit with the application's own rows.

use std::any::Any;

use async_trait::async_trait;
use serde_json::Value;

use crate::{EnqueueOpts, Job, Result, StreamEvent, encode_payload};

/// A transaction that the caller holds. Dropping it rolls back.
///
/// What it writes is seen by its own reads at once and by nobody else before the commit.
/// A call that is refused (bad name, payload or number) leaves it fully usable. After any other
/// failure it either still works, or every later call and the commit fail.
///
/// It is [`Any`]: take it as its engine's own type to run the application's SQL in it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// # use alkstore::Store;
/// # use serde_json::json;
/// # let store = alkstore_mem::MemStore::new();
/// let mut tx = store.begin_tx().await?;
/// let offset = tx.publish_tx("orders", json!({"id": 7})).await?;
/// tx.save_offset_tx("orders", "importer", offset).await?;
/// assert_eq!(tx.get_offset_tx("orders", "importer").await?, offset);
/// drop(tx);
///
/// assert!(store.stream("orders").await?.read_since(0, 10).await?.is_empty());
/// # Ok(()) }
/// ```
#[async_trait]
pub trait TxHandle: Any + Send {
    /// Enqueues a job, stamped with the plain defaults of [`QueueOpts`](crate::QueueOpts).
    async fn enqueue_tx(&mut self, queue: &str, opts: EnqueueOpts, payload: Value) -> Result<i64>;

    /// Publishes an event and returns its offset.
    async fn publish_tx(&mut self, stream: &str, payload: Value) -> Result<i64>;

    /// Publishes an event that carries a key.
    ///
    /// # Errors
    /// [`InvalidName`](crate::Error::InvalidName) for a key that is present and blank.
    async fn publish_with_key_tx(
        &mut self,
        stream: &str,
        key: Option<String>,
        payload: Value,
    ) -> Result<i64>;

    /// Wakes the channel's listeners when this transaction commits.
    async fn notify_tx(&mut self, channel: &str, payload: Value) -> Result<()>;

    /// Saves a consumer's checkpoint; below the stored one it does nothing.
    async fn save_offset_tx(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()>;

    /// The job as this transaction sees it, dead ones included.
    async fn get_job_tx(&mut self, queue: &str, job_id: i64) -> Result<Option<Job>>;

    /// The consumer's checkpoint as this transaction sees it; 0 if there is none.
    async fn get_offset_tx(&mut self, stream: &str, consumer: &str) -> Result<i64>;

    /// Events beyond `offset`, this transaction's own included, in order.
    async fn read_since_tx(
        &mut self,
        stream: &str,
        offset: i64,
        limit: i64,
    ) -> Result<Vec<StreamEvent>>;

    /// Events beyond the consumer's checkpoint, in order.
    async fn read_from_consumer_tx(
        &mut self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>>;

    /// Enqueues into the outbox; [`run_once`](crate::Outbox::run_once) sees it after the commit.
    async fn outbox_enqueue_tx(
        &mut self,
        outbox: &str,
        opts: EnqueueOpts,
        payload: Value,
    ) -> Result<i64>;

    /// Enqueues all jobs or none; ids come in the order of the input.
    async fn enqueue_batch_tx(
        &mut self,
        queue: &str,
        jobs: Vec<(Value, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        for (payload, _) in &jobs {
            encode_payload(payload)?;
        }
        let mut ids = Vec::with_capacity(jobs.len());
        for (payload, opts) in jobs {
            ids.push(self.enqueue_tx(queue, opts, payload).await?);
        }
        Ok(ids)
    }

    /// Publishes all events or none; offsets come in the order of the input.
    async fn publish_batch_tx(
        &mut self,
        stream: &str,
        events: Vec<(Option<String>, Value)>,
    ) -> Result<Vec<i64>> {
        crate::stream::check_batch(&events)?;
        let mut offsets = Vec::with_capacity(events.len());
        for (key, payload) in events {
            offsets.push(self.publish_with_key_tx(stream, key, payload).await?);
        }
        Ok(offsets)
    }

    /// Commits. `Ok` means that everything is durable as the engine promises.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Rolls back, as dropping does, and waits for it.
    async fn rollback(self: Box<Self>) -> Result<()>;
}
