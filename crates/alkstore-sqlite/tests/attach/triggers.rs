//! Triggers that call the functions, on any connection: also on the store's own.

use alkstore::{Error, QueueOpts, Store, TxHandle};
use alkstore_sqlite::{SqliteStore, attach};
use alkstore_testkit::TempDb;
use rusqlite::Connection;
use serde_json::json;

use crate::{SOON, count, database, events, get, jobs, refusal, soon};

/// A table whose rows are jobs and events as well; note 'no' is refused after them.
fn triggered() -> (TempDb, SqliteStore, Connection) {
    let (path, store, db) = database();
    db.execute_batch(
        "CREATE TRIGGER added AFTER INSERT ON business BEGIN
             SELECT alkstore_enqueue('q', json_object('id', new.id));
             SELECT alkstore_publish('s', json_object('id', new.id), new.note);
             SELECT alkstore_notify('c');
             SELECT RAISE(ABORT, 'refused') WHERE new.note = 'no';
         END",
    )
    .unwrap();
    (path, store, db)
}

async fn counts(store: &SqliteStore, db: &Connection) -> [usize; 3] {
    [count(db, "business"), jobs(store, "q").await.len(), events(store, "s").await.len()]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_is_a_job_and_an_event() {
    let (_path, store, db) = triggered();
    db.execute("INSERT INTO business VALUES (1, 'a')", []).unwrap();
    assert_eq!(db.last_insert_rowid(), 1);
    let inserted = db.execute("INSERT INTO business VALUES (2, 'b'), (3, NULL)", []);
    assert_eq!((inserted, db.last_insert_rowid()), (Ok(2), 3));
    db.execute_batch("BEGIN; INSERT INTO business VALUES (4, NULL); ROLLBACK").unwrap();
    assert_eq!(counts(&store, &db).await, [3, 3, 3]);
    let payloads: Vec<_> = jobs(&store, "q").await.into_iter().map(|job| job.payload).collect();
    assert_eq!(payloads, [br#"{"id":1}"#, br#"{"id":2}"#, br#"{"id":3}"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_row_leaves_nothing() {
    let (_path, store, db) = triggered();
    let inserts = [
        "INSERT INTO business VALUES (1, 'no')",
        "INSERT INTO business VALUES (1, 'yes'), (2, 'no')",
        "INSERT INTO business VALUES (1, 'yes'), (2, '')",
    ];
    for insert in inserts {
        refusal(&db, insert);
        assert_eq!(counts(&store, &db).await, [0; 3], "{insert}");
        db.execute_batch("BEGIN").unwrap();
        refusal(&db, insert);
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!(counts(&store, &db).await, [0; 3], "{insert}");
    }
}

/// A schema that is not trusted may be somebody else's: its triggers are not let in.
#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_schema_calls_nothing() {
    let (_path, store, db) = triggered();
    db.pragma_update(None, "trusted_schema", false).unwrap();
    let refused = db.execute("INSERT INTO business VALUES (1, 'a')", []).unwrap_err().to_string();
    assert!(refused.contains("unsafe use of alkstore_enqueue()"), "{refused}");
    get::<i64>(&db, "SELECT alkstore_enqueue('q', '1')");
    assert_eq!(counts(&store, &db).await, [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn they_work_in_the_store_s_own_transactions_and_wake() {
    let (_path, store, db) = triggered();
    let mut wakes = store.listen("c").await.unwrap();
    let mut events = store.stream("s").await.unwrap().subscribe("r").await.unwrap();
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();

    // Ids of the handle and of the trigger interleave.
    let mut tx = store.begin().await.unwrap();
    let first = tx.publish_tx("s", json!("first")).await.unwrap();
    tx.run(|db| db.execute("INSERT INTO business VALUES (1, NULL)", [])).await.unwrap();
    let third = tx.publish_tx("s", json!("third")).await.unwrap();
    assert_eq!(third, first + 2);
    assert!(wakes.try_recv().unwrap().is_none());
    Box::new(tx).commit().await.unwrap();
    assert!(wakes.recv_timeout(SOON).await.unwrap().is_some());
    for offset in first..=third {
        assert_eq!(soon(events.recv()).await.unwrap().unwrap().offset, offset);
    }
    assert!(queue.wait_ready(SOON).await.unwrap());

    let inserted = store.write(|tx| {
        let before = tx.enqueue("q", Default::default(), json!(1))?;
        tx.run(|db| db.execute("INSERT INTO business VALUES (2, NULL)", []))?;
        let attached = tx.run(|db| Ok(attach(db)))?;
        attached?;
        let called: i64 =
            tx.run(|db| db.query_row("SELECT alkstore_enqueue('q', '1')", [], |row| row.get(0)))?;
        Ok([before + 2, called, tx.enqueue("q", Default::default(), json!(1))? - 1])
    });
    let [expected, called, again] = inserted.await.unwrap();
    assert_eq!((called, again), (expected, expected));
    assert_eq!(counts(&store, &db).await, [2, 5, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_closure_of_the_store_takes_them_back_and_wakes_nobody() {
    let (_path, store, db) = triggered();
    let mut wakes = store.listen("c").await.unwrap();
    let failed = store.write(|tx| {
        tx.run(|db| db.execute("INSERT INTO business VALUES (1, NULL)", []))?;
        Err::<(), _>(Error::other("on purpose"))
    });
    assert!(failed.await.is_err());
    let mut tx = store.begin().await.unwrap();
    let refused = tx.run(|db| db.execute("INSERT INTO business VALUES (1, 'no')", [])).await;
    assert!(refused.is_err());
    let bad = tx.run(|db| db.execute_batch("SELECT alkstore_enqueue('q', '{')")).await;
    assert!(crate::said(&bad.unwrap_err()).contains("alkstore_enqueue: payload"));
    Box::new(tx).commit().await.unwrap();
    assert_eq!(counts(&store, &db).await, [0; 3]);
    // The ids are not used again.
    let id = store.write(|tx| tx.enqueue("q", Default::default(), json!(1))).await.unwrap();
    assert!(id > 2, "{id}");
    store.notify("other", json!(1)).await.unwrap();
    assert!(wakes.try_recv().unwrap().is_none());
}

/// Not recommended, but nothing hangs: triggers on the store's own tables, and calls in calls.
#[tokio::test(flavor = "multi_thread")]
async fn calls_within_calls_work() {
    let (_path, store, db) = database();
    db.execute_batch(
        "CREATE TRIGGER told AFTER INSERT ON __alkstore_notification BEGIN
             SELECT alkstore_publish('told', json_quote(new.channel));
         END;
         CREATE TRIGGER died AFTER INSERT ON __alkstore_dead BEGIN
             SELECT alkstore_notify('dead');
         END;
         CREATE TRIGGER worked AFTER INSERT ON __alkstore_job BEGIN
             SELECT alkstore_notify('job');
         END",
    )
    .unwrap();
    let mut wakes = store.listen("dead").await.unwrap();
    let call = "SELECT alkstore_enqueue('q', json(alkstore_publish('s', '1')), -5)";
    get::<i64>(&db, call);
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();
    let job = soon(queue.claim_one("w")).await.unwrap().unwrap();
    assert!(soon(job.fail(None)).await.unwrap());
    assert!(wakes.recv_timeout(SOON).await.unwrap().is_some());
    let told: Vec<String> =
        events(&store, "told").await.iter().map(|e| e.payload_as().unwrap()).collect();
    assert_eq!(told, ["job", "dead"]);
}
