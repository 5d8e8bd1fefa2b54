//! SIGKILL at any moment: what was not committed is not there, what was is, and nothing is held.

use std::time::{Duration, Instant};

use alkstore::ops::Inspect;
use alkstore::{QueueOpts, Store, TxHandle};
use alkstore_sqlite::SqliteStore;
use alkstore_testkit::{Parent, TempDb, roles, rounds};
use serde_json::json;

use crate::{SOON, assert_sound, block_on, foreign, number, open, soon};

fn database() -> TempDb {
    let db = TempDb::new();
    foreign(&db).execute_batch("CREATE TABLE business (id INTEGER PRIMARY KEY)").unwrap();
    db
}

/// Writes one of everything in a transaction and stays in it.
fn stays_inside(parent: Parent) {
    block_on(async {
        let store = open(&parent.args()[0]);
        let mut tx = store.begin().await.unwrap();
        tx.run(|db| db.execute("INSERT INTO business VALUES (1)", [])).await.unwrap();
        tx.enqueue_tx("jobs", Default::default(), json!(1)).await.unwrap();
        tx.outbox_enqueue_tx("mails", Default::default(), json!(1)).await.unwrap();
        tx.publish_tx("events", json!(1)).await.unwrap();
        tx.notify_tx("channel", json!(1)).await.unwrap();
        tx.save_offset_tx("events", "reader", 1).await.unwrap();
        parent.tell("inside");
        let _ = parent.hear();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_transaction() {
    let roles = roles! { stays_inside };
    for _ in 0..rounds(3) {
        let db = database();
        let store = open(&db);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        let mut wakes = store.listen("channel").await.unwrap();
        let mut child = roles.spawn("stays_inside", &[&db]);
        assert_eq!(child.hear(SOON), "inside");
        let waiting = queue.enqueue(json!("next"), Default::default());
        let (enqueued, took) = tokio::join!(waiting, async {
            child.kill();
            Instant::now()
        });
        let id = enqueued.unwrap();
        assert!(took.elapsed() < Duration::from_secs(1), "{:?}", took.elapsed());

        assert_eq!(number(&db, "SELECT count(*) FROM business"), 0);
        let jobs = queue.claim_batch("me", 10).await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.job().id).collect::<Vec<_>>(), [id]);
        assert_eq!(store.queues().await.unwrap().len(), 1, "no outbox");
        let events = store.stream("events").await.unwrap();
        assert!(events.read_since(0, 10).await.unwrap().is_empty());
        assert_eq!(events.get_offset("reader").await.unwrap(), 0);
        // Our own notification, committed after all that, is the only one.
        store.notify("channel", json!(2)).await.unwrap();
        assert!(soon(wakes.recv()).await.is_some());
        assert!(wakes.try_recv().unwrap().is_none());
        assert_sound(&db);
    }
}

/// Commits without an end, in each way that there is, and tells each id that it was given.
fn commits(parent: Parent) {
    block_on(async {
        let store = SqliteStore::open(&parent.args()[0], Default::default()).unwrap();
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        for n in 0.. {
            let id = match n % 4 {
                0 => {
                    let mut tx = store.begin().await.unwrap();
                    let id = tx.enqueue_tx("jobs", Default::default(), json!("tx")).await.unwrap();
                    let insert = "INSERT INTO business VALUES (?1)";
                    tx.run(move |db| db.execute(insert, [id])).await.unwrap();
                    Box::new(tx).commit().await.unwrap();
                    id
                }
                1 => {
                    let write = store.write(|tx| {
                        let id = tx.enqueue("jobs", Default::default(), json!("closure"))?;
                        let insert = "INSERT INTO business VALUES (?1)";
                        tx.run(|db| db.execute(insert, [id]))?;
                        Ok(id)
                    });
                    write.await.unwrap()
                }
                2 => queue.enqueue(json!("plain"), Default::default()).await.unwrap(),
                _ => {
                    let batch = json!(["batch", std::process::id(), n]);
                    let jobs = vec![(batch, Default::default()); BATCH];
                    *queue.enqueue_batch(jobs).await.unwrap().last().unwrap()
                }
            };
            parent.tell(&id.to_string());
        }
    });
}

const BATCH: usize = 20;

/// Jobs without the row that was written with them, rows without their job, parts of batches.
const HALVES: &str = "
    WITH job (id, payload) AS (SELECT id, CAST(payload AS TEXT) FROM __alkstore_job)
    SELECT
        (SELECT count(*) FROM job
         WHERE payload IN ('\"tx\"', '\"closure\"') AND id NOT IN (SELECT id FROM business))
      + (SELECT count(*) FROM business WHERE id NOT IN (SELECT id FROM job))
      + (SELECT count(*) FROM (
            SELECT 1 FROM job WHERE payload LIKE '[\"batch\"%'
            GROUP BY payload HAVING count(*) != 20))";

#[tokio::test(flavor = "multi_thread")]
async fn right_after_a_commit() {
    let roles = roles! { commits };
    let db = database();
    // Once without another store, whose connections would keep the log from being recovered.
    let mut other = None;
    let mut told = Vec::new();
    for round in 0..rounds(20) {
        let mut child = roles.spawn("commits", &[&db]);
        for _ in 0..fastrand::u32(1..40) {
            told.push(child.hear(SOON).parse::<i64>().unwrap());
        }
        child.kill();
        if round % 5 == 0 {
            other = None;
        } else if other.is_none() {
            other = Some(open(&db));
        }
        assert_sound(&db);
        assert_eq!(number(&db, HALVES), 0);
        let list = told.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let kept = format!("SELECT count(*) FROM __alkstore_job WHERE id IN ({list})");
        assert_eq!(number(&db, &kept), i64::try_from(told.len()).unwrap());
    }
    let ids = told.len();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), ids, "an id was given out twice");
}

