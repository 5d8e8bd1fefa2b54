//! The closure form of a transaction: many share one commit.

use std::fmt;

use alkstore::engine::clock::Clock;
use alkstore::engine::domain::extent;
use alkstore::engine::outbox_queue;
use alkstore::engine::stamps::{OUTBOX, PLAIN};
use alkstore::{
    EnqueueOpts, Job, QueueOpts, Result, StreamEvent, encode_payload, validate_local_name,
    validate_shared_name,
};
use rusqlite::Connection;
use serde_json::Value;

use crate::conn::Write;
use crate::error::sqlite_error;
use crate::{SqliteStore, notify, queue, stream};

impl SqliteStore {
    /// Runs a closure in a transaction on the store's writer: `Ok` commits; `Err` and panic undo
    /// what it did.
    ///
    /// Closures that wait at the same moment share one commit, which makes this the fastest way
    /// to write application rows and store operations together. It holds up other writers while
    /// it runs.
    ///
    /// # Errors
    /// What the closure returns, and [`Database`](alkstore::Error::Database) if the commit fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore_sqlite::{SqliteOpts, SqliteStore};
    /// # use serde_json::json;
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = SqliteStore::open(folder.path().join("app.db"), SqliteOpts::default())?;
    /// # store.write(|tx| tx.run(|db| db.execute_batch("CREATE TABLE customer (name TEXT)"))).await?;
    /// let name = String::from("ada");
    /// let job_id = store
    ///     .write(move |tx| {
    ///         tx.run(|db| db.execute("INSERT INTO customer VALUES (?1)", [&name]))?;
    ///         tx.publish("customers", json!({"new": &name}))?;
    ///         tx.enqueue("emails", Default::default(), json!({"greet": &name}))
    ///     })
    ///     .await?;
    /// assert!(job_id > 0);
    /// # Ok(()) }
    /// ```
    pub async fn write<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut SqliteWrite<'_, '_>) -> Result<T> + Send + 'static,
    {
        self.core
            .write_once(|write| {
                let _guarded = write.guard_user_sql();
                f(&mut SqliteWrite { write })
            })
            .await
    }
}

/// The transaction that [`SqliteStore::write`] lends its closure.
///
/// Its methods are those of [`TxHandle`](alkstore::TxHandle), without waiting.
pub struct SqliteWrite<'a, 'w> {
    write: &'a mut Write<'w>,
}

impl fmt::Debug for SqliteWrite<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteWrite")
    }
}

