//! The `-wal` file stays small, and gets small again.

use alkstore::{QueueOpts, Store};
use alkstore_sqlite::SqliteStore;
use alkstore_testkit::{TempDb, rounds};
use serde_json::json;

use crate::{SOON, foreign, open, soon};

const MB: u64 = 1 << 20;
const BOUND: u64 = 64 * MB;

fn wal_size(db: &TempDb) -> u64 {
    std::fs::metadata(db.dir().join("test.db-wal")).unwrap().len()
}

/// Commits a small change again and again; returns the greatest size on the way.
async fn commit(db: &TempDb, store: &SqliteStore, times: u32) -> u64 {
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let stream = store.stream("events").await.unwrap();
    let mut greatest = 0;
    for n in 0..times / 4 {
        let id = queue.enqueue(json!(n), Default::default()).await.unwrap();
        stream.publish(json!(n)).await.unwrap();
        assert!(queue.cancel(id).await.unwrap());
        store.notify("channel", json!(n)).await.unwrap();
        greatest = greatest.max(wal_size(db));
    }
    greatest
}

#[tokio::test(flavor = "multi_thread")]
async fn under_endless_small_commits() {
    let db = TempDb::new();
    let store = open(&db);
    let stream = store.stream("events").await.unwrap();
    let idle = store.queue("idle", QueueOpts::default()).await.unwrap();
    let _wakes = store.listen("channel").await.unwrap();
    let mut events = stream.subscribe("reader").await.unwrap();
    let follower = tokio::spawn(async move { while events.recv().await.is_some() {} });
    let waiter = tokio::spawn(async move { idle.wait_ready(SOON * 100).await });
    let greatest = commit(&db, &store, rounds(40_000)).await;
    println!("{greatest} bytes at most");
    // Some 400 MB were written. How fast they are copied back is up to the disk.
    assert!((MB..BOUND).contains(&greatest), "{greatest}");
    soon(store.close()).await;
    soon(follower).await.unwrap();
    soon(waiter).await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_reader_of_somebody_else_until_it_is_gone() {
    let db = TempDb::new();
    let store = open(&db);
    commit(&db, &store, 8).await;
    let reader = foreign(&db);
    reader.execute_batch("BEGIN; SELECT count(*) FROM __alkstore_job").unwrap();
    while wal_size(&db) < BOUND {
        commit(&db, &store, 400).await;
    }
    reader.execute_batch("COMMIT").unwrap();
    let shrinks = async {
        while wal_size(&db) > BOUND / 2 {
            commit(&db, &store, 400).await;
        }
    };
    soon(shrinks).await;
    let greatest = commit(&db, &store, 8_000).await;
    assert!(greatest < BOUND, "{greatest}");
}
