//! Job handles: what each operation does, and when it no longer lands.

pub(crate) mod backoff;
pub(crate) mod fence;

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, Job, JobHandle, JobState, Queue, QueueOpts, Result};
use serde_json::json;
use tokio::time::Instant;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::queue::{LAPSING, job, now_s, put, take};
use crate::wait::eventually;

/// An acked job is gone.
async fn ack_deletes_the_job(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    assert!(take(&*queue).await.ack().await.unwrap());
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert!(store.queues().await.unwrap().is_empty());
}

/// A dropped handle does nothing: the claim stays until it lapses.
async fn dropping_a_handle_does_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 1, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let id = put(&*queue).await;
    let start = Instant::now();
    drop(take(&*queue).await);
    assert_eq!(job(&*queue, id).await.state, JobState::Processing);
    let again = eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap());
    assert_eq!(again.await.job().attempts, 2);
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
}

/// A retried job waits for exactly the given delay, unclaimed, with all else kept.
async fn retry_keeps_the_job_and_takes_the_given_delay(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { priority: 4, expires: Some(600), ..Default::default() };
    let id = queue.enqueue(json!({ "kept": true }), opts).await.unwrap();
    let before = job(&*queue, id).await;
    let claim = take(&*queue).await;
    let start = now_s();
    assert!(claim.retry(Some("not recorded".into()), Some(40)).await.unwrap());
    let row = job(&*queue, id).await;
    assert!((start + 40..=now_s() + 40).contains(&row.run_at), "{row:?}");
    let Job { run_at, .. } = row;
    let mut expected = before;
    (expected.run_at, expected.attempts) = (run_at, 1);
    assert_eq!(row, expected);
    assert!(queue.claim_one("w").await.unwrap().is_none());
}

/// A retry without delay is ready at once, and its next claim counts on.
async fn retry_without_delay_is_ready_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue =
        store.queue("q", QueueOpts { max_attempts: 9, ..Default::default() }).await.unwrap();
    let id = put(&*queue).await;
    for (attempts, delay) in [(1, 0), (2, -1), (3, i64::MIN)] {
        let claim = take(&*queue).await;
        assert_eq!((claim.job().id, claim.job().attempts), (id, attempts));
        assert!(claim.retry(None, Some(delay)).await.unwrap());
        assert_eq!(job(&*queue, id).await.state, JobState::Pending);
    }
    assert_eq!(take(&*queue).await.job().attempts, 4);
}

/// A retry's delay is never cut short, to the sub-second.
async fn a_retry_delay_is_never_cut_short(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    let claim = take(&*queue).await;
    let start = Instant::now();
    assert!(claim.retry(None, Some(1)).await.unwrap());
    eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap()).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
}

fn assert_dead(row: &Job, claimed: &Job, last_error: &str) {
    assert_eq!(row.last_error.as_deref(), Some(last_error));
    let died_at = row.died_at.unwrap();
    assert!((claimed.claimed_at.unwrap()..=now_s()).contains(&died_at), "{row:?}");
    let mut expected = claimed.clone();
    expected.state = JobState::Dead;
    (expected.last_error, expected.died_at) = (row.last_error.clone(), row.died_at);
    assert_eq!(row, &expected);
}

/// A retry without attempts left is dead, with the caller's text or "max attempts exceeded".
async fn retry_exhausts_with_its_text(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue =
        store.queue("q", QueueOpts { max_attempts: 2, ..Default::default() }).await.unwrap();
    let texts =
        [(None, "max attempts exceeded"), (Some("smtp is down"), "smtp is down"), (Some(""), "")];
    for (err, recorded) in texts {
        for delay in [None, Some(60)] {
            let id = put(&*queue).await;
            assert!(take(&*queue).await.retry(Some("first".into()), Some(0)).await.unwrap());
            assert_eq!(job(&*queue, id).await.last_error, None, "live rows record nothing");
            let claim = take(&*queue).await;
            let claimed = claim.job().clone();
            assert!(claim.retry(err.map(str::to_owned), delay).await.unwrap());
            assert_dead(&job(&*queue, id).await, &claimed, recorded);
        }
    }
}

