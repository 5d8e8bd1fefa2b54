//! Ids of jobs and events are given out once, whatever becomes of their transaction.

use std::sync::mpsc;
use std::time::Duration;

use alkstore::{BoxedFuture, Error, QueueOpts, Store, TxHandle};
use alkstore_sqlite::{SqliteOpts, SqliteStore, SqliteTx, SqliteWrite};
use alkstore_testkit::TempDb;
use rusqlite::TransactionBehavior;
use serde_json::json;

use crate::{foreign, normal, open, soon};

/// A job's id and an event's offset.
type Ids = [i64; 2];

async fn take(tx: &mut SqliteTx) -> Ids {
    let job = tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
    [job, tx.publish_tx("events", json!(1)).await.unwrap()]
}

async fn take_plain(store: &SqliteStore) -> Ids {
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let job = queue.enqueue(json!(1), Default::default()).await.unwrap();
    [job, store.stream("events").await.unwrap().publish(json!(1)).await.unwrap()]
}

fn take_in(tx: &mut SqliteWrite<'_, '_>, taken: &mpsc::Sender<Ids>) {
    let job = tx.enqueue("jobs", Default::default(), json!(1)).unwrap();
    let offset = tx.publish("events", json!(1)).unwrap();
    taken.send([job, offset]).unwrap();
}

type Loss = fn(SqliteStore) -> BoxedFuture<'static, Ids>;

/// Ways to lose what was given out.
const LOSSES: &[(&str, Loss)] = &[
    ("rollback", |store| {
        Box::pin(async move {
            let mut tx = store.begin().await.unwrap();
            let ids = take(&mut tx).await;
            Box::new(tx).rollback().await.unwrap();
            ids
        })
    }),
    ("drop", |store| {
        Box::pin(async move {
            let mut tx = store.begin().await.unwrap();
            let ids = take(&mut tx).await;
            drop(tx);
            ids
        })
    }),
    ("its SQL", |store| {
        Box::pin(async move {
            let mut tx = store.begin().await.unwrap();
            let ids = take(&mut tx).await;
            let sql = "INSERT OR ROLLBACK INTO business VALUES (1)";
            tx.run(move |db| db.execute_batch(sql)).await.unwrap_err();
            ids
        })
    }),
    ("close", |store| {
        Box::pin(async move {
            let mut tx = store.begin().await.unwrap();
            let ids = take(&mut tx).await;
            store.close().await;
            ids
        })
    }),
    ("a closure's error", |store| {
        Box::pin(async move {
            let (sender, taken) = mpsc::channel();
            let failed = store.write::<(), _>(move |tx| {
                take_in(tx, &sender);
                Err(Error::other("on purpose"))
            });
            failed.await.unwrap_err();
            taken.recv().unwrap()
        })
    }),
    ("a closure's SQL", |store| {
        Box::pin(async move {
            let (sender, taken) = mpsc::channel();
            let failed = store.write(move |tx| {
                take_in(tx, &sender);
                let sql = "INSERT OR ROLLBACK INTO business VALUES (1)";
                tx.run(|db| db.execute_batch(sql))
            });
            failed.await.unwrap_err();
            taken.recv().unwrap()
        })
    }),
    ("a closure's panic", |store| {
        Box::pin(async move {
            let (sender, taken) = mpsc::channel();
            let task = tokio::spawn(async move {
                let panicked = store.write::<(), _>(move |tx| {
                    take_in(tx, &sender);
                    panic!("on purpose");
                });
                panicked.await.unwrap();
            });
            assert!(task.await.unwrap_err().is_panic());
            taken.recv().unwrap()
        })
    }),
];

fn database() -> TempDb {
    let db = TempDb::new();
    let sql = "CREATE TABLE business (id INTEGER PRIMARY KEY); INSERT INTO business VALUES (1)";
    foreign(&db).execute_batch(sql).unwrap();
    db
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_is_not_given_out_again_by_this_or_another_store() {
    for (loss, lose) in LOSSES {
        let db = database();
        let (store, other) = (open(&db), open(&db));
        take_plain(&other).await;
        let lost = soon(lose(store.clone())).await;
        let mut last = lost;
        // The loser's own next turn must not be what makes it right.
        for store in [other, open(&db), store] {
            if store.begin().await.is_err() {
                continue;
            }
            let ids = take_plain(&store).await;
            assert!(ids[0] > last[0] && ids[1] > last[1], "{loss}: {ids:?} after {last:?}");
            last = ids;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_could_not_store_its_ids_does_not_lower_those_of_others() {
    let db = database();
    let opts = SqliteOpts { busy_timeout: Duration::from_millis(50), ..normal() };
    let loser = SqliteStore::open(&db, opts).unwrap();
    let mut blocker = foreign(&db);
    blocker.busy_timeout(Duration::from_secs(20)).unwrap();
    let (lost_it, is_lost) = mpsc::channel();
    let (took_it, is_taken) = mpsc::channel();
    let blocking = std::thread::spawn(move || {
        is_lost.recv().unwrap();
        let tx = blocker.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        took_it.send(()).unwrap();
        is_lost.recv().unwrap();
        tx.commit().unwrap();
    });
    let again = lost_it.clone();
    let failed = loser.write(move |tx| {
        tx.enqueue("jobs", Default::default(), json!(1))?;
        let failed = tx.run(|db| db.execute_batch("INSERT OR ROLLBACK INTO business VALUES (1)"));
        lost_it.send(()).unwrap();
        is_taken.recv().unwrap();
        failed
    });
    soon(failed).await.unwrap_err();
    again.send(()).unwrap();
    blocking.join().unwrap();

    let other = open(&db);
    let mut last = [0, 0];
    for _ in 0..10 {
        last = take_plain(&other).await;
    }
    // This commit gives out no id, but knows of one that it has not stored.
    loser.queue("jobs", QueueOpts::default()).await.unwrap().cancel(1_000).await.unwrap();
    let ids = take_plain(&open(&db)).await;
    assert!(ids[0] > last[0] && ids[1] > last[1], "{ids:?} after {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_given_out_again_after_all_rows_are_gone_and_the_file_is_packed() {
    let db = database();
    let mut last = [0, 0];
    for _ in 0..3 {
        let store = open(&db);
        let ids = take_plain(&store).await;
        assert!(ids[0] > last[0] && ids[1] > last[1], "{ids:?} after {last:?}");
        last = ids;
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        assert!(queue.cancel(ids[0]).await.unwrap());
        assert_eq!(store.stream("events").await.unwrap().trim_to(i64::MAX).await.unwrap(), 1);
        foreign(&db).execute_batch("VACUUM").unwrap();
        soon(store.close()).await;
        foreign(&db).execute_batch("VACUUM").unwrap();
    }
}
