//! What the functions take, return, refuse and stamp.

use alkstore::engine::domain::US;
use alkstore::engine::stamps::{OUTBOX, PLAIN, Stamps};
use alkstore::{EnqueueOpts, Job, QueueOpts, Store};
use alkstore_testkit::TempDb;
use rusqlite::{Connection, params};

use crate::{attached, database, events, get, jobs, open, refusal};

#[tokio::test(flavor = "multi_thread")]
async fn each_returns_the_id_or_null() {
    let (_path, store, db) = database();
    let job: i64 = get(&db, "SELECT alkstore_enqueue('q', '{}')");
    let delivery: i64 = get(&db, "SELECT alkstore_outbox_enqueue('o', '{}')");
    let keyed: i64 = get(&db, "SELECT alkstore_publish('s', '{}', 'k')");
    let offset: i64 = get(&db, "SELECT alkstore_publish('s', '{}')");
    assert_eq!(get::<Option<i64>>(&db, "SELECT alkstore_notify('c')"), None);
    assert_eq!(get::<Option<i64>>(&db, "SELECT alkstore_notify('c', '{}')"), None);
    let saved = format!("SELECT alkstore_save_offset('s', 'r', {offset})");
    assert_eq!(get::<Option<i64>>(&db, &saved), None);

    assert_eq!(jobs(&store, "q").await[0].id, job);
    assert_eq!(jobs(&store, "outbox:o").await[0].id, delivery);
    let events = events(&store, "s").await;
    assert_eq!(events.iter().map(|event| event.offset).collect::<Vec<_>>(), [keyed, offset]);
    let keys: Vec<_> = events.iter().map(|event| event.key.as_deref()).collect();
    assert_eq!(keys, [Some("k"), None]);
    let stream = store.stream("s").await.unwrap();
    assert_eq!(stream.get_offset("r").await.unwrap(), offset);
    // A lower one changes nothing.
    get::<Option<i64>>(&db, "SELECT alkstore_save_offset('s', 'r', -9223372036854775808)");
    assert_eq!(stream.get_offset("r").await.unwrap(), offset);
    get::<Option<i64>>(&db, "SELECT alkstore_save_offset('s', 'r', 9223372036854775807)");
    assert_eq!(stream.get_offset("r").await.unwrap(), i64::MAX);
}

