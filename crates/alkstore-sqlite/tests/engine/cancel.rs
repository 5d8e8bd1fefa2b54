//! A future that is dropped halfway does all or nothing and leaves the writer free.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use alkstore::{QueueOpts, Store, TxHandle};
use alkstore_sqlite::SqliteStore;
use alkstore_testkit::{TempDb, rounds};
use serde_json::json;

use crate::{assert_sound, foreign, number, open, soon};

/// Polls a future so many times and drops it; `None` if it was not ready by then.
async fn polled<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        // The writer gets on meanwhile, by a bit more or less.
        for _ in 0..fastrand::u32(0..50) {
            std::thread::yield_now();
        }
    }
    None
}

fn insert(id: u32) -> impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()> + Send {
    move |db| db.execute("INSERT INTO business VALUES (?1)", [id]).map(|_| ())
}

/// Business rows that came without their job, and jobs without their row.
const HALVES: &str = "
    SELECT
        (SELECT count(*) FROM business
         WHERE id NOT IN (SELECT CAST(payload AS INTEGER) FROM __alkstore_job))
      + (SELECT count(*) FROM __alkstore_job
         WHERE CAST(payload AS INTEGER) NOT IN (SELECT id FROM business))";

/// One try, cut off after so many polls of one of its steps.
async fn cut_off(store: &SqliteStore, step: u32, polls: u32, id: u32) {
    if step == 0 {
        let write = store.write(move |tx| {
            tx.run(insert(id))?;
            tx.enqueue("jobs", Default::default(), json!(id))
        });
        let _ = polled(write, polls).await;
        return;
    }
    let polls_of = |this: u32| if step == this { polls } else { u32::MAX };
    let Some(Ok(mut tx)) = polled(store.begin(), polls_of(1)).await else { return };
    if polled(tx.run(insert(id)), polls_of(2)).await.is_none() && step != 2 {
        return;
    }
    // Whether that was done or not, it was done or not as a whole, and so is the rest.
    let has_row = "SELECT count(*) FROM business WHERE id = ?1";
    let done: i64 = tx.run(move |db| db.query_row(has_row, [id], |row| row.get(0))).await.unwrap();
    if done == 0 {
        return;
    }
    if polled(tx.enqueue_tx("jobs", Default::default(), json!(id)), polls_of(3)).await.is_none() {
        return;
    }
    let tx = Box::new(tx);
    if step == 5 {
        let _ = polled(tx.rollback(), polls).await;
    } else {
        let _ = polled(tx.commit(), polls_of(4)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_that_is_dropped_does_all_or_nothing() {
    let db = TempDb::new();
    foreign(&db).execute_batch("CREATE TABLE business (id INTEGER PRIMARY KEY)").unwrap();
    let store = open(&db);
    let mut id = 0;
    for _ in 0..rounds(5) {
        for polls in 1..=20 {
            for step in 0..=5 {
                id += 1;
                cut_off(&store, step, polls, id).await;
            }
            // The writer is free and serves in order: what was cut off is over after this.
            id += 1;
            let mut tx = store.begin().await.unwrap();
            soon(tx.run(insert(id))).await.unwrap();
            tx.enqueue_tx("jobs", Default::default(), json!(id)).await.unwrap();
            soon(Box::new(tx).commit()).await.unwrap();
            assert_eq!(number(&db, HALVES), 0);
        }
    }
    assert!(number(&db, "SELECT count(*) FROM business") > i64::from(20 * rounds(5)));
    foreign(&db).execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
    assert_sound(&db);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_dropped_while_others_write_lose_nothing() {
    let db = TempDb::new();
    let store = open(&db);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut known = 0;
    for polls in 0..rounds(1_000) {
        let kept = queue.enqueue(json!(polls), Default::default());
        let dropped = polled(queue.enqueue(json!(polls), Default::default()), polls % 20);
        let (kept, dropped) = tokio::join!(kept, dropped);
        assert!(kept.is_ok());
        known += 1 + i64::from(dropped.is_some());
    }
    let stored = number(&db, "SELECT count(*) FROM __alkstore_job");
    assert!(stored >= known, "{stored} of {known}");
}
