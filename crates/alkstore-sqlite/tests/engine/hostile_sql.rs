//! SQL that ends or breaks the transaction: nothing is half done, no commit reports lost work, and
//! the store goes on.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use alkstore::{QueueOpts, Result, Store, TxHandle};
use alkstore_sqlite::{SqliteOpts, SqliteStore, SqliteTx, SqliteWrite};
use alkstore_testkit::TempDb;
use futures_util::FutureExt;
use rusqlite::{Connection, TransactionBehavior};
use serde_json::json;

use crate::{assert_sound, normal, number, said, soon};

type Sql = fn(&Connection) -> rusqlite::Result<()>;

/// Run whatever comes of it: the closure goes on as if nothing had happened.
fn regardless(db: &Connection, statements: &[&str]) -> rusqlite::Result<()> {
    for sql in statements {
        let _ = db.execute_batch(sql);
    }
    Ok(())
}

/// Statements from the cache were checked when they were first prepared.
fn cached(db: &Connection, statements: &[&str]) -> rusqlite::Result<()> {
    for sql in statements {
        let _ = db.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    }
    Ok(())
}

const DOUBLE: &str = "INSERT OR ROLLBACK INTO business VALUES (0)";
const MORE: &str = "INSERT INTO business VALUES (7)";

/// Attempts on the transaction that they run in.
const HOSTILE: &[(&str, Sql)] = &[
    ("a failure that is passed on", |db| db.execute_batch(DOUBLE)),
    ("a failure that is passed over", |db| regardless(db, &[DOUBLE])),
    ("more after it", |db| regardless(db, &[DOUBLE, MORE])),
    ("tables after it", |db| regardless(db, &[DOUBLE, "CREATE TABLE more (a)", MORE])),
    ("a savepoint after it", |db| regardless(db, &[DOUBLE, "SAVEPOINT a", MORE])),
    ("one released after it", |db| regardless(db, &[DOUBLE, "SAVEPOINT a", MORE, "RELEASE a"])),
    ("our savepoints after it", |db| {
        regardless(db, &[DOUBLE, "SAVEPOINT a", "SAVEPOINT __ALKSTORE_STEP", MORE])
    }),
    ("our cached savepoints after it", |db| {
        regardless(db, &[DOUBLE, "SAVEPOINT a"])?;
        cached(db, &["SAVEPOINT __alkstore_tx", "SAVEPOINT __alkstore_step"])
    }),
    ("a new transaction after it", |db| regardless(db, &[DOUBLE, "BEGIN", MORE])),
    ("a new cached one after it", |db| {
        regardless(db, &[DOUBLE])?;
        cached(db, &["BEGIN IMMEDIATE /* alkstore */", "SAVEPOINT __alkstore_step"])
    }),
    ("a trigger", |db| {
        db.execute_batch(
            "CREATE TEMP TRIGGER stop AFTER INSERT ON business WHEN new.id = 5
             BEGIN SELECT RAISE(ROLLBACK, 'stopped'); END",
        )?;
        regardless(db, &["INSERT INTO business VALUES (5)", MORE, "DROP TRIGGER temp.stop"])
    }),
    ("a panic after it", |db| {
        regardless(db, &[DOUBLE, "SAVEPOINT a", MORE])?;
        panic!("on purpose");
    }),
    ("our own commit", |db| cached(db, &["COMMIT /* alkstore */"])),
    ("our own rollback", |db| cached(db, &["ROLLBACK /* alkstore */", MORE])),
    ("our own release", |db| cached(db, &["RELEASE __alkstore_step"])),
    ("our own savepoint", |db| cached(db, &["SAVEPOINT __alkstore_step"])),
    ("our own way back", |db| cached(db, &["ROLLBACK TO __alkstore_step"])),
    ("the whole way back", |db| cached(db, &["ROLLBACK TO __alkstore_tx"])),
    ("the whole way back and forth", |db| {
        cached(db, &["ROLLBACK TO __alkstore_tx", "SAVEPOINT __alkstore_step"])
    }),
    ("our own savepoint, then a failure", |db| {
        cached(db, &["SAVEPOINT __alkstore_step", MORE])?;
        db.execute_batch("nonsense")
    }),
    ("our own savepoint, then a panic", |db| {
        cached(db, &["SAVEPOINT __alkstore_step", MORE])?;
        panic!("on purpose");
    }),
    ("other letters", |db| {
        regardless(db, &["ROLLBACK TO __ALKSTORE_TX", "SAVEPOINT __ALKSTORE_STEP"])
    }),
    ("another file", |db| {
        regardless(db, &["ATTACH ':memory:' AS other", "CREATE TABLE other.t (a)", DOUBLE, MORE])
    }),
    ("no more statements in the cache", |db| {
        db.set_prepared_statement_cache_capacity(0);
        db.flush_prepared_statement_cache();
        regardless(db, &[DOUBLE, MORE])
    }),
];

