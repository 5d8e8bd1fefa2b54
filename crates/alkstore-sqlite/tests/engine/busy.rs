//! A file that somebody else is writing to: what waits, for how long, and what it says.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use alkstore::ops::Inspect;
use alkstore::{BoxedFuture, QueueOpts, Store, TxHandle};
use alkstore_sqlite::{SqliteOpts, SqliteStore};
use alkstore_testkit::{Parent, TempDb, roles};
use futures_util::FutureExt;
use rusqlite::TransactionBehavior;
use serde_json::json;

use crate::{SOON, block_on, eventually, foreign, normal, number, open, said, soon};

fn patient_for(db: &TempDb, busy_timeout: Duration) -> SqliteStore {
    SqliteStore::open(db, SqliteOpts { busy_timeout, ..normal() }).unwrap()
}

/// Long enough to be told from at once.
const WHILE: Duration = Duration::from_millis(200);
/// Longer than anything here may take.
const LONG: Duration = Duration::from_secs(3_600);

/// Holds the file's write lock on a connection of its own.
struct Holder {
    release: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Holder {
    fn new(db: &TempDb) -> Self {
        let mut connection = foreign(db);
        connection.busy_timeout(SOON).unwrap();
        let (release, released) = mpsc::channel();
        let (hold, holds) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            hold.send(()).unwrap();
            let _ = released.recv();
            tx.commit().unwrap();
        });
        holds.recv_timeout(SOON).unwrap();
        Self { release, thread }
    }

    fn release(self) {
        drop(self.release);
        self.thread.join().unwrap();
    }
}

/// Whether a call has an answer after it was given some time.
async fn is_done(future: &mut (impl Future + Unpin), time: Duration) -> bool {
    tokio::time::timeout(time, future).await.is_ok()
}

/// Polls a call once, which is when it takes its place.
async fn is_begun_and_done(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|cx| Poll::Ready(pin!(&mut *future).poll(cx))).await.is_ready()
}

