//! Time that only the test moves: no test here sleeps or takes longer than its computing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use alkstore::ops::{Inspect, Operate};
use alkstore::{EnqueueOpts, JobState, Queue, QueueOpts, ScheduleOpts, StopToken, Store};
use alkstore_mem::{ManualClock, MemStore};
use serde_json::json;
use tokio::join;

const START: i64 = 1_700_000_000;

fn store() -> (ManualClock, MemStore) {
    let clock = ManualClock::at(START);
    (clock.clone(), MemStore::with_clock(clock))
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn queue(store: &MemStore, opts: QueueOpts) -> Box<dyn Queue> {
    store.queue("q", opts).await.unwrap()
}

async fn is_ready(queue: &dyn Queue) -> bool {
    queue.wait_ready(Duration::ZERO).await.unwrap()
}

#[tokio::test]
async fn a_job_retries_on_its_curve_until_it_is_dead() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts { max_attempts: 5, ..Default::default() }).await;
    let id = queue.enqueue(json!(1), Default::default()).await.unwrap();
    for (least, most) in [(3, 5), (5, 10), (10, 20), (20, 40)] {
        let job = queue.claim_one("w").await.unwrap().expect("due");
        assert!(job.retry(Some("no".into()), None).await.unwrap());
        let run_at = queue.get_job(id).await.unwrap().unwrap().run_at;
        let delay = u64::try_from(run_at - clock.now()).unwrap();
        assert!((least..=most).contains(&delay), "{delay} s after {least}..={most}");
        clock.advance(s(delay) - Duration::from_micros(1));
        assert!(!is_ready(&*queue).await, "a microsecond early");
        assert!(queue.claim_one("w").await.unwrap().is_none());
        clock.advance(Duration::from_micros(1));
        assert!(is_ready(&*queue).await);
    }
    let job = queue.claim_one("w").await.unwrap().expect("due");
    assert!(job.retry(None, None).await.unwrap());
    let dead = queue.get_job(id).await.unwrap().unwrap();
    assert_eq!((dead.state, dead.attempts), (JobState::Dead, 5));
    assert_eq!(dead.last_error.as_deref(), Some("max attempts exceeded"));
    assert_eq!(dead.died_at, Some(clock.now()));
}

#[tokio::test]
async fn a_delay_is_kept_to_the_microsecond() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    clock.advance(Duration::from_millis(900));
    let opts = EnqueueOpts { delay: Some(1), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    assert_eq!(queue.get_job(id).await.unwrap().unwrap().run_at, START + 1);
    clock.advance(Duration::from_micros(999_999));
    assert!(queue.claim_one("w").await.unwrap().is_none());
    clock.advance(Duration::from_micros(1));
    assert!(queue.claim_one("w").await.unwrap().is_some());
}

#[tokio::test]
async fn a_wait_ends_when_a_delayed_job_comes_due() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    let opts = EnqueueOpts { delay: Some(3_600), ..Default::default() };
    queue.enqueue(json!(1), opts).await.unwrap();
    let (ready, ()) = join!(queue.wait_ready(s(100_000)), async { clock.advance(s(3_600)) });
    assert!(ready.unwrap());
    assert!(queue.claim_one("w").await.unwrap().is_some());
}

#[tokio::test]
async fn a_wait_ends_when_a_claim_lapses_that_was_made_meanwhile() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts { visibility_timeout_s: 60, ..Default::default() }).await;
    let (ready, ()) = join!(queue.wait_ready(s(100_000)), async {
        queue.enqueue(json!(1), Default::default()).await.unwrap();
        assert!(queue.claim_one("w1").await.unwrap().is_some());
        tokio::task::yield_now().await;
        clock.advance(s(60));
    });
    assert!(ready.unwrap());
    let again = queue.claim_one("w2").await.unwrap().expect("lapsed");
    assert_eq!(again.job().attempts, 2);
}

#[tokio::test]
async fn a_wait_ends_at_a_deadline_that_was_brought_forward() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    queue.enqueue(json!(1), Default::default()).await.unwrap();
    let job = queue.claim_one("w1").await.unwrap().expect("ready");
    let (ready, ()) = join!(queue.wait_ready(s(100_000)), async {
        assert!(job.heartbeat(30).await.unwrap());
        tokio::task::yield_now().await;
        clock.advance(s(30));
    });
    assert!(ready.unwrap());
    assert!(!job.ack().await.unwrap());
    assert!(queue.claim_one("w2").await.unwrap().is_some());
}

#[tokio::test]
async fn a_wait_times_out_on_the_clock() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    let mut wakes = store.listen("c").await.unwrap();
    let (ready, wake, ()) = join!(queue.wait_ready(s(60)), wakes.recv_timeout(s(60)), async {
        clock.advance(s(60));
    });
    assert!(!ready.unwrap());
    assert_eq!(wake.unwrap(), None);
}

