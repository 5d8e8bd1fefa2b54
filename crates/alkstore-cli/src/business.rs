//! The application's own SQL, inside a store's transaction or beside it.
//!
//! An application that knows its engine calls the engine directly: on SQLite `SqliteTx::run`.
//! This is the same for a program that learns its engine from a URL. Statements use `$1`, `$2`, …
//! in the order in which they first appear, which every engine here understands.

use std::any::Any;

use alkstore::engine::database_error;
use alkstore::{Result, TxHandle};

use crate::connect::Location;

/// A value that goes into a statement or comes out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl Cell {
    /// The number; 0 for what is none.
    pub(crate) fn int(&self) -> i64 {
        if let Self::Int(n) = self { *n } else { 0 }
    }

    /// The text; empty for what is none.
    pub(crate) fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { "" }
    }
}

impl From<i64> for Cell {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { [$($crate::business::Cell::from($value)),*] };
}
pub(crate) use params;

/// Runs a statement in the transaction and returns how many rows it changed.
pub(crate) async fn execute(
    tx: &mut (dyn TxHandle + 'static),
    sql: &'static str,
    params: impl Into<Vec<Cell>>,
) -> Result<usize> {
    let params = params.into();
    let tx: &mut dyn Any = tx;
    #[cfg(feature = "sqlite")]
    if let Some(tx) = tx.downcast_mut::<alkstore_sqlite::SqliteTx>() {
        return tx.run(move |db| sqlite::execute(db, sql, &params)).await;
    }
    let _ = (tx, sql, params);
    Err(database_error("this engine runs no SQL", false))
}

/// A connection of the application's own, for reading.
pub(crate) enum Reader {
    #[cfg(feature = "sqlite")]
    Sqlite(rusqlite::Connection),
}

impl Reader {
    pub(crate) fn open(location: &Location) -> Result<Self> {
        match location {
            #[cfg(feature = "sqlite")]
            Location::Sqlite(path) => sqlite::open(path).map(Self::Sqlite).map_err(failed),
        }
    }

    /// All rows of a query.
    pub(crate) fn query(&self, sql: &str, params: &[Cell]) -> Result<Vec<Vec<Cell>>> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(db) => sqlite::query(db, sql, params).map_err(failed),
        }
    }

    /// The first row of a query, as numbers.
    pub(crate) fn numbers(&self, sql: &str, params: &[Cell]) -> Result<Vec<i64>> {
        let first = self.query(sql, params)?.into_iter().next().unwrap_or_default();
        Ok(first.iter().map(Cell::int).collect())
    }
}

#[cfg(feature = "sqlite")]
fn failed(error: rusqlite::Error) -> alkstore::Error {
    database_error(error, false)
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::path::Path;

    use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
    use rusqlite::{Connection, OpenFlags, Result, params_from_iter};

    use super::Cell;

    pub(super) fn open(path: &Path) -> Result<Connection> {
        // Not read-only: a reader of a WAL database takes part in its shared memory.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(db)
    }

    pub(super) fn execute(db: &Connection, sql: &str, params: &[Cell]) -> Result<usize> {
        db.prepare_cached(sql)?.execute(params_from_iter(params))
    }

    pub(super) fn query(db: &Connection, sql: &str, params: &[Cell]) -> Result<Vec<Vec<Cell>>> {
        let mut statement = db.prepare_cached(sql)?;
        let columns = statement.column_count();
        statement
            .query_map(params_from_iter(params), |row| {
                (0..columns).map(|column| row.get(column)).collect()
            })?
            .collect()
    }

    impl ToSql for Cell {
        fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
            Ok(ToSqlOutput::Borrowed(match self {
                Self::Null => ValueRef::Null,
                Self::Int(n) => ValueRef::Integer(*n),
                Self::Text(text) => ValueRef::Text(text.as_bytes()),
            }))
        }
    }

    impl FromSql for Cell {
        fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
            Ok(match value {
                ValueRef::Null => Self::Null,
                ValueRef::Integer(n) => Self::Int(n),
                other => Self::Text(other.as_str()?.to_owned()),
            })
        }
    }
}
