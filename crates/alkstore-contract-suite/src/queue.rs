//! Queues: what an enqueue writes, what can be seen of it, and cancelling.

pub(crate) mod ack_batch;
pub(crate) mod backlog;
pub(crate) mod batch;
pub(crate) mod claim;
pub(crate) mod exact;
pub(crate) mod history;
pub(crate) mod sweep;
pub(crate) mod wait_ready;

use std::collections::BTreeSet;
use std::sync::Arc;

use alkstore::engine::clock::Clock;
use alkstore::{EnqueueOpts, Job, JobHandle, JobState, Queue, QueueOpts};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;

/// Claims that lapse at once, so that a case need not wait for it.
pub(crate) const LAPSING: QueueOpts = QueueOpts {
    visibility_timeout_s: 0,
    max_attempts: 3,
    backoff_base_s: 0,
    dead_letter_retention_s: None,
};

/// Unix seconds.
pub(crate) fn now_s() -> i64 {
    Clock::System.now_us().div_euclid(1_000_000)
}

/// Enqueues a job without options.
pub(crate) async fn put(queue: &dyn Queue) -> i64 {
    queue.enqueue(json!(1), Default::default()).await.unwrap()
}

/// Claims the job that must be there.
pub(crate) async fn take(queue: &dyn Queue) -> Box<dyn JobHandle> {
    queue.claim_one("w").await.unwrap().expect("a job is ready")
}

/// The job that must be there.
pub(crate) async fn job(queue: &dyn Queue, id: i64) -> Job {
    queue.get_job(id).await.unwrap().expect("the job exists")
}

/// An enqueued job is pending with all options resolved, and unclaimed.
async fn an_enqueued_job_shows_its_resolved_options(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let before = now_s();
    let id = put(&*queue).await;
    let job = job(&*queue, id).await;
    assert!((before..=now_s()).contains(&job.created_at), "{job:?}");
    assert_eq!((job.id, &*job.queue, job.state), (id, "q", JobState::Pending));
    assert_eq!((job.payload, job.priority, job.run_at), (b"1".into(), 0, job.created_at));
    assert_eq!((job.attempts, job.max_attempts), (0, 3));
    assert_eq!((job.worker_id, job.claimed_at, job.claim_expires_at), (None, None, None));
    assert_eq!((job.expires_at, job.visibility_timeout_s, job.backoff_base_s), (None, 300, 5));
    assert_eq!((job.dead_letter_retention_s, job.last_error, job.died_at), (None, None, None));
}

/// A delay wins over `run_at`, which is taken literally; the resolved time is shown.
async fn delay_wins_over_run_at(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for (delay, run_at) in
        [(Some(60), Some(5)), (Some(60), None), (Some(0), Some(5)), (None, Some(5))]
    {
        let opts = EnqueueOpts { delay, run_at, ..Default::default() };
        let id = queue.enqueue(json!(1), opts).await.unwrap();
        let job = job(&*queue, id).await;
        assert_eq!(job.run_at, delay.map_or(5, |delay| job.created_at + delay), "{delay:?}");
    }
}

