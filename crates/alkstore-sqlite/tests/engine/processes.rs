//! Several processes on one file: all get on, none loses or doubles anything.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use alkstore::{EnqueueOpts, QueueOpts, Store, TxHandle};
use alkstore_sqlite::{Durability, SqliteOpts, SqliteStore};
use alkstore_testkit::{Child, Parent, TempDb, roles, rounds};
use serde_json::json;

use crate::{SOON, assert_sound, block_on, foreign, normal, number, open, soon};

/// What one process has done, by kind.
type Done = BTreeMap<&'static str, i64>;

const TABLES: &str = "
    CREATE TABLE business (id INTEGER PRIMARY KEY, job INTEGER NOT NULL);
    CREATE TABLE held (job INTEGER PRIMARY KEY);
    CREATE TABLE done (job INTEGER PRIMARY KEY);
    CREATE TABLE counter (n INTEGER NOT NULL);
    INSERT INTO counter VALUES (0);";

/// Does everything that a store can do, until it has done so for long enough.
struct Hammer {
    store: SqliteStore,
    done: Done,
}

impl Hammer {
    fn count(&mut self, what: &'static str, n: i64) {
        *self.done.entry(what).or_default() += n;
    }

    async fn plain(&mut self) {
        let queue = self.store.queue("jobs", QueueOpts::default()).await.unwrap();
        queue.enqueue(json!("plain"), Default::default()).await.unwrap();
        self.store.stream("events").await.unwrap().publish(json!(1)).await.unwrap();
        self.store.notify("channel", json!(1)).await.unwrap();
        self.count("jobs", 1);
        self.count("events", 1);
    }

    /// A transaction with a row of its own, which is sometimes given up.
    async fn transaction(&mut self) {
        let mut tx = self.store.begin().await.unwrap();
        let job = tx.enqueue_tx("jobs", Default::default(), json!("tx")).await.unwrap();
        let insert = "INSERT INTO business (job) VALUES (?1)";
        tx.run(move |db| db.execute(insert, [job])).await.unwrap();
        tx.publish_tx("events", json!(job)).await.unwrap();
        tx.notify_tx("channel", json!(job)).await.unwrap();
        match fastrand::u8(..3) {
            0 => Box::new(tx).rollback().await.unwrap(),
            1 => drop(tx),
            _ => {
                Box::new(tx).commit().await.unwrap();
                self.count("jobs", 1);
                self.count("events", 1);
                self.count("rows", 1);
            }
        }
    }

    /// Claims, and has the database refuse what somebody else holds or has done.
    async fn work(&mut self) {
        let queue = self.store.queue("jobs", QueueOpts::default()).await.unwrap();
        let n = if fastrand::bool() { 1 } else { 7 };
        let jobs = queue.claim_batch("worker", n).await.unwrap();
        let ids: Vec<i64> = jobs.iter().map(|job| job.job().id).collect();
        let held = ids.clone();
        let hold = self.store.write(move |tx| {
            tx.run(|db| {
                held.iter()
                    .try_for_each(|id| db.execute("INSERT INTO held VALUES (?1)", [id]).map(|_| ()))
            })
        });
        hold.await.unwrap();
        let retry = fastrand::u8(..4) == 0;
        let let_go = ids.clone();
        let finish = self.store.write(move |tx| {
            tx.run(|db| {
                let_go.iter().try_for_each(|id| {
                    if !retry {
                        db.execute("INSERT INTO done VALUES (?1)", [id])?;
                    }
                    db.execute("DELETE FROM held WHERE job = ?1", [id]).map(|_| ())
                })
            })
        });
        finish.await.unwrap();
        if retry {
            for job in jobs {
                assert!(job.hand_back().await.unwrap());
            }
        } else if n == 1 {
            for job in jobs {
                assert!(job.ack().await.unwrap());
            }
        } else {
            assert_eq!(queue.ack_batch(&ids).await.unwrap(), number_of(&ids));
        }
        self.count(if retry { "handed back" } else { "acked" }, number_of(&ids));
    }

    /// Reads a number and writes it back raised, which only a lock makes safe.
    async fn under_lock(&mut self) {
        let owner = format!("{}-{}", std::process::id(), fastrand::u64(..));
        let Some(lock) = self.store.try_lock("counter", &owner, 60).await.unwrap() else {
            return;
        };
        let read = "SELECT n FROM counter";
        let read =
            self.store.write(move |tx| tx.run(|db| db.query_row(read, [], |row| row.get(0))));
        let n: i64 = read.await.unwrap();
        assert!(lock.renew(60).await.unwrap());
        let raise = "UPDATE counter SET n = ?1";
        self.store.write(move |tx| tx.run(|db| db.execute(raise, [n + 1]))).await.unwrap();
        assert!(lock.release().await.unwrap());
        self.count("raised", 1);
    }

