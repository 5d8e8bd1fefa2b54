//! Outboxes: deliveries that commit with the business row and are made at least once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alkstore::engine::clock::ManualClock;
use alkstore::{
    Delivery, EnqueueOpts, Error, Job, JobHandle, JobState, Outbox, Result, async_trait,
};
use serde_json::json;

use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open, open_at};
use crate::queue::now_s;

/// Delivers as it is told and keeps what it was given.
struct Courier {
    jobs: Vec<Job>,
    outcome: fn() -> Result<()>,
}

#[async_trait]
impl Delivery for Courier {
    async fn deliver(&mut self, job: Box<dyn JobHandle>) -> Result<()> {
        self.jobs.push(job.job().clone());
        (self.outcome)()
    }
}

fn courier(outcome: fn() -> Result<()>) -> Courier {
    Courier { jobs: Vec::new(), outcome }
}

async fn put(outbox: &dyn Outbox) -> i64 {
    outbox.enqueue(json!(1), Default::default()).await.unwrap()
}

/// The outbox's job as an operator sees it.
async fn row(store: &Opened, outbox: &str, id: i64) -> Option<Job> {
    let jobs = store.jobs(&format!("outbox:{outbox}"), None, Some(id - 1), 1).await.unwrap();
    jobs.into_iter().find(|job| job.id == id)
}

/// Nothing to deliver is `false`, and nothing is delivered.
async fn run_once_is_false_when_empty(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let mut deliver = courier(|| Ok(()));
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap());
    let opts = EnqueueOpts { delay: Some(60), ..Default::default() };
    outbox.enqueue(json!(1), opts).await.unwrap();
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap());
    assert!(deliver.jobs.is_empty());
}

/// A delivery that succeeds acks its job; each call makes one, in claim order.
async fn run_once_acks_on_ok(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let ids = [put(&*outbox).await, put(&*outbox).await];
    let opts = EnqueueOpts { priority: 1, ..Default::default() };
    let first = outbox.enqueue(json!("first"), opts).await.unwrap();
    let mut deliver = courier(|| Ok(()));
    for n in 1..=3 {
        assert!(outbox.run_once("worker", &mut deliver).await.unwrap());
        assert_eq!(deliver.jobs.len(), n);
    }
    assert!(!outbox.run_once("worker", &mut deliver).await.unwrap());
    let order: Vec<i64> = deliver.jobs.iter().map(|job| job.id).collect();
    assert_eq!(order, [first, ids[0], ids[1]]);
    assert!(deliver.jobs.iter().all(|job| job.worker_id.as_deref() == Some("worker")));
    assert!(store.queues().await.unwrap().is_empty());
}

/// A delivery that fails is retried on the outbox's curve.
async fn run_once_retries_on_err(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let id = put(&*outbox).await;
    let before = now_s();
    let mut deliver = courier(|| Err(Error::Closed));
    assert!(outbox.run_once("w", &mut deliver).await.unwrap());
    let job = row(&store, "o", id).await.unwrap();
    assert_eq!((job.state, job.attempts, job.last_error), (JobState::Pending, 1, None));
    assert!(job.run_at >= before + 3 && job.run_at <= now_s() + 5, "{} {}", job.run_at, before);
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap(), "it waits");
}

/// A delivery that goes on failing is dead in the end, with the error's text.
async fn run_once_buries_with_the_errors_text(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let id = put(&*outbox).await;
    let mut deliver = courier(|| Err(Error::other("smtp\0 is down")));
    for attempts in 1..=5 {
        store.retry_now("outbox:o", &[id]).await.unwrap();
        assert!(outbox.run_once("w", &mut deliver).await.unwrap());
        assert_eq!(row(&store, "o", id).await.unwrap().attempts, attempts);
    }
    let job = row(&store, "o", id).await.unwrap();
    assert_eq!(job.state, JobState::Dead);
    let text = job.last_error.unwrap();
    assert!(text.contains("smtp\u{fffd} is down"), "{text}");
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap());
}

type Decision = fn(Box<dyn JobHandle>) -> alkstore::BoxedFuture<'static, Result<bool>>;

/// A delivery that ended its job itself has decided, whatever it returns.
async fn a_delivery_may_decide_itself(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let decisions: [(Decision, Option<JobState>); 4] = [
        (|job| job.ack(), None),
        (|job| job.fail(Some("mine".into())), Some(JobState::Dead)),
        (|job| job.retry(None, Some(60)), Some(JobState::Pending)),
        (|job| job.hand_back(), Some(JobState::Pending)),
    ];
    for (decide, state) in decisions {
        for ok in [true, false] {
            let id = put(&*outbox).await;
            let mut deliver = |job: Box<dyn JobHandle>| async move {
                assert!(decide(job).await?);
                if ok { Ok(()) } else { Err(Error::Closed) }
            };
            assert!(outbox.run_once("w", &mut deliver).await.unwrap());
            let job = row(&store, "o", id).await;
            assert_eq!(job.as_ref().map(|job| job.state), state);
            if let Some(job) = job {
                assert!(job.last_error.is_none_or(|text| text == "mine"));
                let _ = store.discard("outbox:o", &[id]).await.unwrap();
                let mut drop_it = courier(|| Ok(()));
                while outbox.run_once("w", &mut drop_it).await.unwrap() {}
            }
        }
    }
}