/// A failed job is dead at once, with the caller's text or "failed", and all else kept.
async fn fail_buries_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { dead_letter_retention_s: Some(60), ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    for (err, recorded) in
        [(None, "failed"), (Some("no such month"), "no such month"), (Some(""), "")]
    {
        let opts = EnqueueOpts { priority: -3, expires: Some(600), ..Default::default() };
        let id = queue.enqueue(json!([1, "x"]), opts).await.unwrap();
        let claim = take(&*queue).await;
        let claimed = claim.job().clone();
        assert!(claim.fail(err.map(str::to_owned)).await.unwrap());
        assert_dead(&job(&*queue, id).await, &claimed, recorded);
        assert!(queue.claim_one("w").await.unwrap().is_none());
    }
}

/// Error texts may hold anything; NUL is stored as U+FFFD, and no text leaves a job stuck.
async fn error_texts_may_hold_anything(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue =
        store.queue("q", QueueOpts { max_attempts: 1, ..Default::default() }).await.unwrap();
    let long = "e".repeat(1 << 20);
    for text in ["a\0b\0", "'; DROP TABLE job; --", "\u{1b}[31m\r\n\t", "🦀\u{feff}", &long] {
        let stored = text.replace('\0', "\u{fffd}");
        for fail in [true, false] {
            let id = put(&*queue).await;
            let claim = take(&*queue).await;
            let ended = if fail {
                claim.fail(Some(text.into())).await
            } else {
                claim.retry(Some(text.into()), None).await
            };
            assert!(ended.unwrap());
            assert_eq!(job(&*queue, id).await.last_error.as_deref(), Some(&*stored));
        }
    }
    let queue = store.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    assert!(take(&*queue).await.retry(Some("a\0b".into()), Some(0)).await.unwrap());
    assert!(take(&*queue).await.ack().await.unwrap());
}

/// A heartbeat sets the deadline anew, counted from now, be it later or earlier than before.
async fn heartbeat_resets_the_deadline(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    let claim = take(&*queue).await;
    for extend in [1_000, 40, 7_000, 7_000] {
        let before = now_s();
        assert!(claim.heartbeat(extend).await.unwrap());
        let row = job(&*queue, id).await;
        let until = row.claim_expires_at.unwrap();
        assert!((before + extend..=now_s() + extend).contains(&until), "{extend}: {row:?}");
        assert_eq!((row.attempts, row.claimed_at), (1, claim.job().claimed_at));
    }
    assert!(claim.ack().await.unwrap());
}

/// A heartbeat keeps a claim beyond its visibility timeout; the last one decides, to the
/// sub-second.
async fn heartbeat_is_honoured_to_the_sub_second(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    let claim = take(&*queue).await;
    assert!(claim.heartbeat(600).await.unwrap());
    let start = Instant::now();
    assert!(claim.heartbeat(1).await.unwrap());
    eventually(Duration::from_secs(10), async || queue.claim_one("v").await.unwrap()).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
    assert!(!claim.heartbeat(1).await.unwrap());
}

/// A heartbeat is refused exactly when the deadline has lapsed.
async fn late_heartbeats_are_refused(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 2, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    put(&*queue).await;
    let start = Instant::now();
    let claim = take(&*queue).await;
    assert!(claim.heartbeat(1).await.unwrap());
    let renewed = Instant::now();
    let row = job(&*queue, claim.job().id).await;
    eventually(Duration::from_secs(10), async || {
        (now_s() > row.claim_expires_at.unwrap()).then_some(())
    })
    .await;
    assert!(!claim.heartbeat(60).await.unwrap());
    assert!(
        renewed.elapsed() >= Duration::from_secs(1) && start.elapsed() < Duration::from_secs(9)
    );
    let after = job(&*queue, claim.job().id).await;
    assert_eq!(after, row, "a refused heartbeat changes nothing");
}

/// A job that is handed back is ready as before, and the attempt does not count.
async fn hand_back_gives_the_attempt_back(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue =
        store.queue("q", QueueOpts { max_attempts: 1, ..Default::default() }).await.unwrap();
    let opts = EnqueueOpts { run_at: Some(100), priority: 2, ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    let before = job(&*queue, id).await;
    for _ in 0..10 {
        let claim = take(&*queue).await;
        assert_eq!((claim.job().id, claim.job().attempts), (id, 1));
        assert!(claim.hand_back().await.unwrap());
        assert_eq!(job(&*queue, id).await, before);
    }
    assert!(take(&*queue).await.ack().await.unwrap());
}

type Operation = fn(Box<dyn JobHandle>) -> alkstore::BoxedFuture<'static, Result<bool>>;

/// Every operation of a handle.
const OPERATIONS: [(&str, Operation); 6] = [
    ("ack", |job| job.ack()),
    ("retry", |job| job.retry(Some("late".into()), None)),
    ("retry now", |job| job.retry(None, Some(0))),
    ("fail", |job| job.fail(Some("late".into()))),
    ("heartbeat", |job| Box::pin(async move { job.heartbeat(60).await })),
    ("hand_back", |job| job.hand_back()),
];

/// Once the deadline has lapsed, every operation is `false` and changes nothing.
async fn operations_after_the_deadline_change_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for max_attempts in [1, 3] {
        let queue = store.queue("q", QueueOpts { max_attempts, ..LAPSING }).await.unwrap();
        for (name, operation) in OPERATIONS {
            let id = put(&*queue).await;
            let claim = take(&*queue).await;
            let before = job(&*queue, id).await;
            assert!(!operation(claim).await.unwrap(), "{name}");
            assert_eq!(job(&*queue, id).await, before, "{name}");
            assert!(queue.cancel(id).await.unwrap());
        }
    }
}

