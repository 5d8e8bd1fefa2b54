//! The floors: the least SQL for the same promises, written by hand against rusqlite.
//!
//! Same promises: an acknowledged write survives what the durability says, ids are never used
//! again (`AUTOINCREMENT`), each job carries its options, claims come by priority, ready time and
//! id through an index seek, lapsed claims are handed out again, an ack is fenced.

pub(crate) mod group;
pub(crate) mod lease;
pub(crate) mod raw;

use std::cmp::Reverse;
use std::path::Path;

use alkstore::engine::clock::Clock;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Result, Row, Statement, named_params, params};

use crate::Durability;

const SCHEMA: &str = "
CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    payload BLOB NOT NULL,
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    visibility_us INTEGER NOT NULL,
    backoff_base_s INTEGER NOT NULL,
    retention_s INTEGER,
    deadline INTEGER,
    worker_id TEXT
);
CREATE INDEX job_ready ON job (queue, priority DESC, run_at, id) WHERE deadline IS NULL;
CREATE INDEX job_leased ON job (queue, deadline) WHERE deadline IS NOT NULL;
";

const LOG: &str = "
CREATE TABLE event (
    offset INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    key TEXT,
    payload BLOB NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX event_stream ON event (stream, offset);
CREATE TABLE notification (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    sent_at INTEGER NOT NULL
);
";

pub(crate) const PUBLISH: &str =
    "INSERT INTO event (stream, payload, created_at) VALUES (?1, ?2, ?3)";

pub(crate) const READ: &str = "
SELECT offset, key, payload, created_at FROM event
WHERE stream = ?1 AND offset > ?2 ORDER BY offset LIMIT ?3";

pub(crate) const NOTIFY: &str = "INSERT INTO notification (channel, sent_at) VALUES (?1, ?2)";

pub(crate) const BUSINESS_TABLE: &str =
    "CREATE TABLE business (id INTEGER PRIMARY KEY, data BLOB NOT NULL)";

pub(crate) const ENQUEUE: &str = "
INSERT INTO job (queue, payload, priority, run_at, created_at, attempts, max_attempts,
    visibility_us, backoff_base_s)
VALUES (?1, ?2, 0, ?3, ?3, 0, 3, 300000000, 5)";

pub(crate) const BUSINESS: &str = "INSERT INTO business (data) VALUES (?1)";

/// Looks first, then updates: one `UPDATE … RETURNING` needs temporary tables, which cost more
/// than the rest of the claim.
pub(crate) const READY: &str = "
SELECT id, payload, priority, run_at, created_at, expires_at, attempts, max_attempts,
    visibility_us, backoff_base_s, retention_s
FROM job
WHERE queue = :queue AND deadline IS NULL AND run_at <= :now
    AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, run_at, id LIMIT :n";

pub(crate) const LAPSED: &str = "
SELECT id, payload, priority, run_at, created_at, expires_at, attempts, max_attempts,
    visibility_us, backoff_base_s, retention_s
FROM job
WHERE queue = :queue AND deadline <= :now
    AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now)";

pub(crate) const LEASE: &str =
    "UPDATE job SET attempts = ?2, deadline = ?3, worker_id = ?4 WHERE id = ?1";

pub(crate) const ACK: &str = "DELETE FROM job WHERE id = ?1 AND attempts = ?2 AND deadline > ?3";

const QUEUE: &str = "bench";
const WORKER: &str = "worker-1";

/// What a claim hands out: the whole job, though nothing works on it here.
#[derive(Debug)]
pub(crate) struct Claimed {
    id: i64,
    attempts: i64,
    deadline: i64,
    visibility_us: i64,
    order: (Reverse<i64>, i64, i64),
    #[expect(dead_code, reason = "read for the handler that is not there")]
    rest: ([i64; 3], [Option<i64>; 2], Vec<u8>),
}

impl Claimed {
    fn read(row: &Row<'_>) -> Result<Self> {
        let id = row.get(0)?;
        let numbers = [row.get(4)?, row.get(7)?, row.get(9)?];
        Ok(Self {
            id,
            attempts: row.get(6)?,
            deadline: 0,
            visibility_us: row.get(8)?,
            order: (Reverse(row.get(2)?), row.get(3)?, id),
            rest: (numbers, [row.get(5)?, row.get(10)?], row.get(1)?),
        })
    }
}

/// A new database with the floors' tables.
pub(crate) fn create(path: &Path, durability: Durability) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    let synchronous = match durability {
        Durability::Full => "full",
        Durability::Normal | Durability::None => "normal",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    // Otherwise statements are planned anew for each value of a parameter.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(SCHEMA)?;
    conn.execute_batch(LOG)?;
    conn.execute_batch(BUSINESS_TABLE)?;
    Ok(conn)
}

pub(crate) fn enqueue(conn: &Connection, insert: &mut Statement<'_>, data: &[u8]) -> Result<i64> {
    insert.execute(params![QUEUE, data, now_us()])?;
    Ok(conn.last_insert_rowid())
}

pub(crate) fn business(insert: &mut Statement<'_>, data: &[u8]) -> Result<()> {
    insert.execute([data]).map(drop)
}

/// In a transaction: the first of the ready and the lapsed jobs, merged in order.
pub(crate) fn claim(
    [ready, lapsed, lease]: [&mut Statement<'_>; 3],
    n: usize,
) -> Result<Vec<Claimed>> {
    let now = now_us();
    let limit = i64::try_from(n).unwrap_or(i64::MAX);
    let mut claimed: Vec<Claimed> = lapsed
        .query_map(named_params! {":queue": QUEUE, ":now": now}, Claimed::read)?
        .collect::<Result<_>>()?;
    let rows = named_params! {":queue": QUEUE, ":now": now, ":n": limit};
    for job in ready.query_map(rows, Claimed::read)? {
        claimed.push(job?);
    }
    claimed.sort_unstable_by_key(|job| job.order);
    claimed.truncate(n);
    for job in &mut claimed {
        job.attempts += 1;
        job.deadline = now + job.visibility_us;
        lease.execute(params![job.id, job.attempts, job.deadline, WORKER])?;
    }
    Ok(claimed)
}

pub(crate) fn ack(delete: &mut Statement<'_>, job: &Claimed) -> Result<bool> {
    Ok(delete.execute(params![job.id, job.attempts, now_us()])? == 1)
}

pub(crate) fn publish(conn: &Connection, insert: &mut Statement<'_>, data: &[u8]) -> Result<i64> {
    insert.execute(params![QUEUE, data, now_us()])?;
    Ok(conn.last_insert_rowid())
}

pub(crate) fn notify(insert: &mut Statement<'_>) -> Result<()> {
    insert.execute(params![QUEUE, now_us()]).map(drop)
}

/// An event as a reader gets it.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) offset: i64,
    #[expect(dead_code, reason = "read for the reader that is not there")]
    rest: (String, Option<String>, Vec<u8>, i64),
}

pub(crate) fn read(select: &mut Statement<'_>, offset: i64, limit: i64) -> Result<Vec<Event>> {
    let event = |row: &Row<'_>| {
        let rest = (QUEUE.to_owned(), row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Event { offset: row.get(0)?, rest })
    };
    select.query_map(params![QUEUE, offset, limit], event)?.collect()
}

fn now_us() -> i64 {
    Clock::System.now_us()
}
