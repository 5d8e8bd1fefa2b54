//! Calls are part of the connection's own transaction, whichever way it goes.

use alkstore::{QueueOpts, Store, TxHandle};
use alkstore_sqlite::SqliteStore;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use serde_json::json;

use crate::{attached, count, database, events, get, jobs, refusal, soon};

/// Writes one of everything.
const ALL: &str = "
    INSERT INTO business (id) VALUES (1);
    SELECT alkstore_enqueue('q', '1');
    SELECT alkstore_outbox_enqueue('o', '1');
    SELECT alkstore_publish('s', '1');
    SELECT alkstore_save_offset('s', 'r', 9);
    SELECT alkstore_notify('c');";

/// What another connection sees of it.
async fn seen(store: &SqliteStore, path: &alkstore_testkit::TempDb) -> [usize; 5] {
    let other = Connection::open(path).unwrap();
    let stream = store.stream("s").await.unwrap();
    [
        count(&other, "business"),
        jobs(store, "q").await.len(),
        jobs(store, "outbox:o").await.len(),
        events(store, "s").await.len(),
        usize::try_from(stream.get_offset("r").await.unwrap()).unwrap(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_keeps_all_of_it_and_a_rollback_nothing() {
    let (path, store, db) = database();
    for behavior in ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "SAVEPOINT a"] {
        db.execute_batch(behavior).unwrap();
        db.execute_batch(ALL).unwrap();
        assert_eq!(seen(&store, &path).await, [0; 5], "{behavior}");
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!(seen(&store, &path).await, [0; 5], "{behavior}");
    }
    db.execute_batch("BEGIN").unwrap();
    db.execute_batch(ALL).unwrap();
    assert_eq!(seen(&store, &path).await, [0; 5]);
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(seen(&store, &path).await, [1, 1, 1, 1, 9]);
    db.execute_batch("BEGIN").unwrap();
    db.execute_batch("DELETE FROM business").unwrap();
    db.execute_batch(ALL).unwrap();
    drop(db);
    assert_eq!(seen(&store, &path).await, [1, 1, 1, 1, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_savepoint_takes_back_what_came_after_it() {
    let (path, store, db) = database();
    db.execute_batch("BEGIN").unwrap();
    let before: i64 = get(&db, "SELECT alkstore_publish('s', '\"before\"')");
    db.execute_batch("SAVEPOINT a").unwrap();
    db.execute_batch(ALL).unwrap();
    db.execute_batch("ROLLBACK TO a; RELEASE a").unwrap();
    let after: i64 = get(&db, "SELECT alkstore_publish('s', '\"after\"')");
    db.execute_batch("COMMIT").unwrap();
    assert!(after > before);
    assert_eq!(seen(&store, &path).await, [0, 0, 0, 2, 0]);
    let payloads: Vec<_> = events(&store, "s").await.into_iter().map(|e| e.payload).collect();
    assert_eq!(payloads, [&b"\"before\""[..], b"\"after\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_select_outside_a_transaction_commits_each_call() {
    let (path, store, db) = database();
    for statement in ALL.split_inclusive(';').skip(1) {
        db.execute_batch(statement).unwrap();
        assert!(db.is_autocommit());
    }
    assert_eq!(seen(&store, &path).await, [0, 1, 1, 1, 9]);
    let many = "SELECT alkstore_publish('s', column1) FROM (VALUES ('2'), ('3'), ('{'), ('4'))";
    assert!(refusal(&db, many).to_string().contains("payload"));
    assert!(db.is_autocommit());
    assert_eq!(events(&store, "s").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_select_that_reads_tables_asks_for_a_transaction() {
    let (_path, store, db) = database();
    db.execute_batch("INSERT INTO business VALUES (1, 'a'), (2, 'b')").unwrap();
    let select = "SELECT alkstore_enqueue('q', json_quote(note)) FROM business";
    let error = refusal(&db, select).to_string();
    assert!(error.contains("begin a transaction first"), "{error}");

    let mut statement = db.prepare("SELECT id FROM business").unwrap();
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    let error = refusal(&db, "SELECT alkstore_enqueue('q', '1')").to_string();
    assert!(error.contains("begin a transaction first"), "{error}");
    drop(rows);
    assert_eq!(jobs(&store, "q").await.len(), 0);

    db.execute_batch("BEGIN").unwrap();
    let ids: Result<Vec<i64>, _> =
        db.prepare(select).unwrap().query_map([], |row| row.get(0)).unwrap().collect();
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(jobs(&store, "q").await.len(), ids.unwrap().len());
}

/// In a statement that writes, outside a transaction, all of it is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_writes_commits_with_its_calls_or_not_at_all() {
    let (_path, store, db) = database();
    db.execute_batch("CREATE TEMP TABLE scratch (id INTEGER PRIMARY KEY)").unwrap();
    for table in ["business (id)", "scratch (id)"] {
        let before = jobs(&store, "q").await.len();
        let insert = format!("INSERT INTO {table} VALUES (alkstore_enqueue('q', '1'))");
        db.execute(&insert, []).unwrap();
        let taken = format!("INSERT INTO {table} SELECT 7000 + (alkstore_enqueue('q', '1') > 0)");
        db.execute(&taken, []).unwrap();
        assert_eq!(jobs(&store, "q").await.len(), before + 2);
        let error = refusal(&db, &taken);
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ConstraintViolation));
        assert_eq!(jobs(&store, "q").await.len(), before + 2, "{table}");
        // The third of its rows is refused.
        let rows = "('1'), ('2'), ('{')";
        let many = format!(
            "INSERT INTO {table} SELECT alkstore_enqueue('q', column1) FROM (VALUES {rows})"
        );
        assert!(refusal(&db, &many).to_string().contains("payload"));
        assert_eq!(jobs(&store, "q").await.len(), before + 2, "{table}");
        assert!(db.is_autocommit());
    }
}

/// What a failed statement with calls in it has left is undone by ROLLBACK, all or to a savepoint.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_statement_a_rollback_undoes_its_calls() {
    let (_path, store, db) = database();
    db.execute_batch("INSERT INTO business VALUES (1, NULL)").unwrap();
    let failing = "INSERT INTO business VALUES (1, alkstore_enqueue('q', '1'))";
    db.execute_batch("BEGIN; SAVEPOINT a").unwrap();
    refusal(&db, failing);
    db.execute_batch("ROLLBACK TO a; SELECT alkstore_enqueue('q', '2'); COMMIT").unwrap();
    db.execute_batch("BEGIN").unwrap();
    refusal(&db, failing);
    db.execute_batch("ROLLBACK").unwrap();
    let jobs = jobs(&store, "q").await;
    assert_eq!(jobs.iter().map(|job| &*job.payload).collect::<Vec<_>>(), [b"2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_go_on_from_those_of_stores_and_theirs_from_these() {
    let (path, store, db) = database();
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    let other = attached(&path);
    let (mut ids, mut offsets) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        ids.push(queue.enqueue(json!(1), Default::default()).await.unwrap());
        offsets.push(stream.publish(json!(1)).await.unwrap());
        // The store's ids are not used again, whatever becomes of its transaction.
        let mut tx = store.begin().await.unwrap();
        ids.push(tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap());
        offsets.push(tx.publish_tx("s", json!(1)).await.unwrap());
        Box::new(tx).rollback().await.unwrap();
        for db in [&db, &other] {
            ids.push(get(db, "SELECT alkstore_enqueue('q', '1')"));
            offsets.push(get(db, "SELECT alkstore_publish('s', '1')"));
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
}

/// The one promise less: what a rollback of the application's took back may be given out again.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_its_ids_back() {
    let (_path, store, db) = database();
    db.execute_batch("BEGIN").unwrap();
    let rolled_back: i64 = get(&db, "SELECT alkstore_publish('s', '1')");
    db.execute_batch("ROLLBACK").unwrap();
    let stream = store.stream("s").await.unwrap();
    assert_eq!(stream.publish(json!(1)).await.unwrap(), rolled_back);
    db.execute_batch("BEGIN; SAVEPOINT a").unwrap();
    let taken_back: i64 = get(&db, "SELECT alkstore_publish('s', '1')");
    db.execute_batch("ROLLBACK TO a").unwrap();
    assert_eq!(get::<i64>(&db, "SELECT alkstore_publish('s', '1')"), taken_back);
    db.execute_batch("COMMIT").unwrap();
    assert!(taken_back > rolled_back);
}

/// What the documentation warns of.
#[test]
fn rusqlite_has_ways_that_are_not_for_a_select() {
    let (_path, _store, db) = database();
    let executed = db.execute("SELECT alkstore_enqueue('q', '1')", []);
    assert_eq!(executed, Err(rusqlite::Error::ExecuteReturnedResults));
    assert_eq!(count(&db, "__alkstore_job"), 1);
    let three = "SELECT alkstore_enqueue('q', column1) FROM (VALUES ('2'), ('3'), ('4'))";
    db.execute_batch(three).unwrap();
    assert_eq!(count(&db, "__alkstore_job"), 2);
}

#[test]
fn the_last_rowid_is_that_of_the_application() {
    let (_path, _store, db) = database();
    get::<i64>(&db, "SELECT alkstore_enqueue('q', '1')");
    assert_eq!(db.last_insert_rowid(), 0);
    db.execute("INSERT INTO business (id) VALUES (77)", []).unwrap();
    get::<i64>(&db, "SELECT alkstore_enqueue('q', '1')");
    get::<i64>(&db, "SELECT alkstore_publish('s', '1')");
    assert_eq!(db.last_insert_rowid(), 77);
    let inserted = db.execute("INSERT INTO business VALUES (78, alkstore_enqueue('q', '1'))", []);
    assert_eq!((inserted, db.last_insert_rowid()), (Ok(1), 78));
}

#[test]
fn a_busy_file_is_waited_for_and_keeps_its_code() {
    let (path, _store, db) = database();
    db.execute_batch("INSERT INTO business (id) VALUES (1)").unwrap();
    let mut other = attached(&path);
    // A transaction that has read cannot write after others have, as with any statement.
    db.execute_batch("BEGIN").unwrap();
    count(&db, "business");
    get::<i64>(&other, "SELECT alkstore_enqueue('q', '1')");
    let error = refusal(&db, "SELECT alkstore_enqueue('q', '1')");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
    db.execute_batch("ROLLBACK").unwrap();
    // One that has not waits for its turn, and so does a call by itself.
    for begin in ["BEGIN", ""] {
        let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        std::thread::scope(|threads| {
            let (asking, asked) = std::sync::mpsc::channel();
            let path = &path;
            let waiting = threads.spawn(move || {
                let db = attached(path);
                db.execute_batch(begin).unwrap();
                asking.send(()).unwrap();
                get::<i64>(&db, "SELECT alkstore_enqueue('q', '1')")
            });
            asked.recv().unwrap();
            let held_id = hold_a_while(&held);
            held.commit().unwrap();
            assert_eq!(waiting.join().unwrap(), held_id + 1, "{begin:?}");
        });
    }
    // And one whose patience ends has its code, and has done nothing.
    let impatient = attached(&path);
    impatient.busy_timeout(std::time::Duration::ZERO).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = refusal(&impatient, "SELECT alkstore_enqueue('q', '1')");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
    assert!(impatient.is_autocommit());
    held.rollback().unwrap();
    get::<i64>(&impatient, "SELECT alkstore_enqueue('q', '1')");
}

/// Enqueues in a transaction that keeps others waiting for a moment.
fn hold_a_while(held: &Transaction<'_>) -> i64 {
    let until = std::time::Instant::now() + std::time::Duration::from_millis(30);
    while std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    get(held, "SELECT alkstore_enqueue('q', '1')")
}

/// A COMMIT that fails for readers in a rollback journal leaves nothing of the call behind.
#[test]
fn a_commit_of_a_call_that_fails_undoes_it() {
    let (path, store, db) = database();
    tokio::runtime::Runtime::new().unwrap().block_on(soon(store.close()));
    assert_eq!(get::<String>(&db, "PRAGMA journal_mode = DELETE"), "delete");
    db.busy_timeout(std::time::Duration::ZERO).unwrap();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&reader, "__alkstore_job"), 0);
    let error = refusal(&db, "SELECT alkstore_enqueue('q', '1')");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
    assert!(db.is_autocommit());
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&db, "__alkstore_job"), 0);
    assert_eq!(get::<i64>(&db, "SELECT alkstore_enqueue('q', '1')"), 1);
}

#[test]
fn a_full_disk_and_a_read_only_connection_say_so() {
    let (path, _store, db) = database();
    let pages: i64 = get(&db, "PRAGMA page_count");
    get::<i64>(&db, &format!("PRAGMA max_page_count = {pages}"));
    let big = "SELECT alkstore_enqueue('q', json_quote(printf('%.100000c', 'x')))";
    db.execute_batch("BEGIN; INSERT INTO business (id) VALUES (1)").unwrap();
    let error = refusal(&db, big);
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").unwrap();
    }
    let error = refusal(&db, big);
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
    assert!(db.is_autocommit());
    assert_eq!(count(&db, "business"), 0);
    get::<i64>(&db, &format!("PRAGMA max_page_count = {}", pages + 1_000));
    assert_eq!(get::<i64>(&db, big), 1);

    let reading = attached(&path);
    reading.pragma_update(None, "query_only", true).unwrap();
    let error = refusal(&reading, "SELECT alkstore_notify('c')");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{error}");
}
