//! Publishers on attached connections among those of stores: whoever follows misses nothing.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use alkstore::{Error, Store, TxHandle};
use alkstore_sqlite::SqliteStore;
use alkstore_testkit::{TempDb, rounds};
use fastrand::Rng;
use rusqlite::Connection;
use serde_json::json;

use crate::{attached, count, events, get, open};

const STREAM: &str = "s";
const PUBLISH: &str = "SELECT alkstore_publish('s', '1')";

/// Offsets of events, and ids of jobs, whose transactions were committed.
#[derive(Clone, Default)]
struct Committed(Arc<Mutex<(Vec<i64>, Vec<i64>)>>);

impl Committed {
    fn add(&self, offsets: &[i64], jobs: &[i64]) {
        let mut committed = self.0.lock().unwrap();
        committed.0.extend(offsets);
        committed.1.extend(jobs);
    }

    fn take(&self) -> (Vec<i64>, Vec<i64>) {
        let mut committed = std::mem::take(&mut *self.0.lock().unwrap());
        committed.0.sort_unstable();
        committed.1.sort_unstable();
        committed
    }
}

/// Lets others run in between, mostly.
fn pause(rng: &mut Rng) {
    if rng.u8(..4) > 0 {
        thread::park_timeout(Duration::from_micros(rng.u64(..1_500)));
    }
}

fn publish_by_sql(db: &Connection, rng: &mut Rng, committed: &Committed) {
    let (mut offsets, mut jobs) = (Vec::new(), Vec::new());
    if rng.bool() {
        // By itself, alone or in a statement that writes.
        let insert = "INSERT INTO business (note) VALUES (alkstore_publish('s', '1'))
                      RETURNING CAST(note AS INTEGER)";
        offsets.push(get(db, if rng.bool() { PUBLISH } else { insert }));
        committed.add(&offsets, &[]);
        return;
    }
    db.execute_batch(if rng.bool() { "BEGIN" } else { "BEGIN IMMEDIATE" }).unwrap();
    for _ in 0..rng.u8(1..4) {
        offsets.push(get(db, PUBLISH));
        pause(rng);
        if rng.u8(..4) == 0 {
            db.execute_batch("SAVEPOINT a").unwrap();
            get::<i64>(db, PUBLISH);
            db.execute_batch("ROLLBACK TO a").unwrap();
        }
        jobs.push(get(db, "SELECT alkstore_enqueue('q', '1')"));
    }
    if rng.u8(..4) == 0 {
        db.execute_batch("ROLLBACK").unwrap();
    } else {
        db.execute_batch("COMMIT").unwrap();
        committed.add(&offsets, &jobs);
    }
}

async fn publish_by_store(store: &SqliteStore, rng: &mut Rng, committed: &Committed) {
    if rng.bool() {
        let keep = rng.u8(..4) > 0;
        let written = store.write(move |tx| {
            let offset = tx.publish(STREAM, json!(1))?;
            let called = tx.run(|db| db.query_row(PUBLISH, [], |row| row.get(0)))?;
            let job = tx.enqueue("q", Default::default(), json!(1))?;
            if keep { Ok((offset, called, job)) } else { Err(Error::other("on purpose")) }
        });
        if let Ok((offset, called, job)) = written.await {
            committed.add(&[offset, called], &[job]);
        }
        return;
    }
    let mut tx = store.begin().await.unwrap();
    let (mut offsets, mut jobs) = (Vec::new(), Vec::new());
    for _ in 0..rng.u8(1..4) {
        offsets.push(tx.publish_tx(STREAM, json!(1)).await.unwrap());
        pause(rng);
        jobs.push(tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap());
    }
    if rng.u8(..4) == 0 {
        Box::new(tx).rollback().await.unwrap();
    } else {
        Box::new(tx).commit().await.unwrap();
        committed.add(&offsets, &jobs);
    }
}

/// Reads on from its checkpoint, as a consumer does that is started again and again.
async fn follow(store: &SqliteStore, ended: &AtomicBool) -> Vec<i64> {
    let stream = store.stream(STREAM).await.unwrap();
    let mut followed = Vec::new();
    loop {
        // What was committed before the end is read after it.
        let last = ended.load(Ordering::Acquire);
        let events = stream.read_from_consumer("follower", 100).await.unwrap();
        followed.extend(events.iter().map(|event| event.offset));
        match followed.last() {
            Some(offset) if !events.is_empty() => {
                stream.save_offset("follower", *offset).await.unwrap();
            }
            _ if last => return followed,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[test]
fn a_follower_misses_nothing_of_stores_and_attached_connections() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let path = TempDb::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let observer = open(&path);
    let schema = "CREATE TABLE business (id INTEGER PRIMARY KEY, note TEXT)";
    attached(&path).execute_batch(schema).unwrap();
    let (committed, ended) = (Committed::default(), Arc::new(AtomicBool::new(false)));
    let following = runtime.spawn({
        let (store, ended) = (observer.clone(), ended.clone());
        async move { follow(&store, &ended).await }
    });
    thread::scope(|threads| {
        for publisher in 0..4 {
            let (path, runtime, committed) = (&path, &runtime, committed.clone());
            let mut rng = Rng::with_seed(seed.wrapping_add(publisher));
            threads.spawn(move || {
                let store = (publisher % 2 == 0).then(|| open(path));
                let db = attached(path);
                for _ in 0..rounds(120) {
                    match &store {
                        Some(store) => {
                            runtime.block_on(publish_by_store(store, &mut rng, &committed));
                        }
                        None => publish_by_sql(&db, &mut rng, &committed),
                    }
                    pause(&mut rng);
                }
            });
        }
    });
    ended.store(true, Ordering::Release);
    let followed = runtime.block_on(following).unwrap();
    let (offsets, jobs) = committed.take();
    assert!(offsets.len() > 200, "{}", offsets.len());
    let stored: Vec<i64> =
        runtime.block_on(events(&observer, STREAM)).iter().map(|event| event.offset).collect();
    assert_eq!(followed, stored, "seed {seed}");
    assert_eq!(offsets, stored, "seed {seed}");
    assert_eq!(jobs.iter().collect::<HashSet<_>>().len(), jobs.len(), "seed {seed}");
    assert_eq!(count(&attached(&path), "__alkstore_job"), jobs.len());
}
