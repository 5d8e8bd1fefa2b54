//! Repairs by hand: redrive, discard, `retry_now`, checkpoints and locks.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, Job, JobHandle, JobState, Queue, QueueOpts};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::open;
use crate::queue::{job, now_s, put, take};
use crate::stream::{offsets, publish};
use crate::wait::eventually;

async fn dead(queue: &dyn Queue) -> i64 {
    let id = put(queue).await;
    assert!(take(queue).await.fail(Some("why".into())).await.unwrap());
    id
}

/// A redriven job starts afresh under a new id, with its payload, priority and stamps.
async fn redrive_starts_dead_jobs_afresh(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts {
        visibility_timeout_s: 7,
        max_attempts: 8,
        backoff_base_s: 9,
        dead_letter_retention_s: Some(600),
    };
    let queue = store.queue("q", opts).await.unwrap();
    let opts =
        EnqueueOpts { priority: 4, expires: Some(600), run_at: Some(5), ..Default::default() };
    let id = queue.enqueue(json!({ "kept": [1.5] }), opts).await.unwrap();
    assert!(take(&*queue).await.fail(None).await.unwrap());
    let old = job(&*queue, id).await;
    let before = now_s();
    let redriven = store.redrive("q", &[id]).await.unwrap();
    assert!(redriven.len() == 1 && redriven[0] > id, "{redriven:?}");
    assert_eq!(queue.get_job(id).await.unwrap(), None);
    let new = job(&*queue, redriven[0]).await;
    assert!((before..=now_s()).contains(&new.created_at), "{new:?}");
    let Job { created_at, .. } = new;
    let mut expected = old;
    (expected.id, expected.state, expected.attempts) = (redriven[0], JobState::Pending, 0);
    (expected.created_at, expected.run_at, expected.expires_at) = (created_at, created_at, None);
    (expected.worker_id, expected.claimed_at, expected.claim_expires_at) = (None, None, None);
    (expected.last_error, expected.died_at) = (None, None);
    assert_eq!(new, expected);
    assert_eq!(take(&*queue).await.job().id, redriven[0]);
}

/// Ids that are not dead jobs of this queue are passed over; the others keep their order.
async fn redrive_passes_over_what_is_not_dead(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let other = store.queue("r", Default::default()).await.unwrap();
    let theirs = dead(&*other).await;
    let ours = [dead(&*queue).await, dead(&*queue).await, dead(&*queue).await];
    let claimed = put(&*queue).await;
    let claim = take(&*queue).await;
    let pending = put(&*queue).await;
    assert!(store.redrive("q", &[]).await.unwrap().is_empty());
    let ids = [claimed, ours[2], theirs, pending, ours[0], ours[2], 1 << 40, ours[1]];
    let redriven = store.redrive("q", &ids).await.unwrap();
    assert_eq!(redriven.len(), 3);
    assert!(redriven.is_sorted_by(|a, b| a < b), "{redriven:?}");
    assert_eq!(job(&*other, theirs).await.state, JobState::Dead);
    assert_eq!(job(&*queue, claimed).await.state, JobState::Processing);
    assert!(claim.ack().await.unwrap());
    let jobs = store.jobs("q", Some(JobState::Pending), None, 100).await.unwrap();
    assert_eq!(jobs.len(), 4);
    assert!(store.redrive("q", &ours).await.unwrap().is_empty(), "they moved");
}

/// A thousand dead jobs are redriven, none lost or doubled.
async fn many_jobs_are_redriven(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let opts = EnqueueOpts { expires: Some(0), ..Default::default() };
    let jobs = (0..1_000).map(|n| (json!(n), opts.clone())).collect();
    let ids = queue.enqueue_batch(jobs).await.unwrap();
    assert_eq!(queue.sweep_expired().await.unwrap(), 1_000);
    let redriven = store.redrive("q", &ids).await.unwrap();
    assert_eq!(redriven.len(), 1_000);
    let jobs = store.jobs("q", None, None, 2_000).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), redriven);
    let payloads: Vec<i64> = jobs.iter().map(|job| job.payload_as().unwrap()).collect();
    assert_eq!(payloads, (0..1_000).collect::<Vec<_>>());
}