/// `expires` counts from the enqueue.
async fn expires_is_relative_to_the_enqueue(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { expires: Some(60), delay: Some(10), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    let job = job(&*queue, id).await;
    assert_eq!(job.expires_at, Some(job.created_at + 60));
}

/// A handle stamps its own options on what it enqueues, and leaves what is there alone.
async fn handles_stamp_their_own_options(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts {
        visibility_timeout_s: 7,
        max_attempts: 8,
        backoff_base_s: 9,
        dead_letter_retention_s: Some(10),
    };
    let one = store.queue("q", opts).await.unwrap();
    let other = store.queue("q", Default::default()).await.unwrap();
    let (ours, theirs) = (put(&*one).await, put(&*other).await);
    let stamps = |job: Job| {
        let Job { visibility_timeout_s, max_attempts, backoff_base_s, .. } = job;
        (visibility_timeout_s, max_attempts, backoff_base_s, job.dead_letter_retention_s)
    };
    assert_eq!(stamps(job(&*other, ours).await), (7, 8, 9, Some(10)));
    assert_eq!(stamps(job(&*one, theirs).await), (300, 3, 5, None));
}

/// `max_attempts` of one enqueue overrides that stamp alone.
async fn max_attempts_overrides_the_stamp(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", LAPSING).await.unwrap();
    let opts = EnqueueOpts { max_attempts: Some(9), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    let job = job(&*queue, id).await;
    assert_eq!((job.max_attempts, job.visibility_timeout_s, job.backoff_base_s), (9, 0, 0));
}

/// `enqueue_tx` stamps the plain defaults, whatever handles are open, and its own options.
async fn enqueue_tx_stamps_the_plain_defaults(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", LAPSING).await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let id = tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    let opts = EnqueueOpts { priority: -4, max_attempts: Some(9), ..Default::default() };
    let other = tx.enqueue_tx("q", opts, json!(1)).await.unwrap();
    tx.commit().await.unwrap();
    let plain = job(&*queue, id).await;
    assert_eq!((plain.visibility_timeout_s, plain.max_attempts, plain.backoff_base_s), (300, 3, 5));
    assert_eq!((plain.dead_letter_retention_s, plain.priority), (None, 0));
    let other = job(&*queue, other).await;
    assert_eq!((other.max_attempts, other.priority, other.visibility_timeout_s), (9, -4, 300));
}

/// Every enqueue returns an id by which the job is found at once.
async fn every_enqueue_returns_an_id_that_is_found(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let elsewhere = other.queue("q", Default::default()).await.unwrap();
    let same = || EnqueueOpts { priority: 1, run_at: Some(1), ..Default::default() };
    for _ in 0..20 {
        let id = queue.enqueue(json!("same"), same()).await.unwrap();
        assert_eq!(job(&*queue, id).await.id, id);
        assert_eq!(job(&*elsewhere, id).await.id, id);
    }
    assert_eq!(store.jobs("q", None, None, 100).await.unwrap().len(), 20);
}

/// An id is never used again: not after an ack, cancel, rollback, sweep or discard.
async fn ids_are_never_used_again(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { dead_letter_retention_s: Some(0), ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(put(&*queue).await);
        assert!(take(&*queue).await.ack().await.unwrap());
        ids.push(put(&*queue).await);
        assert!(queue.cancel(*ids.last().unwrap()).await.unwrap());
        let mut tx = store.begin_tx().await.unwrap();
        ids.push(tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap());
        tx.rollback().await.unwrap();
        ids.push(put(&*queue).await);
        assert!(take(&*queue).await.fail(None).await.unwrap());
        assert_eq!(queue.sweep_expired().await.unwrap(), 1);
        ids.push(put(&*queue).await);
        assert!(take(&*queue).await.fail(None).await.unwrap());
        let redriven = store.redrive("q", &[*ids.last().unwrap()]).await.unwrap();
        ids.extend(&redriven);
        assert!(take(&*queue).await.fail(None).await.unwrap());
        assert_eq!(store.discard("q", &redriven).await.unwrap(), 1);
    }
    assert!(store.queues().await.unwrap().is_empty());
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    assert!(ids.iter().all(|id| *id > 0), "{ids:?}");
}

/// Ids are unique over all queues and outboxes, also when enqueued concurrently.
async fn ids_are_unique_in_the_store(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut tasks = Vec::new();
    for n in 0..8 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        tasks.push(tokio::spawn(async move {
            let queue = store.queue(&format!("q{}", n % 3), Default::default()).await.unwrap();
            let outbox = store.outbox("o").await.unwrap();
            let mut ids = Vec::new();
            for _ in 0..10 {
                ids.push(put(&*queue).await);
                ids.push(outbox.enqueue(json!(1), Default::default()).await.unwrap());
            }
            ids
        }));
    }
    let mut ids = BTreeSet::new();
    for task in tasks {
        ids.extend(task.await.unwrap());
    }
    assert_eq!(ids.len(), 160);
}

/// A queue shows its own jobs only, and touches no other's.
async fn queues_are_isolated(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let other = store.queue("r", Default::default()).await.unwrap();
    let (live, dead) = (put(&*queue).await, put(&*queue).await);
    let claimed = queue.claim_batch("w", 2).await.unwrap();
    assert!(claimed.into_iter().nth(1).unwrap().fail(None).await.unwrap());
    for id in [live, dead] {
        assert_eq!(other.get_job(id).await.unwrap(), None);
        assert!(!other.cancel(id).await.unwrap());
        assert!(queue.get_job(id).await.unwrap().is_some());
    }
    assert!(other.claim_one("w").await.unwrap().is_none());
    assert_eq!(other.ack_batch(&[live, dead]).await.unwrap(), 0);
    assert_eq!(other.sweep_expired().await.unwrap(), 0);
    assert_eq!(job(&*queue, live).await.state, JobState::Processing);
    let mut tx = store.begin_tx().await.unwrap();
    assert_eq!(tx.get_job_tx("r", live).await.unwrap(), None);
    assert_eq!(tx.get_job_tx("q", dead).await.unwrap().unwrap().state, JobState::Dead);
}

/// Cancelling deletes a live job in whatever state, and tells nobody.
async fn cancel_deletes_live_jobs(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let lapsing = store.queue("q", LAPSING).await.unwrap();
    let claimed_id = put(&*queue).await;
    let claimed = take(&*queue).await;
    let lapsed_id = put(&*lapsing).await;
    let lapsed = take(&*queue).await;
    let pending = put(&*queue).await;
    let later = EnqueueOpts { delay: Some(60), ..Default::default() };
    let delayed = queue.enqueue(json!(1), later).await.unwrap();
    let expired = EnqueueOpts { expires: Some(-1), ..Default::default() };
    let expired = queue.enqueue(json!(1), expired).await.unwrap();
    for id in [claimed_id, lapsed_id, pending, delayed, expired] {
        assert!(queue.cancel(id).await.unwrap());
        assert_eq!(queue.get_job(id).await.unwrap(), None);
        assert!(!queue.cancel(id).await.unwrap(), "it is gone");
    }
    assert!(!claimed.heartbeat(60).await.unwrap());
    assert!(!claimed.ack().await.unwrap());
    assert!(!lapsed.fail(None).await.unwrap());
    assert!(store.queues().await.unwrap().is_empty());
}

/// Cancelling leaves dead jobs alone.
async fn cancel_leaves_dead_jobs_alone(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    assert!(take(&*queue).await.fail(Some("why".into())).await.unwrap());
    assert!(!queue.cancel(id).await.unwrap());
    assert_eq!(job(&*queue, id).await.last_error.as_deref(), Some("why"));
}

cases!("queue":
    an_enqueued_job_shows_its_resolved_options,
    delay_wins_over_run_at,
    expires_is_relative_to_the_enqueue,
    handles_stamp_their_own_options,
    max_attempts_overrides_the_stamp,
    enqueue_tx_stamps_the_plain_defaults,
    every_enqueue_returns_an_id_that_is_found,
    ids_are_never_used_again,
    ids_are_unique_in_the_store,
    queues_are_isolated,
    cancel_deletes_live_jobs,
    cancel_leaves_dead_jobs_alone,
);
