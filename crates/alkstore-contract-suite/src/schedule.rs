//! Schedules: what is registered, and what a leader fires of it.

pub(crate) mod boundary;
pub(crate) mod leader;

use std::sync::Arc;
use std::time::Duration;

use alkstore::ops::ScheduleInfo;
use alkstore::{Error, Job, Result, ScheduleOpts, StopToken};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::cases;
use crate::open::{Opened, open};
use crate::queue::now_s;
use crate::wait::eventually;
use crate::{EngineStore, StoreFactory};

pub(crate) const LEADER_LOCK: &str = "__alkstore_scheduler";

/// A `run_schedules` in a task of its own.
pub(crate) struct Runner {
    stop: StopToken,
    task: JoinHandle<Result<()>>,
}

impl Runner {
    /// Starts it on a store.
    pub(crate) fn start(store: &Opened) -> Self {
        let (stop, store) = (StopToken::new(), store.clone());
        let token = stop.clone();
        Self { stop, task: tokio::spawn(async move { store.run_schedules(token).await }) }
    }

    /// Starts it and waits until it leads.
    pub(crate) async fn lead(store: &Opened) -> Self {
        let runner = Self::start(store);
        eventually(Duration::from_secs(10), async || leads(store).await.then_some(())).await;
        runner
    }

    /// Cancels its token; it must end at once.
    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits for its end, which must be near.
    pub(crate) async fn ended(self) -> Result<()> {
        tokio::time::timeout(Duration::from_secs(10), self.task).await.expect("it ends").unwrap()
    }

