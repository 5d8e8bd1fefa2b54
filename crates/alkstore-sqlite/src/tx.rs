//! The caller-held transaction: it leases the writer from its first operation to its end.

use std::sync::Arc;

use alkstore::engine::clock::Clock;
use alkstore::engine::domain::extent;
use alkstore::engine::outbox_queue;
use alkstore::engine::stamps::{OUTBOX, PLAIN};
use alkstore::{
    EnqueueOpts, Job, QueueOpts, Result, StreamEvent, TxHandle, async_trait, encode_payload,
    validate_local_name, validate_shared_name,
};
use serde_json::Value;

use crate::conn::{Lease, Write};
use crate::notify;
use crate::queue::{NewJob, enqueue, enqueue_batch, get_job};
use crate::stream::{
    NewEvent, get_offset, into_events, publish, publish_batch, read_since, save_offset,
};

/// A transaction on a SQLite store. Dropping it rolls back.
///
/// From its first operation on, other writers of the file wait for it: keep it short. `begin`
/// itself takes nothing.
#[derive(Debug)]
pub struct SqliteTx {
    lease: Lease,
}

impl SqliteTx {
    pub(crate) fn new(lease: Lease) -> Self {
        Self { lease }
    }

    /// Runs the application's SQL in this transaction, undone as a whole if the closure fails.
    ///
    /// It runs on the store's writer thread. `BEGIN`, `COMMIT` and `ROLLBACK` are refused;
    /// savepoints are fine. If the SQL makes SQLite roll the transaction back (`INSERT OR
    /// ROLLBACK`, `RAISE(ROLLBACK)`, a full disk), this and every later call fail.
    ///
    /// # Errors
    /// [`Database`](alkstore::Error::Database) with SQLite's error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore::{Store, TxHandle};
    /// # use alkstore_sqlite::{SqliteOpts, SqliteStore};
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = SqliteStore::open(folder.path().join("app.db"), SqliteOpts::default())?;
    /// let mut tx = store.begin().await?;
    /// let total: i64 = tx
    ///     .run(|db| {
    ///         db.execute_batch("CREATE TABLE account (balance INTEGER)")?;
    ///         db.execute("INSERT INTO account VALUES (?1), (?2)", [40, 2])?;
    ///         db.query_row("SELECT sum(balance) FROM account", [], |row| row.get(0))
    ///     })
    ///     .await?;
    /// assert_eq!(total, 42);
    /// Box::new(tx).commit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T, F>(&mut self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.lease
            .step(move |write| {
                let _guarded = write.guard_user_sql();
                f(write.connection())
            })
            .await
    }

    async fn enqueue(
        &mut self,
        queue: String,
        defaults: &QueueOpts,
        opts: &EnqueueOpts,
        payload: Vec<u8>,
    ) -> Result<i64> {
        let job = NewJob::new(Clock::System.now_us(), opts, defaults, payload);
        let queue: Arc<str> = queue.into();
        self.lease.step_one(move |write| enqueue(write, &queue, &job)).await
    }
}

#[async_trait]
impl TxHandle for SqliteTx {
    async fn enqueue_tx(&mut self, queue: &str, opts: EnqueueOpts, payload: Value) -> Result<i64> {
        validate_shared_name(queue)?;
        self.enqueue(queue.to_owned(), &PLAIN, &opts, encode_payload(&payload)?).await
    }

    async fn publish_tx(&mut self, stream: &str, payload: Value) -> Result<i64> {
        self.publish_with_key_tx(stream, None, payload).await
    }

    async fn publish_with_key_tx(
        &mut self,
        stream: &str,
        key: Option<String>,
        payload: Value,
    ) -> Result<i64> {
        validate_shared_name(stream)?;
        let event = NewEvent::new(Clock::System.now_us(), key, || encode_payload(&payload))?;
        let stream: Arc<str> = stream.into();
        self.lease.step_one(move |write| publish(write, &stream, &event)).await
    }

    async fn notify_tx(&mut self, channel: &str, payload: Value) -> Result<()> {
        validate_shared_name(channel)?;
        encode_payload(&payload)?;
        let channel: Arc<str> = channel.into();
        self.lease.step_one(move |write| notify::notify(write, &channel)).await
    }

    async fn save_offset_tx(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        let (stream, consumer) = checked(stream, consumer)?;
        self.lease.step_one(move |write| save_offset(write, &stream, &consumer, offset)).await
    }

    async fn get_job_tx(&mut self, queue: &str, job_id: i64) -> Result<Option<Job>> {
        validate_shared_name(queue)?;
        let queue = queue.to_owned();
        self.lease.step_one(move |write| get_job(write, &queue, job_id)).await
    }

    async fn get_offset_tx(&mut self, stream: &str, consumer: &str) -> Result<i64> {
        let (stream, consumer) = checked(stream, consumer)?;
        self.lease.step_one(move |write| get_offset(write, &stream, &consumer)).await
    }

    async fn read_since_tx(
        &mut self,
        stream: &str,
        offset: i64,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        validate_shared_name(stream)?;
        let Some(limit) = extent(limit) else {
            return Ok(Vec::new());
        };
        let stream = stream.to_owned();
        let rows =
            self.lease.step_one(move |write| read_since(write, &stream, offset, limit)).await?;
        Ok(into_events(rows))
    }

    async fn read_from_consumer_tx(
        &mut self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        let (stream, consumer) = checked(stream, consumer)?;
        let Some(limit) = extent(limit) else {
            return Ok(Vec::new());
        };
        let rows = self.lease.step_one(move |write: &mut Write<'_>| {
            let offset = get_offset(write, &stream, &consumer)?;
            read_since(write, &stream, offset, limit)
        });
        Ok(into_events(rows.await?))
    }

    async fn outbox_enqueue_tx(
        &mut self,
        outbox: &str,
        opts: EnqueueOpts,
        payload: Value,
    ) -> Result<i64> {
        validate_shared_name(outbox)?;
        self.enqueue(outbox_queue(outbox), &OUTBOX, &opts, encode_payload(&payload)?).await
    }

    async fn enqueue_batch_tx(
        &mut self,
        queue: &str,
        jobs: Vec<(Value, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(queue)?;
        let jobs = NewJob::batch(Clock::System.now_us(), &jobs, &PLAIN)?;
        let queue: Arc<str> = queue.into();
        self.lease.step(move |write| enqueue_batch(write, &queue, &jobs)).await
    }

    async fn publish_batch_tx(
        &mut self,
        stream: &str,
        events: Vec<(Option<String>, Value)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(stream)?;
        let events = NewEvent::batch(Clock::System.now_us(), events)?;
        let stream: Arc<str> = stream.into();
        self.lease.step(move |write| publish_batch(write, &stream, &events)).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.lease.end(true).await
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.lease.end(false).await
    }
}

fn checked(stream: &str, consumer: &str) -> Result<(String, String)> {
    validate_shared_name(stream)?;
    validate_local_name(consumer)?;
    Ok((stream.to_owned(), consumer.to_owned()))
}