/// Checks the error of a call that waited for so long.
fn assert_busy(error: &alkstore::Error, since: Instant, says: &[&str]) {
    let waited = since.elapsed();
    assert!((WHILE..SOON).contains(&waited), "{waited:?}");
    assert!(error.is_transient(), "{error:?}");
    for part in says {
        assert!(said(error).contains(part), "{part:?} in {}", said(error));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_beside_an_own_open_transaction_errs_in_time_and_says_why() {
    let db = TempDb::new();
    let store = patient_for(&db, WHILE);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let opened = Instant::now();
    let mut tx = store.begin().await.unwrap();
    tx.publish_tx("events", json!(1)).await.unwrap();
    let says = ["transaction of this store", "has been open for", "`_tx` methods", "take locks"];

    let since = Instant::now();
    let plain = queue.enqueue(json!(1), Default::default()).await;
    assert_busy(&plain.unwrap_err(), since, &says);
    let since = Instant::now();
    let lock = store.try_lock("lock", "me", 60).await;
    assert_busy(&lock.err().unwrap(), since, &says);
    let since = Instant::now();
    let closure = store.write(|tx| tx.publish("events", json!(2))).await;
    assert_busy(&closure.unwrap_err(), since, &says);
    let since = Instant::now();
    let mut second = store.begin().await.unwrap();
    let step = second.publish_tx("events", json!(3)).await;
    assert_busy(&step.unwrap_err(), since, &says);
    let since = Instant::now();
    let error = queue.claim_one("me").await.err().unwrap();
    assert_busy(&error, since, &says);
    let age = said(&error);
    let age = age.split("open for ").nth(1).unwrap().split_once("s:").unwrap().0;
    let age = match age.strip_suffix('m') {
        Some(age) => age.parse::<f64>().unwrap() / 1_000.0,
        None => age.parse::<f64>().unwrap(),
    };
    let range = 4.0 * WHILE.as_secs_f64()..=opened.elapsed().as_secs_f64();
    assert!(range.contains(&age), "{age} in {range:?}");

    // The transaction is as good as before, and afterwards so is the other one.
    tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
    Box::new(tx).commit().await.unwrap();
    second.publish_tx("events", json!(4)).await.unwrap();
    Box::new(second).commit().await.unwrap();
    let events = store.stream("events").await.unwrap().read_since(0, 10).await.unwrap();
    let payloads: Vec<_> = events.iter().map(|event| event.payload.as_slice()).collect();
    assert_eq!(payloads, [b"1", b"4"]);
    assert!(queue.claim_one("me").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_a_transaction_are_served_in_order() {
    let db = TempDb::new();
    let store = open(&db);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.publish_tx("events", json!("first")).await.unwrap();
    let mut calls = Vec::new();
    for i in 0..30 {
        let (store, queue) = (&store, &queue);
        let mut call = Box::pin(async move {
            match i % 3 {
                0 => queue.enqueue(json!(i), Default::default()).await.unwrap(),
                1 => {
                    let mut tx = store.begin().await.unwrap();
                    let id = tx.enqueue_tx("jobs", Default::default(), json!(i)).await.unwrap();
                    Box::new(tx).commit().await.unwrap();
                    id
                }
                _ => {
                    let enqueue =
                        store.write(move |tx| tx.enqueue("jobs", Default::default(), json!(i)));
                    enqueue.await.unwrap()
                }
            }
        });
        assert!(!is_begun_and_done(&mut call).await);
        calls.push(call);
    }
    Box::new(tx).commit().await.unwrap();
    let ids = soon(futures_util::future::join_all(calls)).await;
    assert!(ids.is_sorted(), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_writer_is_waited_for() {
    let db = TempDb::new();
    let store = patient_for(&db, LONG);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let holder = Holder::new(&db);
    let mut plain = queue.enqueue(json!(1), Default::default());
    assert!(!is_done(&mut plain, WHILE).await);
    holder.release();
    soon(plain).await.unwrap();

    let holder = Holder::new(&db);
    let mut tx = store.begin().await.unwrap();
    {
        let mut step = pin!(tx.enqueue_tx("jobs", Default::default(), json!(2)));
        assert!(!is_done(&mut step, WHILE).await);
        holder.release();
        soon(step).await.unwrap();
    }
    Box::new(tx).commit().await.unwrap();
    assert_eq!(queue.claim_batch("me", 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_writer_that_takes_too_long_is_an_error_and_then_forgotten() {
    let db = TempDb::new();
    let store = patient_for(&db, WHILE);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let holder = Holder::new(&db);
    let says = ["another process's write transaction", "busy_timeout", "database is locked"];
    let since = Instant::now();
    // Waiting together takes no longer than waiting alone.
    let calls = (0..20).map(|i| queue.enqueue(json!(i), Default::default()));
    for error in futures_util::future::join_all(calls).await {
        assert_busy(&error.unwrap_err(), since, &says);
    }
    assert!(since.elapsed() < 10 * WHILE, "{:?}", since.elapsed());
    let mut tx = store.begin().await.unwrap();
    let since = Instant::now();
    assert_busy(&tx.publish_tx("events", json!(1)).await.unwrap_err(), since, &says);
    let since = Instant::now();
    let closure = store.write(|tx| tx.publish("events", json!(1)));
    assert_busy(&closure.await.unwrap_err(), since, &says);
    holder.release();

    queue.enqueue(json!(1), Default::default()).await.unwrap();
    tx.publish_tx("events", json!(2)).await.unwrap();
    Box::new(tx).commit().await.unwrap();
    assert_eq!(queue.claim_batch("me", 100).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_takes_no_write_lock() {
    let db = TempDb::new();
    let first = patient_for(&db, LONG);
    let mut tx = first.begin().await.unwrap();
    tx.publish_tx("events", json!(1)).await.unwrap();
    let path = db.path().to_owned();
    let opts = SqliteOpts { busy_timeout: LONG, ..normal() };
    let opening = std::thread::spawn(move || SqliteStore::open(path, opts).unwrap());
    eventually("the second store is open", async || opening.is_finished()).await;
    let second = opening.join().unwrap();
    let events = second.stream("events").await.unwrap();
    assert_eq!(events.read_since(0, 10).await.unwrap().len(), 0);
    let waiting = events.publish(json!(2));
    Box::new(tx).commit().await.unwrap();
    soon(waiting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_keeps_for_himself_is_an_error_in_time() {
    let db = TempDb::new();
    soon(open(&db).close()).await;
    let keeper = foreign(&db);
    keeper.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT").unwrap();
    let since = Instant::now();
    let opts = SqliteOpts { busy_timeout: WHILE, ..normal() };
    let error = SqliteStore::open(&db, opts).unwrap_err();
    assert_busy(&error, since, &["cannot open", "test.db", "database is locked"]);
    drop(keeper);
    open(&db);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_waits_for_its_own_writer_gets_an_error() {
    let db = TempDb::new();
    let store = open(&db);
    let inner = store.clone();
    let says = "runs this closure: use the closure's own methods";
    let write = store.write(move |tx| {
        let nested = inner.write(|tx| tx.publish("events", json!("nested")));
        let nested = nested.now_or_never().expect("an answer at once");
        assert!(said(&nested.unwrap_err()).contains(says));
        let step = async {
            let mut tx = inner.begin().await?;
            tx.publish_tx("events", json!("nested")).await
        };
        let nested = step.now_or_never().expect("an answer at once");
        assert!(said(&nested.unwrap_err()).contains(says));
        tx.publish("events", json!("outer"))
    });
    soon(write).await.unwrap();
    let events = store.stream("events").await.unwrap();
    assert_eq!(events.read_since(0, 10).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_go_on_whoever_writes() {
    let db = TempDb::new();
    let store = patient_for(&db, LONG);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.publish_tx("events", json!(1)).await.unwrap();
    let reads = || async {
        assert!(soon(queue.get_job(id)).await.unwrap().is_some());
        let events = store.stream("events").await.unwrap();
        assert_eq!(soon(events.read_since(0, 10)).await.unwrap().len(), 0);
        assert_eq!(soon(events.get_offset("reader")).await.unwrap(), 0);
        assert_eq!(soon(store.queues()).await.unwrap().len(), 1);
        assert!(soon(queue.wait_ready(LONG)).await.unwrap());
        assert!(soon(events.subscribe("reader")).await.unwrap().try_recv().unwrap().is_none());
        assert!(soon(store.listen("channel")).await.unwrap().try_recv().unwrap().is_none());
    };
    reads().await;
    drop(tx);
    let holder = Holder::new(&db);
    reads().await;
    holder.release();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_nobody() {
    let db = TempDb::new();
    for how in ["close", "drop"] {
        let store = patient_for(&db, LONG);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        let holder = Holder::new(&db);
        let mut tx = store.begin().await.unwrap();
        let (mut plain, mut step) =
            (queue.enqueue(json!(1), Default::default()), tx.publish_tx("events", json!(1)));
        assert!(!is_begun_and_done(&mut plain).await && !is_begun_and_done(&mut step).await);
        if how == "close" {
            soon(store.close()).await
        } else {
            drop(store)
        }
        assert!(soon(plain).await.is_err());
        assert!(soon(step).await.is_err());
        holder.release();
        assert!(open(&db).queues().await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_an_open_transaction_and_those_that_wait_for_it() {
    let db = TempDb::new();
    let store = patient_for(&db, LONG);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.enqueue_tx("jobs", Default::default(), json!("gone")).await.unwrap();
    let mut waiting = queue.enqueue(json!("kept"), Default::default());
    assert!(!is_begun_and_done(&mut waiting).await);
    soon(store.close()).await;
    // What was accepted before the close is done or refused, and its answer is true.
    let kept = soon(waiting).await.is_ok();
    assert!(tx.get_job_tx("jobs", 1).await.is_err());
    let jobs = open(&db).jobs("jobs", None, None, 10).await.unwrap();
    let payloads: Vec<_> = jobs.iter().map(|job| job.payload.as_slice()).collect();
    assert_eq!(payloads, if kept { vec![b"\"kept\""] } else { vec![] });
}

type Load = fn(SqliteStore) -> BoxedFuture<'static, ()>;

/// Writes without an end.
const LOADS: [(&str, Load); 3] = [
    ("enqueues", |store| {
        Box::pin(async move {
            let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
            loop {
                queue.enqueue(json!(1), Default::default()).await.unwrap();
            }
        })
    }),
    ("transactions", |store| {
        Box::pin(async move {
            loop {
                let mut tx = store.begin().await.unwrap();
                tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
                Box::new(tx).commit().await.unwrap();
            }
        })
    }),
    ("closures", |store| {
        Box::pin(async move {
            loop {
                let write = store.write(|tx| {
                    for _ in 0..100 {
                        tx.enqueue("jobs", Default::default(), json!(1))?;
                    }
                    Ok(())
                });
                write.await.unwrap();
            }
        })
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_store_under_load_lets_others_write() {
    for (kind, load) in LOADS {
        let db = TempDb::new();
        let store = open(&db);
        let load: Vec<_> = (0..16).map(|_| tokio::spawn(load(store.clone()))).collect();
        let jobs = || number(&db, "SELECT count(*) FROM __alkstore_job");
        eventually("the load", async || jobs() > 100).await;
        let path = db.path().to_owned();
        let others = std::thread::spawn(move || others_writes(&path));
        eventually("the others' writes", async || others.is_finished()).await;
        let longest = others.join().unwrap();
        println!("beside {kind}: {longest:?} at most, {} jobs", jobs());
        for task in load {
            task.abort();
        }
    }
}

/// Writes as any program does, with SQLite's own way to wait; returns the longest wait.
fn others_writes(path: &Path) -> Duration {
    let mut connection = foreign(path);
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection.execute_batch("CREATE TABLE business (id INTEGER PRIMARY KEY)").unwrap();
    let mut longest = Duration::ZERO;
    for id in 0..20 {
        let since = Instant::now();
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("INSERT INTO business VALUES (?1)", [id]).unwrap();
        tx.commit().unwrap();
        longest = longest.max(since.elapsed());
    }
    longest
}

#[tokio::test(flavor = "multi_thread")]
async fn no_patience_at_all_is_fine() {
    fn idle_in_a_transaction(parent: Parent) {
        block_on(async {
            let opts = SqliteOpts { busy_timeout: Duration::ZERO, ..normal() };
            let store = SqliteStore::open(&parent.args()[0], opts).unwrap();
            let mut tx = store.begin().await.unwrap();
            tx.publish_tx("events", json!(1)).await.unwrap();
            let before = cpu_ticks();
            assert!(!parent.heard_within(Duration::from_secs(1)));
            let spent = cpu_ticks() - before;
            // A tick is 10 ms.
            assert!(spent < 20, "{spent} ticks in a second of doing nothing");
            let refused = store.notify("channel", json!(1)).await.unwrap_err();
            assert!(refused.is_transient());
            Box::new(tx).commit().await.unwrap();
            store.notify("channel", json!(1)).await.unwrap();
        });
    }
    let roles = roles! { idle_in_a_transaction };
    let db = TempDb::new();
    roles.spawn("idle_in_a_transaction", &[&db]).finish(SOON);
}

/// Processor time of this process.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name, which may hold spaces, ends with the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_without_end_is_fine() {
    let db = TempDb::new();
    let store = patient_for(&db, Duration::MAX);
    let mut tx = store.begin().await.unwrap();
    tx.publish_tx("events", json!(1)).await.unwrap();
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut waiting = queue.enqueue(json!(1), Default::default());
    assert!(!is_done(&mut waiting, WHILE).await);
    Box::new(tx).commit().await.unwrap();
    soon(waiting).await.unwrap();
    let holder = Holder::new(&db);
    let mut waiting = queue.enqueue(json!(1), Default::default());
    assert!(!is_done(&mut waiting, WHILE).await);
    holder.release();
    soon(waiting).await.unwrap();
}
