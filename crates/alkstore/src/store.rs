//! The store: where every mechanism comes from.

use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    Lock, Outbox, Queue, QueueOpts, Result, Schedule, ScheduleOpts, StopToken, StreamHandle,
    TxHandle, WakeReceiver,
};

/// A boxed future, where a closure or a table needs a name for it.
pub type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The closure of [`Store::with_tx`], boxed so that [`Store`] stays object-safe.
///
/// Its future may hold only owned captures (`Arc<Mutex<_>>`, channels) for values that come
/// back; [`StoreExt::transaction`](crate::ext::StoreExt::transaction) takes captures by reference.
pub type TxFn<'a> =
    Box<dyn for<'t> FnOnce(&'t mut dyn TxHandle) -> BoxedFuture<'t, Result<()>> + Send + 'a>;

/// One reactive store: notify, streams, queues, locks, outbox and scheduler.
///
/// Engine crates open it: `MemStore::new()`, `alkstore_sqlite::open`, `alkstore_postgres::open`.
/// Code that uses it need not know which one it was given.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// use alkstore::{QueueOpts, Store};
/// use serde_json::json;
///
/// let store: Box<dyn Store> = Box::new(alkstore_mem::MemStore::new());
/// let queue = store.queue("emails", QueueOpts::default()).await?;
///
/// let mut tx = store.begin_tx().await?;
/// tx.enqueue_tx("emails", Default::default(), json!({"to": "ada@example.org"})).await?;
/// assert!(queue.claim_one("worker-1").await?.is_none(), "not committed yet");
/// tx.commit().await?;
///
/// let job = queue.claim_one("worker-1").await?.expect("committed");
/// assert!(job.ack().await?);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Store: Send + Sync {
    /// Begins a transaction. Dropping the handle rolls it back.
    async fn begin_tx(&self) -> Result<Box<dyn TxHandle>>;

    /// Runs the closure in a transaction: `Ok` commits; `Err`, drop and panic roll back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore::Store;
    /// # use serde_json::json;
    /// # let store = alkstore_mem::MemStore::new();
    /// store
    ///     .with_tx(Box::new(|tx| {
    ///         Box::pin(async move {
    ///             tx.publish_tx("orders", json!({"id": 1})).await?;
    ///             tx.notify_tx("orders-changed", json!(null)).await
    ///         })
    ///     }))
    ///     .await?;
    /// # Ok(()) }
    /// ```
    async fn with_tx<'a>(&'a self, f: TxFn<'a>) -> Result<()> {
        let mut tx = self.begin_tx().await?;
        match f(&mut *tx).await {
            Ok(()) => tx.commit().await,
            Err(error) => {
                // The closure's error is the one to report; a failed rollback loses nothing.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    /// Wakes every listener of the channel. Nothing is kept for later listeners.
    ///
    /// # Errors
    /// [`PayloadTooLarge`](crate::Error::PayloadTooLarge) over 8,000 bytes on Postgres;
    /// [`Codec`](crate::Error::Codec) for a payload nested too deeply.
    async fn notify(&self, channel: &str, payload: Value) -> Result<()>;

    /// Listens to the channel from now on: what commits after this returns wakes the receiver.
    async fn listen(&self, channel: &str) -> Result<Box<dyn WakeReceiver>>;

    /// The stream of this name; it exists once something is published.
    async fn stream(&self, name: &str) -> Result<Box<dyn StreamHandle>>;

    /// The queue of this name. The options are stamped on each job that this handle enqueues.
    async fn queue(&self, name: &str, opts: QueueOpts) -> Result<Box<dyn Queue>>;

    /// The outbox of this name.
    async fn outbox(&self, name: &str) -> Result<Box<dyn Outbox>>;

    /// Takes the lock for `ttl` seconds; `None` if another owner holds it.
    ///
    /// The owner that holds it already gets a handle to its own tenure; the time left stays.
    ///
    /// # Errors
    /// [`Database`](crate::Error::Database) for a `ttl` that is not positive.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore::Store;
    /// # let store = alkstore_mem::MemStore::new();
    /// let lock = store.try_lock("nightly-report", "host-a", 30).await?.expect("free");
    /// assert!(store.try_lock("nightly-report", "host-b", 30).await?.is_none());
    /// assert!(lock.renew(30).await?);
    /// assert!(lock.release().await?);
    /// # Ok(()) }
    /// ```
    async fn try_lock(&self, name: &str, owner: &str, ttl: i64) -> Result<Option<Box<dyn Lock>>>;

    /// Registers or replaces a schedule: `@every <n><s|m|h|d>` enqueues `payload` on `queue`.
    ///
    /// The same spec keeps the next boundary; a changed one starts anew at now + interval.
    /// Nothing fires unless some process runs [`run_schedules`](Self::run_schedules).
    ///
    /// # Errors
    /// [`InvalidSpec`](crate::Error::InvalidSpec) for any other spec.
    async fn schedule(
        &self,
        name: &str,
        spec: &str,
        queue: &str,
        payload: Value,
        opts: ScheduleOpts,
    ) -> Result<Schedule>;

    /// Removes a schedule; `false` if there was none of this name.
    async fn unschedule(&self, name: &str) -> Result<bool>;

    /// Leads the schedules until `stop` is cancelled: each boundary enqueues one job, once.
    ///
    /// At most 64 missed boundaries of a schedule are caught up; older ones are dropped.
    ///
    /// # Errors
    /// [`LeadershipLost`](crate::Error::LeadershipLost) if another runner leads or takes over.
    async fn run_schedules(&self, stop: StopToken) -> Result<()>;
}
