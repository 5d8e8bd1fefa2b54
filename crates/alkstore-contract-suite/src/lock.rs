//! Locks: exclusion for a time, one tenure at a time, told apart by growing tokens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use alkstore::Lock;
use alkstore::engine::clock::ManualClock;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::cases;
use crate::open::{open, open_at};
use crate::wait::eventually;
use crate::{EngineStore, StoreFactory};

async fn lock(store: &EngineStore, owner: &str, ttl: i64) -> Option<Box<dyn Lock>> {
    store.try_lock("l", owner, ttl).await.unwrap()
}

/// Tries until the lock is had; it must have lapsed by itself.
async fn lapsed(store: &EngineStore, owner: &str) -> Box<dyn Lock> {
    eventually(Duration::from_secs(10), async || lock(store, owner, 600).await).await
}

/// A lock excludes every other owner until it is released.
async fn a_lock_excludes_until_released(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let held = lock(&store, "a", 60).await.unwrap();
    assert_eq!(held.name(), "l");
    assert!(lock(&store, "b", 60).await.is_none());
    for almost in ["b", "A", "a ", " a", "a\u{301}"] {
        assert!(lock(&other, almost, 60).await.is_none(), "{almost}");
    }
    assert!(store.try_lock("m", "b", 60).await.unwrap().is_some(), "another name is free");
    assert!(held.release().await.unwrap());
    assert!(lock(&other, "b", 60).await.is_some());
}

/// After its time the lock can be had by another owner: never sooner, and soon after.
async fn ttl_expiry_lets_another_owner_reacquire(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for _ in 0..2 {
        let start = Instant::now();
        let held = lock(&store, "a", 1).await.unwrap();
        let taken = lapsed(&other, "b").await;
        assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
        assert!(!held.renew(60).await.unwrap());
        assert!(taken.release().await.unwrap());
    }
}

/// The owner that holds it gets a handle to the same tenure, and no more time.
async fn reacquisition_by_the_owner_does_not_refresh_the_ttl(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let start = Instant::now();
    let first = lock(&store, "a", 1).await.unwrap();
    let again = lock(&store, "a", 1_000).await.unwrap();
    assert_eq!(again.fencing_token(), first.fencing_token());
    assert!(store.locks().await.unwrap()[0].remaining_s <= 1);
    let taken = lapsed(&store, "b").await;
    assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
    assert!(!first.renew(60).await.unwrap() && !again.renew(60).await.unwrap());
    assert!(taken.renew(60).await.unwrap());
}

/// All handles of one tenure renew and release that tenure.
async fn handles_of_one_tenure_are_one(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let first = lock(&store, "a", 60).await.unwrap();
    let second = lock(&other, "a", 60).await.unwrap();
    assert!(second.renew(600).await.unwrap());
    assert!(first.renew(700).await.unwrap());
    assert!(second.release().await.unwrap());
    assert!(!first.renew(60).await.unwrap());
    assert!(!first.release().await.unwrap());
    assert!(lock(&store, "b", 60).await.is_some());
}

/// A renewal gives a full new window from now, longer or shorter than the old.
async fn renew_gives_a_full_new_window(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let held = lock(&store, "a", 5).await.unwrap();
    assert!(held.renew(1_000).await.unwrap());
    let left = store.locks().await.unwrap()[0].remaining_s;
    assert!((990..=1_000).contains(&left), "{left}");
    let start = Instant::now();
    assert!(held.renew(1).await.unwrap());
    lapsed(&store, "b").await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
}

/// A lapsed lock that nobody took can be renewed by its tenure, which goes on.
async fn a_lapsed_lock_that_nobody_took_may_be_renewed(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let held = lock(&store, "a", 1).await.unwrap();
    eventually(Duration::from_secs(10), async || {
        store.locks().await.unwrap().is_empty().then_some(())
    })
    .await;
    let token = held.fencing_token();
    assert!(held.renew(600).await.unwrap());
    assert_eq!(store.locks().await.unwrap()[0].fencing_token, token);
    assert!(lock(&store, "b", 60).await.is_none());
    assert!(held.release().await.unwrap());
}

/// A release after the lapse is `false`: the owner did not hold it any more.
async fn a_late_release_is_false(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let held = lock(&store, "a", 1).await.unwrap();
    eventually(Duration::from_secs(10), async || {
        store.locks().await.unwrap().is_empty().then_some(())
    })
    .await;
    assert!(!held.release().await.unwrap());
    assert!(lock(&store, "b", 60).await.is_some());
}

/// An old tenure cannot renew or free its successor's lock.
async fn an_old_tenure_leaves_its_successor_alone(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for successor in ["b", "a"] {
        let name = format!("l-{successor}");
        let take = async |owner: &str, ttl| store.try_lock(&name, owner, ttl).await.unwrap();
        let old = take("a", 1).await.unwrap();
        eventually(Duration::from_secs(10), async || {
            store.locks().await.unwrap().iter().all(|l| l.name != name).then_some(())
        })
        .await;
        let new = take(successor, 600).await.unwrap();
        assert!(new.fencing_token() > old.fencing_token());
        assert!(!old.renew(60).await.unwrap());
        assert!(!old.release().await.unwrap());
        assert!(take("c", 60).await.is_none(), "the successor still excludes");
        let left = store.locks().await.unwrap().into_iter().find(|l| l.name == name).unwrap();
        assert!(left.remaining_s > 500 && left.fencing_token == new.fencing_token());
        assert!(new.release().await.unwrap());
    }
}