/// Discarding deletes dead jobs of the queue and counts each once.
async fn discard_deletes_dead_jobs_only(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let other = store.queue("r", Default::default()).await.unwrap();
    let theirs = dead(&*other).await;
    let ours = [dead(&*queue).await, dead(&*queue).await];
    let pending = put(&*queue).await;
    let ids = [pending, ours[0], theirs, ours[0], 1 << 40];
    assert_eq!(store.discard("q", &ids).await.unwrap(), 1);
    assert_eq!(store.discard("q", &ids).await.unwrap(), 0);
    assert_eq!(store.discard("q", &[]).await.unwrap(), 0);
    assert_eq!(queue.get_job(ours[0]).await.unwrap(), None);
    assert_eq!(job(&*queue, ours[1]).await.state, JobState::Dead);
    assert_eq!(job(&*queue, pending).await.state, JobState::Pending);
    assert_eq!(job(&*other, theirs).await.state, JobState::Dead);
}

/// `retry_now` makes delayed jobs ready, of this queue, and changes nothing else of them.
async fn retry_now_makes_delayed_jobs_ready(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let other = store.queue("r", Default::default()).await.unwrap();
    let later = EnqueueOpts { delay: Some(600), priority: 1, ..Default::default() };
    let claimed = put(&*queue).await;
    let claim = take(&*queue).await;
    let delayed = queue.enqueue(json!(1), later.clone()).await.unwrap();
    let before = job(&*queue, delayed).await;
    let theirs = other.enqueue(json!(1), later.clone()).await.unwrap();
    let retried = put(&*queue).await;
    assert!(take(&*queue).await.retry(None, Some(600)).await.unwrap());
    let untouched = queue.enqueue(json!(1), later).await.unwrap();
    let dead = dead(&*queue).await;
    let ids = [delayed, claimed, theirs, retried, delayed, dead, 1 << 40];
    assert_eq!(store.retry_now("q", &ids).await.unwrap(), 2);
    let now = job(&*queue, delayed).await;
    assert!(now.run_at <= now_s() && now.run_at >= before.created_at, "{now:?}");
    let mut expected = before;
    expected.run_at = now.run_at;
    assert_eq!(now, expected);
    let mut found = Vec::new();
    for claim in queue.claim_batch("w", 9).await.unwrap() {
        found.push(claim.job().id);
    }
    assert_eq!(found, [delayed, retried]);
    assert_eq!(job(&*queue, untouched).await.state, JobState::Pending);
    assert_eq!(job(&*queue, dead).await.state, JobState::Dead);
    assert!(other.claim_one("w").await.unwrap().is_none());
    assert!(claim.ack().await.unwrap());
}

/// Outbox jobs are repaired by their address, and delivered then.
async fn outbox_jobs_are_repaired_by_address(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let opts = EnqueueOpts { max_attempts: Some(1), delay: Some(600), ..Default::default() };
    let id = outbox.enqueue(json!(1), opts).await.unwrap();
    assert_eq!(store.retry_now("o", &[id]).await.unwrap(), 0, "that is the queue's name");
    assert_eq!(store.retry_now("outbox:o", &[id]).await.unwrap(), 1);
    let mut fail = |_: Box<dyn JobHandle>| async { Err(alkstore::Error::Closed) };
    assert!(outbox.run_once("w", &mut fail).await.unwrap());
    assert!(store.redrive("o", &[id]).await.unwrap().is_empty());
    let redriven = store.redrive("outbox:o", &[id]).await.unwrap();
    assert!(outbox.run_once("w", &mut fail).await.unwrap());
    assert_eq!(store.discard("o", &redriven).await.unwrap(), 0);
    assert_eq!(store.discard("outbox:o", &redriven).await.unwrap(), 1);
    assert!(store.queues().await.unwrap().is_empty());
}

