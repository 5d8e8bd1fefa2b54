//! Long backlogs: thousands of rows that come due, lapse or expire hide nothing and change no order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, JobState, Queue, QueueOpts};
use serde_json::json;

use super::{LAPSING, job, now_s, put, take};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::wait::eventually;

const MANY: i64 = 3_000;

async fn put_many(queue: &dyn Queue, opts: impl Fn(i64) -> EnqueueOpts) -> Vec<i64> {
    let jobs = (0..MANY).map(|n| (json!(n), opts(n))).collect();
    queue.enqueue_batch(jobs).await.unwrap()
}

/// Expired jobs in front, however many, hide no job behind them.
async fn many_expired_jobs_hide_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let expired = |_| EnqueueOpts { priority: 9, expires: Some(0), ..Default::default() };
    let ids = put_many(&*queue, expired).await;
    let good = put(&*queue).await;
    assert!(queue.wait_ready(Duration::from_secs(5)).await.unwrap());
    assert_eq!(take(&*queue).await.job().id, good);
    assert!(queue.claim_batch("w", 10).await.unwrap().is_empty());
    assert_eq!(job(&*queue, ids[0]).await.state, JobState::Pending);
    assert_eq!(queue.sweep_expired().await.unwrap(), MANY);
}

/// Nor do they make a worker's loop spin.
async fn many_expired_jobs_do_not_make_a_worker_spin(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    put_many(&*queue, |_| EnqueueOpts { expires: Some(0), ..Default::default() }).await;
    let mut rounds = 0;
    while queue.wait_ready(Duration::from_millis(200)).await.unwrap() {
        rounds += 1;
        assert!(queue.claim_one("w").await.unwrap().is_none());
        assert!(rounds <= 2, "it spins on jobs that nobody can claim");
    }
}

/// Exhausted jobs, however many, are buried by one claim and hide no job behind them.
async fn many_exhausted_jobs_are_buried_by_one_claim(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", QueueOpts { max_attempts: 1, ..LAPSING }).await.unwrap();
    let ids = put_many(&*queue, |_| EnqueueOpts { priority: 9, ..Default::default() }).await;
    assert_eq!(queue.claim_batch("w", MANY).await.unwrap().len(), ids.len());
    let good = put(&*queue).await;
    assert_eq!(take(&*queue).await.job().id, good);
    assert_eq!(store.queues().await.unwrap()[0].dead, MANY);
    let dead = job(&*queue, *ids.last().unwrap()).await;
    assert_eq!(dead.last_error.as_deref(), Some("max attempts exceeded"));
}

/// Jobs that come due together are claimed in claim order over all of them.
async fn jobs_that_come_due_together_keep_their_order(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    // The later in the order of the ids, the earlier in that of the claims.
    let run_at = now_s() + 2;
    let later = |n| EnqueueOpts { priority: n, run_at: Some(run_at), ..Default::default() };
    let ids = put_many(&*queue, later).await;
    let first = eventually(Duration::from_secs(10), async || queue.claim_one("w").await.unwrap());
    assert_eq!(first.await.job().id, *ids.last().unwrap());
    let rest = queue.claim_batch("w", 2 * MANY).await.unwrap();
    let rest: Vec<i64> = rest.iter().map(|claim| claim.job().id).collect();
    let expected: Vec<i64> = ids.iter().rev().skip(1).copied().collect();
    assert!(rest == expected, "{} of {} in order", rest.len(), expected.len());
}

/// Claims that lapse together are given out again in claim order, among those that are ready.
async fn claims_that_lapse_together_keep_their_order(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", LAPSING).await.unwrap();
    let opts = |n| EnqueueOpts { priority: n % 7, run_at: Some(n % 11), ..Default::default() };
    let ids = put_many(&*queue, opts).await;
    let mut expected: Vec<(i64, i64, i64)> =
        (0..MANY).zip(&ids).map(|(n, id)| (-(n % 7), n % 11, *id)).collect();
    expected.sort_unstable();
    for part in [MANY / 2, MANY] {
        let claims = queue.claim_batch("w", part).await.unwrap();
        let claimed: Vec<i64> = claims.iter().map(|claim| claim.job().id).collect();
        let part = usize::try_from(part).unwrap();
        let distinct = claimed.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct, part, "a batch has each job once, even if its claim lapses at once");
        let ordered = claimed.iter().eq(expected[..part].iter().map(|(_, _, id)| id));
        assert!(ordered, "the batch is not in claim order");
    }
}

cases!("queue":
    many_expired_jobs_hide_nothing,
    many_expired_jobs_do_not_make_a_worker_spin,
    many_exhausted_jobs_are_buried_by_one_claim,
    jobs_that_come_due_together_keep_their_order,
    claims_that_lapse_together_keep_their_order,
);