/// Nor can one that was released.
async fn a_released_tenure_leaves_its_successor_alone(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let old = lock(&store, "a", 60).await.unwrap();
    assert!(lock(&store, "a", 60).await.unwrap().release().await.unwrap());
    let new = lock(&store, "a", 60).await.unwrap();
    assert!(new.fencing_token() > old.fencing_token());
    assert!(!old.renew(600).await.unwrap());
    assert!(!old.release().await.unwrap());
    assert!(new.release().await.unwrap());
}

/// Fencing tokens grow with every acquisition in the store, after release, lapse and force too.
async fn fencing_tokens_grow_for_ever(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut last = i64::MIN;
    let mut grown = |token| assert!(std::mem::replace(&mut last, token) < token, "{token}");
    for n in 0..5 {
        let held = lock(&store, "a", 60).await.unwrap();
        grown(held.fencing_token());
        assert!(held.release().await.unwrap());
        let name = format!("other {n}");
        let held = other.try_lock(&name, "b", 60).await.unwrap().unwrap();
        grown(held.fencing_token());
        assert!(other.release_lock(&name).await.unwrap());
        let held = other.try_lock(&name, "c", 60).await.unwrap().unwrap();
        grown(held.fencing_token());
    }
    let held = lock(&store, "a", 1).await.unwrap();
    grown(held.fencing_token());
    grown(lapsed(&store, "b").await.fencing_token());
}

/// Dropping a handle does not release the lock.
async fn dropping_a_handle_keeps_the_lock(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    drop(lock(&store, "a", 60).await.unwrap());
    assert!(lock(&store, "b", 60).await.is_none());
}

/// Of many that try at once, one gets the lock, and the others a value, not an error.
async fn concurrent_try_lock_has_one_winner_and_no_errors(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for round in 0..10 {
        let name = format!("l{round}");
        let mut tasks = Vec::new();
        for n in 0..16 {
            let store = if n % 2 == 0 { store.clone() } else { other.clone() };
            let name = name.clone();
            tasks.push(tokio::spawn(async move {
                store.try_lock(&name, &format!("owner {n}"), 60).await.unwrap()
            }));
        }
        let mut winners = 0;
        for task in tasks {
            winners += i32::from(task.await.unwrap().is_some());
        }
        assert_eq!(winners, 1);
    }
}

/// Under contention no two hold it at once, and each tenure's token is the next greater one.
async fn contenders_exclude_each_other(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let inside = Arc::new(AtomicI64::new(0));
    let last = Arc::new(AtomicI64::new(i64::MIN));
    let mut tasks = Vec::new();
    for n in 0..6 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        let (inside, last) = (inside.clone(), last.clone());
        tasks.push(tokio::spawn(async move {
            let mut turns = 0;
            while turns < 8 {
                let Some(held) = lock(&store, &format!("owner {n}"), 60).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                let token = held.fencing_token();
                assert!(last.swap(token, Ordering::SeqCst) < token);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(held.release().await.unwrap());
                turns += 1;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Locks are not part of a transaction: a rollback releases none.
async fn locks_outlive_a_rollback(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let mut tx = store.begin_tx().await.unwrap();
    let held = lock(&store, "a", 60).await.unwrap();
    tx.publish_tx("s", json!(1)).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(lock(&store, "b", 60).await.is_none());
    assert!(held.release().await.unwrap());
}

/// The time to live is kept to the microsecond.
async fn the_ttl_is_exact(f: Arc<dyn StoreFactory>) {
    for offset in [0, 1, 500_000, 999_999] {
        let clock = ManualClock::at(1_000);
        clock.advance(Duration::from_micros(offset));
        let store = open_at(&f, &clock).await;
        let held = lock(&store, "a", 1).await.unwrap();
        clock.advance(Duration::from_micros(999_999));
        assert!(lock(&store, "b", 60).await.is_none(), "early, from {offset} µs");
        assert!(held.renew(2).await.unwrap());
        clock.advance(Duration::from_micros(1_999_999));
        assert!(lock(&store, "b", 60).await.is_none(), "early, from {offset} µs");
        clock.advance(Duration::from_micros(1));
        assert!(lock(&store, "b", 60).await.is_some(), "late, from {offset} µs");
    }
}

/// Many lapsed locks do not stay for ever, and do not disturb those that are held.
async fn lapsed_locks_do_not_disturb(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(1_000);
    let store = open_at(&f, &clock).await;
    let held = lock(&store, "a", 1_000).await.unwrap();
    let mut tokens = BTreeSet::from([held.fencing_token()]);
    for n in 0..200 {
        let name = format!("short {n}");
        let short = store.try_lock(&name, "a", 1).await.unwrap().unwrap();
        assert!(tokens.insert(short.fencing_token()));
        clock.advance(Duration::from_millis(500));
    }
    assert!(store.locks().await.unwrap().len() <= 4);
    let left = store.locks().await.unwrap().into_iter().find(|l| l.name == "l").unwrap();
    assert_eq!((left.remaining_s, left.fencing_token), (900, held.fencing_token()));
    assert!(lock(&store, "b", 60).await.is_none());
    assert!(held.release().await.unwrap());
}

cases!("lock":
    a_lock_excludes_until_released,
    ttl_expiry_lets_another_owner_reacquire,
    reacquisition_by_the_owner_does_not_refresh_the_ttl,
    handles_of_one_tenure_are_one,
    renew_gives_a_full_new_window,
    a_lapsed_lock_that_nobody_took_may_be_renewed,
    a_late_release_is_false,
    an_old_tenure_leaves_its_successor_alone,
    a_released_tenure_leaves_its_successor_alone,
    fencing_tokens_grow_for_ever,
    dropping_a_handle_keeps_the_lock,
    concurrent_try_lock_has_one_winner_and_no_errors,
    contenders_exclude_each_other,
    locks_outlive_a_rollback;
    clock: the_ttl_is_exact, lapsed_locks_do_not_disturb,
);