/// What the store's own enqueue would have written.
fn assert_stamped(job: &Job, opts: &EnqueueOpts, queue: &QueueOpts) {
    let stamps = Stamps::resolve(opts, queue, job.created_at * US);
    assert_eq!(
        (job.priority, job.run_at, job.max_attempts, job.expires_at),
        (stamps.priority, stamps.run_at, stamps.max_attempts, stamps.expires_at),
        "{opts:?}"
    );
    assert_eq!(
        (job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s),
        (queue.visibility_timeout_s, queue.backoff_base_s, queue.dead_letter_retention_s)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_stamped_as_the_store_does_at_any_number() {
    let (_path, store, db) = database();
    let values = [None, Some(i64::MIN), Some(-1), Some(0), Some(7), Some(i64::MAX)];
    let mut all = vec![EnqueueOpts::default()];
    for value in values {
        let none = EnqueueOpts::default;
        all.extend([
            EnqueueOpts { delay: value, run_at: Some(5), ..none() },
            EnqueueOpts { run_at: value, ..none() },
            EnqueueOpts { priority: value.unwrap_or(0), ..none() },
            EnqueueOpts { max_attempts: value, ..none() },
            EnqueueOpts { expires: value, ..none() },
        ]);
    }
    for (function, queue, defaults) in
        [("alkstore_enqueue", "x", &PLAIN), ("alkstore_outbox_enqueue", "outbox:x", &OUTBOX)]
    {
        let mut enqueue =
            db.prepare(&format!("SELECT {function}('x', 'null', ?1, ?2, ?3, ?4, ?5)")).unwrap();
        for opts in &all {
            let EnqueueOpts { delay, run_at, priority, max_attempts, expires } = opts;
            let numbers = params![delay, run_at, priority, max_attempts, expires];
            enqueue.query_row(numbers, |_| Ok(())).unwrap();
        }
        let stored = jobs(&store, queue).await;
        assert_eq!(stored.len(), all.len());
        for (job, opts) in stored.iter().zip(&all) {
            assert_stamped(job, opts, defaults);
        }
        // What is left out, at each length.
        for n in 0..=5 {
            let nulls = ", NULL".repeat(n);
            get::<i64>(&db, &format!("SELECT {function}('x', 'null'{nulls})"));
        }
        for job in &jobs(&store, queue).await[all.len()..] {
            assert_stamped(job, &EnqueueOpts::default(), defaults);
        }
    }
}

/// A delay is neither cut short nor forgotten: the job is not ready, one that is due is.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_delay_and_attempts() {
    let (_path, store, db) = database();
    get::<i64>(&db, "SELECT alkstore_enqueue('q', '1', 3600)");
    get::<i64>(&db, "SELECT alkstore_enqueue('q', '2', NULL, NULL, NULL, 0)");
    get::<i64>(&db, "SELECT alkstore_enqueue('q', '3', NULL, NULL, NULL, NULL, 0)");
    let queue = store.queue("q", QueueOpts::default()).await.unwrap();
    assert!(queue.claim_one("w").await.unwrap().is_none());
    let low: i64 = get(&db, "SELECT alkstore_enqueue('q', '4', -5, NULL, 1)");
    let high: i64 = get(&db, "SELECT alkstore_enqueue('q', '5', NULL, 9, 2)");
    let claimed = queue.claim_batch("w", 10).await.unwrap();
    assert_eq!(claimed.iter().map(|job| job.job().id).collect::<Vec<_>>(), [high, low]);
}

const TEXTS: &[&str] = &[
    " {\"b\" : 1,\t\"a\": 12345678901234567890123, \"a\": 1.10e+2}\n",
    "\"\\u0000 \\ud83d\\ude00 \u{1f600} ü \u{7f} '' \\\"\"",
    "null",
    "-0.0",
    "[[[]]]",
];

async fn assert_texts_survive(path: &TempDb, encoding: &str) {
    let store = open(path);
    let db = attached(path);
    assert_eq!(get::<String>(&db, "PRAGMA encoding"), encoding);
    for text in TEXTS {
        db.query_row("SELECT alkstore_enqueue('q', ?1)", [text], |_| Ok(())).unwrap();
        db.query_row("SELECT alkstore_publish('s', ?1, ?1)", [text], |_| Ok(())).unwrap();
        db.query_row("SELECT alkstore_notify(?1, ?1)", [text], |_| Ok(())).unwrap();
    }
    let jobs = jobs(&store, "q").await;
    assert_eq!(jobs.len(), TEXTS.len());
    for ((job, event), text) in jobs.iter().zip(events(&store, "s").await).zip(TEXTS) {
        assert_eq!(job.payload, text.as_bytes());
        assert_eq!(
            (event.payload.as_slice(), event.key.as_deref()),
            (text.as_bytes(), Some(*text))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_are_stored_byte_for_byte() {
    let path = TempDb::new();
    assert_texts_survive(&path, "UTF-8").await;

    let path = TempDb::new();
    let wide = Connection::open(&path).unwrap();
    wide.execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a)").unwrap();
    drop(wide);
    assert_texts_survive(&path, "UTF-16le").await;
}

/// What is refused, and a part of why.
const REFUSED: &[(&str, &str)] = &[
    ("alkstore_enqueue()", "alkstore_enqueue: it takes (queue, payload [, delay_s, run_at, pri"),
    ("alkstore_enqueue('q')", "max_attempts, expires_s]), but 1 were given"),
    ("alkstore_enqueue('q', '1', 1, 1, 1, 1, 1, 1)", "but 8 were given"),
    ("alkstore_notify()", "alkstore_notify: it takes (channel [, payload]), but 0 were given"),
    ("alkstore_save_offset('s', 'r')", "it takes (stream, consumer, offset), but 2 were given"),
    ("alkstore_enqueue(NULL, '1')", "alkstore_enqueue: queue must be text, not NULL"),
    ("alkstore_enqueue(7, '1')", "queue must be text, not an integer"),
    ("alkstore_enqueue('', '1')", "queue: name \"\" is not valid: it is empty"),
    ("alkstore_enqueue(' ', '1')", "is not valid: it is empty"),
    ("alkstore_enqueue('__alkstore_x', '1')", "reserved prefix"),
    ("alkstore_enqueue('a' || char(0), '1')", "NUL"),
    ("alkstore_enqueue(CAST(x'ff' AS TEXT), '1')", "queue: invalid utf-8"),
    ("alkstore_enqueue(printf('%.1025c', 'x'), '1')", "longer than 1024 bytes"),
    ("alkstore_outbox_enqueue('__alkstore_x', '1')", "alkstore_outbox_enqueue: outbox: name"),
    ("alkstore_enqueue('q', NULL)", "payload must be JSON text, not NULL"),
    ("alkstore_enqueue('q', 1)", "payload must be JSON text, not an integer"),
    ("alkstore_enqueue('q', x'31')", "payload must be JSON text, not a BLOB"),
    ("alkstore_enqueue('q', '{')", "payload: payload does not encode or decode: EOF"),
    ("alkstore_enqueue('q', '1' || char(0))", "does not encode or decode"),
    ("alkstore_enqueue('q', CAST(x'22ff22' AS TEXT))", "payload: invalid utf-8"),
    ("alkstore_enqueue('q', '1', 1.0)", "delay_s must be an integer, not a floating-point"),
    ("alkstore_enqueue('q', '1', '1')", "delay_s must be an integer, not text"),
    ("alkstore_enqueue('q', '1', 1, x'')", "run_at must be an integer, not a BLOB"),
    ("alkstore_enqueue('q', '1', 1, 1, 'high')", "priority must be an integer"),
    ("alkstore_enqueue('q', '1', 1, 1, 1, 1e300)", "max_attempts must be an integer"),
    ("alkstore_enqueue('q', '1', 1, 1, 1, 1, 9223372036854775808)", "expires_s must be an int"),
    ("alkstore_enqueue('q', '{', 'x')", "delay_s must be"),
    ("alkstore_publish('__alkstore_s', '{', '')", "stream: name"),
    ("alkstore_publish('s', '{', '')", "key: name \"\" is not valid"),
    ("alkstore_publish('s', '1', 5)", "key must be text, not an integer"),
    ("alkstore_publish('s', '[1,]')", "alkstore_publish: payload: "),
    ("alkstore_notify('__alkstore_listener_reconnected__')", "channel: name"),
    ("alkstore_notify('c', 'x')", "alkstore_notify: payload: "),
    ("alkstore_save_offset('s', '', 1)", "consumer: name"),
    ("alkstore_save_offset('', 'r', 1)", "stream: name"),
    ("alkstore_save_offset('s', 'r', NULL)", "offset must be an integer, not NULL"),
    ("alkstore_save_offset('s', 'r', '1')", "offset must be an integer, not text"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_has_done_nothing_and_leaves_the_transaction_usable() {
    let (_path, store, db) = database();
    for begin in ["", "BEGIN", "BEGIN IMMEDIATE"] {
        db.execute_batch(begin).unwrap();
        let changes = db.total_changes();
        for (call, why) in REFUSED {
            let error = refusal(&db, &format!("SELECT {call}")).to_string();
            assert!(error.contains(why), "{call}: {error}");
            assert_eq!(db.is_autocommit(), begin.is_empty(), "{call}");
        }
        assert_eq!(db.total_changes(), changes);
        get::<i64>(&db, "SELECT alkstore_enqueue('q', '1')");
        if !begin.is_empty() {
            db.execute_batch("COMMIT").unwrap();
        }
    }
    let ids: Vec<i64> = jobs(&store, "q").await.iter().map(|job| job.id).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(events(&store, "s").await, []);
}
