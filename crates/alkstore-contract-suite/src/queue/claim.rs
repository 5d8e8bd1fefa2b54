//! Claims: who gets which job, in what order, and when.

use std::collections::BTreeMap;
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

async fn with(queue: &dyn Queue, priority: i64, run_at: i64) -> i64 {
    let opts = EnqueueOpts { priority, run_at: Some(run_at), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap()
}

async fn claimed(queue: &dyn Queue, n: i64) -> Vec<i64> {
    let claims = queue.claim_batch("w", n).await.unwrap();
    claims.iter().map(|claim| claim.job().id).collect()
}

/// No work is a value.
async fn an_empty_queue_yields_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert!(queue.claim_batch("w", 10).await.unwrap().is_empty());
}

/// The highest priority is claimed first.
async fn claim_prefers_higher_priority(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut expected = Vec::new();
    for priority in [0, 5, -5, i64::MAX, i64::MIN] {
        expected.push((std::cmp::Reverse(priority), with(&*queue, priority, 1).await));
    }
    expected.sort_unstable();
    for (_, id) in expected {
        assert_eq!(take(&*queue).await.job().id, id);
    }
}

/// Under equal priority the earlier ready time is claimed first.
async fn claim_prefers_earlier_ready_time(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let now = put(&*queue).await;
    let mut expected = Vec::new();
    for run_at in [200, 100, -7, 150, i64::MIN] {
        expected.push((run_at, with(&*queue, 0, run_at).await));
    }
    expected.sort_unstable();
    for (_, id) in expected {
        assert_eq!(take(&*queue).await.job().id, id);
    }
    assert_eq!(take(&*queue).await.job().id, now);
}

/// Under equal priority and ready time, jobs are claimed in the order of their enqueue.
async fn claim_is_fifo_among_equals(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(with(&*queue, 3, 100).await);
    }
    let mut order = claimed(&*queue, 5).await;
    for _ in 0..5 {
        order.push(take(&*queue).await.job().id);
    }
    order.extend(claimed(&*queue, 100).await);
    assert_eq!(order, ids);
}

/// `claim_batch` returns its handles in claim order, and no more than asked for.
async fn claim_batch_keeps_claim_order(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut expected = Vec::new();
    for _ in 0..60 {
        let (priority, run_at) = (random.i64(-2..3), random.i64(100..104));
        let id = with(&*queue, priority, run_at).await;
        expected.push((std::cmp::Reverse(priority), run_at, id));
    }
    expected.sort_unstable();
    let expected: Vec<i64> = expected.into_iter().map(|(_, _, id)| id).collect();
    let mut order = Vec::new();
    for n in [1, 7, 40] {
        let claims = claimed(&*queue, n).await;
        assert_eq!(claims.len(), usize::try_from(n).unwrap());
        order.extend(claims);
    }
    order.extend(claimed(&*queue, 1_000).await);
    assert_eq!(order, expected);
}

/// Lapsed claims and due jobs stand in one line: priority decides between them too.
async fn lapsed_and_due_jobs_share_one_order(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let lapsing = store.queue("q", LAPSING).await.unwrap();
    let low_lapsed = with(&*lapsing, 1, 100).await;
    let high_lapsed = with(&*lapsing, 3, 100).await;
    assert_eq!(claimed(&*lapsing, 2).await, [high_lapsed, low_lapsed]);
    let queue = store.queue("q", Default::default()).await.unwrap();
    let due = [with(&*queue, 2, 100).await, with(&*queue, 4, 100).await];
    let earlier = with(&*queue, 3, 99).await;
    let later = with(&*queue, 3, 101).await;
    let expected = [due[1], earlier, high_lapsed, later, due[0], low_lapsed];
    assert_eq!(claimed(&*queue, 6).await, expected);
}

