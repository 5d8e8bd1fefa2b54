//! `ack_batch`: the uniform predicate per id, fenced for the handle's own claims.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{JobState, QueueOpts};

use super::{LAPSING, job, put, take};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::wait::eventually;

/// Each validly claimed id counts once and its job is deleted; others are passed over.
async fn ack_batch_counts_valid_claims_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let claimed = [put(&*queue).await, put(&*queue).await];
    assert_eq!(queue.claim_batch("w", 2).await.unwrap().len(), 2);
    let pending = put(&*queue).await;
    let foreign = store.queue("r", Default::default()).await.unwrap();
    let theirs = put(&*foreign).await;
    take(&*foreign).await;
    let ids = [claimed[1], pending, claimed[0], theirs, claimed[1], 1 << 40, claimed[0]];
    assert_eq!(queue.ack_batch(&ids).await.unwrap(), 2);
    assert_eq!(queue.ack_batch(&ids).await.unwrap(), 0);
    for id in claimed {
        assert_eq!(queue.get_job(id).await.unwrap(), None);
    }
    assert_eq!(job(&*queue, pending).await.state, JobState::Pending);
    assert_eq!(job(&*foreign, theirs).await.state, JobState::Processing);
    assert_eq!(queue.ack_batch(&[]).await.unwrap(), 0);
}

/// Dead jobs are not acked.
async fn ack_batch_leaves_dead_jobs_alone(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    assert!(take(&*queue).await.fail(None).await.unwrap());
    assert_eq!(queue.ack_batch(&[id]).await.unwrap(), 0);
    assert_eq!(job(&*queue, id).await.state, JobState::Dead);
}

/// A lapsed claim is not counted, and its row stays as it was.
async fn ack_batch_refuses_lapsed_claims(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", LAPSING).await.unwrap();
    let id = put(&*queue).await;
    take(&*queue).await;
    let before = job(&*queue, id).await;
    assert_eq!(queue.ack_batch(&[id]).await.unwrap(), 0);
    let other = store.queue("q", Default::default()).await.unwrap();
    assert_eq!(other.ack_batch(&[id]).await.unwrap(), 0);
    assert_eq!(job(&*queue, id).await, before);
}

/// A late batch cannot delete a newer claim, made by somebody else under whatever name.
async fn ack_batch_cannot_end_a_newer_claim(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let opts = QueueOpts { visibility_timeout_s: 1, ..Default::default() };
    let late = store.queue("q", opts).await.unwrap();
    let ids = [put(&*late).await, put(&*late).await];
    let claims = late.claim_batch("w", 2).await.unwrap();
    for newer in [&store, &other] {
        let queue = newer.queue("q", Default::default()).await.unwrap();
        let patience = Duration::from_secs(10);
        let newer = eventually(patience, async || queue.claim_one("w").await.unwrap()).await;
        assert!(newer.heartbeat(60).await.unwrap());
        assert_eq!(late.ack_batch(&ids).await.unwrap(), 0);
        assert_eq!(job(&*queue, newer.job().id).await.state, JobState::Processing);
        assert!(newer.ack().await.unwrap());
    }
    for claim in claims {
        assert!(!claim.ack().await.unwrap());
    }
}

/// Nor one that followed a retry or a hand-back.
async fn ack_batch_cannot_end_a_claim_after_a_retry(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { max_attempts: 9, ..Default::default() };
    let late = store.queue("q", opts).await.unwrap();
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*late).await;
    assert!(take(&*late).await.retry(None, Some(0)).await.unwrap());
    let newer = take(&*queue).await;
    assert_eq!(late.ack_batch(&[id]).await.unwrap(), 0);
    assert!(newer.hand_back().await.unwrap());
    assert!(take(&*late).await.hand_back().await.unwrap());
    let newest = take(&*queue).await;
    assert_eq!(late.ack_batch(&[id]).await.unwrap(), 0);
    assert!(newest.ack().await.unwrap());
}

/// Ids that another handle claimed get the predicate alone.
async fn ack_batch_takes_ids_of_other_handles(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let claimer = other.queue("q", Default::default()).await.unwrap();
    let ids = [put(&*queue).await, put(&*queue).await];
    assert_eq!(claimer.claim_batch("w", 2).await.unwrap().len(), 2);
    assert_eq!(queue.ack_batch(&ids).await.unwrap(), 2);
}

/// A claim that was renewed is acked by a batch as any other.
async fn ack_batch_takes_renewed_claims(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    let claim = take(&*queue).await;
    assert!(claim.heartbeat(600).await.unwrap());
    assert_eq!(queue.ack_batch(&[id]).await.unwrap(), 1);
    assert!(!claim.ack().await.unwrap());
}

/// Thousands are claimed by one call and acked by one.
async fn thousands_are_claimed_and_acked_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let jobs = (0..5_000).map(|n| (n.into(), Default::default())).collect();
    let ids = queue.enqueue_batch(jobs).await.unwrap();
    let claims = queue.claim_batch("w", 10_000).await.unwrap();
    assert_eq!(claims.iter().map(|claim| claim.job().id).collect::<Vec<_>>(), ids);
    assert_eq!(queue.ack_batch(&ids).await.unwrap(), 5_000);
    assert!(store.queues().await.unwrap().is_empty());
}

/// A hundred thousand ids in one call work.
async fn ack_batch_takes_a_hundred_thousand_ids(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let jobs = (0..500).map(|n| (n.into(), Default::default())).collect();
    let mut ids = queue.enqueue_batch(jobs).await.unwrap();
    let claimed = queue.claim_batch("w", 400).await.unwrap();
    assert_eq!(claimed.len(), 400);
    let last = ids[499];
    ids.extend(last + 1..last + 100_000 - 499);
    assert_eq!(ids.len(), 100_000);
    fastrand::Rng::with_seed(1).shuffle(&mut ids);
    assert_eq!(queue.ack_batch(&ids).await.unwrap(), 400);
    assert_eq!(store.queues().await.unwrap()[0].pending, 100);
}

cases!("queue":
    ack_batch_counts_valid_claims_once,
    ack_batch_leaves_dead_jobs_alone,
    ack_batch_refuses_lapsed_claims,
    ack_batch_cannot_end_a_newer_claim,
    ack_batch_cannot_end_a_claim_after_a_retry,
    ack_batch_takes_ids_of_other_handles,
    ack_batch_takes_renewed_claims,
    thousands_are_claimed_and_acked_at_once,
    ack_batch_takes_a_hundred_thousand_ids,
);
