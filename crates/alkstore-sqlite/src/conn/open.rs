//! Opens connections: checks the path, sets pragmas, migrates.

use std::path::Path;
use std::time::{Duration, Instant};

use alkstore::Result;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Session;
use super::file::network_file_system;
use super::guard::WriterSession;
use crate::error::Fault;
use crate::migrate::{migrate, refuse_newer};
use crate::{Durability, SqliteOpts};

/// Bytes that the `-wal` file keeps when it starts over.
const WAL_SIZE: i64 = 32 << 20;

/// The oldest SQLite that the driver links with.
const OLDEST: (i32, &str) = (3_044_000, "3.44.0");

/// Opens the writer's connection on a file with an up-to-date schema.
pub(crate) fn prepare(path: &Path, opts: &SqliteOpts) -> Result<WriterSession> {
    let connection = connect(path, opts.create).map_err(|error| Fault::open(path, error))?;
    connection.busy_timeout(opts.busy_timeout).map_err(|error| Fault::open(path, error))?;
    let session = Session::new(connection);
    refuse_newer(path, &session)?;
    switch_to_wal(path, session.connection(), opts.busy_timeout)?;
    migrate(path, &session)?;
    configure(session.connection(), opts).map_err(|error| Fault::open(path, error))?;
    WriterSession::new(session).map_err(|error| Fault::open(path, error))
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

/// Refuses a path or options that cannot work.
pub(super) fn check(path: &Path, opts: &SqliteOpts) -> Result<(), Fault> {
    if rusqlite::version_number() < OLDEST.0 {
        return Err(Fault::OldSqlite { found: rusqlite::version(), oldest: OLDEST.1 });
    }
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
    if path.exists() && !path.is_file() {
        return Err(Fault::NotAFile(path.to_owned()));
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

/// A path is a path: an absolute one is never taken for a URI, which would begin with `file:`.
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

fn configure(connection: &Connection, opts: &SqliteOpts) -> rusqlite::Result<()> {
    // The writer waits by itself, so that it can be told to stop.
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "synchronous", synchronous(opts.durability))?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // Of the -wal file, after a large transaction or a long reader.
    connection.pragma_update(None, "journal_size_limit", WAL_SIZE)?;
    Ok(())
}

fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "full",
        Durability::Normal => "normal",
    }
}
