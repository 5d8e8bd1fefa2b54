//! Brings a database's schema up to date; refuses a newer one. Forward only.

use std::path::Path;

use alkstore::Result;
use alkstore::engine::clock::Clock;
use alkstore::engine::domain::whole_seconds;
use rusqlite::params;

use crate::conn::Session;
use crate::error::Fault;
use crate::sql;

/// Applies what is missing in one transaction. An up-to-date file takes no write lock.
pub(crate) fn migrate(path: &Path, session: &Session) -> Result<()> {
    let known = known();
    let refuse = |error| Fault::open(path, error);
    let found = version(session).map_err(refuse)?;
    if found < known {
        session.run(&sql::BEGIN, []).map_err(refuse)?;
        // Another process may have migrated while this one waited for the lock.
        let applied = version(session).and_then(|found| apply(session, found));
        if let Err(error) = applied {
            // The first error is the one to report.
            let _ = session.run(&sql::ROLLBACK, []);
            return Err(refuse(error));
        }
        session.run(&sql::COMMIT, []).map_err(refuse)?;
    }
    refuse_newer(path, session)
}

/// Errs if the schema is of a newer program.
pub(crate) fn refuse_newer(path: &Path, session: &Session) -> Result<()> {
    Ok(not_newer(version(session).map_err(|error| Fault::open(path, error))?)?)
}

/// Errs unless a schema's version is the one that this program knows.
pub(crate) fn check(found: i64) -> Result<(), Fault> {
    not_newer(found)?;
    let known = known();
    if found < known { Err(Fault::NoSchema { found, known }) } else { Ok(()) }
}

fn not_newer(found: i64) -> Result<(), Fault> {
    let known = known();
    if found > known { Err(Fault::NewerSchema { found, known }) } else { Ok(()) }
}

fn known() -> i64 {
    i64::try_from(sql::MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The version of a database's schema; 0 if there is none.
pub(crate) fn version(session: &Session) -> rusqlite::Result<i64> {
    if !session.one(&sql::HAS_MIGRATIONS, [], |row| row.get(0))? {
        return Ok(0);
    }
    session.one(&sql::VERSION, [], |row| row.get(0))
}

fn apply(session: &Session, found: i64) -> rusqlite::Result<()> {
    session.run(&sql::MIGRATIONS_TABLE, [])?;
    for (version, text) in (1..).zip(sql::MIGRATIONS) {
        if version > found {
            session.connection().execute_batch(text)?;
            let now = whole_seconds(Clock::System.now_us());
            session.run(&sql::RECORD_MIGRATION, params![version, now])?;
        }
    }
    Ok(())
}
