//! `wait_ready`: ends when a claim may find work, and neither early, late nor in circles.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, Queue, QueueOpts};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::{LAPSING, put, take};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open};

/// Longer than any wait that works.
const LONG: Duration = Duration::from_secs(20);
/// Short, for waits that are to end at the timeout.
const SHORT: Duration = Duration::from_millis(150);

/// Starts a wait on queue "q" in a task of its own.
async fn starting(store: &Opened) -> JoinHandle<Duration> {
    let queue = store.queue("q", Default::default()).await.unwrap();
    let (started, start) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        started.send(()).unwrap();
        let start = Instant::now();
        assert!(queue.wait_ready(LONG).await.unwrap());
        start.elapsed()
    });
    start.await.unwrap();
    task
}

/// The same, and returns once it sleeps.
async fn waiting(store: &Opened) -> JoinHandle<Duration> {
    let mut task = starting(store).await;
    let asleep = timeout(Duration::from_millis(20), &mut task).await;
    assert!(asleep.is_err(), "nothing is there to claim");
    task
}

async fn ends(task: JoinHandle<Duration>) {
    let waited = task.await.unwrap();
    assert!(waited < LONG / 2, "it ended by itself after {waited:?}");
}

async fn stays_idle(queue: &dyn Queue) {
    assert!(!queue.wait_ready(SHORT).await.unwrap());
}

/// On an empty queue it is `false`, at the timeout and not before.
async fn an_empty_queue_times_out(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let start = Instant::now();
    assert!(!queue.wait_ready(Duration::from_millis(300)).await.unwrap());
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// With a job ready it is `true` at once.
async fn a_ready_job_ends_the_wait_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    for _ in 0..3 {
        assert!(timeout(LONG / 2, queue.wait_ready(LONG)).await.unwrap().unwrap());
    }
}

/// An enqueue ends it, from this store and from another.
async fn an_enqueue_ends_the_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for enqueuer in [&store, &other] {
        let queue = enqueuer.queue("q", Default::default()).await.unwrap();
        let task = waiting(&store).await;
        let id = put(&*queue).await;
        ends(task).await;
        assert!(queue.cancel(id).await.unwrap());
        let task = waiting(&store).await;
        let batch = vec![(json!(1), Default::default())];
        let ids = queue.enqueue_batch(batch).await.unwrap();
        ends(task).await;
        assert!(queue.cancel(ids[0]).await.unwrap());
    }
}

/// So does one that comes while the wait is beginning.
async fn an_enqueue_races_with_the_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for round in 0..100 {
        let enqueuer = if round % 2 == 0 { &store } else { &other };
        let queue = enqueuer.queue("q", Default::default()).await.unwrap();
        let task = starting(&store).await;
        for _ in 0..fastrand::u32(0..200) {
            tokio::task::yield_now().await;
        }
        let id = put(&*queue).await;
        ends(task).await;
        assert!(queue.cancel(id).await.unwrap());
    }
}

/// A transaction's enqueue ends it at the commit and not before; a rolled-back one does not.
async fn a_commit_ends_the_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let mut tx = other.begin_tx().await.unwrap();
    tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    stays_idle(&*queue).await;
    tx.rollback().await.unwrap();
    stays_idle(&*queue).await;
    let task = waiting(&store).await;
    let mut tx = other.begin_tx().await.unwrap();
    tx.enqueue_tx("q", Default::default(), json!(1)).await.unwrap();
    assert!(!task.is_finished(), "nothing is committed");
    tx.commit().await.unwrap();
    ends(task).await;
}

/// A retry, a hand-back, a redrive and a `retry_now` end it.
async fn jobs_that_come_back_end_the_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue =
        store.queue("q", QueueOpts { max_attempts: 99, ..Default::default() }).await.unwrap();
    put(&*queue).await;
    let claim = take(&*queue).await;
    let task = waiting(&store).await;
    assert!(claim.retry(None, Some(0)).await.unwrap());
    ends(task).await;
    let claim = take(&*queue).await;
    let task = waiting(&store).await;
    assert!(claim.hand_back().await.unwrap());
    ends(task).await;
    let claim = take(&*queue).await;
    let id = claim.job().id;
    assert!(claim.retry(None, Some(600)).await.unwrap());
    let task = waiting(&store).await;
    assert_eq!(store.retry_now("q", &[id]).await.unwrap(), 1);
    ends(task).await;
    let claim = take(&*queue).await;
    assert!(claim.fail(None).await.unwrap());
    let task = waiting(&store).await;
    assert_eq!(store.redrive("q", &[id]).await.unwrap().len(), 1);
    ends(task).await;
}

/// A delayed job ends it when it comes due, not before, and can be claimed right then.
async fn a_due_job_ends_the_wait_in_time(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let start = Instant::now();
    let opts = EnqueueOpts { delay: Some(1), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    let mut rounds = 0;
    let claim = loop {
        rounds += 1;
        assert!(queue.wait_ready(LONG).await.unwrap());
        if let Some(claim) = queue.claim_one("w").await.unwrap() {
            break claim;
        }
    };
    assert_eq!(claim.job().id, id);
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
    assert!(rounds <= 3, "it span: {rounds} rounds for one job");
}

/// A delayed job that was enqueued during the wait ends it when due, from another store too.
async fn a_job_delayed_during_the_wait_ends_it_in_time(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let task = waiting(&store).await;
    let queue = other.queue("q", Default::default()).await.unwrap();
    let start = Instant::now();
    let opts = |delay| EnqueueOpts { delay: Some(delay), ..Default::default() };
    queue.enqueue(json!(1), opts(60)).await.unwrap();
    queue.enqueue(json!(1), opts(1)).await.unwrap();
    let waited = task.await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(waited < LONG / 2, "late: {waited:?}");
}

/// A lapsed claim ends it.
async fn a_lapsed_claim_ends_the_wait_in_time(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 1, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    let id = put(&*queue).await;
    let start = Instant::now();
    take(&*queue).await;
    stays_idle(&*queue).await;
    let mut rounds = 0;
    let claim = loop {
        rounds += 1;
        assert!(queue.wait_ready(LONG).await.unwrap());
        if let Some(claim) = queue.claim_one("v").await.unwrap() {
            break claim;
        }
    };
    assert_eq!(claim.job().id, id);
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "late: {:?}", start.elapsed());
    assert!(rounds <= 3, "it span: {rounds} rounds for one job");
}

