//! Application rows and store operations are one transaction, however it ends.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use alkstore::ops::Inspect;
use alkstore::{BoxedFuture, Error, QueueOpts, Result, Store, TxHandle, WakeReceiver};
use alkstore_sqlite::{SqliteStore, SqliteTx};
use alkstore_testkit::TempDb;
use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::oneshot;

use crate::{eventually, number, open, said, soon};

const ROWS: &str = "SELECT count(*) FROM business";

/// A file with a table of the application's.
fn database() -> TempDb {
    let db = TempDb::new();
    crate::foreign(&db).execute_batch("CREATE TABLE business (id INTEGER PRIMARY KEY)").unwrap();
    db
}

/// Writes one of everything.
async fn write_all(tx: &mut SqliteTx) -> Result<()> {
    tx.run(|db| db.execute("INSERT INTO business VALUES (1)", [])).await?;
    tx.enqueue_tx("jobs", Default::default(), json!(1)).await?;
    tx.outbox_enqueue_tx("mails", Default::default(), json!(1)).await?;
    tx.publish_tx("events", json!(1)).await?;
    tx.save_offset_tx("events", "reader", 1).await?;
    tx.notify_tx("channel", json!(1)).await
}

async fn filled(store: &SqliteStore) -> SqliteTx {
    let mut tx = store.begin().await.unwrap();
    write_all(&mut tx).await.unwrap();
    tx
}

/// How many of each of [`write_all`] are there.
async fn seen(db: &TempDb, store: &SqliteStore, wakes: &mut dyn WakeReceiver) -> [i64; 5] {
    let events = store.stream("events").await.unwrap();
    let queues = store.queues().await.unwrap();
    let woken = wakes.recv_timeout(Duration::from_millis(1)).await.unwrap();
    [
        number(db, ROWS),
        queues.iter().map(|queue| queue.pending).sum(),
        i64::try_from(events.read_since(0, 100).await.unwrap().len()).unwrap(),
        events.get_offset("reader").await.unwrap(),
        woken.into_iter().map(|_| 1).sum(),
    ]
}

const NOTHING: [i64; 5] = [0; 5];
const ALL: [i64; 5] = [1, 2, 1, 1, 1];

type Ending = fn(SqliteStore) -> BoxedFuture<'static, ()>;

