//! A stale handle against a newer claim, and the race at the deadline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::clock::ManualClock;
use alkstore::{JobHandle, JobState, Queue, QueueOpts};
use tokio::sync::watch;
use tokio::time::Instant;

use super::OPERATIONS;
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open, open_at};
use crate::queue::{job, put, take};
use crate::wait::eventually;

/// A queue whose claims lapse after a second and may be repeated at will.
async fn short(store: &Opened) -> Box<dyn Queue> {
    let opts = QueueOpts { visibility_timeout_s: 1, max_attempts: 1_000, ..Default::default() };
    store.queue("q", opts).await.unwrap()
}

/// A stale handle cannot touch a newer claim, even one made under its own worker id.
async fn a_stale_handle_cannot_touch_a_newer_claim(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = short(&store).await;
    for _ in OPERATIONS {
        put(&*queue).await;
    }
    let stale = queue.claim_batch("w", 100).await.unwrap();
    let mut newer: Vec<Box<dyn JobHandle>> = Vec::new();
    eventually(Duration::from_secs(10), async || {
        for claim in queue.claim_batch("w", 100).await.unwrap() {
            assert!(claim.heartbeat(600).await.unwrap());
            newer.push(claim);
        }
        (newer.len() == OPERATIONS.len()).then_some(())
    })
    .await;
    for ((name, operation), stale) in OPERATIONS.into_iter().zip(stale) {
        let id = stale.job().id;
        let before = job(&*queue, id).await;
        assert!(!operation(stale).await.unwrap(), "{name}");
        assert_eq!(job(&*queue, id).await, before, "{name}");
    }
    for claim in newer {
        assert!(claim.ack().await.unwrap());
    }
}

/// A handle whose job was retried or handed back elsewhere is stale in the next claim too.
async fn a_hand_back_does_not_revive_old_handles(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = short(&store).await;
    let id = put(&*queue).await;
    let stale = take(&*queue).await;
    let again = eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap());
    assert!(again.await.hand_back().await.unwrap());
    assert!(!stale.heartbeat(60).await.unwrap(), "nobody has it");
    // The attempts are the same again, and so is the worker: only the claim is another.
    let newer = take(&*queue).await;
    assert!(newer.heartbeat(600).await.unwrap());
    assert!(!stale.heartbeat(60).await.unwrap());
    assert!(!stale.ack().await.unwrap());
    assert_eq!(job(&*queue, id).await.state, JobState::Processing);
    assert!(newer.ack().await.unwrap());
}

/// A stale handle cannot touch the job that its own was redriven as.
async fn a_stale_handle_cannot_touch_a_redriven_job(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let lapsing = store.queue("q", crate::queue::LAPSING).await.unwrap();
    let id = put(&*lapsing).await;
    let stale = take(&*lapsing).await;
    for _ in 0..3 {
        queue.claim_one("w").await.unwrap();
    }
    let redriven = store.redrive("q", &[id]).await.unwrap();
    assert_ne!(redriven[0], id);
    assert!(!stale.fail(None).await.unwrap());
    assert_eq!(job(&*queue, redriven[0]).await.state, JobState::Pending);
}

/// The deadline decides to the microsecond: an operation lands just before it, not at it.
async fn the_deadline_itself_is_too_late(f: Arc<dyn StoreFactory>) {
    for (name, operation) in OPERATIONS {
        for (us, lands) in [(999_999, true), (1_000_000, false), (1_000_001, false)] {
            let clock = ManualClock::at(1_000);
            clock.advance(Duration::from_micros(700_000));
            let store = open_at(&f, &clock).await;
            let queue = short(&store).await;
            put(&*queue).await;
            let claim = take(&*queue).await;
            clock.advance(Duration::from_micros(us));
            assert_eq!(operation(claim).await.unwrap(), lands, "{name} after {us} µs");
        }
    }
}

