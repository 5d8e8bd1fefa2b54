//! The two verbs of the engine: `read` on a reader's connection, `write` in the writer's groups.
//!
//! Everything that handles share is in [`Core`]; only [`SqliteStore`](crate::SqliteStore) keeps
//! it open.

mod checkpoint;
mod file;
mod guard;
mod inbox;
mod op;
mod open;
mod patience;
mod readers;
mod session;
mod turn;
mod write;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{Hub, Kind, Signal};
use alkstore::engine::store_closed;
use alkstore::{Error, Result};

use crate::SqliteOpts;
use crate::error::sqlite_error;
use crate::sql;
use crate::wake::{Pace, Watched, Watcher};

pub(crate) use file::DbFile;
#[cfg(test)]
pub(crate) use guard::WriterSession;
pub(crate) use inbox::{Lease, LeaseId};
#[cfg(test)]
pub(crate) use open::{plan_once, prepare};
pub(crate) use session::Session;
pub(crate) use write::{Sequence, Write, WriteState};

use checkpoint::Checkpointer;
use inbox::Inbox;
use op::Mode;
use readers::Readers;
use writer::Surroundings;

/// SQLite counts milliseconds in 32 bits.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 24 * 3_600);

/// What the handles of one store share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) hub: Hub,
    file: Arc<DbFile>,
    opts: SqliteOpts,
    inbox: Arc<Inbox>,
    readers: Readers,
    checkpointer: Checkpointer,
    watcher: Watcher,
    leases: AtomicI64,
}

impl Core {
    /// Opens the file, migrates it, and starts the threads.
    pub(crate) fn open(path: PathBuf, opts: SqliteOpts) -> Result<Arc<Self>> {
        let busy_timeout = opts.busy_timeout.min(LONGEST_WAIT);
        let opts = SqliteOpts { busy_timeout, ..opts };
        open::check(&path, &opts)?;
        let path = std::path::absolute(&path).unwrap_or(path);
        let session = open::prepare(&path, &opts)?;
        let file = Arc::new(DbFile::new(path));
        let hub = Hub::new();
        let readers = Readers::start(&file, &opts)?;
        let checkpointer = Checkpointer::start(&file, &opts)?;
        let inbox = Inbox::start(Surroundings {
            session,
            file: file.clone(),
            hub: hub.clone(),
            checkpoint: checkpointer.trigger(),
            busy_timeout: opts.busy_timeout,
        })?;
        Ok(Arc::new(Self {
            clock: Clock::System,
            hub,
            readers,
            file,
            opts,
            inbox,
            checkpointer,
            watcher: Watcher::default(),
            leases: AtomicI64::new(0),
        }))
    }

    /// Runs a query on a reader's connection.
    pub(crate) async fn read<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session) -> rusqlite::Result<T> + Send + 'static,
    {
        self.file.check()?;
        self.readers.read(f).await
    }

    /// Runs a query on a reader's connection while the calling thread waits.
    pub(crate) fn read_now<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session) -> rusqlite::Result<T> + Send + 'static,
    {
        self.file.check()?;
        self.readers.read_now(f)
    }

    /// Runs an operation in the writer's next group, undone as a whole if it fails.
    ///
    /// It may run more than once; only the run that is committed counts.
    pub(crate) async fn write<T, F>(&self, mut f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Write<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.inbox.write(move |write| f(write).map_err(sqlite_error), Mode::Many).await
    }

    /// [`write`](Self::write) for an operation of one statement, which SQLite undoes by itself.
    pub(crate) async fn write_one<T, F>(&self, mut f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Write<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.inbox.write(move |write| f(write).map_err(sqlite_error), Mode::One).await
    }

    /// [`write`](Self::write) for the application's closure, which runs once.
    pub(crate) async fn write_once<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Write<'_>) -> Result<T> + Send + 'static,
    {
        let mut f = Some(f);
        let once = move |write: &mut Write<'_>| {
            let f = f.take().expect("what is not repeatable runs once");
            f(write)
        };
        self.inbox.write(once, Mode::Once).await
    }

    /// A place for a caller-held transaction; it takes the writer with its first step.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<Lease> {
        self.check_open()?;
        let id = LeaseId(self.leases.fetch_add(1, Ordering::Relaxed));
        Ok(Lease::new(self.inbox.clone(), id))
    }

    /// Errs once the store is closed or its file is gone.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.inbox.is_closed() {
            return Err(store_closed());
        }
        Ok(self.file.check()?)
    }

    /// Subscribes to a name; commits of other processes are watched from then on.
    pub(crate) async fn subscribe(&self, kind: Kind, name: &str) -> Result<Signal> {
        let signal = self.hub.subscribe(kind, name);
        self.check_open()?;
        self.watcher.ensure(&self.hub, || {
            let path = self.file.path();
            let pace = Pace::new(path, self.opts.poll_interval, self.opts.file_events);
            let session = open::reader(path, &self.opts)?;
            Ok(Watched { session, file: self.file.clone(), pace })
        })?;
        Ok(signal)
    }

    /// The last notification that was committed.
    pub(crate) async fn last_notification(&self) -> Result<i64> {
        self.read(|session| session.one(&sql::SEQUENCES, [], |row| row.get(3))).await
    }

    /// Begins to close: nothing new is taken, receivers end, the threads run out.
    pub(crate) fn shut(&self) {
        // Receivers first: one that fails to read afterwards knows why.
        self.hub.shut();
        self.inbox.close();
        self.readers.close();
        self.watcher.stop();
        self.checkpointer.stop();
    }

    /// Waits until every thread has ended and the files are closed.
    pub(crate) async fn closed(&self) {
        self.inbox.closed().await;
        self.readers.closed().await;
        self.watcher.stopped().await;
        self.checkpointer.stopped().await;
    }
}

/// The answer of a thread that went away without one: it panicked, or the store was closed.
fn unanswered(closed: bool) -> Error {
    if closed { store_closed() } else { crate::error::Fault::Panicked.into() }
}