/// A store that has run everything of its own at least once, on a file with two tables.
async fn warm(db: &TempDb) -> SqliteStore {
    crate::foreign(db)
        .execute_batch(
            "CREATE TABLE business (id INTEGER PRIMARY KEY);
             INSERT INTO business VALUES (0);",
        )
        .unwrap();
    let opts = SqliteOpts { busy_timeout: Duration::from_secs(20), ..normal() };
    let store = SqliteStore::open(db, opts).unwrap();
    for end in [true, false] {
        let mut tx = Box::new(store.begin().await.unwrap());
        tx.enqueue_tx("warm", Default::default(), json!(1)).await.unwrap();
        tx.run(|db| db.execute_batch("SELECT 1")).await.unwrap();
        tx.run(|db| db.execute_batch("nonsense")).await.unwrap_err();
        if end { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
    store
}

fn has(db: &TempDb, id: i64) -> bool {
    number(db, &format!("SELECT count(*) FROM business WHERE id = {id}")) == 1
}

async fn has_job(store: &SqliteStore, id: i64) -> bool {
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    queue.get_job(id).await.unwrap().is_some()
}

/// The store works, holds no lock, and its file is sound.
async fn assert_well(db: &TempDb, store: &SqliteStore, after: &str) {
    let insert = "INSERT INTO business VALUES (100)";
    let mut tx = store.begin().await.unwrap();
    tx.run(move |db| db.execute_batch(insert)).await.unwrap_or_else(|e| panic!("{after}: {e:?}"));
    let id = tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
    Box::new(tx).commit().await.unwrap_or_else(|e| panic!("{after}: {e:?}"));
    assert!(has(db, 100) && has_job(store, id).await, "{after}");
    let delete = "DELETE FROM business WHERE id > 0";
    store.write(move |tx| tx.run(|db| db.execute_batch(delete))).await.unwrap();
    let mut other = crate::foreign(db);
    other.busy_timeout(Duration::from_secs(5)).unwrap();
    let writer = other.transaction_with_behavior(TransactionBehavior::Immediate);
    writer.unwrap_or_else(|e| panic!("{after}: {e:?}")).commit().unwrap();
    assert_sound(db);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_kept_or_lost_as_a_whole() {
    let db = TempDb::new();
    let store = warm(&db).await;
    for &(attempt, sql) in HOSTILE {
        let mut tx = store.begin().await.unwrap();
        tx.run(|db| db.execute_batch("INSERT INTO business VALUES (1)")).await.unwrap();
        let id = tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
        attack(&mut tx, sql).await;
        let more = "INSERT INTO business VALUES (2)";
        let went_on = tx.run(move |db| db.execute_batch(more)).await;
        let published = tx.publish_tx("events", json!(attempt)).await;
        let committed = soon(Box::new(tx).commit()).await;
        let kept = committed.is_ok();
        assert_eq!((has(&db, 1), has_job(&store, id).await), (kept, kept), "{attempt}");
        assert_eq!(has(&db, 2), kept && went_on.is_ok(), "{attempt}");
        assert!(!kept || published.is_ok(), "{attempt}");
        assert!(kept || !has(&db, 7), "{attempt}");
        if let Err(error) = committed {
            assert!(said(&error).contains("the transaction is gone"), "{attempt}: {error:?}");
            assert!(went_on.is_err() && published.is_err(), "{attempt}");
        }
        assert_well(&db, &store, attempt).await;
    }
}

/// A panic is the caller's; the transaction is looked at all the same.
async fn attack(tx: &mut SqliteTx, sql: Sql) {
    let step = AssertUnwindSafe(tx.run(sql));
    let _ = soon(step.catch_unwind()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_keeps_nothing() {
    let db = TempDb::new();
    let store = warm(&db).await;
    let ours: Sql = |db| cached(db, &["SAVEPOINT __alkstore_tx"]);
    for &(attempt, sql) in HOSTILE.iter().chain(&[("our outer savepoint", ours)]) {
        let mut tx = store.begin().await.unwrap();
        tx.run(|db| db.execute_batch("INSERT INTO business VALUES (1)")).await.unwrap();
        let id = tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
        attack(&mut tx, sql).await;
        let _ = tx.run(|db| db.execute_batch("INSERT INTO business VALUES (2)")).await;
        let _ = soon(Box::new(tx).rollback()).await;
        let ids = "SELECT count(*) FROM business WHERE id > 0";
        assert_eq!((number(&db, ids), has_job(&store, id).await), (0, false), "{attempt}");
        assert_well(&db, &store, attempt).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_is_kept_or_lost_as_a_whole() {
    let db = TempDb::new();
    let store = warm(&db).await;
    for &(attempt, sql) in HOSTILE {
        let caller = store.clone();
        let wrote = tokio::spawn(async move { caller.write(hostile(sql)).await });
        let kept = soon(wrote).await.is_ok_and(|wrote| wrote.is_ok());
        assert_eq!((has(&db, 1), has(&db, 2)), (kept, kept), "{attempt}");
        assert!(kept || !has(&db, 7), "{attempt}");
        assert_well(&db, &store, attempt).await;
    }
}

/// Does something before and after, and never minds.
fn hostile(sql: Sql) -> impl FnOnce(&mut SqliteWrite<'_, '_>) -> Result<i64> + Send + 'static {
    move |tx| {
        let before = "INSERT INTO business VALUES (1)";
        tx.run(|db| db.execute_batch(before))?;
        tx.run(sql)?;
        let _ = tx.connection().execute_batch("INSERT INTO business VALUES (2)");
        let _ = tx.enqueue("jobs", Default::default(), json!(2));
        Ok(1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_of_a_hostile_closure_keep_all_or_nothing() {
    let db = TempDb::new();
    let store = warm(&db).await;
    for &(attempt, sql) in HOSTILE {
        // While this is open the others gather, to run as one group.
        let mut holder = store.begin().await.unwrap();
        holder.publish_tx("events", json!(1)).await.unwrap();
        let insert = |id: i64| {
            let store = store.clone();
            let sql = format!("INSERT INTO business VALUES ({id})");
            tokio::spawn(async move {
                store
                    .write(move |tx| {
                        tx.run(|db| db.execute_batch(&sql))?;
                        tx.enqueue("jobs", Default::default(), json!(id))
                    })
                    .await
            })
        };
        let enqueue = || {
            let store = store.clone();
            tokio::spawn(async move {
                let queue = store.queue("jobs", QueueOpts::default()).await?;
                queue.enqueue(json!(1), Default::default()).await
            })
        };
        let caller = store.clone();
        let (closures, plain) = ([insert(11), insert(12)], [enqueue(), enqueue()]);
        let attack = tokio::spawn(async move { caller.write(hostile(sql)).await });
        let (more_closures, more_plain) = ([insert(13), insert(14)], [enqueue(), enqueue()]);
        Box::new(holder).commit().await.unwrap();

        for task in plain.into_iter().chain(more_plain) {
            let id = soon(task).await.unwrap().unwrap_or_else(|e| panic!("{attempt}: {e:?}"));
            assert!(has_job(&store, id).await, "{attempt}");
        }
        for (id, task) in (11..).zip(closures.into_iter().chain(more_closures)) {
            match soon(task).await.unwrap() {
                Ok(job) => assert!(has(&db, id) && has_job(&store, job).await, "{attempt}"),
                Err(error) => {
                    assert!(error.is_transient() && !has(&db, id), "{attempt}: {error:?}");
                }
            }
        }
        let kept = soon(attack).await.is_ok_and(|wrote| wrote.is_ok());
        assert_eq!((has(&db, 1), has(&db, 2)), (kept, kept), "{attempt}");
        assert_well(&db, &store, attempt).await;
    }
}

/// Would end the transaction, or change what the store relies on.
const REFUSED: &[&str] = &[
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "END",
    "END TRANSACTION",
    "ROLLBACK",
    "ROLLBACK TRANSACTION",
    "SAVEPOINT __alkstore_step",
    "RELEASE __alkstore_step",
    "RELEASE __AlkStore_Step",
    "RELEASE SAVEPOINT \"__ALKSTORE_TX\"",
    "ROLLBACK TO __alkstore_tx",
    "ROLLBACK TO [__ALKSTORE_tx]",
    "PRAGMA query_only = 1",
    "PRAGMA main.query_only(yes)",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA wal_autocheckpoint = 1",
    "PRAGMA busy_timeout = 60000",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = OFF",
    "VACUUM",
];

#[tokio::test(flavor = "multi_thread")]
async fn sql_that_would_end_the_transaction_is_refused_and_it_goes_on() {
    let db = TempDb::new();
    let store = warm(&db).await;
    for &sql in REFUSED {
        let mut tx = store.begin().await.unwrap();
        tx.run(|db| db.execute_batch("INSERT INTO business VALUES (1)")).await.unwrap();
        let refused = tx.run(move |db| db.execute_batch(sql)).await;
        let refused = said(&refused.expect_err(sql));
        assert!(refused.contains("use savepoints") || sql == "VACUUM", "{sql}: {refused}");
        tx.run(|db| db.execute_batch("INSERT INTO business VALUES (2)")).await.unwrap();
        Box::new(tx).commit().await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert!(has(&db, 1) && has(&db, 2), "{sql} in a step");

        let wrote = store.write(move |tx| {
            tx.run(|db| db.execute_batch("INSERT INTO business VALUES (3)"))?;
            Ok(tx.run(|db| db.execute_batch(sql)).is_err())
        });
        assert!(wrote.await.unwrap(), "{sql} in a closure");
        assert!(has(&db, 3), "{sql} in a closure");
        assert_well(&db, &store, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_pragmas_work() {
    let db = TempDb::new();
    let store = warm(&db).await;
    store
        .write(|tx| {
            tx.run(|db| {
                db.pragma_update(None, "user_version", 7)?;
                db.pragma_update(None, "defer_foreign_keys", true)?;
                db.execute_batch("PRAGMA table_info(business); PRAGMA query_only; PRAGMA optimize")
            })
        })
        .await
        .unwrap();
    assert_eq!(number(&db, "PRAGMA user_version"), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constraint_that_fails_at_the_commit_keeps_nothing() {
    let db = TempDb::new();
    let store = warm(&db).await;
    let sql = "CREATE TABLE child (parent REFERENCES business (id) DEFERRABLE INITIALLY DEFERRED)";
    crate::foreign(&db).execute_batch(sql).unwrap();
    let orphan = "INSERT INTO child VALUES (77); INSERT INTO business VALUES (1)";

    let mut tx = store.begin().await.unwrap();
    tx.run(move |db| db.execute_batch(orphan)).await.unwrap();
    let id = tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
    let failed = Box::new(tx).commit().await.unwrap_err();
    assert!(said(&failed).contains("FOREIGN KEY constraint failed"), "{failed:?}");
    assert!(!has(&db, 1) && !has_job(&store, id).await);
    assert_well(&db, &store, "a transaction").await;

    let failed = store.write(move |tx| tx.run(|db| db.execute_batch(orphan))).await.unwrap_err();
    assert!(said(&failed).contains("FOREIGN KEY constraint failed"), "{failed:?}");
    assert!(!has(&db, 1));
    assert_well(&db, &store, "a closure").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_the_transaction_and_says_so() {
    let db = TempDb::new();
    let store = warm(&db).await;
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    queue.enqueue(json!("before"), Default::default()).await.unwrap();
    let job = queue.claim_one("worker").await.unwrap().unwrap();
    let pages = number(&db, "PRAGMA page_count");
    store.write(limit(pages)).await.unwrap();

    let big = json!("x".repeat(100_000));
    let failed = queue.enqueue(big.clone(), Default::default()).await.unwrap_err();
    assert!(said(&failed).contains("full"), "{failed:?}");
    let mut tx = store.begin().await.unwrap();
    tx.run(|db| db.execute_batch("INSERT INTO business VALUES (1)")).await.unwrap();
    let failed = tx.enqueue_tx("jobs", Default::default(), big.clone()).await.unwrap_err();
    assert!(said(&failed).contains("full"), "{failed:?}");
    let after = tx.enqueue_tx("jobs", Default::default(), json!(1)).await;
    let committed = Box::new(tx).commit().await;
    assert_eq!(after.is_ok(), committed.is_ok());
    assert_eq!(has(&db, 1), committed.is_ok());
    // One that does not fit fails no other.
    let (fits, does_not) = tokio::join!(
        queue.enqueue(json!("small"), Default::default()),
        queue.enqueue(big.clone(), Default::default()),
    );
    assert!(fits.is_ok() && does_not.is_err());

    store.write(limit(1 << 30)).await.unwrap();
    assert!(job.ack().await.unwrap());
    queue.enqueue(big, Default::default()).await.unwrap();
    assert_well(&db, &store, "a full disk").await;
}

fn limit(pages: i64) -> impl FnOnce(&mut SqliteWrite<'_, '_>) -> Result<()> + Send + 'static {
    let sql = format!("PRAGMA max_page_count = {pages}");
    move |tx| tx.run(|db| db.execute_batch(&sql))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_is_an_error_and_nothing_else() {
    let db = TempDb::new();
    let store = warm(&db).await;
    let failed = store.write(|tx| {
        tx.run(|db| {
            db.execute_batch("INSERT INTO business VALUES (1)")?;
            let handle = db.get_interrupt_handle();
            let interrupting = std::thread::spawn(move || {
                for _ in 0..10_000 {
                    handle.interrupt();
                    std::thread::yield_now();
                }
            });
            let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                           INSERT INTO business SELECT i FROM n WHERE i > 1";
            let stopped = db.execute_batch(endless);
            interrupting.join().unwrap();
            stopped
        })
    });
    assert!(said(&soon(failed).await.unwrap_err()).contains("interrupted"));
    assert!(!has(&db, 1));
    assert_well(&db, &store, "an interrupt").await;
}