/// Claims without an end, with leases of a second, and acks what it got with a row of its own.
fn works(parent: Parent) {
    block_on(async {
        let store = open(&parent.args()[0]);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        loop {
            for job in queue.claim_batch("worker", 3).await.unwrap() {
                let id = job.job().id;
                let insert = "INSERT OR IGNORE INTO business VALUES (?1)";
                store.write(move |tx| tx.run(|db| db.execute(insert, [id]))).await.unwrap();
                if job.ack().await.unwrap() {
                    parent.tell(&id.to_string());
                    // Not more than is heard of may be done, or nothing is left for the next one.
                    let _ = parent.hear();
                }
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_claims() {
    let roles = roles! { works };
    let db = database();
    let store = open(&db);
    let opts = QueueOpts { visibility_timeout_s: 1, max_attempts: 1_000, ..Default::default() };
    let queue = store.queue("jobs", opts).await.unwrap();
    let jobs = i64::from(rounds(300));
    let all = (0..jobs).map(|n| (json!(n), Default::default())).collect();
    let ids = queue.enqueue_batch(all).await.unwrap();
    let mut acked = Vec::new();
    while i64::try_from(acked.len()).unwrap() < jobs / 2 {
        let mut child = roles.spawn("works", &[&db]);
        for _ in 0..fastrand::u32(1..40) {
            if i64::try_from(acked.len()).unwrap() < jobs / 2 {
                acked.push(child.hear(SOON).parse::<i64>().unwrap());
                child.tell("go on");
            }
        }
        child.kill();
    }
    // Whatever the killed ones held comes back after its lease.
    let done = "SELECT count(*) FROM business";
    let mut left = ids.len();
    while left > 0 {
        assert!(soon(queue.wait_ready(SOON)).await.unwrap());
        for job in queue.claim_batch("me", 100).await.unwrap() {
            let id = job.job().id;
            assert!(!acked.contains(&id), "{id} was acked");
            let insert = "INSERT OR IGNORE INTO business VALUES (?1)";
            store.write(move |tx| tx.run(|db| db.execute(insert, [id]))).await.unwrap();
            assert!(job.ack().await.unwrap());
        }
        let live = queue_length(&store).await;
        left = usize::try_from(live).unwrap();
    }
    assert_eq!(number(&db, done), jobs, "each was worked on");
    assert_sound(&db);
}

async fn queue_length(store: &SqliteStore) -> i64 {
    store.queues().await.unwrap().iter().map(|queue| queue.pending + queue.processing).sum()
}