/// A claim counts an attempt and shows who holds the job and until when.
async fn a_claim_marks_the_row(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 77, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let id = put(&*queue).await;
    let before = now_s();
    let claim = queue.claim_one("worker seven").await.unwrap().unwrap();
    let row = job(&*queue, id).await;
    assert_eq!(&row, claim.job());
    assert_eq!((row.state, row.attempts), (JobState::Processing, 1));
    assert_eq!(row.worker_id.as_deref(), Some("worker seven"));
    let at = row.claimed_at.unwrap();
    assert!((before..=now_s()).contains(&at), "{row:?}");
    assert_eq!(row.claim_expires_at, Some(at + 77));
    assert_eq!((row.last_error, row.died_at), (None, None));
}

/// A claim uses the job's own stamps, whatever handle makes it.
async fn a_claim_lasts_as_the_job_is_stamped(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 1_000, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    put(&*queue).await;
    let other = store.queue("q", LAPSING).await.unwrap();
    let claim = take(&*other).await;
    let row = claim.job();
    assert_eq!(row.claim_expires_at, Some(row.claimed_at.unwrap() + 1_000));
    assert!(other.claim_one("v").await.unwrap().is_none());
}

/// A live claim hides its job from everybody, its own worker included, and blocks no other job.
async fn a_live_claim_excludes_others(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let first = put(&*queue).await;
    let claim = take(&*queue).await;
    assert_eq!(claim.job().id, first);
    for worker in ["w", "v"] {
        assert!(queue.claim_one(worker).await.unwrap().is_none());
    }
    let second = put(&*queue).await;
    assert_eq!(take(&*queue).await.job().id, second);
    assert!(claim.ack().await.unwrap());
}

/// A delayed job is not claimed before its time, to the sub-second, and soon after it.
async fn a_delay_is_never_cut_short(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let start = Instant::now();
    let opts = EnqueueOpts { delay: Some(1), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    let enqueued = Instant::now();
    let claim = eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap());
    assert_eq!(claim.await.job().id, id);
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(enqueued.elapsed() < Duration::from_secs(4), "late: {:?}", enqueued.elapsed());
}

/// A delay given in a transaction counts from the call, not from its begin or commit.
async fn a_delay_in_a_transaction_counts_from_the_call(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let first = tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    let began = Instant::now();
    eventually(Duration::from_secs(5), async || {
        (began.elapsed() > Duration::from_millis(1_100)).then_some(())
    })
    .await;
    let start = Instant::now();
    let opts = EnqueueOpts { delay: Some(1), ..Default::default() };
    let second = tx.enqueue_tx("q", opts, json!(2)).await.unwrap();
    tx.commit().await.unwrap();
    let (one, two) = (job(&*queue, first).await, job(&*queue, second).await);
    assert!(two.created_at > one.created_at, "{one:?} {two:?}");
    assert_eq!(take(&*queue).await.job().id, first);
    let claim = eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap());
    assert_eq!(claim.await.job().id, second);
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
}

/// A future `run_at` hides a job, and does not hide those behind it.
async fn a_future_job_hides_nothing_behind_it(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for _ in 0..3 {
        with(&*queue, 100, now_s() + 1_000).await;
    }
    let due = with(&*queue, -100, 100).await;
    assert_eq!(claimed(&*queue, 10).await, [due]);
    assert!(queue.claim_one("w").await.unwrap().is_none());
}

/// A claim of 1 s is not given away before 1 s, and is soon after; that consumes an attempt.
async fn a_claim_lapses_at_its_deadline_and_not_before(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 1, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    put(&*queue).await;
    let start = Instant::now();
    let first = take(&*queue).await;
    let taken = Instant::now();
    let again = eventually(Duration::from_secs(10), async || queue.claim_one("v").await.unwrap());
    let again = again.await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(taken.elapsed() < Duration::from_secs(4), "late: {:?}", taken.elapsed());
    assert_eq!((again.job().id, again.job().attempts), (first.job().id, 2));
    assert_eq!(again.job().worker_id.as_deref(), Some("v"));
    assert!(!first.ack().await.unwrap());
    assert!(again.ack().await.unwrap());
}

