//! Futures that are dropped midway: whatever was done is whole, and the store goes on.

use std::sync::Arc;

use alkstore::{BoxedFuture, TxHandle};
use serde_json::json;

use super::{fill, seen, works};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open, polled};
use crate::queue::put;

/// A dropped `begin_tx` holds nothing.
async fn a_dropped_begin_holds_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for polls in 1..=20 {
        drop(polled(polls, store.begin_tx()).await);
        works(&store).await;
    }
}

type Operation = fn(&mut dyn TxHandle) -> BoxedFuture<'_, ()>;

/// Every operation of a transaction.
const OPERATIONS: [(&str, Operation); 10] = [
    ("enqueue", |tx| {
        Box::pin(async { drop(tx.enqueue_tx("q", Default::default(), json!(1)).await) })
    }),
    ("enqueue_batch", |tx| {
        let jobs = vec![(json!(1), Default::default()), (json!(2), Default::default())];
        Box::pin(async { drop(tx.enqueue_batch_tx("q", jobs).await) })
    }),
    ("outbox_enqueue", |tx| {
        Box::pin(async { drop(tx.outbox_enqueue_tx("q", Default::default(), json!(1)).await) })
    }),
    ("publish", |tx| Box::pin(async { drop(tx.publish_tx("s", json!(1)).await) })),
    ("publish_batch", |tx| {
        let events = vec![(None, json!(1)), (None, json!(2))];
        Box::pin(async { drop(tx.publish_batch_tx("s", events).await) })
    }),
    ("notify", |tx| Box::pin(async { drop(tx.notify_tx("c", json!(1)).await) })),
    ("save_offset", |tx| Box::pin(async { drop(tx.save_offset_tx("s", "c", 1).await) })),
    ("get_job", |tx| Box::pin(async { drop(tx.get_job_tx("q", 1).await) })),
    ("get_offset", |tx| Box::pin(async { drop(tx.get_offset_tx("s", "c").await) })),
    ("read_since", |tx| Box::pin(async { drop(tx.read_since_tx("s", 0, 9).await) })),
];

/// A transaction in which an operation was dropped is rolled back by its own drop.
async fn a_dropped_operation_can_be_rolled_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for (_, operation) in OPERATIONS {
        for polls in [1, 2, 3, 5, 8, 20] {
            let mut tx = store.begin_tx().await.unwrap();
            polled(polls, operation(&mut *tx)).await;
            drop(tx);
            works(&store).await;
        }
    }
    assert!(store.queues().await.unwrap().is_empty());
    assert!(store.streams().await.unwrap().is_empty());
}

/// A commit that succeeds after a dropped operation has everything that was acknowledged.
async fn a_commit_after_a_dropped_operation_is_true(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for (name, operation) in OPERATIONS {
        for polls in [1, 2, 3, 5, 8] {
            let mut tx = store.begin_tx().await.unwrap();
            let first = tx.enqueue_tx("kept", Default::default(), json!(1)).await.unwrap();
            polled(polls, operation(&mut *tx)).await;
            let second = tx.enqueue_tx("kept", Default::default(), json!(2)).await;
            let committed = tx.commit().await;
            let queue = store.queue("kept", Default::default()).await.unwrap();
            let there = queue.get_job(first).await.unwrap().is_some();
            assert_eq!(there, committed.is_ok(), "{name} after {polls} polls: {committed:?}");
            if let (Ok(second), Ok(())) = (second, committed) {
                assert!(queue.get_job(second).await.unwrap().is_some(), "{name}");
            }
            works(&store).await;
        }
    }
}

/// A dropped commit has happened as a whole or not at all.
async fn a_dropped_commit_is_all_or_nothing(f: Arc<dyn StoreFactory>) {
    for polls in 1..=20 {
        let store = open(&f).await;
        let mut tx = store.begin_tx().await.unwrap();
        fill(&mut *tx).await;
        let committed = polled(polls, tx.commit()).await;
        works(&store).await;
        let seen = seen(&store).await;
        assert!(seen == 7 || (seen == 0 && committed.is_none()), "{seen} after {polls} polls");
    }
}

/// A dropped rollback is one all the same.
async fn a_dropped_rollback_rolls_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for polls in 1..=5 {
        let mut tx = store.begin_tx().await.unwrap();
        fill(&mut *tx).await;
        drop(polled(polls, tx.rollback()).await);
        works(&store).await;
        assert_eq!(seen(&store).await, 0, "after {polls} polls");
    }
}

async fn pending(store: &Opened) -> i64 {
    store.queues().await.unwrap().first().map_or(0, |queue| queue.pending)
}

/// A dropped enqueue or publish has happened once or not at all.
async fn dropped_writes_happen_once_or_not_at_all(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let stream = store.stream("s").await.unwrap();
    for polls in 1..=20 {
        let (jobs, events) =
            (pending(&store).await, stream.read_since(0, 999).await.unwrap().len());
        let enqueued = polled(polls, queue.enqueue(json!(1), Default::default())).await;
        let published = polled(polls, stream.publish(json!(1))).await;
        works(&store).await;
        let new_jobs = pending(&store).await - jobs;
        let new_events = stream.read_since(0, 999).await.unwrap().len() - events;
        assert!(new_jobs == 1 || (new_jobs == 0 && enqueued.is_none()), "{new_jobs}");
        assert!(new_events == 1 || (new_events == 0 && published.is_none()), "{new_events}");
    }
}

/// A dropped claim is a claim that lapses in its time, or none: no job is lost.
async fn a_dropped_claim_loses_no_job(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = alkstore::QueueOpts { max_attempts: 1_000, ..crate::queue::LAPSING };
    let queue = store.queue("q", opts).await.unwrap();
    for _ in 0..5 {
        put(&*queue).await;
    }
    for polls in 1..=20 {
        drop(polled(polls, queue.claim_one("w")).await);
        drop(polled(polls, queue.claim_batch("w", 3)).await);
        works(&store).await;
    }
    assert_eq!(queue.claim_batch("w", 9).await.unwrap().len(), 5);
}

/// A dropped `try_lock` leaves the lock free, or held by that owner.
async fn a_dropped_try_lock_blocks_no_owner_of_its_own(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for polls in 1..=20 {
        drop(polled(polls, store.try_lock("l", "o", 60)).await);
        let lock = store.try_lock("l", "o", 60).await.unwrap().expect("free or ours");
        assert!(lock.release().await.unwrap());
    }
}

cases!("tx":
    a_dropped_begin_holds_nothing,
    a_dropped_operation_can_be_rolled_back,
    a_commit_after_a_dropped_operation_is_true,
    a_dropped_commit_is_all_or_nothing,
    a_dropped_rollback_rolls_back,
    dropped_writes_happen_once_or_not_at_all,
    a_dropped_claim_loses_no_job,
    a_dropped_try_lock_blocks_no_owner_of_its_own,
);
