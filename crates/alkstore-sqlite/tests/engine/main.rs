//! What only this engine has: SQL in transactions, processes on one file, busy files, bad files.
#![expect(clippy::unwrap_used, reason = "what fails on the way fails the test")]

mod busy;
mod cancel;
mod close;
mod hostile_sql;
mod ids;
mod killed;
mod open;
mod processes;
mod schedules;
mod transaction;
mod wal;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use alkstore::engine::text;
use alkstore_sqlite::{Durability, SqliteOpts, SqliteStore};
use rusqlite::Connection;

/// Only what hangs reaches it.
const SOON: Duration = Duration::from_secs(30);

/// Power does not fail here, so nothing is synced.
fn normal() -> SqliteOpts {
    SqliteOpts { durability: Durability::Normal, ..Default::default() }
}

fn open(path: impl AsRef<Path>) -> SqliteStore {
    SqliteStore::open(path, normal()).unwrap()
}

/// A connection of somebody else's.
fn foreign(path: impl AsRef<Path>) -> Connection {
    Connection::open(path).unwrap()
}

/// A number that the database holds, as somebody else sees it.
fn number(path: impl AsRef<Path>, sql: &str) -> i64 {
    foreign(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

fn assert_sound(path: impl AsRef<Path>) {
    let found: String =
        foreign(path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

/// What an error says, causes included.
fn said(error: &alkstore::Error) -> String {
    text::chain(error)
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("it hangs")
}

/// Asks again and again until the condition holds.
#[track_caller]
fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let message = format!("not within {SOON:?}: {what}");
    async move {
        let asking = async {
            while !condition().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert!(tokio::time::timeout(SOON, asking).await.is_ok(), "{message}");
    }
}

/// Runs a child's part.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}
