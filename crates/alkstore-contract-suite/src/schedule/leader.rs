//! Leadership: one runner at a time, told at once of stops and changes.

use std::sync::Arc;
use std::time::Duration;

use alkstore::{Error, StopToken};
use serde_json::json;
use tokio::time::Instant;

use super::{LEADER_LOCK, Runner, every, fired, fired_at_least, leads, only};
use crate::StoreFactory;
use crate::harness::cases;
use crate::open::{Opened, open};
use crate::queue::now_s;
use crate::wait::eventually;

fn is_lost(outcome: &alkstore::Result<()>) -> bool {
    matches!(outcome, Err(Error::LeadershipLost))
}

/// A second runner is refused with `LeadershipLost`, in the same store or another.
async fn a_second_runner_is_refused(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let runner = Runner::lead(&store).await;
    for second in [&store, &other] {
        let outcome = Runner::start(second).ended().await;
        assert!(is_lost(&outcome), "{outcome:?}");
    }
    runner.stop().await.unwrap();
    Runner::lead(&other).await.stop().await.unwrap();
}

/// A stop is clean and frees the leadership at once.
async fn a_stop_frees_the_leadership_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    every(&store, "s", "@every 1d").await;
    for round in 0..10 {
        let runner = Runner::lead(if round % 2 == 0 { &store } else { &other }).await;
        let start = Instant::now();
        runner.stop().await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(!leads(&store).await);
    }
    assert_eq!(only(&store).await.last_fire_at, None);
}

/// A token that is cancelled beforehand ends the run cleanly, and nothing fires.
async fn a_cancelled_token_ends_the_run_at_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let stop = StopToken::new();
    stop.clone().cancel();
    assert!(stop.is_cancelled());
    for _ in 0..2 {
        let run = tokio::time::timeout(Duration::from_secs(5), store.run_schedules(stop.clone()));
        run.await.unwrap().unwrap();
        assert!(!leads(&store).await);
    }
}

/// A schedule that is added while a leader sleeps takes effect within a second.
async fn a_new_schedule_reaches_a_running_leader(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    every(&store, "far", "@every 1d").await;
    let runner = Runner::lead(&store).await;
    for (scheduler, name) in [(&store, "here"), (&other, "there")] {
        let start = Instant::now();
        scheduler.schedule(name, "@every 1s", name, json!(1), Default::default()).await.unwrap();
        let queue = store.queue(name, Default::default()).await.unwrap();
        assert!(queue.wait_ready(Duration::from_secs(20)).await.unwrap());
        assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(3), "late: {:?}", start.elapsed());
    }
    runner.stop().await.unwrap();
}

/// A changed schedule takes effect on a running leader: the interval, the payload, the queue.
async fn a_changed_schedule_reaches_a_running_leader(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    every(&store, "s", "@every 1d").await;
    let runner = Runner::lead(&store).await;
    other.schedule("s", "@every 1s", "r", json!("new"), Default::default()).await.unwrap();
    let queue = store.queue("r", Default::default()).await.unwrap();
    assert!(queue.wait_ready(Duration::from_secs(3)).await.unwrap(), "late");
    let job = queue.claim_one("w").await.unwrap().unwrap();
    assert_eq!(job.job().payload, b"\"new\"");
    runner.stop().await.unwrap();
    assert!(fired(&store).await.is_empty());
}

/// A removed schedule fires no more on a running leader, at the latest after a second.
async fn a_removed_schedule_leaves_a_running_leader(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    for scheduler in [&store, &other] {
        every(scheduler, "s", "@every 1s").await;
        let runner = Runner::lead(&store).await;
        fired_at_least(&store, 1).await;
        assert!(scheduler.unschedule("s").await.unwrap());
        let at_removal = fired(&store).await.len();
        let start = Instant::now();
        eventually(Duration::from_secs(10), async || {
            (start.elapsed() > Duration::from_millis(1_500)).then_some(())
        })
        .await;
        assert!(fired(&store).await.len() <= at_removal + 1, "it still fires");
        let queue = store.queue("q", Default::default()).await.unwrap();
        for job in fired(&store).await {
            assert!(queue.cancel(job.id).await.unwrap());
        }
        runner.stop().await.unwrap();
    }
}