    /// Drops its future.
    pub(crate) async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Whether somebody leads the schedules.
pub(crate) async fn leads(store: &EngineStore) -> bool {
    store.locks().await.unwrap().iter().any(|lock| lock.name == LEADER_LOCK)
}

/// Registers a schedule without options.
pub(crate) async fn every(store: &EngineStore, name: &str, spec: &str) {
    store.schedule(name, spec, "q", json!(name), Default::default()).await.unwrap();
}

/// The one schedule that is registered.
pub(crate) async fn only(store: &EngineStore) -> ScheduleInfo {
    let mut schedules = store.schedules().await.unwrap();
    assert_eq!(schedules.len(), 1, "{schedules:?}");
    schedules.remove(0)
}

/// What was fired on queue "q" and is still there.
pub(crate) async fn fired(store: &EngineStore) -> Vec<Job> {
    store.jobs("q", None, None, i64::MAX).await.unwrap()
}

/// Waits until so many jobs were fired.
pub(crate) async fn fired_at_least(store: &EngineStore, n: usize) -> Vec<Job> {
    eventually(Duration::from_secs(15), async || {
        let jobs = fired(store).await;
        (jobs.len() >= n).then_some(jobs)
    })
    .await
}

/// `@every`, one space, a positive number and a unit: that is the grammar.
async fn every_interval_is_accepted(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let longest = format!("@every {}s", i64::MAX);
    let padded = format!("@every {}7m", "0".repeat(1_000));
    for (spec, seconds) in [
        ("@every 1s", 1),
        ("@every 007s", 7),
        ("@every 90m", 5_400),
        ("@every 2h", 7_200),
        ("@every 1d", 86_400),
        (padded.as_str(), 420),
        ("@every 106751991167300d", 106_751_991_167_300 * 86_400),
        (longest.as_str(), i64::MAX),
    ] {
        let before = now_s();
        let opts = ScheduleOpts { priority: 1, max_attempts: Some(2), expires: Some(3) };
        let kept = store.schedule("s", spec, "q", json!(1), opts.clone()).await.unwrap();
        assert_eq!((&*kept.name, &*kept.spec, &*kept.queue), ("s", spec, "q"));
        assert_eq!(kept.opts, opts);
        let info = only(&store).await;
        assert_eq!((info.schedule, info.last_fire_at), (kept, None));
        let next = info.next_fire_at;
        if seconds < 1 << 40 {
            assert!((before + seconds..=now_s() + seconds).contains(&next), "{spec}: {next}");
        } else {
            assert!(next > 1 << 40, "{spec}: {next}");
        }
        assert!(store.unschedule("s").await.unwrap());
    }
}

/// What is not in the grammar, however close.
const NO_SPECS: &str = "@every
@every s
@every 0s
@every 000m
@every -1s
@every +1s
@every 1.5s
@every 1 s
@EVERY 1s
@Every 1s
@every 1S
@every 1w
@every 1ms
@every 1y
@every 1
@every ١s
@every 1ｓ
@every 0x1s
@every 1e3s
@every 1_000s
@every 1s1s
@every 1h30m
every 1s
1s
@daily
@hourly
* * * * *
0 0 * * *
@every 9223372036854775808s
@every 153722867280912931m
@every 9223372036854775807d
@every 99999999999999999999s";

/// Anything else is `InvalidSpec`, at once, and changes nothing that is registered.
async fn other_specs_are_refused(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    every(&store, "s", "@every 1h").await;
    let before = store.schedules().await.unwrap();
    let digits = format!("@every {}s", "9".repeat(1 << 20));
    let blanks = ["", " ", "@every ", " @every 1s", "@every 1s ", "@every  1s", "@every\t1s"];
    let more = ["@every 1s\n", "\n@every 1s", "@every 1s\0", &digits];
    for spec in NO_SPECS.lines().chain(blanks).chain(more) {
        let refused = store.schedule("s", spec, "r", json!(2), Default::default()).await;
        assert!(matches!(refused, Err(Error::InvalidSpec { .. })), "{spec:.40?}: {refused:?}");
        assert!(refused.unwrap_err().to_string().len() < 1_000);
    }
    assert_eq!(store.schedules().await.unwrap(), before);
}

/// Registering the same spec again keeps the next boundary, and replaces all else.
async fn registering_again_keeps_the_boundary(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    every(&store, "s", "@every 1h").await;
    let first = only(&store).await;
    eventually(Duration::from_secs(10), async || {
        (now_s() > first.next_fire_at - 3_600 + 1).then_some(())
    })
    .await;
    let opts = ScheduleOpts { priority: 7, max_attempts: Some(8), expires: Some(9) };
    other.schedule("s", "@every 1h", "r", json!(2), opts.clone()).await.unwrap();
    let second = only(&store).await;
    assert_eq!(second.next_fire_at, first.next_fire_at);
    assert_eq!((&*second.schedule.queue, second.schedule.opts), ("r", opts));
}

/// A changed spec starts anew, and so does one that was removed in between.
async fn a_changed_spec_starts_anew(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    for (old, new, seconds) in
        [("@every 1d", "@every 1h", 3_600), ("@every 1h", "@every 2d", 172_800)]
    {
        every(&store, "s", old).await;
        let before = now_s();
        every(&store, "s", new).await;
        let info = only(&store).await;
        assert_eq!(info.schedule.spec, new);
        let next = info.next_fire_at;
        assert!((before + seconds..=now_s() + seconds).contains(&next), "{next}");
        assert!(store.unschedule("s").await.unwrap());
    }
}

/// Removing tells whether there was one, and leaves the others.
async fn unschedule_tells_whether_there_was_one(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let other = store.another().await;
    assert!(!store.unschedule("s").await.unwrap());
    every(&store, "s", "@every 1h").await;
    every(&store, "t", "@every 1h").await;
    assert!(other.unschedule("s").await.unwrap());
    assert!(!store.unschedule("s").await.unwrap());
    assert_eq!(only(&store).await.schedule.name, "t");
}

/// A fire is an ordinary job: the payload, the schedule's options over the plain defaults.
async fn a_fire_is_an_ordinary_job(f: Arc<dyn StoreFactory>) {
    let store = open(&f).await;
    let opts = ScheduleOpts { priority: 7, max_attempts: Some(8), expires: Some(900) };
    let payload = json!({ "month": 11 });
    store.schedule("s", "@every 1s", "q", payload.clone(), opts).await.unwrap();
    every(&store, "t", "@every 1s").await;
    let runner = Runner::lead(&store).await;
    fired_at_least(&store, 2).await;
    runner.stop().await.unwrap();
    let jobs = fired(&store).await;
    let custom = jobs.iter().find(|job| job.priority == 7).unwrap();
    assert_eq!(custom.payload_as::<serde_json::Value>().unwrap(), payload);
    assert_eq!((custom.max_attempts, custom.attempts), (8, 0));
    assert_eq!(custom.expires_at, Some(custom.created_at + 900));
    let plain = jobs.iter().find(|job| job.priority == 0).unwrap();
    assert_eq!(plain.payload_as::<String>().unwrap(), "t");
    assert_eq!((plain.max_attempts, plain.expires_at), (3, None));
    for job in &jobs {
        assert_eq!((job.visibility_timeout_s, job.backoff_base_s), (300, 5));
        assert_eq!((job.dead_letter_retention_s, job.run_at), (None, job.created_at));
    }
    let queue = store.queue("q", Default::default()).await.unwrap();
    assert_eq!(queue.claim_one("w").await.unwrap().unwrap().job().priority, 7);
}

cases!("schedule":
    every_interval_is_accepted,
    other_specs_are_refused,
    registering_again_keeps_the_boundary,
    a_changed_spec_starts_anew,
    unschedule_tells_whether_there_was_one,
    a_fire_is_an_ordinary_job,
);