impl SqliteWrite<'_, '_> {
    /// The connection, for the application's SQL; it cannot end the transaction.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.write.connection()
    }

    /// Runs the application's SQL, with SQLite's error as the store's.
    ///
    /// # Errors
    /// [`Database`](alkstore::Error::Database) with SQLite's error.
    pub fn run<T>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        f(self.connection()).map_err(sqlite_error)
    }

    /// See [`TxHandle::enqueue_tx`](alkstore::TxHandle::enqueue_tx).
    ///
    /// # Errors
    /// As there.
    pub fn enqueue(&mut self, queue: &str, opts: EnqueueOpts, payload: Value) -> Result<i64> {
        validate_shared_name(queue)?;
        self.enqueue_bytes(queue, &PLAIN, &opts, encode_payload(&payload)?)
    }

    /// See [`TxHandle::enqueue_batch_tx`](alkstore::TxHandle::enqueue_batch_tx).
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_batch(
        &mut self,
        queue: &str,
        jobs: Vec<(Value, EnqueueOpts)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(queue)?;
        let jobs = queue::NewJob::batch(Clock::System.now_us(), &jobs, &PLAIN)?;
        queue::enqueue_batch(self.write, &queue.into(), &jobs).map_err(sqlite_error)
    }

    /// See [`TxHandle::outbox_enqueue_tx`](alkstore::TxHandle::outbox_enqueue_tx).
    ///
    /// # Errors
    /// As there.
    pub fn outbox_enqueue(
        &mut self,
        outbox: &str,
        opts: EnqueueOpts,
        payload: Value,
    ) -> Result<i64> {
        validate_shared_name(outbox)?;
        self.enqueue_bytes(&outbox_queue(outbox), &OUTBOX, &opts, encode_payload(&payload)?)
    }

    fn enqueue_bytes(
        &mut self,
        queue: &str,
        defaults: &QueueOpts,
        opts: &EnqueueOpts,
        payload: Vec<u8>,
    ) -> Result<i64> {
        let job = queue::NewJob::new(Clock::System.now_us(), opts, defaults, payload);
        queue::enqueue(self.write, &queue.into(), &job).map_err(sqlite_error)
    }

    /// See [`TxHandle::publish_tx`](alkstore::TxHandle::publish_tx).
    ///
    /// # Errors
    /// As there.
    pub fn publish(&mut self, stream: &str, payload: Value) -> Result<i64> {
        self.publish_with_key(stream, None, payload)
    }

    /// See [`TxHandle::publish_with_key_tx`](alkstore::TxHandle::publish_with_key_tx).
    ///
    /// # Errors
    /// As there.
    pub fn publish_with_key(
        &mut self,
        stream: &str,
        key: Option<String>,
        payload: Value,
    ) -> Result<i64> {
        validate_shared_name(stream)?;
        let now_us = Clock::System.now_us();
        let event = stream::NewEvent::new(now_us, key, || encode_payload(&payload))?;
        stream::publish(self.write, &stream.into(), &event).map_err(sqlite_error)
    }

    /// See [`TxHandle::publish_batch_tx`](alkstore::TxHandle::publish_batch_tx).
    ///
    /// # Errors
    /// As there.
    pub fn publish_batch(
        &mut self,
        stream: &str,
        events: Vec<(Option<String>, Value)>,
    ) -> Result<Vec<i64>> {
        validate_shared_name(stream)?;
        let events = stream::NewEvent::batch(Clock::System.now_us(), events)?;
        stream::publish_batch(self.write, &stream.into(), &events).map_err(sqlite_error)
    }

    /// See [`TxHandle::notify_tx`](alkstore::TxHandle::notify_tx).
    ///
    /// # Errors
    /// As there.
    pub fn notify(&mut self, channel: &str, payload: Value) -> Result<()> {
        validate_shared_name(channel)?;
        encode_payload(&payload)?;
        notify::notify(self.write, &channel.into()).map_err(sqlite_error)
    }

    /// See [`TxHandle::save_offset_tx`](alkstore::TxHandle::save_offset_tx).
    ///
    /// # Errors
    /// As there.
    pub fn save_offset(&mut self, stream: &str, consumer: &str, offset: i64) -> Result<()> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        stream::save_offset(self.write, stream, consumer, offset).map_err(sqlite_error)
    }

    /// See [`TxHandle::get_job_tx`](alkstore::TxHandle::get_job_tx).
    ///
    /// # Errors
    /// As there.
    pub fn get_job(&self, queue: &str, job_id: i64) -> Result<Option<Job>> {
        validate_shared_name(queue)?;
        queue::get_job(self.write, queue, job_id).map_err(sqlite_error)
    }

    /// See [`TxHandle::get_offset_tx`](alkstore::TxHandle::get_offset_tx).
    ///
    /// # Errors
    /// As there.
    pub fn get_offset(&self, stream: &str, consumer: &str) -> Result<i64> {
        validate_shared_name(stream)?;
        validate_local_name(consumer)?;
        stream::get_offset(self.write, stream, consumer).map_err(sqlite_error)
    }

    /// See [`TxHandle::read_since_tx`](alkstore::TxHandle::read_since_tx).
    ///
    /// # Errors
    /// As there.
    pub fn read_since(&self, stream: &str, offset: i64, limit: i64) -> Result<Vec<StreamEvent>> {
        validate_shared_name(stream)?;
        let Some(limit) = extent(limit) else {
            return Ok(Vec::new());
        };
        let rows = stream::read_since(self.write, stream, offset, limit).map_err(sqlite_error)?;
        Ok(stream::into_events(rows))
    }

    /// See [`TxHandle::read_from_consumer_tx`](alkstore::TxHandle::read_from_consumer_tx).
    ///
    /// # Errors
    /// As there.
    pub fn read_from_consumer(
        &self,
        stream: &str,
        consumer: &str,
        limit: i64,
    ) -> Result<Vec<StreamEvent>> {
        let offset = self.get_offset(stream, consumer)?;
        self.read_since(stream, offset, limit)
    }
}