/// A claim that is shortened ends the wait at its new deadline.
async fn a_shortened_claim_ends_the_wait_in_time(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = other.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    let claim = take(&*queue).await;
    let task = waiting(&store).await;
    let start = Instant::now();
    assert!(claim.heartbeat(1).await.unwrap());
    ends(task).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
}

/// Delayed, claimed, dead and expired jobs do not end it, nor make it spin.
async fn jobs_that_are_not_ready_do_not_end_the_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    put(&*queue).await;
    let live = take(&*queue).await;
    put(&*queue).await;
    assert!(take(&*queue).await.fail(None).await.unwrap());
    stays_idle(&*queue).await;
    let opts = EnqueueOpts { delay: Some(60), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    stays_idle(&*queue).await;
    let opts = EnqueueOpts { expires: Some(0), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    stays_idle(&*queue).await;
    assert!(live.ack().await.unwrap());
    stays_idle(&*queue).await;
}

/// Exhausted jobs end it at most until a claim has buried them.
async fn exhausted_jobs_do_not_make_it_spin(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", QueueOpts { max_attempts: 1, ..LAPSING }).await.unwrap();
    put(&*queue).await;
    take(&*queue).await;
    let opts = EnqueueOpts { max_attempts: Some(0), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    let mut rounds = 0;
    while queue.wait_ready(SHORT).await.unwrap() {
        rounds += 1;
        assert!(queue.claim_one("w").await.unwrap().is_none());
        assert!(rounds <= 2, "it spins on jobs that nobody can claim");
    }
}

/// Jobs that expire before they are due, or lapse for good, end it once at most.
async fn jobs_that_never_become_ready_do_not_make_it_spin(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = QueueOpts { visibility_timeout_s: 1, max_attempts: 1, ..Default::default() };
    let queue = store.queue("q", opts).await.unwrap();
    put(&*queue).await;
    take(&*queue).await;
    let opts = EnqueueOpts { delay: Some(1), expires: Some(1), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(2_300) {
        if queue.wait_ready(Duration::from_millis(500)).await.unwrap() {
            rounds += 1;
            assert!(queue.claim_one("w").await.unwrap().is_none());
        }
    }
    assert!(rounds <= 2, "{rounds} rounds for jobs that nobody can claim");
}

/// Only its own queue ends it: no other queue, no stream, channel or outbox of the same name.
async fn other_names_do_not_end_the_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    let busy = store.clone();
    let noise = tokio::spawn(async move {
        let other = busy.queue("r", Default::default()).await.unwrap();
        for _ in 0..5 {
            put(&*other).await;
            busy.notify("q", json!(1)).await.unwrap();
            busy.stream("q").await.unwrap().publish(json!(1)).await.unwrap();
            busy.outbox("q").await.unwrap().enqueue(json!(1), Default::default()).await.unwrap();
        }
    });
    assert!(!queue.wait_ready(Duration::from_millis(400)).await.unwrap());
    noise.await.unwrap();
    stays_idle(&*queue).await;
}

/// One enqueue ends every wait on the queue, so that nobody sleeps on work that others leave.
async fn an_enqueue_ends_every_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let mut tasks = Vec::new();
    for n in 0..10 {
        tasks.push(waiting(if n % 2 == 0 { &store } else { &other }).await);
    }
    put(&*store.queue("q", Default::default()).await.unwrap()).await;
    for task in tasks {
        ends(task).await;
    }
}

/// A dropped wait loses nothing: the next one sees the work.
async fn a_dropped_wait_loses_nothing(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let queue = store.queue("q", Default::default()).await.unwrap();
    for round in 0..30 {
        let enqueuer = store.queue("q", Default::default()).await.unwrap();
        let task = tokio::spawn(async move { put(&*enqueuer).await });
        for _ in 0..round {
            tokio::select! {
                biased;
                _ = queue.wait_ready(LONG) => {}
                () = tokio::task::yield_now() => {}
            }
        }
        assert!(timeout(LONG / 2, queue.wait_ready(LONG)).await.unwrap().unwrap());
        assert_eq!(take(&*queue).await.job().id, task.await.unwrap());
    }
}

cases!("queue":
    an_empty_queue_times_out,
    a_ready_job_ends_the_wait_at_once,
    an_enqueue_ends_the_wait,
    an_enqueue_races_with_the_wait,
    a_commit_ends_the_wait,
    jobs_that_come_back_end_the_wait,
    a_due_job_ends_the_wait_in_time,
    a_job_delayed_during_the_wait_ends_it_in_time,
    a_lapsed_claim_ends_the_wait_in_time,
    a_shortened_claim_ends_the_wait_in_time,
    jobs_that_are_not_ready_do_not_end_the_wait,
    exhausted_jobs_do_not_make_it_spin,
    jobs_that_never_become_ready_do_not_make_it_spin,
    other_names_do_not_end_the_wait,
    an_enqueue_ends_every_wait,
    a_dropped_wait_loses_nothing,
);
