//! Opens connections: checks the path, sets pragmas, migrates.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use alkstore::Result;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, Authorization};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Session;
use super::file::network_file_system;
use crate::error::Fault;
use crate::migrate::migrate;
use crate::{Durability, SqliteOpts};

/// Opens the writer's connection on a file with an up-to-date schema.
pub(crate) fn prepare(path: &Path, opts: &SqliteOpts) -> Result<WriterSession> {
    check(path, opts)?;
    let connection = connect(path, opts.create).map_err(|error| Fault::open(path, error))?;
    connection.busy_timeout(opts.busy_timeout).map_err(|error| Fault::open(path, error))?;
    switch_to_wal(path, &connection, opts.busy_timeout)?;
    let mut session = Session::new(connection);
    migrate(path, &session)?;
    let guard = Arc::new(Guard::default());
    configure(&mut session, opts, &guard).map_err(|error| Fault::open(path, error))?;
    Ok(WriterSession { session, guard })
}

/// Opens a connection that only reads.
pub(super) fn reader(path: &Path, opts: &SqliteOpts) -> Result<Session> {
    let open = || {
        let connection = connect(path, false)?;
        connection.busy_timeout(opts.busy_timeout)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map(Session::new).map_err(|error| Fault::open(path, error))
}

/// Opens a connection that drives checkpoints.
pub(super) fn checkpointer(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let connection = connect(path, false)?;
    connection.pragma_update(None, "synchronous", synchronous(durability))?;
    Ok(connection)
}

fn check(path: &Path, opts: &SqliteOpts) -> Result<(), Fault> {
    if opts.poll_interval.is_zero() {
        return Err(Fault::Zero("poll_interval"));
    }
    if opts.max_readers == 0 {
        return Err(Fault::Zero("max_readers"));
    }
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return Err(Fault::Memory);
    }
    if path.is_dir() {
        return Err(Fault::Directory(path.to_owned()));
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            return Err(Fault::NoFolder(folder.to_owned()));
        }
        _ => {}
    }
    if !opts.allow_network_fs
        && let Some(kind) = network_file_system(path)
    {
        return Err(Fault::NetworkFileSystem { path: path.to_owned(), kind });
    }
    if !opts.create && !path.exists() {
        return Err(Fault::Missing(path.to_owned()));
    }
    Ok(())
}

/// A path is a path: without the URI flag nothing in it has a meaning.
fn connect(path: &Path, create: bool) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let connection = Connection::open_with_flags(path, flags)?;
    plan_once(&connection)?;
    Ok(connection)
}

/// Keeps the planner from looking at parameters, for which it would prepare a statement anew each
/// time that their values change.
pub(crate) fn plan_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Switching ignores the busy timeout, so it is asked for again until then.
fn switch_to_wal(path: &Path, connection: &Connection, busy_timeout: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => return Err(Fault::NoWal(mode).into()),
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < busy_timeout => {}
            Err(error) => return Err(Fault::open(path, error)),
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

fn configure(session: &mut Session, opts: &SqliteOpts, guard: &Arc<Guard>) -> rusqlite::Result<()> {
    let connection = session.connection_mut();
    // The writer waits by itself, so that it can be told to stop.
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "synchronous", synchronous(opts.durability))?;
    connection.pragma_update(None, "temp_store", "memory")?;

    let committing = guard.clone();
    connection.commit_hook(Some(move || !committing.committing.load(Ordering::Relaxed)))?;
    let wal = guard.clone();
    // This takes the place of SQLite's own checkpoints, which would stall a commit.
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, frames| {
        wal.wal_frames.store(frames, Ordering::Relaxed);
        Ok(())
    }))?;
    let users = guard.clone();
    connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
        let ends_ours = match context.action {
            AuthAction::Transaction { .. } => true,
            AuthAction::Savepoint { savepoint_name, .. } => {
                savepoint_name.starts_with(alkstore::RESERVED_PREFIX)
            }
            _ => false,
        };
        if ends_ours && users.user_sql.load(Ordering::Relaxed) {
            Authorization::Deny
        } else {
            Authorization::Allow
        }
    }))?;
    Ok(())
}

fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "full",
        Durability::Normal => "normal",
    }
}

/// Keeps the application's SQL from ending the writer's transaction.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// The writer itself commits; any other commit is turned into a rollback.
    committing: AtomicBool,
    /// The application's SQL is running, in which BEGIN, COMMIT and the like are refused.
    user_sql: AtomicBool,
    wal_frames: AtomicI32,
}

/// The writer's connection.
#[derive(Debug)]
pub(crate) struct WriterSession {
    session: Session,
    guard: Arc<Guard>,
}

impl WriterSession {
    /// Lets `f` commit.
    pub(crate) fn committing<T>(&self, f: impl FnOnce(&Session) -> T) -> T {
        self.guard.committing.store(true, Ordering::Relaxed);
        let result = f(&self.session);
        self.guard.committing.store(false, Ordering::Relaxed);
        result
    }

    /// Until it is dropped, SQL that would end the writer's transaction is refused.
    pub(super) fn guard_user_sql(&self) -> UserSql {
        self.guard.user_sql.store(true, Ordering::Relaxed);
        UserSql(self.guard.clone())
    }

    /// Pages in the `-wal` file after the last commit.
    pub(super) fn wal_frames(&self) -> i32 {
        self.guard.wal_frames.load(Ordering::Relaxed)
    }
}

impl Deref for WriterSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// The application's SQL is running.
#[derive(Debug)]
pub(crate) struct UserSql(Arc<Guard>);

impl Drop for UserSql {
    fn drop(&mut self) {
        self.0.user_sql.store(false, Ordering::Relaxed);
    }
}