async fn ended(queue: &dyn Queue, how: usize) -> Box<dyn JobHandle> {
    let id = put(queue).await;
    let claim = take(queue).await;
    match how {
        0 => assert!(queue.cancel(id).await.unwrap()),
        _ => assert_eq!(queue.ack_batch(&[id]).await.unwrap(), 1),
    }
    claim
}

/// A live claim is as good after the job's expiry as before: only its deadline counts.
async fn a_live_claim_outlives_the_jobs_expiry(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { expires: Some(2), ..Default::default() };
    for _ in OPERATIONS {
        queue.enqueue(json!(1), opts.clone()).await.unwrap();
    }
    let claims = queue.claim_batch("w", 100).await.unwrap();
    let expires_at = claims.last().unwrap().job().expires_at.unwrap();
    eventually(Duration::from_secs(10), async || (now_s() > expires_at).then_some(())).await;
    assert_eq!(claims.len(), OPERATIONS.len());
    for ((name, operation), claim) in OPERATIONS.into_iter().zip(claims) {
        assert!(operation(claim).await.unwrap(), "{name}");
    }
    assert!(queue.claim_one("w").await.unwrap().is_none(), "what came back has expired");
    assert_eq!(
        queue.sweep_expired().await.unwrap(),
        4,
        "two retried, one renewed, one handed back"
    );
}

/// Once the job is gone, cancelled or acked elsewhere, every operation is `false`.
async fn operations_on_a_job_that_is_gone_are_false(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for (name, operation) in OPERATIONS {
        for how in 0..2 {
            let claim = ended(&*queue, how).await;
            let id = claim.job().id;
            assert!(!operation(claim).await.unwrap(), "{name}");
            assert_eq!(queue.get_job(id).await.unwrap(), None, "{name}");
        }
    }
    assert!(store.queues().await.unwrap().is_empty());
}

/// A handle shows the job as it was claimed, whatever happens to the row.
async fn a_handle_shows_the_job_as_it_was_claimed(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = put(&*queue).await;
    let claim = take(&*queue).await;
    let shown = claim.job().clone();
    assert!(claim.heartbeat(1_000).await.unwrap());
    assert!(queue.cancel(id).await.unwrap());
    assert_eq!(claim.job(), &shown);
}

/// A claim can be ended by a task elsewhere: handles move between threads.
async fn handles_move_between_tasks(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for _ in 0..10 {
        put(&*queue).await;
    }
    let claims = queue.claim_batch("w", 10).await.unwrap();
    drop(queue);
    let tasks: Vec<_> = claims
        .into_iter()
        .map(|claim| {
            tokio::spawn(async move {
                assert!(claim.heartbeat(60).await.unwrap());
                claim.ack().await.unwrap()
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert!(store.queues().await.unwrap().is_empty());
}

cases!("job":
    ack_deletes_the_job,
    dropping_a_handle_does_nothing,
    retry_keeps_the_job_and_takes_the_given_delay,
    retry_without_delay_is_ready_at_once,
    a_retry_delay_is_never_cut_short,
    retry_exhausts_with_its_text,
    fail_buries_at_once,
    error_texts_may_hold_anything,
    heartbeat_resets_the_deadline,
    heartbeat_is_honoured_to_the_sub_second,
    late_heartbeats_are_refused,
    hand_back_gives_the_attempt_back,
    operations_after_the_deadline_change_nothing,
    a_live_claim_outlives_the_jobs_expiry,
    operations_on_a_job_that_is_gone_are_false,
    a_handle_shows_the_job_as_it_was_claimed,
    handles_move_between_tasks,
);