/// A restarted worker of the same name waits like any other, and its old handle is dead.
async fn a_worker_of_the_same_name_inherits_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 1, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    put(&*queue).await;
    let start = Instant::now();
    let old = take(&*queue).await;
    let restarted = store.another().await;
    let queue = restarted.queue("q", Default::default()).await.unwrap();
    let new = eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap());
    let new = new.await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(!old.heartbeat(60).await.unwrap());
    assert!(!old.retry(None, None).await.unwrap());
    assert!(new.ack().await.unwrap());
}

/// A visibility timeout of 0 or less lapses at once.
async fn a_visibility_that_is_not_positive_lapses_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for visibility_timeout_s in [0, -1, i64::MIN] {
        let opts = QueueOpts { visibility_timeout_s, ..Default::default() };
        let queue = store.queue("q", opts).await.unwrap();
        let id = put(&*queue).await;
        for attempts in 1..=3 {
            let claim = take(&*queue).await;
            assert_eq!((claim.job().id, claim.job().attempts), (id, attempts));
            assert!(!claim.heartbeat(60).await.unwrap());
            assert!(!claim.ack().await.unwrap());
        }
        assert!(queue.claim_one("w").await.unwrap().is_none());
        assert_eq!(job(&*queue, id).await.state, JobState::Dead);
    }
}

/// The next claim on the queue buries what is lapsed and has no attempt left.
async fn a_claim_buries_exhausted_jobs(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { max_attempts: 2, dead_letter_retention_s: Some(9), ..LAPSING };
    let queue = store.queue("q", opts).await.unwrap();
    let (id, other) = (put(&*queue).await, put(&*queue).await);
    assert_eq!(claimed(&*queue, 2).await, [id, other]);
    assert_eq!(claimed(&*queue, 2).await, [id, other]);
    let held = job(&*queue, id).await;
    assert_eq!((held.state, held.attempts), (JobState::Processing, 2));
    let fresh = put(&*queue).await;
    assert_eq!(take(&*queue).await.job().id, fresh);
    for id in [id, other] {
        let dead = job(&*queue, id).await;
        assert_eq!((dead.state, dead.attempts), (JobState::Dead, 2));
        assert_eq!(dead.last_error.as_deref(), Some("max attempts exceeded"));
        assert!(dead.died_at.unwrap() >= dead.created_at);
        assert_eq!((dead.worker_id.as_deref(), dead.max_attempts), (Some("w"), 2));
        assert_eq!((dead.visibility_timeout_s, dead.dead_letter_retention_s), (0, Some(9)));
    }
}

/// A job that is stamped with no attempts never runs; a claim buries it once it is due.
async fn a_job_without_attempts_never_runs(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let none = |max_attempts, delay| EnqueueOpts {
        max_attempts: Some(max_attempts),
        delay,
        ..Default::default()
    };
    let mut ids = Vec::new();
    for max_attempts in [0, -1, i64::MIN] {
        ids.push(queue.enqueue(json!(1), none(max_attempts, None)).await.unwrap());
    }
    let later = queue.enqueue(json!(1), none(0, Some(60))).await.unwrap();
    assert!(queue.claim_one("w").await.unwrap().is_none());
    for id in ids {
        let dead = job(&*queue, id).await;
        assert_eq!((dead.state, dead.attempts), (JobState::Dead, 0));
        assert_eq!(dead.last_error.as_deref(), Some("max attempts exceeded"));
        assert_eq!((dead.worker_id, dead.claimed_at), (None, None));
    }
    assert_eq!(job(&*queue, later).await.state, JobState::Pending);
}

