//! The store: opens the file, hands out handles, closes.

use std::path::Path;
use std::sync::Arc;

use alkstore::engine::domain::duration;
use alkstore::engine::{every, leader};
use alkstore::{
    Lock, Outbox, Queue, QueueOpts, Result, Schedule, ScheduleOpts, StopToken, Store, StreamHandle,
    TxHandle, WakeReceiver, async_trait, encode_payload, validate_local_name, validate_shared_name,
};
use serde_json::Value;

use crate::conn::Core;
use crate::lock::SqliteLock;
use crate::outbox::SqliteOutbox;
use crate::queue::SqliteQueue;
use crate::schedule::SqliteLeader;
use crate::stream::SqliteStream;
use crate::{SqliteOpts, SqliteTx, notify, schedule};

/// Opens a store on a database file; see [`SqliteStore::open`].
///
/// # Errors
/// As [`SqliteStore::open`].
pub fn open(path: impl AsRef<Path>, opts: SqliteOpts) -> Result<Box<dyn Store>> {
    Ok(Box::new(SqliteStore::open(path, opts)?))
}

/// A store on a SQLite file. Clones are one store; it closes when the last one is dropped.
///
/// The application's own tables may be in the same file. Other processes may have it open.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    pub(crate) core: Arc<Core>,
    _open: Arc<Open>,
}

impl SqliteStore {
    /// Opens or creates the file and brings its schema up to date. Takes some milliseconds.
    ///
    /// The path is a plain path: `?` and `%` are characters of its name.
    ///
    /// # Errors
    /// [`Database`](alkstore::Error::Database) with what is wrong with the path, the file, its
    /// schema's version or the options.
    ///
    /// ```
    /// use alkstore_sqlite::{SqliteOpts, SqliteStore};
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// let store = SqliteStore::open(folder.path().join("app.db"), SqliteOpts::default())?;
    /// # Ok::<(), alkstore::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, opts: SqliteOpts) -> Result<Self> {
        let core = Core::open(path.as_ref().to_owned(), opts)?;
        let open = Arc::new(Open(core.clone()));
        Ok(Self { core, _open: open })
    }

    /// Begins a transaction in which the application's SQL runs, too.
    ///
    /// It takes the file's writer with its first operation.
    ///
    /// # Errors
    /// [`Database`](alkstore::Error::Database) on a closed store.
    #[expect(clippy::unused_async, reason = "engines alike begin with an await")]
    pub async fn begin(&self) -> Result<SqliteTx> {
        Ok(SqliteTx::new(self.core.lease()?))
    }

    /// Closes the store: calls err from now on, receivers end, open transactions roll back.
    ///
    /// Returns once its threads have ended and its files are closed.
    pub async fn close(&self) {
        self.core.shut();
        self.core.closed().await;
    }
}

/// Closes the store with its last clone.
#[derive(Debug)]
struct Open(Arc<Core>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.shut();
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin_tx(&self) -> Result<Box<dyn TxHandle>> {
        Ok(Box::new(self.begin().await?))
    }

    async fn notify(&self, channel: &str, payload: Value) -> Result<()> {
        validate_shared_name(channel)?;
        encode_payload(&payload)?;
        let channel: Arc<str> = channel.into();
        self.core.write_one(move |write| notify::notify(write, &channel)).await
    }

    async fn listen(&self, channel: &str) -> Result<Box<dyn WakeReceiver>> {
        validate_shared_name(channel)?;
        notify::listen(&self.core, channel).await
    }

    async fn stream(&self, name: &str) -> Result<Box<dyn StreamHandle>> {
        validate_shared_name(name)?;
        self.core.check_open()?;
        Ok(Box::new(SqliteStream::new(self.core.clone(), name)))
    }

    async fn queue(&self, name: &str, opts: QueueOpts) -> Result<Box<dyn Queue>> {
        validate_shared_name(name)?;
        self.core.check_open()?;
        Ok(Box::new(SqliteQueue::new(self.core.clone(), name, opts)))
    }

    async fn outbox(&self, name: &str) -> Result<Box<dyn Outbox>> {
        validate_shared_name(name)?;
        self.core.check_open()?;
        Ok(Box::new(SqliteOutbox::new(self.core.clone(), name)))
    }

    async fn try_lock(&self, name: &str, owner: &str, ttl: i64) -> Result<Option<Box<dyn Lock>>> {
        validate_shared_name(name)?;
        validate_local_name(owner)?;
        duration("ttl", ttl)?;
        SqliteLock::acquire(&self.core, name, owner, ttl).await
    }

    async fn schedule(
        &self,
        name: &str,
        spec: &str,
        queue: &str,
        payload: Value,
        opts: ScheduleOpts,
    ) -> Result<Schedule> {
        validate_shared_name(name)?;
        validate_shared_name(queue)?;
        let interval_s = every::parse(spec)?;
        let registered = schedule::Registration {
            name: name.to_owned(),
            spec: spec.to_owned(),
            queue: queue.to_owned(),
            payload: encode_payload(&payload)?,
            opts,
        };
        self.core.write(move |write| schedule::register(write, &registered, interval_s)).await
    }

    async fn unschedule(&self, name: &str) -> Result<bool> {
        validate_shared_name(name)?;
        let name = name.to_owned();
        self.core.write_one(move |write| schedule::remove(write, &name)).await
    }

    async fn run_schedules(&self, stop: StopToken) -> Result<()> {
        leader::run_schedules(&SqliteLeader::new(self.core.clone()), stop).await
    }
}
