//! Closing: nothing stays behind, nothing that was committed is lost, whoever else opens the file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use alkstore::{QueueOpts, Store};
use alkstore_sqlite::SqliteStore;
use alkstore_testkit::{Child, Parent, TempDb, roles, rounds};
use serde_json::json;

use crate::{SOON, assert_sound, block_on, eventually, number, open, soon};

const JOBS: &str = "SELECT count(*) FROM __alkstore_job";

/// Threads and open descriptors of this process.
fn held() -> (usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Uses a store in every way that starts something, then leaves it in one of several ways.
async fn use_and_leave(path: &str, round: u32) {
    let store = open(path);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let stream = store.stream("events").await.unwrap();
    let mut wakes = store.listen("channel").await.unwrap();
    let mut events = stream.subscribe("reader").await.unwrap();
    let waiting = tokio::spawn(async move { queue.wait_ready(SOON).await });
    let mut tx = store.begin().await.unwrap();
    tx.run(|db| db.execute_batch("SELECT 1")).await.unwrap();
    match round % 4 {
        0 => soon(store.close()).await,
        1 => {
            drop(tx);
            soon(store.close()).await;
        }
        2 => drop(store),
        _ => {
            drop((tx, store));
        }
    }
    assert!(soon(wakes.recv()).await.is_none());
    assert!(soon(events.recv()).await.is_none());
    assert!(soon(waiting).await.unwrap().is_err());
}

#[test]
fn hundreds_of_stores_leave_no_thread_and_no_descriptor() {
    fn opens_and_leaves(parent: Parent) {
        let path = &parent.args()[0];
        block_on(async {
            use_and_leave(path, 0).await;
            eventually("the first one is gone", async || held().0 <= 8).await;
            let before = held();
            for round in 0..rounds(500) {
                use_and_leave(path, round).await;
            }
            eventually("all are gone", async || held() <= before).await;
        });
    }
    let roles = roles! { opens_and_leaves };
    let db = TempDb::new();
    roles.spawn("opens_and_leaves", &[&db]).finish(SOON * rounds(1));
    assert_sound(&db);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_is_one_file_with_everything_in_it() {
    for round in 0..i64::from(rounds(50)) {
        let db = TempDb::new();
        let store = open(&db);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        let _wakes = store.listen("channel").await.unwrap();
        queue.enqueue(json!(round), Default::default()).await.unwrap();
        soon(store.close()).await;
        let left = std::fs::read_dir(db.dir()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["test.db"]);
        let copy = db.dir().join("copy.db");
        std::fs::copy(db.path(), &copy).unwrap();
        assert_eq!(number(&copy, JOBS), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_under_load_answers_every_call_truly() {
    for close in [true, false] {
        let db = TempDb::new();
        let store = open(&db);
        let done = Arc::new(AtomicI64::new(0));
        let load: Vec<_> = (0..32)
            .map(|i| {
                let (queue, done) = (store.queue("jobs", QueueOpts::default()), done.clone());
                let queue = futures_util::FutureExt::now_or_never(queue).unwrap().unwrap();
                tokio::spawn(async move {
                    while queue.enqueue(json!(i), Default::default()).await.is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        eventually("some work", async || done.load(Ordering::Relaxed) > 500).await;
        if close {
            soon(store.close()).await
        } else {
            drop(store)
        }
        for task in load {
            soon(task).await.unwrap();
        }
        // What was answered with an error is not there, what was answered well is.
        let done = done.load(Ordering::Relaxed);
        eventually("the file is closed", async || {
            !std::fs::exists(db.dir().join("test.db-wal")).unwrap()
        })
        .await;
        assert_eq!(number(&db, JOBS), done);
        assert_sound(&db);
    }
}

/// Opens, enqueues and leaves, again and again; returns how often it enqueued.
async fn comes_and_goes(path: PathBuf, turns: u32) -> i64 {
    let mut enqueued = 0;
    for turn in 0..turns {
        let store = SqliteStore::open(&path, crate::normal()).unwrap();
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        for _ in 0..fastrand::u32(1..5) {
            let id = queue.enqueue(json!(turn), Default::default()).await.unwrap();
            assert!(queue.get_job(id).await.unwrap().is_some());
            enqueued += 1;
        }
        // A dropped store closes while the next one opens.
        if fastrand::bool() { soon(store.close()).await } else { drop(store) }
    }
    enqueued
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_come_and_go_in_one_process_lose_nothing() {
    let db = TempDb::new();
    let tasks: Vec<_> =
        (0..4).map(|_| tokio::spawn(comes_and_goes(db.path().to_owned(), rounds(40)))).collect();
    let mut enqueued = 0;
    for task in tasks {
        enqueued += soon(task).await.unwrap();
    }
    assert_eq!(number(&db, JOBS), enqueued);
    assert_sound(&db);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_come_and_go_in_several_processes_lose_nothing() {
    fn process(parent: Parent) {
        let path = PathBuf::from(&parent.args()[0]);
        let enqueued = block_on(comes_and_goes(path, rounds(40)));
        parent.tell(&enqueued.to_string());
    }
    let roles = roles! { process };
    let db = TempDb::new();
    let mut children: Vec<Child> = (0..4).map(|_| roles.spawn("process", &[&db])).collect();
    let mut enqueued = comes_and_goes(db.path().to_owned(), rounds(40)).await;
    for child in &mut children {
        enqueued += child.hear(SOON).parse::<i64>().unwrap();
        child.finish(SOON);
    }
    assert_eq!(number(&db, JOBS), enqueued);
    assert_sound(&db);
}
