//! `sweep_expired`: no row stays stranded, and what it did is counted exactly.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, JobState, Queue, QueueOpts};
use serde_json::json;
use tokio::time::Instant;

use super::{LAPSING, job, now_s, put, take};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open};
use crate::wait::eventually;

async fn expired(queue: &dyn Queue) -> i64 {
    let opts = EnqueueOpts { expires: Some(0), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap()
}

async fn dead_of(queue: &dyn Queue, id: i64) -> String {
    let row = job(queue, id).await;
    assert_eq!(row.state, JobState::Dead, "{row:?}");
    assert!(row.died_at.unwrap() >= row.created_at, "{row:?}");
    row.last_error.unwrap()
}

/// A sweep with nothing to do does nothing.
async fn sweep_leaves_good_jobs_alone(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    let opts = EnqueueOpts { expires: Some(60), ..Default::default() };
    let pending = queue.enqueue(json!(1), opts).await.unwrap();
    let opts = EnqueueOpts { delay: Some(60), max_attempts: Some(0), ..Default::default() };
    let not_due = queue.enqueue(json!(1), opts).await.unwrap();
    let live = put(&*queue).await;
    let claims = queue.claim_batch("w", 2).await.unwrap();
    let lapsing = store.queue("q", LAPSING).await.unwrap();
    let lapsed = put(&*lapsing).await;
    take(&*lapsing).await;
    let mut before = Vec::new();
    for id in [pending, not_due, live, lapsed] {
        before.push(job(&*queue, id).await);
    }
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    for row in before {
        assert_eq!(job(&*queue, row.id).await, row);
    }
    for claim in claims {
        assert!(claim.ack().await.unwrap());
    }
}

/// Every live row past its expiry, in any state, becomes dead with "expired".
async fn sweep_moves_every_expired_row(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let soon = EnqueueOpts { expires: Some(1), ..Default::default() };
    let lapsing = store.queue("q", LAPSING).await.unwrap();
    let mut ids = Vec::new();
    // Claimed ones may be expired before the claim if the second turns just then.
    let claimed = loop {
        ids.push(queue.enqueue(json!(1), soon.clone()).await.unwrap());
        if let Some(claim) = queue.claim_one("w").await.unwrap() {
            break claim;
        }
    };
    ids.push(lapsing.enqueue(json!(1), soon).await.unwrap());
    let lapsed = lapsing.claim_one("v").await.unwrap();
    ids.push(expired(&*queue).await);
    let opts = EnqueueOpts { expires: Some(0), delay: Some(60), ..Default::default() };
    ids.push(queue.enqueue(json!(1), opts).await.unwrap());
    let mut moved = 0;
    eventually(Duration::from_secs(10), async || {
        moved += queue.sweep_expired().await.unwrap();
        (moved >= i64::try_from(ids.len()).unwrap()).then_some(())
    })
    .await;
    assert_eq!(moved, i64::try_from(ids.len()).unwrap());
    for id in ids {
        assert_eq!(dead_of(&*queue, id).await, "expired");
    }
    let row = job(&*queue, claimed.job().id).await;
    assert_eq!((row.worker_id.as_deref(), row.attempts), (Some("w"), 1));
    assert_eq!(row.claim_expires_at, claimed.job().claim_expires_at);
    assert!(!claimed.ack().await.unwrap());
    if let Some(lapsed) = lapsed {
        assert!(!lapsed.heartbeat(60).await.unwrap());
    }
}

/// Rows without attempts left become dead with "max attempts exceeded".
async fn sweep_moves_exhausted_rows(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { max_attempts: 1, ..LAPSING };
    let queue = store.queue("q", opts).await.unwrap();
    let lapsed = put(&*queue).await;
    take(&*queue).await;
    let opts = EnqueueOpts { max_attempts: Some(0), ..Default::default() };
    let never = queue.enqueue(json!(1), opts).await.unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), 2);
    for id in [lapsed, never] {
        assert_eq!(dead_of(&*queue, id).await, "max attempts exceeded");
    }
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
}

/// A row that is both expired and exhausted died of its expiry.
async fn sweep_sees_expiry_first(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { expires: Some(0), max_attempts: Some(0), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), 1);
    assert_eq!(dead_of(&*queue, id).await, "expired");
}

async fn expired_and_kept(store: &Opened, dead_letter_retention_s: Option<i64>) -> i64 {
    let opts = QueueOpts { dead_letter_retention_s, ..Default::default() };
    expired(&*store.queue("q", opts).await.unwrap()).await
}

