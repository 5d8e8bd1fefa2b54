//! Wakes from commits of others: seen with file events and by polling, cheap when idle, and never
//! silently gone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use alkstore::{Error, Store};
use alkstore_sqlite::{SqliteOpts, SqliteStore};
use alkstore_testkit::{Parent, TempDb, roles};
use serde_json::json;

const SOON: Duration = Duration::from_secs(10);

fn open(path: impl AsRef<Path>, file_events: bool) -> SqliteStore {
    SqliteStore::open(path, SqliteOpts { file_events, ..Default::default() }).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Notifies and publishes once for each line that it hears, and says when it has committed.
fn writer(parent: Parent) {
    let store = open(&parent.args()[0], true);
    runtime().block_on(async {
        let stream = store.stream("s").await.unwrap();
        parent.tell("ready");
        while parent.hear() != "end" {
            store.notify("c", json!(null)).await.unwrap();
            stream.publish(json!(1)).await.unwrap();
            parent.tell("committed");
        }
    });
}

#[test]
fn commits_of_another_process_wake_soon() {
    let roles = roles! { writer };
    for file_events in [true, false] {
        let db = TempDb::new();
        let store = open(&db, file_events);
        let mut child = roles.spawn("writer", &[&db]);
        assert_eq!(child.hear(SOON), "ready");
        runtime().block_on(async {
            let mut wakes = store.listen("c").await.unwrap();
            let mut events = store.stream("s").await.unwrap().subscribe("r").await.unwrap();
            let mut latencies = Vec::new();
            for _ in 0..20 {
                child.tell("go");
                assert_eq!(child.hear(SOON), "committed");
                let committed = Instant::now();
                assert!(wakes.recv_timeout(SOON).await.unwrap().is_some());
                tokio::time::timeout(SOON, events.recv()).await.unwrap().unwrap().unwrap();
                latencies.push(committed.elapsed());
            }
            latencies.sort();
            let median = latencies[latencies.len() / 2];
            assert!(median < Duration::from_millis(50), "events: {file_events}: {latencies:?}");
        });
        child.tell("end");
        child.wait(SOON);
    }
}

/// Voluntary context switches and nanoseconds on a processor of all threads of this process.
#[cfg(target_os = "linux")]
fn cost() -> (u64, u64) {
    let mut cost = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        // A thread may end meanwhile.
        let read = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let number = |text: Option<&str>| text.map_or(0, |text| text.parse::<u64>().unwrap());
        let status = read("status");
        let switches =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        cost.0 += number(switches.map(str::trim));
        cost.1 += number(read("schedstat").split_whitespace().next());
    }
    cost
}

/// Idles with a hundred listeners and a worker that waits, and tells what that cost.
#[cfg(target_os = "linux")]
fn idler(parent: Parent) {
    let store = open(&parent.args()[0], true);
    runtime().block_on(async {
        let queue = store.queue("q", Default::default()).await.unwrap();
        tokio::spawn(async move { queue.wait_ready(Duration::from_secs(600)).await });
        let mut wakes = Vec::new();
        for i in 0..100 {
            wakes.push(store.listen(&format!("c{i}")).await.unwrap());
        }
        // The attention that follows the opening passes first.
        assert!(wakes[0].recv_timeout(Duration::from_millis(500)).await.unwrap().is_none());
        let before = cost();
        assert!(wakes[0].recv_timeout(Duration::from_secs(5)).await.unwrap().is_none());
        let after = cost();
        parent.tell(&format!("{} {}", after.0 - before.0, after.1 - before.1));

        store.notify("c7", json!(null)).await.unwrap();
        assert!(wakes[7].recv_timeout(SOON).await.unwrap().is_some());
    });
}

/// In five seconds: ten wake-ups per second and 0.1 % of a processor at most.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_store_costs_next_to_nothing() {
    let roles = roles! { idler };
    let db = TempDb::new();
    let mut child = roles.spawn("idler", &[&db]);
    let told = child.hear(Duration::from_secs(30));
    let numbers: Vec<u64> = told.split(' ').map(|number| number.parse().unwrap()).collect();
    assert!(numbers[0] <= 50 && numbers[1] <= 5_000_000, "{told}: wake-ups, nanoseconds");
    child.finish(SOON);
}

#[test]
fn if_the_watcher_ends_receivers_close_and_the_next_one_starts_another() {
    let db = TempDb::new();
    let store = open(&db, true);
    runtime().block_on(async {
        let mut wakes = store.listen("c").await.unwrap();
        let mut events = store.stream("s").await.unwrap().subscribe("r").await.unwrap();

        // A table that is gone is a failure that the watcher cannot work around.
        let rename = |from: &str, to: &str| {
            let other = rusqlite::Connection::open(&db).unwrap();
            other.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
        };
        rename("__alkstore_notification", "away");
        assert!(tokio::time::timeout(SOON, wakes.recv()).await.unwrap().is_none());
        assert!(tokio::time::timeout(SOON, events.recv()).await.unwrap().is_none());
        assert!(matches!(wakes.try_recv(), Err(Error::Closed)));

        rename("away", "__alkstore_notification");
        let mut wakes = store.listen("c").await.unwrap();
        let other = open(&db, true);
        other.notify("c", json!(null)).await.unwrap();
        assert!(wakes.recv_timeout(SOON).await.unwrap().is_some());
    });
}

#[test]
fn a_file_that_is_replaced_closes_receivers_and_refuses_calls() {
    for file_events in [true, false] {
        for put_another in [true, false] {
            let db = TempDb::new();
            let store = open(&db, file_events);
            runtime().block_on(async {
                let queue = store.queue("q", Default::default()).await.unwrap();
                let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
                let mut wakes = store.listen("c").await.unwrap();
                let mut tx = store.begin().await.unwrap();

                let away = db.path().with_extension("away");
                std::fs::rename(&db, &away).unwrap();
                if put_another {
                    std::fs::copy(&away, &db).unwrap();
                }
                assert!(tokio::time::timeout(SOON, wakes.recv()).await.unwrap().is_none());
                let refused = [
                    queue.enqueue(json!(2), Default::default()).await.map(drop),
                    queue.get_job(id).await.map(drop),
                    store.listen("c").await.map(drop),
                    tx.run(|db| db.execute_batch("CREATE TABLE t (x)")).await,
                    store.begin().await.map(drop),
                ];
                for refused in refused {
                    let error = refused.unwrap_err();
                    let cause = std::error::Error::source(&error).unwrap().to_string();
                    assert!(cause.contains("deleted or replaced"), "{cause}");
                }
                drop(tx);
                tokio::time::timeout(SOON, store.close()).await.unwrap();
            });
        }
    }
}
