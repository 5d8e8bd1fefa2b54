//! Boundaries: each elapsed one fires one job, once, and only so many are caught up.

use std::sync::Arc;
use std::time::Duration;

use alkstore::engine::clock::ManualClock;
use serde_json::json;
use tokio::time::Instant;

use super::{Runner, every, fired, fired_at_least, only};
use crate::harness::cases;
use crate::open::{open, open_at};
use crate::wait::eventually;
use crate::{EngineStore, StoreFactory};

/// Jobs that must have been fired by an `@every 1s` since its first boundary.
async fn elapsed(store: &EngineStore, first: i64) -> usize {
    usize::try_from(only(store).await.next_fire_at - first).unwrap()
}

/// The first boundary is one interval away, and each elapsed boundary fires one job.
async fn each_boundary_fires_once(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let start = Instant::now();
    every(&store, "s", "@every 1s").await;
    let first = only(&store).await.next_fire_at;
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 1).await;
    assert!(start.elapsed() >= Duration::from_secs(1), "early: {:?}", start.elapsed());
    fired_at_least(&store, 3).await;
    assert!(start.elapsed() >= Duration::from_secs(3), "early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(8), "late: {:?}", start.elapsed());
    runner.stop().await.unwrap();
    assert_eq!(fired(&store).await.len(), elapsed(&store, first).await);
    let info = only(&store).await;
    assert_eq!(info.last_fire_at, Some(info.next_fire_at - 1));
}

/// The last boundary that fired is known until the schedule is removed.
async fn the_last_fire_outlives_a_changed_spec(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    every(&store, "s", "@every 1s").await;
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 1).await;
    runner.stop().await.unwrap();
    let last = only(&store).await.last_fire_at;
    assert!(last.is_some());
    for spec in ["@every 1s", "@every 1h"] {
        every(&store, "s", spec).await;
        assert_eq!(only(&store).await.last_fire_at, last, "{spec}");
    }
    assert!(store.unschedule("s").await.unwrap());
    every(&store, "s", "@every 1h").await;
    assert_eq!(only(&store).await.last_fire_at, None);
}

/// Without a runner nothing fires; a runner that comes later catches up what elapsed.
async fn missed_boundaries_are_caught_up(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let start = Instant::now();
    every(&store, "s", "@every 1s").await;
    let first = only(&store).await.next_fire_at;
    eventually(Duration::from_secs(10), async || {
        (start.elapsed() > Duration::from_millis(2_200)).then_some(())
    })
    .await;
    assert!(fired(&store).await.is_empty(), "there is no runner");
    assert_eq!(only(&store).await.next_fire_at, first);
    let runner = Runner::lead(&store).await;
    let jobs = fired_at_least(&store, 2).await;
    assert!(start.elapsed() < Duration::from_secs(6), "late: {:?}", start.elapsed());
    runner.stop().await.unwrap();
    assert!(jobs.is_sorted_by_key(|job| job.id));
    assert_eq!(fired(&store).await.len(), elapsed(&store, first).await);
}

/// A fire ends a wait for the queue's next job.
async fn a_fire_ends_a_wait(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    let queue = other.queue("q", Default::default()).await.unwrap();
    let waiting = tokio::spawn(async move {
        let start = Instant::now();
        assert!(queue.wait_ready(Duration::from_secs(30)).await.unwrap());
        (start.elapsed(), queue.claim_one("w").await.unwrap().is_some())
    });
    every(&store, "s", "@every 1s").await;
    let runner = Runner::lead(&store).await;
    let (waited, found) = waiting.await.unwrap();
    assert!(found && waited < Duration::from_secs(8), "{waited:?}");
    runner.stop().await.unwrap();
}

/// The boundary is kept to the microsecond.
async fn a_boundary_is_exact(f: Arc<dyn StoreFactory>) {
    for offset in [0, 999_999] {
        let clock = ManualClock::at(5_000);
        clock.advance(Duration::from_micros(offset));
        let store = open_at(&f, &clock).await;
        every(&store, "late", "@every 10s").await;
        clock.advance(Duration::from_micros(8_999_999));
        every(&store, "early", "@every 1s").await;
        let runner = Runner::lead(&store).await;
        clock.advance(Duration::from_micros(999_999));
        assert!(fired(&store).await.is_empty());
        clock.advance(Duration::from_micros(1));
        fired_at_least(&store, 1).await;
        let jobs = fired(&store).await;
        assert_eq!(jobs.len(), 1, "fired 1 µs early, from {offset} µs");
        assert_eq!(jobs[0].payload_as::<String>().unwrap(), "early");
        clock.advance(Duration::from_micros(1));
        let jobs = fired_at_least(&store, 2).await;
        assert_eq!(jobs[1].payload_as::<String>().unwrap(), "late");
        runner.stop().await.unwrap();
    }
}