/// Dead rows past their own retention are deleted; rows that this sweep moved are not.
async fn sweep_deletes_dead_rows_past_retention(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for retention in [0, -1, i64::MIN] {
        gone.push(expired_and_kept(&store, Some(retention)).await);
    }
    for retention in [Some(600), Some(i64::MAX), None] {
        kept.push(expired_and_kept(&store, retention).await);
    }
    assert_eq!(queue.sweep_expired().await.unwrap(), 6);
    for id in gone.iter().chain(&kept) {
        assert_eq!(dead_of(&*queue, *id).await, "expired");
    }
    let fresh = expired_and_kept(&store, Some(0)).await;
    assert_eq!(queue.sweep_expired().await.unwrap(), 4, "three deleted, one moved");
    for id in gone {
        assert_eq!(queue.get_job(id).await.unwrap(), None);
    }
    for id in kept.into_iter().chain([fresh]) {
        assert_eq!(dead_of(&*queue, id).await, "expired");
    }
}

/// A retention counts from the death and is not cut short.
async fn retention_counts_from_the_death(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { dead_letter_retention_s: Some(2), ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let id = put(&*queue).await;
    let claim = take(&*queue).await;
    let created_at = claim.job().created_at;
    eventually(Duration::from_secs(10), async || (now_s() >= created_at + 2).then_some(())).await;
    let start = Instant::now();
    assert!(claim.fail(None).await.unwrap());
    let died_at = job(&*queue, id).await.died_at.unwrap();
    let swept = eventually(Duration::from_secs(10), async || {
        (queue.sweep_expired().await.unwrap() == 1).then_some(())
    });
    swept.await;
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    assert!(now_s() >= died_at + 2);
    assert!(start.elapsed() > Duration::from_secs(1), "early: {:?}", start.elapsed());
}

/// A sweep, and a claim, touch no other queue and no outbox.
async fn sweep_stays_in_its_queue(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.queue("r", Default::default()).await.unwrap();
    let outbox = store.outbox("q").await.unwrap();
    let opts = EnqueueOpts { expires: Some(0), ..Default::default() };
    outbox.enqueue(json!(1), opts).await.unwrap();
    let opts = QueueOpts { max_attempts: 1, dead_letter_retention_s: Some(0), ..LAPSING };
    let purged = store.queue("r", opts).await.unwrap();
    let dead = expired(&*purged).await;
    assert_eq!(other.sweep_expired().await.unwrap(), 1);
    let exhausted = put(&*purged).await;
    take(&*purged).await;
    let theirs = expired(&*other).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert_eq!(job(&*other, theirs).await.state, JobState::Pending);
    assert_eq!(job(&*other, exhausted).await.state, JobState::Processing);
    assert_eq!(job(&*other, dead).await.state, JobState::Dead);
    assert_eq!(other.sweep_expired().await.unwrap(), 3);
    assert_eq!(store.jobs("outbox:q", Some(JobState::Pending), None, 9).await.unwrap().len(), 1);
}

/// A sweep of any size counts exactly, while others go on writing.
async fn large_sweeps_count_exactly(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { expires: Some(0), ..Default::default() };
    let jobs = (0..5_000).map(|n| (json!(n), opts.clone())).collect();
    queue.enqueue_batch(jobs).await.unwrap();
    let good = put(&*queue).await;
    let sweeping = tokio::spawn(async move { queue.sweep_expired().await.unwrap() });
    let queue = other.queue("q", Default::default()).await.unwrap();
    for _ in 0..20 {
        put(&*queue).await;
    }
    assert_eq!(sweeping.await.unwrap(), 5_000);
    let info = store.queues().await.unwrap().remove(0);
    assert_eq!((info.pending, info.dead), (21, 5_000));
    assert_eq!(job(&*queue, good).await.state, JobState::Pending);
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
}

/// Two sweeps at once count every row once between them.
async fn concurrent_sweeps_count_each_row_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { expires: Some(0), ..Default::default() };
    let jobs = (0..400).map(|n| (json!(n), opts.clone())).collect();
    queue.enqueue_batch(jobs).await.unwrap();
    let tasks = [store.clone(), other, store.clone()].map(|store| {
        tokio::spawn(async move {
            let queue = store.queue("q", Default::default()).await.unwrap();
            queue.sweep_expired().await.unwrap()
        })
    });
    let mut total = 0;
    for task in tasks {
        total += task.await.unwrap();
    }
    assert_eq!(total, 400);
    assert_eq!(store.queues().await.unwrap()[0].dead, 400);
}

cases!("queue":
    sweep_leaves_good_jobs_alone,
    sweep_moves_every_expired_row,
    sweep_moves_exhausted_rows,
    sweep_sees_expiry_first,
    sweep_deletes_dead_rows_past_retention,
    retention_counts_from_the_death,
    sweep_stays_in_its_queue,
    large_sweeps_count_exactly,
    concurrent_sweeps_count_each_row_once,
);