#[tokio::test]
async fn expiry_and_retention_follow_the_clock() {
    let (clock, store) = store();
    let opts = QueueOpts { dead_letter_retention_s: Some(100), ..Default::default() };
    let queue = queue(&store, opts).await;
    let opts = EnqueueOpts { expires: Some(10), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    clock.advance(s(9));
    assert!(is_ready(&*queue).await);
    clock.advance(s(1));
    assert!(!is_ready(&*queue).await, "nothing that a claim would be given");
    assert!(queue.claim_one("w").await.unwrap().is_none());
    assert_eq!(queue.sweep_expired().await.unwrap(), 1);
    clock.advance(s(99));
    assert_eq!(queue.sweep_expired().await.unwrap(), 0);
    clock.advance(s(1));
    assert_eq!(queue.sweep_expired().await.unwrap(), 1);
    assert!(queue.get_job(id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_lock_lapses_at_its_ttl() {
    let (clock, store) = store();
    let first = store.try_lock("l", "a", 60).await.unwrap().expect("free");
    clock.advance(s(60) - Duration::from_micros(1));
    assert!(store.try_lock("l", "b", 60).await.unwrap().is_none());
    clock.advance(Duration::from_micros(1));
    assert!(store.locks().await.unwrap().is_empty());
    assert!(first.renew(60).await.unwrap(), "nobody took it");
    clock.advance(s(60));
    let second = store.try_lock("l", "b", 60).await.unwrap().expect("lapsed");
    assert!(second.fencing_token() > first.fencing_token());
    assert!(!first.renew(60).await.unwrap());
    assert!(!first.release().await.unwrap());
    assert!(second.release().await.unwrap());
}

#[tokio::test]
async fn a_schedule_catches_up_64_boundaries_and_skips_the_others() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    store.schedule("s", "@every 10s", "q", json!(1), ScheduleOpts::default()).await.unwrap();
    clock.advance(s(1_005));
    let stop = StopToken::new();
    let (outcome, ()) = join!(store.run_schedules(stop.clone()), async {
        assert!(queue.wait_ready(s(0)).await.unwrap());
        assert_eq!(queue.claim_batch("w", 1_000).await.unwrap().len(), 64);
        let info = store.schedules().await.unwrap().remove(0);
        assert_eq!(info.last_fire_at, Some(START + 1_000));
        assert_eq!(info.next_fire_at, START + 1_010, "in phase");

        clock.advance(s(5));
        assert!(queue.wait_ready(s(1_000)).await.unwrap());
        assert_eq!(queue.claim_batch("w", 1_000).await.unwrap().len(), 1);
        stop.cancel();
    });
    outcome.unwrap();
    assert!(store.locks().await.unwrap().is_empty(), "the leadership was given up");
}

#[tokio::test]
async fn a_leader_outlives_a_leap_of_the_clock() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    store.schedule("s", "@every 1d", "q", json!(1), ScheduleOpts::default()).await.unwrap();
    let stop = StopToken::new();
    let (outcome, ()) = join!(store.run_schedules(stop.clone()), async {
        for day in 1..=30 {
            clock.advance(s(86_400));
            assert!(queue.wait_ready(s(1_000)).await.unwrap());
            let job = queue.claim_one("w").await.unwrap().expect("fired");
            assert_eq!(job.job().created_at, START + day * 86_400);
            assert!(job.ack().await.unwrap());
        }
        stop.cancel();
    });
    outcome.unwrap();
}

/// Tokio's paused time and the manual clock do not get into each other's way.
#[tokio::test(start_paused = true)]
async fn a_paused_runtime_is_no_obstacle() {
    let (clock, store) = store();
    let queue = queue(&store, QueueOpts::default()).await;
    let opts = EnqueueOpts { delay: Some(60), ..Default::default() };
    let id = queue.enqueue(json!(1), opts).await.unwrap();
    let started = tokio::time::Instant::now();
    let waiting = tokio::spawn({
        let queue = store.queue("q", QueueOpts::default()).await.unwrap();
        async move { queue.wait_ready(s(3_600)).await }
    });
    tokio::time::sleep(s(600)).await;
    assert!(!waiting.is_finished(), "tokio's time is not the store's");
    clock.advance(s(60));
    assert!(waiting.await.unwrap().unwrap());
    assert!(started.elapsed() >= s(600));

    assert_eq!(store.retry_now("q", &[id]).await.unwrap(), 0, "it is ready already");
    let job = queue.claim_one("w").await.unwrap().expect("due");
    clock.advance(s(300));
    assert!(!job.heartbeat(1).await.unwrap(), "the claim has lapsed");
}
