//! Checkpoints: saved explicitly, never lowered, never above what was yielded.

use std::sync::Arc;

use serde_json::json;

use super::{all, offsets, publish};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;

/// A consumer without a checkpoint stands at 0 and reads everything.
async fn an_absent_checkpoint_is_zero(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 3).await;
    assert_eq!(stream.get_offset("c").await.unwrap(), 0);
    assert_eq!(offsets(&stream.read_from_consumer("c", 9).await.unwrap()), given);
    assert_eq!(stream.get_offset("c").await.unwrap(), 0, "reads save nothing");
}

/// A save below the stored checkpoint is a silent no-op.
async fn saves_are_monotone(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let stream = store.stream("s").await.unwrap();
    let elsewhere = other.stream("s").await.unwrap();
    for (saved, stored) in [(5, 5), (3, 5), (5, 5), (9, 9), (-1, 9), (8, 9), (10, 10)] {
        stream.save_offset("c", saved).await.unwrap();
        assert_eq!(elsewhere.get_offset("c").await.unwrap(), stored);
        let mut tx = other.begin_tx().await.unwrap();
        tx.save_offset_tx("s", "c", saved - 1).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(stream.get_offset("c").await.unwrap(), stored);
    }
}

/// Concurrent saves leave the greatest.
async fn concurrent_saves_leave_the_greatest(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut tasks = Vec::new();
    for n in 1..=40_i64 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        tasks.push(tokio::spawn(async move {
            let stream = store.stream("s").await.unwrap();
            stream.save_offset("c", n * 7 % 41).await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.stream("s").await.unwrap().get_offset("c").await.unwrap(), 40);
}

/// A commit that comes late cannot lower what others have saved meanwhile.
async fn a_late_commit_cannot_lower_a_checkpoint(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut tx = store.begin_tx().await.unwrap();
    tx.save_offset_tx("s", "c", 5).await.unwrap();
    let saving = tokio::spawn(async move {
        other.stream("s").await.unwrap().save_offset("c", 9).await.unwrap();
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    tx.commit().await.unwrap();
    saving.await.unwrap();
    assert_eq!(store.stream("s").await.unwrap().get_offset("c").await.unwrap(), 9);
}

/// Direct and receiver saves interleave and cannot regress one another.
async fn direct_and_receiver_saves_compose(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 6).await;
    let mut events = stream.subscribe("c").await.unwrap();
    for _ in 0..2 {
        events.recv().await.unwrap().unwrap();
    }
    events.save_offset().await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[1], "the last yielded one");
    stream.save_offset("c", given[4]).await.unwrap();
    events.recv().await.unwrap().unwrap();
    events.save_offset().await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[4]);
    for _ in 0..3 {
        events.recv().await.unwrap().unwrap();
    }
    stream.save_offset("c", given[0]).await.unwrap();
    events.save_offset().await.unwrap();
    events.save_offset().await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[5]);
}

/// A receiver that yielded nothing yet saves nothing, wherever its consumer stands.
async fn a_save_before_the_first_yield_is_a_no_op(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 3).await;
    stream.save_offset("c", given[1]).await.unwrap();
    for (consumer, stored) in [("c", given[1]), ("new", 0)] {
        let mut events = stream.subscribe(consumer).await.unwrap();
        assert_eq!(events.offset(), 0);
        events.save_offset().await.unwrap();
        assert_eq!(stream.get_offset(consumer).await.unwrap(), stored);
    }
    let mut events = stream.subscribe("c").await.unwrap();
    store.set_offset("s", "c", given[0]).await.unwrap();
    events.save_offset().await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[0], "where it started is no yield");
    let consumers = store.consumers("s").await.unwrap();
    assert_eq!(consumers.len(), 1, "a no-op leaves no consumer behind: {consumers:?}");
}

/// Nothing is saved by itself: not by yielding, not by dropping.
async fn nothing_is_saved_by_itself(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 50).await;
    for _ in 0..2 {
        let mut events = stream.subscribe("c").await.unwrap();
        for offset in &given {
            assert_eq!(events.recv().await.unwrap().unwrap().offset, *offset);
        }
        drop(events);
        assert_eq!(stream.get_offset("c").await.unwrap(), 0);
    }
}

/// A checkpoint ahead of the log reads nothing, breaks nothing, and hides nothing from others.
async fn a_checkpoint_may_be_ahead_of_the_log(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    stream.save_offset("c", i64::MAX).await.unwrap();
    let mut events = stream.subscribe("c").await.unwrap();
    let given = publish(&*stream, 3).await;
    assert!(stream.read_from_consumer("c", 9).await.unwrap().is_empty());
    assert_eq!(events.try_recv().unwrap(), None);
    let wait = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(wait, events.recv()).await.is_err(), "nothing is beyond it");
    assert_eq!(offsets(&all(&*stream).await), given);
    let mut tx = store.begin_tx().await.unwrap();
    assert!(tx.read_from_consumer_tx("s", "c", 9).await.unwrap().is_empty());
    assert_eq!(tx.get_offset_tx("s", "c").await.unwrap(), i64::MAX);
}

/// A save in the transaction that did the work makes its effect happen exactly once.
async fn save_offset_tx_is_exactly_once_within_a_business_tx(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 40).await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut attempts = 0;
    while stream.get_offset("c").await.unwrap() < given[39] {
        attempts += 1;
        let mut tx = store.begin_tx().await.unwrap();
        let events = tx.read_from_consumer_tx("s", "c", random.i64(1..5)).await.unwrap();
        for event in &events {
            let effect = json!(event.offset);
            tx.enqueue_tx("effects", Default::default(), effect).await.unwrap();
        }
        tx.save_offset_tx("s", "c", events.last().unwrap().offset).await.unwrap();
        match random.u8(..3) {
            0 => tx.rollback().await.unwrap(),
            1 => drop(tx),
            _ => tx.commit().await.unwrap(),
        }
        assert!(attempts < 1_000, "no progress, seed {seed}");
    }
    let effects = store.jobs("effects", None, None, 1_000).await.unwrap();
    let effects: Vec<i64> = effects.iter().map(|job| job.payload_as().unwrap()).collect();
    assert_eq!(effects, given, "seed {seed}");
}

cases!("stream":
    an_absent_checkpoint_is_zero,
    saves_are_monotone,
    concurrent_saves_leave_the_greatest,
    a_late_commit_cannot_lower_a_checkpoint,
    direct_and_receiver_saves_compose,
    a_save_before_the_first_yield_is_a_no_op,
    nothing_is_saved_by_itself,
    a_checkpoint_may_be_ahead_of_the_log,
    save_offset_tx_is_exactly_once_within_a_business_tx,
);