    async fn run(mut self, time: Duration) -> (Done, Duration) {
        let end = Instant::now() + time;
        let mut longest = Duration::ZERO;
        while Instant::now() < end {
            let since = Instant::now();
            match fastrand::u8(..4) {
                0 => self.plain().await,
                1 => self.transaction().await,
                2 => self.work().await,
                _ => self.under_lock().await,
            }
            longest = longest.max(since.elapsed());
            self.count("turns", 1);
        }
        (self.done, longest)
    }
}

fn number_of<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap()
}

fn hammers(parent: Parent) {
    let durability = if parent.args()[1] == "full" { Durability::Full } else { Durability::Normal };
    let time = Duration::from_secs(parent.args()[2].parse().unwrap());
    block_on(async {
        let opts = SqliteOpts { durability, ..normal() };
        let store = SqliteStore::open(&parent.args()[0], opts).unwrap();
        parent.tell("ready");
        let _ = parent.hear();
        let tasks: Vec<_> = (0..2)
            .map(|_| Hammer { store: store.clone(), done: Done::new() })
            .map(|hammer| tokio::spawn(hammer.run(time)))
            .collect();
        let mut done = Done::new();
        for task in tasks {
            let (part, longest) = task.await.unwrap();
            for (what, n) in part {
                *done.entry(what).or_default() += n;
            }
            let longest = i64::try_from(longest.as_millis()).unwrap();
            let most = done.entry("longest_ms").or_default();
            *most = (*most).max(longest);
        }
        parent.tell(&serde_json::to_string(&done).unwrap());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn four_of_them_hammer_one_file() {
    let roles = roles! { hammers };
    let db = TempDb::new();
    foreign(&db).execute_batch(TABLES).unwrap();
    let store = open(&db);
    let seconds = rounds(10).to_string();
    let mut children: Vec<Child> = ["full", "normal", "full", "normal"]
        .iter()
        .map(|durability| roles.spawn("hammers", &[&db, durability, &seconds]))
        .collect();
    let mut events = store.stream("events").await.unwrap().subscribe("follower").await.unwrap();
    for child in &mut children {
        assert_eq!(child.hear(SOON), "ready");
        child.tell("go");
    }
    // Meanwhile this process follows all events, as they come.
    let follower = tokio::spawn(async move {
        let mut offsets = Vec::new();
        loop {
            match tokio::time::timeout(SOON, events.recv()).await {
                Ok(Some(event)) => {
                    let event = event.unwrap();
                    if event.payload == b"\"last\"" {
                        return offsets;
                    }
                    offsets.push(event.offset);
                }
                end => panic!("{end:?} after {} events", offsets.len()),
            }
        }
    });
    let mut total: BTreeMap<String, i64> = BTreeMap::new();
    let mut turns = Vec::new();
    for child in &mut children {
        let done = child.hear(SOON * rounds(1));
        let done: BTreeMap<String, i64> = serde_json::from_str(&done).unwrap();
        println!("{done:?}");
        turns.push(done["turns"]);
        for (what, n) in done {
            *total.entry(what).or_default() += n;
        }
        child.finish(SOON);
    }
    let mean = turns.iter().sum::<i64>() / number_of(&turns);
    assert!(turns.iter().all(|turns| *turns > mean / 10), "somebody starved: {turns:?}");

    let stream = store.stream("events").await.unwrap();
    stream.publish(json!("last")).await.unwrap();
    let followed = soon(follower).await.unwrap();
    assert_eq!(number_of(&followed), total["events"], "none lost, none made up");
    assert!(followed.is_sorted_by(|a, b| a < b), "in order, none twice");
    assert_all_jobs_are_accounted_for(&db, &total);
    assert_eq!(number(&db, "SELECT n FROM counter"), total["raised"]);
    assert_sound(&db);
}

fn assert_all_jobs_are_accounted_for(db: &TempDb, total: &BTreeMap<String, i64>) {
    let live = number(db, "SELECT count(*) FROM __alkstore_job");
    let done = number(db, "SELECT count(*) FROM done");
    assert_eq!(live + done, total["jobs"]);
    assert_eq!(done, total["acked"]);
    assert_eq!(number(db, "SELECT count(*) FROM held"), 0);
    assert_eq!(number(db, "SELECT count(*) FROM business"), total["rows"]);
    let halves = "SELECT count(*) FROM business
                  WHERE job NOT IN (SELECT id FROM __alkstore_job UNION SELECT job FROM done)";
    assert_eq!(number(db, halves), 0);
}

/// Claims until nothing is left, and tells what it got.
fn claims(parent: Parent) {
    block_on(async {
        let store = open(&parent.args()[0]);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        parent.tell("ready");
        let _ = parent.hear();
        let mut got = Vec::new();
        for n in 0.. {
            let jobs = if n % 2 == 0 {
                queue.claim_one("same").await.unwrap().into_iter().collect()
            } else {
                queue.claim_batch("same", 7).await.unwrap()
            };
            if jobs.is_empty() {
                break;
            }
            got.extend(jobs.iter().map(|job| job.job().id.to_string()));
        }
        parent.tell(&got.join(","));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_of_them_claim_each_job_once() {
    let roles = roles! { claims };
    let db = TempDb::new();
    let store = open(&db);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let jobs = (0..10_000)
        .map(|i| (json!(i), EnqueueOpts { priority: i % 5, ..Default::default() }))
        .collect();
    let ids = queue.enqueue_batch(jobs).await.unwrap();
    let mut children: Vec<Child> = (0..8).map(|_| roles.spawn("claims", &[&db])).collect();
    for child in &mut children {
        assert_eq!(child.hear(SOON), "ready");
    }
    for child in &mut children {
        child.tell("go");
    }
    let mut claimed = Vec::new();
    for child in &mut children {
        let got = child.hear(SOON * 2);
        let got: Vec<i64> = got.split(',').filter_map(|id| id.parse().ok()).collect();
        println!("{} claimed", got.len());
        claimed.extend(got);
    }
    let distinct: HashSet<i64> = claimed.iter().copied().collect();
    assert_eq!(distinct.len(), claimed.len(), "some were claimed twice");
    assert_eq!(distinct, ids.into_iter().collect());
}

/// Does one thing each time that it is told, and says when it was committed.
fn wakes(parent: Parent) {
    block_on(async {
        let store = open(&parent.args()[0]);
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        parent.tell("ready");
        loop {
            match parent.hear().as_str() {
                "enqueue" => drop(queue.enqueue(json!(1), Default::default()).await.unwrap()),
                "delayed" => {
                    let opts = EnqueueOpts { delay: Some(1), ..Default::default() };
                    queue.enqueue(json!(1), opts).await.unwrap();
                }
                _ => break,
            }
            parent.tell("committed");
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_work_hears_of_it_from_another() {
    let roles = roles! { wakes };
    let db = TempDb::new();
    let store = open(&db);
    let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
    let mut child = roles.spawn("wakes", &[&db]);
    assert_eq!(child.hear(SOON), "ready");
    let mut took = Vec::new();
    for _ in 0..20 {
        let mut waiting = queue.wait_ready(SOON * 2);
        // It waits before anything is there.
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_err());
        child.tell("enqueue");
        assert_eq!(child.hear(SOON), "committed");
        let committed = Instant::now();
        assert!(soon(waiting).await.unwrap());
        took.push(committed.elapsed());
        assert!(queue.claim_one("me").await.unwrap().unwrap().ack().await.unwrap());
    }
    took.sort();
    assert!(took[took.len() / 2] < Duration::from_millis(50), "{took:?}");

    // A job that is not due yet is waited for just as long as it takes.
    let mut waiting = queue.wait_ready(SOON * 2);
    assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_err());
    let since = Instant::now();
    child.tell("delayed");
    assert_eq!(child.hear(SOON), "committed");
    assert!(soon(waiting).await.unwrap());
    assert!((Duration::from_millis(900)..Duration::from_secs(2)).contains(&since.elapsed()));
    assert!(queue.claim_one("me").await.unwrap().is_some());
}

/// Opens the file when it is told, writes to it and reads what it wrote.
fn opens(parent: Parent) {
    parent.tell("ready");
    let _ = parent.hear();
    block_on(async {
        let store = SqliteStore::open(&parent.args()[0], Default::default()).unwrap();
        let queue = store.queue("jobs", QueueOpts::default()).await.unwrap();
        let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
        assert!(queue.get_job(id).await.unwrap().is_some());
        store.close().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_of_them_open_a_new_file_at_once_and_one_is_killed() {
    let roles = roles! { opens };
    // It is killed once this file is there, which may be never.
    for sign in ["", "-wal", "-shm", "-journal", "-none"] {
        let db = TempDb::new();
        let mut children: Vec<Child> = (0..16).map(|_| roles.spawn("opens", &[&db])).collect();
        for child in &mut children {
            assert_eq!(child.hear(SOON), "ready");
        }
        for child in &mut children {
            child.tell("go");
        }
        let mut victim = children.swap_remove(fastrand::usize(..16));
        let sign = format!("{}{sign}", db.path().display());
        let end = Instant::now() + Duration::from_millis(100);
        while !std::fs::exists(&sign).unwrap() && Instant::now() < end {
            tokio::task::yield_now().await;
        }
        victim.kill();
        for child in &mut children {
            child.finish(SOON);
        }
        let jobs = number(&db, "SELECT count(*) FROM __alkstore_job");
        assert!((15..=16).contains(&jobs), "{jobs}");
        assert_sound(&db);
    }
}
