//! Times on a clock that is moved by hand: to the microsecond, or to the second where that is it.

use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::clock::ManualClock;
use alkstore::{EnqueueOpts, QueueOpts};
use serde_json::json;

use super::{job, put, take};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open_at;

const OFFSETS: [u64; 4] = [0, 1, 500_000, 999_999];

/// 5,000 s and some microseconds.
fn clock(offset_us: u64) -> ManualClock {
    let clock = ManualClock::at(5_000);
    clock.advance(Duration::from_micros(offset_us));
    clock
}

fn advance(clock: &ManualClock, us: u64) {
    clock.advance(Duration::from_micros(us));
}

/// A delay ends to the microsecond, while `run_at` shows whole seconds.
async fn a_delay_is_exact(f: Arc<dyn StoreFactory>) {
    for offset in OFFSETS {
        let clock = clock(offset);
        let store = open_at(&f, &clock).await;
        let queue = store.queue("q", Default::default()).await.unwrap();
        let opts = EnqueueOpts { delay: Some(3), ..Default::default() };
        let id = queue.enqueue(json!(1), opts).await.unwrap();
        let row = job(&*queue, id).await;
        assert_eq!((row.created_at, row.run_at), (5_000, 5_003));
        advance(&clock, 2_999_999);
        assert!(queue.claim_one("w").await.unwrap().is_none(), "early, from {offset} µs");
        advance(&clock, 1);
        let claim = take(&*queue).await;
        assert!(claim.retry(None, Some(2)).await.unwrap());
        advance(&clock, 1_999_999);
        assert!(queue.claim_one("w").await.unwrap().is_none(), "early, from {offset} µs");
        advance(&clock, 1);
        assert_eq!(take(&*queue).await.job().id, id, "late, from {offset} µs");
    }
}

/// An absolute `run_at` is met at that second.
async fn a_run_at_is_exact(f: Arc<dyn StoreFactory>) {
    let clock = clock(300_000);
    let store = open_at(&f, &clock).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { run_at: Some(5_002), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    advance(&clock, 1_699_999);
    assert!(queue.claim_one("w").await.unwrap().is_none());
    advance(&clock, 1);
    take(&*queue).await;
}

/// A claim lapses to the microsecond, also after a heartbeat; what is shown is its floor.
async fn a_claims_deadline_is_exact(f: Arc<dyn StoreFactory>) {
    for offset in OFFSETS {
        let clock = clock(offset);
        let store = open_at(&f, &clock).await;
        let opts = QueueOpts { visibility_timeout_s: 3, ..Default::default() };
        let queue = store.queue("q", opts).await.unwrap();
        put(&*queue).await;
        let claim = take(&*queue).await;
        assert_eq!(claim.job().claim_expires_at, Some(5_003));
        advance(&clock, 2_999_999);
        assert!(queue.claim_one("v").await.unwrap().is_none(), "early, from {offset} µs");
        assert!(claim.heartbeat(1).await.unwrap());
        advance(&clock, 999_999);
        assert!(queue.claim_one("v").await.unwrap().is_none(), "early, from {offset} µs");
        advance(&clock, 1);
        assert!(queue.claim_one("v").await.unwrap().is_some(), "late, from {offset} µs");
        assert!(!claim.heartbeat(1).await.unwrap());
    }
}

/// A job expires with the second that its expiry shows, for claims and sweeps alike.
async fn an_expiry_is_exact(f: Arc<dyn StoreFactory>) {
    for offset in OFFSETS {
        let clock = clock(offset);
        let store = open_at(&f, &clock).await;
        let queue = store.queue("q", Default::default()).await.unwrap();
        let opts = EnqueueOpts { expires: Some(2), ..Default::default() };
        for _ in 0..2 {
            queue.enqueue(json!(1), opts.clone()).await.unwrap();
        }
        advance(&clock, 1_999_999 - offset);
        assert_eq!(queue.sweep_expired().await.unwrap(), 0, "early, from {offset} µs");
        assert!(take(&*queue).await.hand_back().await.unwrap());
        advance(&clock, 1);
        assert!(queue.claim_one("w").await.unwrap().is_none(), "late, from {offset} µs");
        assert_eq!(queue.sweep_expired().await.unwrap(), 2);
    }
}

/// A dead job is kept for the seconds of its stamp from the second of its death.
async fn a_retention_is_exact(f: Arc<dyn StoreFactory>) {
    for offset in OFFSETS {
        let clock = clock(offset);
        let store = open_at(&f, &clock).await;
        let opts = QueueOpts { dead_letter_retention_s: Some(4), ..Default::default() };
        let queue = store.queue("q", opts).await.unwrap();
        let id = put(&*queue).await;
        assert!(take(&*queue).await.fail(None).await.unwrap());
        assert_eq!(job(&*queue, id).await.died_at, Some(5_000));
        advance(&clock, 3_999_999 - offset);
        assert_eq!(queue.sweep_expired().await.unwrap(), 0, "early, from {offset} µs");
        advance(&clock, 1);
        assert_eq!(queue.sweep_expired().await.unwrap(), 1, "late, from {offset} µs");
        assert_eq!(queue.get_job(id).await.unwrap(), None);
    }
}

/// A wait ends with the clock, when a job comes due and when a claim lapses, and asks once.
async fn a_wait_follows_the_clock(f: Arc<dyn StoreFactory>) {
    let clock = clock(0);
    let store = open_at(&f, &clock).await;
    let opts = QueueOpts { visibility_timeout_s: 20, ..Default::default() };
    let queue: Arc<dyn alkstore::Queue> = store.queue("q", opts).await.unwrap().into();
    let opts = EnqueueOpts { delay: Some(10), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    for step_s in [10, 20, 20] {
        let waiting = queue.clone();
        let waiting =
            tokio::spawn(
                async move { waiting.wait_ready(Duration::from_secs(1_000)).await.unwrap() },
            );
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        advance(&clock, step_s * 1_000_000 - 1);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished(), "early");
        advance(&clock, 1);
        assert!(waiting.await.unwrap());
        take(&*queue).await;
    }
}

cases!("queue": ;
    clock:
        a_delay_is_exact,
        a_run_at_is_exact,
        a_claims_deadline_is_exact,
        an_expiry_is_exact,
        a_retention_is_exact,
        a_wait_follows_the_clock,
);