/// A leader that lost the lease ends with `LeadershipLost` before anything more fires.
async fn a_deposed_leader_fires_no_more(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    every(&store, "s", "@every 1s").await;
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 1).await;
    assert!(store.release_lock(LEADER_LOCK).await.unwrap());
    let at_release = fired(&store).await.len();
    let outcome = runner.ended().await;
    assert!(is_lost(&outcome), "{outcome:?}");
    let next = only(&store).await.next_fire_at;
    eventually(Duration::from_secs(5), async || (now_s() > next).then_some(())).await;
    assert_eq!(fired(&store).await.len(), at_release);
    assert_eq!(only(&store).await.next_fire_at, next, "the boundary waits for a leader");
}

/// A leader that lost the lease ends with `LeadershipLost`, and its successor fires on.
async fn a_deposed_leader_ends(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    every(&store, "s", "@every 1s").await;
    let first = only(&store).await.next_fire_at;
    let deposed = Runner::lead(&store).await;
    let old = store.locks().await.unwrap().remove(0);
    assert!(store.release_lock(LEADER_LOCK).await.unwrap());
    let successor = Runner::lead(&other).await;
    let outcome = deposed.ended().await;
    assert!(is_lost(&outcome), "{outcome:?}");
    let new = store.locks().await.unwrap().remove(0);
    assert!(new.fencing_token > old.fencing_token, "the deposed one left the new tenure alone");
    fired_at_least(&store, 2).await;
    successor.stop().await.unwrap();
    let elapsed = only(&store).await.next_fire_at - first;
    assert_eq!(fired(&store).await.len(), usize::try_from(elapsed).unwrap());
}

/// A run whose future is dropped leaves the store usable; its leadership lapses by itself, or
/// is freed by hand.
async fn a_dropped_run_leaves_the_store_usable(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    every(&store, "s", "@every 1s").await;
    for _ in 0..5 {
        let runner = Runner::lead(&store).await;
        for _ in 0..fastrand::u8(..50) {
            tokio::task::yield_now().await;
        }
        runner.abort().await;
        let left = store.locks().await.unwrap().remove(0).remaining_s;
        assert!(left <= 60, "a crashed leader blocks the others for {left} s");
        assert!(store.release_lock(LEADER_LOCK).await.unwrap());
    }
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 1).await;
    runner.stop().await.unwrap();
}

async fn fights(store: Opened, until: Instant) -> usize {
    let mut led = 0;
    while Instant::now() < until {
        let runner = Runner::start(&store);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..40))).await;
        if fastrand::bool() {
            // The rudest way to change the leader; the rows must bear it.
            store.release_lock(LEADER_LOCK).await.unwrap();
        }
        let outcome = runner.stop().await;
        assert!(outcome.is_ok() || is_lost(&outcome), "{outcome:?}");
        led += usize::from(outcome.is_ok());
    }
    led
}

/// However runners fight for the leadership, each boundary fires once.
async fn fighting_runners_fire_each_boundary_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let start = Instant::now();
    every(&store, "s", "@every 1s").await;
    let first = only(&store).await.next_fire_at;
    let until = start + Duration::from_millis(4_200);
    let fighters = [store.clone(), other.clone(), store.clone(), other]
        .map(|store| tokio::spawn(fights(store, until)));
    let mut led = 0;
    for fighter in fighters {
        led += fighter.await.unwrap();
    }
    assert!(led > 0, "nobody ever led");
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 4).await;
    runner.stop().await.unwrap();
    let elapsed = only(&store).await.next_fire_at - first;
    assert_eq!(fired(&store).await.len(), usize::try_from(elapsed).unwrap());
}

cases!("schedule":
    a_second_runner_is_refused,
    a_stop_frees_the_leadership_at_once,
    a_cancelled_token_ends_the_run_at_once,
    a_new_schedule_reaches_a_running_leader,
    a_changed_schedule_reaches_a_running_leader,
    a_removed_schedule_leaves_a_running_leader,
    a_deposed_leader_fires_no_more,
    a_deposed_leader_ends,
    a_dropped_run_leaves_the_store_usable,
    fighting_runners_fire_each_boundary_once,
);