/// An operator may lower a checkpoint, and consumers read from there again.
async fn set_offset_may_lower(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 5).await;
    for offset in [given[4], given[1], i64::MAX, 0, given[2]] {
        store.set_offset("s", "c", offset).await.unwrap();
        assert_eq!(stream.get_offset("c").await.unwrap(), offset);
    }
    let mut events = stream.subscribe("c").await.unwrap();
    assert_eq!(events.recv().await.unwrap().unwrap().offset, given[3]);
    assert_eq!(offsets(&stream.read_from_consumer("c", 9).await.unwrap()), given[3..]);
    stream.save_offset("c", given[1]).await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[2], "saves are monotone again");
}

/// A forgotten consumer stands at 0 again.
async fn a_forgotten_consumer_starts_anew(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stream = store.stream("s").await.unwrap();
    let given = publish(&*stream, 3).await;
    assert!(!store.forget_consumer("s", "c").await.unwrap());
    stream.save_offset("c", given[2]).await.unwrap();
    stream.save_offset("d", given[1]).await.unwrap();
    assert!(!store.forget_consumer("t", "c").await.unwrap());
    assert!(store.forget_consumer("s", "c").await.unwrap());
    assert!(!store.forget_consumer("s", "c").await.unwrap());
    assert_eq!(stream.get_offset("c").await.unwrap(), 0);
    assert_eq!(stream.get_offset("d").await.unwrap(), given[1]);
    let consumers = store.consumers("s").await.unwrap();
    assert_eq!(consumers.iter().map(|info| &*info.consumer).collect::<Vec<_>>(), ["d"]);
    let mut events = stream.subscribe("c").await.unwrap();
    assert_eq!(events.recv().await.unwrap().unwrap().offset, given[0]);
    stream.save_offset("c", given[0]).await.unwrap();
    assert_eq!(stream.get_offset("c").await.unwrap(), given[0]);
}

/// A lock is freed by force; its old tenure is over and tokens go on growing.
async fn release_lock_frees_by_force(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    assert!(!store.release_lock("l").await.unwrap());
    let old = store.try_lock("l", "a", 600).await.unwrap().unwrap();
    assert!(other.release_lock("l").await.unwrap());
    assert!(!other.release_lock("l").await.unwrap());
    assert!(!old.renew(60).await.unwrap(), "it was released");
    let new = other.try_lock("l", "a", 600).await.unwrap().unwrap();
    assert!(new.fencing_token() > old.fencing_token());
    assert!(!old.release().await.unwrap());
    assert!(new.release().await.unwrap());
    assert!(store.try_lock("l", "a", 1).await.unwrap().is_some());
    eventually(Duration::from_secs(10), async || {
        store.locks().await.unwrap().is_empty().then_some(())
    })
    .await;
    assert!(!store.release_lock("l").await.unwrap(), "nobody holds it any more");
}

/// What comes back by hand is found by those who wait.
async fn what_comes_back_can_be_waited_for(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let id = dead(&*queue).await;
    assert!(!queue.wait_ready(Duration::from_millis(20)).await.unwrap());
    store.redrive("q", &[id]).await.unwrap();
    assert!(queue.wait_ready(Duration::from_secs(20)).await.unwrap());
}

cases!("ops":
    redrive_starts_dead_jobs_afresh,
    redrive_passes_over_what_is_not_dead,
    many_jobs_are_redriven,
    discard_deletes_dead_jobs_only,
    retry_now_makes_delayed_jobs_ready,
    outbox_jobs_are_repaired_by_address,
    set_offset_may_lower,
    a_forgotten_consumer_starts_anew,
    release_lock_frees_by_force,
    what_comes_back_can_be_waited_for,
);