/// A delivery may renew its claim, and keep its handle for later: then nothing is decided twice.
async fn a_delivery_may_renew_its_claim(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let id = put(&*outbox).await;
    let shared = store.clone();
    let mut deliver = |job: Box<dyn JobHandle>| {
        let store = shared.clone();
        async move {
            assert!(job.heartbeat(5_000).await?);
            let row = row(&store, "o", job.job().id).await.unwrap();
            assert!(row.claim_expires_at.unwrap() > now_s() + 4_000);
            Ok(())
        }
    };
    assert!(outbox.run_once("w", &mut deliver).await.unwrap());
    assert_eq!(row(&store, "o", id).await, None);
}

/// A delivery that panics leaves its claim to lapse and the outbox usable.
async fn a_delivery_may_panic(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let id = put(&*outbox).await;
    let shared = store.clone();
    let panicked = tokio::spawn(async move {
        let outbox = shared.outbox("o").await.unwrap();
        let mut deliver =
            |_: Box<dyn JobHandle>| async { std::panic::resume_unwind(Box::new("on purpose")) };
        outbox.run_once("w", &mut deliver).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(row(&store, "o", id).await.unwrap().state, JobState::Processing);
    let other = put(&*outbox).await;
    let mut deliver = courier(|| Ok(()));
    assert!(outbox.run_once("w", &mut deliver).await.unwrap());
    assert_eq!(deliver.jobs[0].id, other);
}

/// A delivery that outlives its claim is made again, and its late success ends nothing.
async fn a_slow_delivery_is_made_again(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(5_000);
    let store = open_at(&f, &clock).await;
    let outbox = store.outbox("o").await.unwrap();
    let id = put(&*outbox).await;
    for (slow, attempts) in [(true, 1), (false, 2)] {
        let mut deliver = |job: Box<dyn JobHandle>| {
            assert_eq!((job.job().id, job.job().attempts), (id, attempts));
            clock.advance(Duration::from_secs(if slow { 60 } else { 59 }));
            async { Ok(()) }
        };
        assert!(outbox.run_once("w", &mut deliver).await.unwrap());
        assert_eq!(row(&store, "o", id).await.is_some(), slow);
    }
}

/// A delivery that never ends its claims is dead after five of them.
async fn lapsed_deliveries_exhaust(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(5_000);
    let store = open_at(&f, &clock).await;
    let outbox = store.outbox("o").await.unwrap();
    let id = put(&*outbox).await;
    let mut deliver = |_: Box<dyn JobHandle>| {
        clock.advance(Duration::from_secs(60));
        async { Err(Error::other("too late")) }
    };
    for attempts in 1..=5 {
        assert!(outbox.run_once("w", &mut deliver).await.unwrap());
        assert_eq!(row(&store, "o", id).await.unwrap().attempts, attempts);
    }
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap());
    let job = row(&store, "o", id).await.unwrap();
    assert_eq!(job.last_error.as_deref(), Some("max attempts exceeded"));
}

/// Outbox jobs are stamped 60 s, 5 attempts, 5 s, kept for ever, on both paths.
async fn outbox_stamps_are_its_own_on_both_paths(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let plain = put(&*outbox).await;
    let opts = EnqueueOpts {
        priority: 3,
        max_attempts: Some(9),
        delay: Some(60),
        expires: Some(600),
        ..Default::default()
    };
    let custom = outbox.enqueue(json!(1), opts.clone()).await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    let plain_tx = tx.outbox_enqueue_tx("o", Default::default(), json!(1)).await.unwrap();
    let custom_tx = tx.outbox_enqueue_tx("o", opts, json!(1)).await.unwrap();
    tx.commit().await.unwrap();
    for id in [plain, plain_tx, custom, custom_tx] {
        let job = row(&store, "o", id).await.unwrap();
        assert_eq!((job.visibility_timeout_s, job.backoff_base_s), (60, 5));
        assert_eq!(job.dead_letter_retention_s, None);
        let custom = [custom, custom_tx].contains(&id);
        assert_eq!(job.max_attempts, if custom { 9 } else { 5 });
        assert_eq!(job.run_at - job.created_at, if custom { 60 } else { 0 });
        assert_eq!(job.expires_at, custom.then_some(job.created_at + 600));
        assert_eq!(job.priority, if custom { 3 } else { 0 });
    }
}

/// A transaction's outbox jobs come with its commit and go with its rollback.
async fn outbox_enqueue_tx_commits_atomically(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let outbox = store.outbox("o").await.unwrap();
    let mut tx = store.begin_tx().await.unwrap();
    tx.outbox_enqueue_tx("o", Default::default(), json!("ghost")).await.unwrap();
    tx.publish_tx("s", json!(1)).await.unwrap();
    assert!(store.jobs("outbox:o", None, None, 9).await.unwrap().is_empty());
    tx.rollback().await.unwrap();
    let mut deliver = courier(|| Ok(()));
    assert!(!outbox.run_once("w", &mut deliver).await.unwrap());
    assert!(store.queues().await.unwrap().is_empty());

    let mut tx = store.begin_tx().await.unwrap();
    let id = tx.outbox_enqueue_tx("o", Default::default(), json!("real")).await.unwrap();
    tx.commit().await.unwrap();
    assert!(outbox.run_once("w", &mut deliver).await.unwrap());
    assert_eq!(deliver.jobs[0].id, id);
    assert_eq!(deliver.jobs[0].payload_as::<String>().unwrap(), "real");
}

/// Outboxes are separate from each other, and from the queue of their name.
async fn outboxes_are_separate(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let (one, other) = (store.outbox("o").await.unwrap(), store.outbox("p").await.unwrap());
    let id = put(&*one).await;
    let mut deliver = courier(|| Ok(()));
    assert!(!other.run_once("w", &mut deliver).await.unwrap());
    for name in ["o", "outbox:o", "_outbox:o", "_alkstore_outbox:o", "alkstore_outbox:o"] {
        let queue = store.queue(name, Default::default()).await.unwrap();
        assert!(queue.claim_one("w").await.unwrap().is_none(), "{name}");
        assert_eq!(queue.get_job(id).await.unwrap(), None, "{name}");
        assert!(!queue.cancel(id).await.unwrap(), "{name}");
        queue.enqueue(json!("queue's"), Default::default()).await.unwrap();
    }
    let mut tx = store.begin_tx().await.unwrap();
    assert_eq!(tx.get_job_tx("o", id).await.unwrap(), None);
    drop(tx);
    assert!(one.run_once("w", &mut deliver).await.unwrap());
    assert!(!one.run_once("w", &mut deliver).await.unwrap(), "a queue's job was delivered");
}

/// No direct name leads to the queue behind an outbox.
async fn the_backing_queue_is_out_of_reach(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    put(&*store.outbox("o").await.unwrap()).await;
    let name = "__alkstore_outbox:o";
    let refused = store.queue(name, Default::default()).await.map(drop);
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
    let mut tx = store.begin_tx().await.unwrap();
    let refused = tx.enqueue_tx(name, Default::default(), json!(1)).await;
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
    let refused = tx.get_job_tx(name, 1).await;
    assert!(matches!(refused, Err(Error::ReservedName { .. })), "{refused:?}");
    for address in [name, "outbox:__alkstore_outbox:o", "queue:__alkstore_outbox:o"] {
        let refused = store.jobs(address, None, None, 9).await;
        assert!(matches!(refused, Err(Error::ReservedName { .. })), "{address}: {refused:?}");
    }
}

/// Concurrent workers make each delivery once.
async fn concurrent_workers_deliver_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let outbox = store.outbox("o").await.unwrap();
    for _ in 0..60 {
        put(&*outbox).await;
    }
    let delivered: Arc<Mutex<BTreeMap<i64, i64>>> = Arc::default();
    let mut tasks = Vec::new();
    for n in 0..6 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        let delivered = delivered.clone();
        tasks.push(tokio::spawn(async move {
            let outbox = store.outbox("o").await.unwrap();
            let mut deliver = |job: Box<dyn JobHandle>| {
                *delivered.lock().unwrap().entry(job.job().id).or_default() += 1;
                async { Ok(()) }
            };
            while outbox.run_once("w", &mut deliver).await.unwrap() {}
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let delivered = delivered.lock().unwrap();
    assert_eq!(delivered.len(), 60);
    assert!(delivered.values().all(|times| *times == 1), "{delivered:?}");
}

cases!("outbox":
    run_once_is_false_when_empty,
    run_once_acks_on_ok,
    run_once_retries_on_err,
    run_once_buries_with_the_errors_text,
    a_delivery_may_decide_itself,
    a_delivery_may_renew_its_claim,
    a_delivery_may_panic,
    outbox_stamps_are_its_own_on_both_paths,
    outbox_enqueue_tx_commits_atomically,
    outboxes_are_separate,
    the_backing_queue_is_out_of_reach,
    concurrent_workers_deliver_once;
    clock: a_slow_delivery_is_made_again, lapsed_deliveries_exhaust,
);