/// The ways in which a transaction can end without a commit.
const UNDONE: &[(&str, Ending)] = &[
    ("rollback", |store| {
        Box::pin(async move {
            Box::new(filled(&store).await).rollback().await.unwrap();
        })
    }),
    ("drop", |store| {
        Box::pin(async move {
            drop(filled(&store).await);
        })
    }),
    ("a task's panic", |store| {
        Box::pin(async move {
            let task = tokio::spawn(async move {
                let _tx = filled(&store).await;
                panic!("on purpose");
            });
            assert!(task.await.unwrap_err().is_panic());
        })
    }),
    ("a task's abort", |store| {
        Box::pin(async move {
            let (inside, is_inside) = oneshot::channel();
            let task = tokio::spawn(async move {
                let _tx = filled(&store).await;
                inside.send(()).unwrap();
                pending::<()>().await;
            });
            is_inside.await.unwrap();
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        })
    }),
    ("a panic in its SQL", |store| {
        Box::pin(async move {
            let task = tokio::spawn(async move {
                let mut tx = filled(&store).await;
                let _: Result<()> = tx.run(|_| panic!("on purpose")).await;
            });
            assert!(task.await.unwrap_err().is_panic());
        })
    }),
    ("an error out of with_tx", |store| {
        Box::pin(async move {
            let failed = store.with_tx(Box::new(|tx| {
                Box::pin(async move {
                    let tx: &mut dyn std::any::Any = tx;
                    write_all(tx.downcast_mut().unwrap()).await?;
                    Err(Error::other("on purpose"))
                })
            }));
            assert!(said(&failed.await.unwrap_err()).contains("on purpose"));
        })
    }),
    ("the end of the runtime", |store| {
        Box::pin(async move {
            let (inside, is_inside) = oneshot::channel();
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            runtime.spawn(async move {
                let _tx = filled(&store).await;
                inside.send(()).unwrap();
                pending::<()>().await;
            });
            is_inside.await.unwrap();
            runtime.shutdown_background();
        })
    }),
    ("the store's close", |store| {
        Box::pin(async move {
            let mut tx = filled(&store).await;
            soon(store.close()).await;
            assert!(tx.enqueue_tx("jobs", Default::default(), json!(2)).await.is_err());
            assert!(Box::new(tx).commit().await.is_err());
        })
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_it_without_a_commit_undoes_all_of_it() {
    for (ending, end) in UNDONE {
        let db = database();
        let observer = open(&db);
        let mut wakes = observer.listen("channel").await.unwrap();
        soon(end(open(&db))).await;
        // The file's writer is free at once, for others too.
        let free = soon(observer.write(|tx| tx.publish("others", json!(1)))).await;
        assert!(free.is_ok(), "after {ending}: {free:?}");
        assert_eq!(seen(&db, &observer, &mut *wakes).await, NOTHING, "after {ending}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_shows_all_of_it_to_others_and_not_before() {
    let db = database();
    let (store, observer) = (open(&db), open(&db));
    let mut wakes = observer.listen("channel").await.unwrap();
    let tx = filled(&store).await;
    assert_eq!(seen(&db, &observer, &mut *wakes).await, NOTHING);
    Box::new(tx).commit().await.unwrap();
    // The wake of another store takes a moment.
    let mut woken = 0;
    eventually("everything", async || {
        let [rows, jobs, events, offset, woke] = seen(&db, &observer, &mut *wakes).await;
        woken += woke;
        [rows, jobs, events, offset, woken] == ALL
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_closure_undoes_itself_alone() {
    let db = database();
    let store = open(&db);
    let mut tx = store.begin().await.unwrap();
    tx.run(|db| db.execute("INSERT INTO business VALUES (1)", [])).await.unwrap();
    let failed = tx.run(|db| {
        db.execute("INSERT INTO business VALUES (2)", [])?;
        db.execute("INSERT INTO business VALUES (1)", [])
    });
    assert!(said(&failed.await.unwrap_err()).contains("UNIQUE constraint failed"));
    tx.run(|db| db.execute("INSERT INTO business VALUES (3)", [])).await.unwrap();
    Box::new(tx).commit().await.unwrap();
    assert_eq!(number(&db, "SELECT count(*) FROM business WHERE id IN (1, 3)"), 2);
    assert_eq!(number(&db, ROWS), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn savepoints_of_the_application_are_its_own() {
    let db = database();
    let store = open(&db);
    let sql = "SAVEPOINT mine; INSERT INTO business VALUES (1); ROLLBACK TO mine; RELEASE mine;
               SAVEPOINT mine; INSERT INTO business VALUES (2); RELEASE mine;
               SAVEPOINT left_open; INSERT INTO business VALUES (3);";
    let mut tx = store.begin().await.unwrap();
    tx.run(move |db| db.execute_batch(sql)).await.unwrap();
    tx.run(|db| db.execute("INSERT INTO business VALUES (4)", [])).await.unwrap();
    Box::new(tx).commit().await.unwrap();
    assert_eq!(number(&db, "SELECT sum(id) FROM business"), 2 + 3 + 4);

    store.write(|tx| tx.run(|db| db.execute("DELETE FROM business", []))).await.unwrap();
    store.write(move |tx| tx.run(|db| db.execute_batch(sql))).await.unwrap();
    assert_eq!(number(&db, "SELECT sum(id) FROM business"), 2 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn closures_share_commits_and_fail_alone() {
    let db = database();
    let store = open(&db);
    // While this is open the others gather, to run as one group.
    let holder = filled(&store).await;
    let mut tasks = Vec::new();
    for id in 2..300 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let wrote = store.write(move |tx| {
                tx.run(|db| db.execute("INSERT INTO business VALUES (?1)", [id]))?;
                tx.enqueue("shared", Default::default(), json!(id))?;
                match id % 4 {
                    1 => Err(Error::other("on purpose")),
                    2 => panic!("on purpose"),
                    3 => tx.run(|db| db.execute("INSERT INTO business VALUES (1)", [])),
                    _ => Ok(1),
                }
            });
            wrote.await.map_err(|error| said(&error))
        }));
    }
    Box::new(holder).commit().await.unwrap();
    for (id, task) in (2..).zip(tasks) {
        match (id % 4, soon(task).await) {
            (0, Ok(wrote)) => assert_eq!(wrote, Ok(1)),
            (1, Ok(Err(error))) => assert!(error.contains("on purpose"), "{error}"),
            (2, Err(error)) => assert!(error.is_panic()),
            (3, Ok(Err(error))) => assert!(error.contains("UNIQUE constraint"), "{error}"),
            other => panic!("{id}: {other:?}"),
        }
    }
    assert_eq!(number(&db, ROWS), 1 + 74);
    assert_eq!(number(&db, "SELECT count(*) FROM business WHERE id % 4 = 0"), 74);
    let queue = store.queue("shared", QueueOpts::default()).await.unwrap();
    let jobs = queue.claim_batch("w", 1_000).await.unwrap();
    assert_eq!(jobs.len(), 74);
    assert!(jobs.iter().all(|job| job.job().payload_as::<i64>().unwrap() % 4 == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_reaches_the_caller_with_its_message_and_the_writer_lives_on() {
    let db = database();
    let store = open(&db);
    for message in ["in the closure", "in a step"] {
        let caller = store.clone();
        let task = tokio::spawn(async move {
            if message == "in a step" {
                let mut tx = caller.begin().await.unwrap();
                tx.run::<(), _>(move |_| panic!("{message}")).await.unwrap();
            } else {
                caller.write::<(), _>(move |_| panic!("{message}")).await.unwrap();
            }
        });
        let payload = soon(task).await.unwrap_err().into_panic();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), message);
        soon(store.notify("channel", json!(1))).await.unwrap();
    }
    // Caught by the caller, a panic leaves the transaction usable.
    let mut tx = filled(&store).await;
    let step = AssertUnwindSafe(tx.run::<(), _>(|_| panic!("on purpose")));
    assert!(step.catch_unwind().await.is_err());
    write_another(&mut tx).await;
    Box::new(tx).commit().await.unwrap();
    assert_eq!(number(&db, ROWS), 2);
}

async fn write_another(tx: &mut SqliteTx) {
    tx.run(|db| db.execute("INSERT INTO business VALUES (2)", [])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_schema_and_store_operations_mix() {
    let db = database();
    let store = open(&db);
    let mut tx = store.begin().await.unwrap();
    for i in 0..5 {
        let sql = format!("CREATE TABLE t{i} (a); CREATE INDEX i{i} ON t{i} (a)");
        tx.run(move |db| db.execute_batch(&sql)).await.unwrap();
        tx.enqueue_tx("jobs", Default::default(), json!(i)).await.unwrap();
        tx.publish_tx("events", json!(i)).await.unwrap();
    }
    drop(tx);
    let mut tx = store.begin().await.unwrap();
    tx.run(|db| db.execute_batch("CREATE TABLE t0 (a); DROP TABLE business")).await.unwrap();
    tx.publish_tx("events", json!(9)).await.unwrap();
    Box::new(tx).commit().await.unwrap();
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('t0', 't1', 'business')";
    assert_eq!(number(&db, tables), 1);
    let events = store.stream("events").await.unwrap().read_since(0, 10).await.unwrap();
    assert_eq!(events.len(), 1);
}