/// Acks each claim, one after the other around the deadline of a second; returns what landed.
async fn ack_around_the_deadline(
    claims: Vec<Box<dyn JobHandle>>,
    start: Instant,
    done: watch::Sender<bool>,
) -> BTreeSet<i64> {
    let mut acked = BTreeSet::new();
    let pace = Duration::from_millis(200) / u32::try_from(claims.len()).unwrap();
    for (n, claim) in (0..).zip(claims) {
        tokio::time::sleep_until(start + Duration::from_millis(900) + pace * n).await;
        let id = claim.job().id;
        if claim.ack().await.unwrap() {
            acked.insert(id);
        }
    }
    done.send_replace(true);
    acked
}

/// Whether every claim of `start` has ended or lapsed by now.
fn is_over(start: Instant, done: &watch::Receiver<bool>) -> bool {
    *done.borrow() && start.elapsed() > Duration::from_millis(1_100)
}

/// At the deadline an ack and a reclaim race: exactly one of them wins each job.
async fn ack_and_reclaim_race_with_one_winner(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = short(&store).await;
    let jobs = (0..300).map(|n| (n.into(), Default::default())).collect();
    queue.enqueue_batch(jobs).await.unwrap();
    let start = Instant::now();
    let claims = queue.claim_batch("w", 300).await.unwrap();
    let (done, is_done) = watch::channel(false);
    let reclaiming = tokio::spawn(async move {
        let queue = other.queue("q", Default::default()).await.unwrap();
        let mut reclaimed = BTreeSet::new();
        loop {
            let last = is_over(start, &is_done);
            let claims = queue.claim_batch("v", 5).await.unwrap();
            if last && claims.is_empty() {
                return reclaimed;
            }
            for claim in claims {
                // Renewed, so that each job is reclaimed once.
                if claim.heartbeat(600).await.unwrap() {
                    assert!(reclaimed.insert(claim.job().id));
                }
            }
        }
    });
    let acked = ack_around_the_deadline(claims, start, done).await;
    let reclaimed = reclaiming.await.unwrap();
    assert!(acked.is_disjoint(&reclaimed), "a job was acked and handed out again");
    assert_eq!(acked.len() + reclaimed.len(), 300);
    for id in acked {
        assert_eq!(queue.get_job(id).await.unwrap(), None);
    }
    for id in reclaimed {
        assert!(job(&*queue, id).await.attempts >= 2);
    }
}

/// Likewise an ack and a sweep of exhausted jobs.
async fn ack_and_sweep_race_with_one_winner(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let opts = QueueOpts { visibility_timeout_s: 1, max_attempts: 1, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let jobs = (0..200).map(|n| (n.into(), Default::default())).collect();
    let ids = queue.enqueue_batch(jobs).await.unwrap();
    let start = Instant::now();
    let claims = queue.claim_batch("w", 200).await.unwrap();
    let (done, is_done) = watch::channel(false);
    let sweeping = tokio::spawn(async move {
        let queue = other.queue("q", Default::default()).await.unwrap();
        let mut total = 0;
        loop {
            let last = is_over(start, &is_done);
            let swept = queue.sweep_expired().await.unwrap();
            if last && swept == 0 {
                return total;
            }
            total += swept;
        }
    });
    let acked = ack_around_the_deadline(claims, start, done).await;
    let swept: i64 = sweeping.await.unwrap();
    assert_eq!(acked.len() + usize::try_from(swept).unwrap(), 200);
    for id in ids {
        let row = queue.get_job(id).await.unwrap();
        let dead = row.is_some_and(|row| row.state == JobState::Dead);
        assert_ne!(dead, acked.contains(&id), "job {id}");
    }
}

cases!("job":
    a_stale_handle_cannot_touch_a_newer_claim,
    a_hand_back_does_not_revive_old_handles,
    a_stale_handle_cannot_touch_a_redriven_job,
    ack_and_reclaim_race_with_one_winner,
    ack_and_sweep_race_with_one_winner;
    clock: the_deadline_itself_is_too_late,
);
