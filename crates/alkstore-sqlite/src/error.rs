//! From SQLite's failures to the contract's errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use alkstore::Error;
use alkstore::engine::database_error;
use rusqlite::ErrorCode;

/// What can go wrong besides SQLite itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(
        "\":memory:\" and \"\" are not files that several connections can share: use \
         alkstore_mem::MemStore for a store in memory"
    )]
    Memory,
    #[error("{} is a directory: give the path of the database file in it", .0.display())]
    Directory(PathBuf),
    #[error("{} is not a file: give the path of the database file", .0.display())]
    NotAFile(PathBuf),
    #[error("the folder {} does not exist: create it first", .0.display())]
    NoFolder(PathBuf),
    #[error("{} does not exist, and SqliteOpts::create is false", .0.display())]
    Missing(PathBuf),
    #[error(
        "{} lies on {kind}, where several hosts would corrupt it: use a local disk, or Postgres \
         for several hosts (SqliteOpts::allow_network_fs overrides this)",
        path.display()
    )]
    NetworkFileSystem { path: PathBuf, kind: &'static str },
    #[error("SQLite {found} is too old: {oldest} or later is needed, or the feature \"bundled\"")]
    OldSqlite { found: &'static str, oldest: &'static str },
    #[error("the database file {} was deleted or replaced: open the store anew", .0.display())]
    Gone(PathBuf),
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("SqliteOpts::{0} must not be zero")]
    Zero(&'static str),
    #[error(
        "the database's schema has version {found}, this program knows versions up to {known}: \
         upgrade the program"
    )]
    NewerSchema { found: i64, known: i64 },
    #[error(
        "the connection's main database has no tables of a store, or older ones (version {found}, \
         not {known}): open its file with SqliteStore::open first"
    )]
    NoSchema { found: i64, known: i64 },
    #[error("the database could not be switched to write-ahead logging; it is in mode {0:?}")]
    NoWal(String),
    #[error(
        "waited {waited:?} for another process's write transaction to end \
         (SqliteOpts::busy_timeout)"
    )]
    BusyElsewhere { waited: Duration, source: rusqlite::Error },
    #[error(
        "waited {waited:?} for a transaction of this store that has been open for {age:?}: use \
         the transaction's own `_tx` methods while it is open, take locks before its first \
         operation, and keep it short"
    )]
    BusyTransaction { waited: Duration, age: Duration },
    #[error("cannot begin a transaction")]
    Begin(#[source] rusqlite::Error),
    #[error("the transaction is gone: {0}; nothing of it was kept, begin a new one")]
    TransactionGone(&'static str),
    #[error(
        "SQL in a transaction of the store's may not begin, commit or roll back, nor change how \
         the connection works: use savepoints, and the handle to end it"
    )]
    Refused(#[source] rusqlite::Error),
    #[error("the store's writer runs this closure: use the closure's own methods")]
    OnTheWriter,
    #[error("the operation panicked in the store")]
    Panicked,
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

impl Fault {
    pub(crate) fn open(path: &Path, source: rusqlite::Error) -> Error {
        let transient = is_transient(&source);
        database_error(Self::Open { path: path.to_owned(), source }, transient)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let transient =
            matches!(fault, Fault::BusyElsewhere { .. } | Fault::BusyTransaction { .. });
        database_error(fault, transient)
    }
}

/// Wraps a failure of SQLite.
pub(crate) fn sqlite_error(error: rusqlite::Error) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied) {
        return Fault::Refused(error).into();
    }
    let transient = is_transient(&error);
    database_error(error, transient)
}

fn is_transient(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
