//! SQL functions on connections of the application's own: what they write, in which transaction,
//! and in which order among other writers.
#![expect(clippy::unwrap_used, reason = "what fails on the way fails the test")]

mod arguments;
mod order;
mod transactions;
mod triggers;
mod wakes;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use alkstore::engine::text;
use alkstore::ops::Inspect;
use alkstore::{Job, Store, StreamEvent};
use alkstore_sqlite::{Durability, SqliteOpts, SqliteStore, attach};
use alkstore_testkit::TempDb;
use rusqlite::Connection;
use rusqlite::types::FromSql;

/// Only what hangs reaches it.
const SOON: Duration = Duration::from_secs(30);

/// Power does not fail here, so nothing is synced.
fn open(path: impl AsRef<Path>) -> SqliteStore {
    let opts = SqliteOpts { durability: Durability::Normal, ..Default::default() };
    SqliteStore::open(path, opts).unwrap()
}

/// A connection of the application's with the functions on it.
fn attached(path: impl AsRef<Path>) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(SOON).unwrap();
    attach(&db).unwrap();
    db
}

/// A store, and a connection beside it to the same file, which has a table of the application's.
fn database() -> (TempDb, SqliteStore, Connection) {
    let path = TempDb::new();
    let store = open(&path);
    let db = attached(&path);
    db.execute_batch("CREATE TABLE business (id INTEGER PRIMARY KEY, note TEXT)").unwrap();
    (path, store, db)
}

fn get<T: FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn count(db: &Connection, table: &str) -> usize {
    get::<i64>(db, &format!("SELECT count(*) FROM {table}")).try_into().unwrap()
}

/// Why a statement fails.
#[track_caller]
fn refusal(db: &Connection, sql: &str) -> rusqlite::Error {
    let mut statement = db.prepare(sql).unwrap();
    let mut rows = statement.raw_query();
    loop {
        match rows.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it is not refused: {sql}"),
            Err(error) => return error,
        }
    }
}

/// What an error says, causes included.
fn said(error: &alkstore::Error) -> String {
    text::chain(error)
}

async fn jobs(store: &SqliteStore, queue: &str) -> Vec<Job> {
    store.jobs(queue, None, None, 1_000).await.unwrap()
}

async fn events(store: &SqliteStore, stream: &str) -> Vec<StreamEvent> {
    store.stream(stream).await.unwrap().read_since(0, 100_000).await.unwrap()
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("it hangs")
}

#[test]
fn it_says_what_to_do_about_other_databases() {
    let path = TempDb::new();
    let db = Connection::open(&path).unwrap();
    let error = said(&attach(&db).unwrap_err());
    assert!(error.contains("version 0") && error.contains("SqliteStore::open first"), "{error}");
    assert!(refusal_to_prepare(&db).contains("no such function"));

    open(&path);
    attach(&db).unwrap();
    db.execute_batch("INSERT INTO __alkstore_migration VALUES (99, 0)").unwrap();
    let error = said(&attach(&db).unwrap_err());
    assert!(error.contains("version 99") && error.contains("upgrade the program"), "{error}");

    let memory = Connection::open_in_memory().unwrap();
    assert!(said(&attach(&memory).unwrap_err()).contains("SqliteStore::open first"));
}

fn refusal_to_prepare(db: &Connection) -> String {
    db.prepare("SELECT alkstore_notify('c')").unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_again_is_fine_in_a_transaction_and_while_a_statement_runs_too() {
    let (_path, store, db) = database();
    db.execute_batch("BEGIN; INSERT INTO business (id) VALUES (1), (2)").unwrap();
    let mut statement = db.prepare("SELECT alkstore_publish('s', json(id)) FROM business").unwrap();
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    attach(&db).unwrap();
    assert!(rows.next().unwrap().is_some());
    drop(rows);
    db.execute_batch("COMMIT").unwrap();
    attach(&db).unwrap();
    assert_eq!(get::<i64>(&db, "SELECT alkstore_publish('s', '3')"), 3);
    assert_eq!(events(&store, "s").await.len(), 3);
}

#[test]
fn a_file_that_keeps_a_rollback_journal_works() {
    let path = TempDb::new();
    let store = open(&path);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store.close());
    let db = attached(&path);
    assert_eq!(get::<String>(&db, "PRAGMA journal_mode = DELETE"), "delete");
    let id: i64 = get(&db, "SELECT alkstore_enqueue('q', '1')");
    db.execute_batch("BEGIN").unwrap();
    assert_eq!(get::<i64>(&db, "SELECT alkstore_enqueue('q', '2')"), id + 1);
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    assert_eq!(runtime.block_on(async { jobs(&open(&path), "q").await }).len(), 2);
}
