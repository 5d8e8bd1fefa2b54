//! No committed event is ever skipped, whatever transactions are in flight.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alkstore::TxHandle;
use serde_json::json;
use tokio::sync::watch;

use super::{all, offsets};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open};

async fn pause(random: &mut fastrand::Rng) {
    if random.bool() {
        tokio::time::sleep(Duration::from_micros(random.u64(..2_000))).await;
    } else {
        for _ in 0..random.u8(..4) {
            tokio::task::yield_now().await;
        }
    }
}

async fn end(tx: Box<dyn TxHandle>, random: &mut fastrand::Rng) -> bool {
    match random.u8(..5) {
        0 => tx.rollback().await.unwrap(),
        1 => drop(tx),
        _ => {
            tx.commit().await.unwrap();
            return true;
        }
    }
    false
}

/// Publishes by transactions of random length and end, and returns the committed offsets.
async fn publishes(store: Opened, seed: u64) -> Vec<i64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut committed = Vec::new();
    for n in 0..30 {
        if random.u8(..4) == 0 {
            let stream = store.stream("s").await.unwrap();
            committed.push(stream.publish(json!(n)).await.unwrap());
            continue;
        }
        let mut tx = store.begin_tx().await.unwrap();
        let mut given = Vec::new();
        for _ in 0..random.u8(1..4) {
            pause(&mut random).await;
            let key = random.bool().then(|| "k".to_owned());
            given.push(tx.publish_with_key_tx("s", key, json!(n)).await.unwrap());
        }
        pause(&mut random).await;
        if end(tx, &mut random).await {
            committed.extend(given);
        }
    }
    committed
}

/// Reads from its checkpoint and saves it, and returns the offsets until all is quiet.
async fn follows(store: Opened, consumer: &'static str, done: watch::Receiver<bool>) -> Vec<i64> {
    let stream = store.stream("s").await.unwrap();
    let mut seen = Vec::new();
    loop {
        let last = *done.borrow();
        let events = stream.read_from_consumer(consumer, 7).await.unwrap();
        if let Some(event) = events.last() {
            stream.save_offset(consumer, event.offset).await.unwrap();
        } else if last {
            return seen;
        }
        seen.extend(offsets(&events));
        tokio::task::yield_now().await;
    }
}

/// Receives until the given number of events came.
async fn receives(store: Opened, total: watch::Receiver<usize>) -> Vec<i64> {
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("receiver").await.unwrap();
    let mut seen = Vec::new();
    while seen.len() != *total.borrow() {
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(50), events.recv()).await {
            seen.push(event.unwrap().unwrap().offset);
        }
    }
    seen
}

/// Readers that checkpoint all the time see every committed event, once and in order.
async fn no_committed_event_is_ever_skipped(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let (done, is_done) = watch::channel(false);
    let (total, totals) = watch::channel(usize::MAX);
    let followers = [
        tokio::spawn(follows(store.clone(), "here", is_done.clone())),
        tokio::spawn(follows(other.clone(), "there", is_done)),
    ];
    let receivers = [
        tokio::spawn(receives(store.clone(), totals.clone())),
        tokio::spawn(receives(other.clone(), totals)),
    ];
    let seed = fastrand::u64(..);
    let mut publishers = Vec::new();
    for n in 0..4 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        publishers.push(tokio::spawn(publishes(store, seed.wrapping_add(n))));
    }
    let mut committed = BTreeSet::new();
    for publisher in publishers {
        committed.extend(publisher.await.unwrap());
    }
    done.send_replace(true);
    total.send_replace(committed.len());
    let committed: Vec<i64> = committed.into_iter().collect();
    for reader in followers.into_iter().chain(receivers) {
        assert_eq!(reader.await.unwrap(), committed, "seed {seed}");
    }
    assert_eq!(offsets(&all(&*store.stream("s").await.unwrap()).await), committed);
}

/// Two transactions that publish to two streams in opposite orders may wait but do not hang.
async fn opposite_publish_orders_do_not_hang(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for round in 0..8 {
        let orders = [(store.clone(), ["s", "t"]), (other.clone(), ["t", "s"])];
        let tasks = orders.map(|(store, order)| {
            tokio::spawn(async move {
                let mut tx = store.begin_tx().await.unwrap();
                for stream in order {
                    tx.publish_tx(stream, json!(1)).await.unwrap();
                    for _ in 0..round * 10 {
                        tokio::task::yield_now().await;
                    }
                }
                tx.commit().await.unwrap();
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    }
    for name in ["s", "t"] {
        assert_eq!(all(&*store.stream(name).await.unwrap()).await.len(), 16);
    }
}

/// A transaction that ends, however it does, holds up no event behind it.
async fn an_ended_transaction_holds_up_nobody(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let stream = store.stream("s").await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    for how in ["commit", "rollback", "drop"] {
        let mut tx = store.begin_tx().await.unwrap();
        let own = tx.publish_tx("s", json!(how)).await.unwrap();
        let publisher = other.clone();
        let publishing = tokio::spawn(async move {
            publisher.stream("s").await.unwrap().publish(json!("behind")).await.unwrap()
        });
        let mut receiving = events.recv();
        let wait = Duration::from_millis(50);
        assert!(tokio::time::timeout(wait, &mut receiving).await.is_err(), "before the {how}");
        match how {
            "commit" => tx.commit().await.unwrap(),
            "rollback" => tx.rollback().await.unwrap(),
            _ => drop(tx),
        }
        let soon = Duration::from_secs(5);
        let mut event = tokio::time::timeout(soon, receiving).await.expect(how);
        if how == "commit" {
            assert_eq!(event.unwrap().unwrap().offset, own);
            event = tokio::time::timeout(soon, events.recv()).await.expect(how);
        }
        assert_eq!(event.unwrap().unwrap().offset, publishing.await.unwrap());
    }
}

/// Whoever sees the later part of a transaction sees the earlier part, in every stream.
async fn a_commit_is_seen_as_a_whole(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let writer = tokio::spawn(async move {
        for n in 0..60 {
            let mut tx = other.begin_tx().await.unwrap();
            tx.publish_tx("first", json!(n)).await.unwrap();
            tx.enqueue_tx("jobs", Default::default(), json!(n)).await.unwrap();
            tx.publish_tx("last", json!(n)).await.unwrap();
            tx.save_offset_tx("last", "c", n + 1).await.unwrap();
            tx.commit().await.unwrap();
        }
    });
    let first = store.stream("first").await.unwrap();
    let last = store.stream("last").await.unwrap();
    while !writer.is_finished() {
        // What is read first must not be ahead of what is read afterwards.
        let saved = last.get_offset("c").await.unwrap();
        let late = all(&*last).await.len();
        let jobs = store.jobs("jobs", None, None, i64::MAX).await.unwrap().len();
        let early = all(&*first).await.len();
        assert!(usize::try_from(saved).unwrap() <= late, "{saved} {late}");
        assert!(late <= jobs && jobs <= early, "{late} {jobs} {early}");
    }
    writer.await.unwrap();
    assert_eq!(all(&*first).await.len(), 60);
}

cases!("stream":
    no_committed_event_is_ever_skipped,
    opposite_publish_orders_do_not_hang,
    an_ended_transaction_holds_up_nobody,
    a_commit_is_seen_as_a_whole,
);