/// A job past its expiry is never handed out, and stays as it is until it is swept.
async fn an_expired_job_is_not_handed_out(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", LAPSING).await.unwrap();
    let expiring = |s| EnqueueOpts { expires: Some(s), ..Default::default() };
    let mut ids = Vec::new();
    for expires in [0, -1, i64::MIN] {
        ids.push(queue.enqueue(json!(1), expiring(expires)).await.unwrap());
    }
    let live = queue.enqueue(json!(1), expiring(60)).await.unwrap();
    assert_eq!(claimed(&*queue, 10).await, [live]);
    for id in ids {
        let row = job(&*queue, id).await;
        assert_eq!((row.state, row.attempts, row.last_error), (JobState::Pending, 0, None));
    }
}

/// A job expires while it waits, or between two claims.
async fn a_job_expires_in_time(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", LAPSING).await.unwrap();
    let opts =
        EnqueueOpts { expires: Some(2), max_attempts: Some(1_000_000), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    assert_eq!(take(&*queue).await.job().id, id);
    eventually(Duration::from_secs(10), async || {
        queue.claim_one("w").await.unwrap().is_none().then_some(())
    })
    .await;
    let row = job(&*queue, id).await;
    assert!(row.expires_at.unwrap() <= now_s(), "{row:?}");
    assert_eq!(row.state, JobState::Processing);
}

/// Claims from one queue take nothing from another.
async fn claims_stay_in_their_queue(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let other = store.queue("r", Default::default()).await.unwrap();
    let theirs = put(&*other).await;
    let ours = put(&*queue).await;
    assert_eq!(claimed(&*queue, 10).await, [ours]);
    assert_eq!(claimed(&*other, 10).await, [theirs]);
}

async fn drain(store: Opened, worker: String, by: i64) -> Vec<i64> {
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut ids = Vec::new();
    loop {
        let claims = if by == 1 {
            queue.claim_one(&worker).await.unwrap().into_iter().collect()
        } else {
            queue.claim_batch(&worker, by).await.unwrap()
        };
        if claims.is_empty() {
            return ids;
        }
        for claim in claims {
            assert_eq!(claim.job().worker_id.as_deref(), Some(&*worker));
            ids.push(claim.job().id);
            assert!(claim.ack().await.unwrap());
        }
    }
}

/// Concurrent claimers never get the same job, and miss none.
async fn concurrent_claimers_share_without_overlap(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let jobs = (0..300).map(|n| (json!(n), Default::default())).collect();
    let mut ids = queue.enqueue_batch(jobs).await.unwrap();
    let mut tasks = Vec::new();
    for (n, by) in [1, 7, 1, 7, 1, 7, 3, 3].into_iter().enumerate() {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        tasks.push(tokio::spawn(drain(store, format!("w{n}"), by)));
    }
    let mut found: BTreeMap<i64, i64> = BTreeMap::new();
    for task in tasks {
        for id in task.await.unwrap() {
            *found.entry(id).or_default() += 1;
        }
    }
    assert!(found.values().all(|times| *times == 1), "{found:?}");
    ids.sort_unstable();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ids);
}

cases!("queue":
    an_empty_queue_yields_nothing,
    claim_prefers_higher_priority,
    claim_prefers_earlier_ready_time,
    claim_is_fifo_among_equals,
    claim_batch_keeps_claim_order,
    lapsed_and_due_jobs_share_one_order,
    a_claim_marks_the_row,
    a_claim_lasts_as_the_job_is_stamped,
    a_live_claim_excludes_others,
    a_delay_is_never_cut_short,
    a_delay_in_a_transaction_counts_from_the_call,
    a_future_job_hides_nothing_behind_it,
    a_claim_lapses_at_its_deadline_and_not_before,
    a_worker_of_the_same_name_inherits_nothing,
    a_visibility_that_is_not_positive_lapses_at_once,
    a_claim_buries_exhausted_jobs,
    a_job_without_attempts_never_runs,
    an_expired_job_is_not_handed_out,
    a_job_expires_in_time,
    claims_stay_in_their_queue,
    concurrent_claimers_share_without_overlap,
);
