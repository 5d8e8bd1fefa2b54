//! The transactional outbox: a queue of deliveries with its worker entry point.

use std::future::Future;

use async_trait::async_trait;
use serde_json::Value;

use crate::{EnqueueOpts, JobHandle, Result};

/// Deliveries that commit with the business row and are then made at least once.
///
/// Its jobs are claimed for 60 s, tried 5 times and retried from 5 s on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// use alkstore::{JobHandle, Store};
/// # use serde_json::json;
/// # let store = alkstore_mem::MemStore::new();
/// let mut tx = store.begin_tx().await?;
/// tx.outbox_enqueue_tx("webhooks", Default::default(), json!({"order": 7})).await?;
/// tx.commit().await?;
///
/// let webhooks = store.outbox("webhooks").await?;
/// let mut deliver = |job: Box<dyn JobHandle>| async move {
///     let body: serde_json::Value = job.job().payload_as()?;
///     assert_eq!(body["order"], 7); // POST it here
///     Ok(())
/// };
/// assert!(webhooks.run_once("relay-1", &mut deliver).await?);
/// assert!(!webhooks.run_once("relay-1", &mut deliver).await?, "nothing left");
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Outbox: Send + Sync {
    /// The outbox's name.
    fn name(&self) -> &str;

    /// Enqueues a delivery outside a transaction.
    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64>;

    /// Claims one delivery and makes it: `Ok` acks, `Err` retries; `false` if none is ready.
    ///
    /// No heartbeat is sent: a delivery slower than 60 s should send its own.
    async fn run_once(&self, worker_id: &str, delivery: &mut dyn Delivery) -> Result<bool>;
}

/// What [`Outbox::run_once`] calls; any `FnMut(Box<dyn JobHandle>) -> impl Future` is one.
///
/// It may end the job itself (`ack`, `fail`, …); otherwise its result decides.
#[async_trait]
pub trait Delivery: Send {
    /// Makes one delivery. It may be made again, so it should be idempotent.
    async fn deliver(&mut self, job: Box<dyn JobHandle>) -> Result<()>;
}

#[async_trait]
impl<F, Fut> Delivery for F
where
    F: FnMut(Box<dyn JobHandle>) -> Fut + Send,
    Fut: Future<Output = Result<()>> + Send,
{
    async fn deliver(&mut self, job: Box<dyn JobHandle>) -> Result<()> {
        self(job).await
    }
}