/// With k boundaries elapsed, min(k, 64) fire; older ones are dropped, and the phase is kept.
async fn catching_up_is_capped_and_keeps_the_phase(f: Arc<dyn StoreFactory>) {
    for (boundaries, fires) in [(1, 1), (63, 63), (64, 64), (65, 64), (1_000, 64), (10_000_000, 64)]
    {
        let clock = ManualClock::at(5_000);
        let store = open_at(&f, &clock).await;
        every(&store, "s", "@every 10s").await;
        // Between two boundaries, so that the phase can be told from the moment of the fire.
        clock.advance(Duration::from_secs(10 * boundaries + 7));
        let runner = Runner::lead(&store).await;
        fired_at_least(&store, fires).await;
        runner.stop().await.unwrap();
        assert_eq!(fired(&store).await.len(), fires, "{boundaries}");
        let info = only(&store).await;
        let last = 5_000 + i64::try_from(10 * boundaries).unwrap();
        assert_eq!((info.last_fire_at, info.next_fire_at), (Some(last), last + 10));
    }
}

/// Registering again with the same spec drops no boundary that has elapsed.
async fn registering_again_drops_no_boundary(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(5_000);
    let store = open_at(&f, &clock).await;
    every(&store, "s", "@every 10s").await;
    for _ in 0..5 {
        clock.advance(Duration::from_secs(6));
        store.schedule("s", "@every 10s", "q", json!("new"), Default::default()).await.unwrap();
    }
    let runner = Runner::lead(&store).await;
    let jobs = fired_at_least(&store, 3).await;
    runner.stop().await.unwrap();
    assert_eq!(fired(&store).await.len(), 3);
    assert!(jobs.iter().all(|job| job.payload == b"\"new\""));
}

/// Many schedules that are due at once all fire, each by its own interval.
async fn many_due_schedules_all_fire(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(5_000);
    let store = open_at(&f, &clock).await;
    for n in 0..150 {
        every(&store, &format!("s{n:03}"), "@every 10s").await;
    }
    every(&store, "twice", "@every 5s").await;
    every(&store, "never", "@every 1d").await;
    clock.advance(Duration::from_secs(10));
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 152).await;
    runner.stop().await.unwrap();
    let jobs = fired(&store).await;
    let mut names: Vec<String> = jobs.iter().map(|job| job.payload_as().unwrap()).collect();
    names.sort();
    let mut expected: Vec<String> = (0..150).map(|n| format!("s{n:03}")).collect();
    expected.extend(["twice".to_owned(), "twice".to_owned()]);
    assert_eq!(names, expected);
}

/// A leader that runs fires on as time goes, and renews its leadership meanwhile.
async fn a_leader_fires_on_and_renews(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(5_000);
    let store = open_at(&f, &clock).await;
    every(&store, "s", "@every 7s").await;
    let runner = Runner::lead(&store).await;
    for n in 1..=20 {
        clock.advance(Duration::from_secs(7));
        fired_at_least(&store, n).await;
        assert_eq!(fired(&store).await.len(), n);
        assert!(super::leads(&store).await);
    }
    runner.stop().await.unwrap();
}

/// A leader without anything to fire keeps its leadership too.
async fn a_sleeping_leader_renews(f: Arc<dyn StoreFactory>) {
    let clock = ManualClock::at(5_000);
    let store = open_at(&f, &clock).await;
    let runner = Runner::lead(&store).await;
    for _ in 0..20 {
        let before = store.locks().await.unwrap().remove(0);
        clock.advance(Duration::from_secs(7));
        eventually(Duration::from_secs(10), async || {
            let locks = store.locks().await.unwrap();
            let renewed = locks.first()?.remaining_s >= before.remaining_s;
            (renewed && locks[0].fencing_token == before.fencing_token).then_some(())
        })
        .await;
    }
    runner.stop().await.unwrap();
}

cases!("schedule":
    each_boundary_fires_once,
    the_last_fire_outlives_a_changed_spec,
    missed_boundaries_are_caught_up,
    a_fire_ends_a_wait;
    clock:
        a_boundary_is_exact,
        catching_up_is_capped_and_keeps_the_phase,
        registering_again_drops_no_boundary,
        many_due_schedules_all_fire,
        a_leader_fires_on_and_renews,
        a_sleeping_leader_renews,
);
