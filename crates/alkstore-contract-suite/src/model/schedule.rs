//! Steps on schedules.

use alkstore::engine::clock::Clock;
use alkstore::engine::{SCHEDULER_LOCK, every};
use alkstore::{Error, JobState, Result, ScheduleOpts, StopToken};
use proptest::prelude::*;
use proptest::sample::select;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::draw::{Name, Pace, Payload, names, payloads, schedule_opts};
use super::seen::error;
use super::side::{Boundary, Side};
use super::stream::PATIENCE;

/// A step on the schedules.
#[derive(Clone, Debug)]
pub(super) enum ScheduleStep {
    Schedule {
        name: Name,
        spec: &'static str,
        queue: Name,
        payload: Payload,
        opts: ScheduleOpts,
    },
    Unschedule(Name),
    /// Leads until all that is due has fired, while another runner tries to.
    Lead,
}

pub(super) fn steps(pace: Pace) -> impl Strategy<Value = ScheduleStep> {
    let good = match pace {
        Pace::Still => &["@every 1000s", "@every 017m", "@every 9223372036854775807s"][..],
        Pace::Lapsing => &["@every 1s", "@every 01s", "@every 1000s"][..],
    };
    let bad = &[
        "",
        "@every 1",
        "@every 0s",
        "@every  1s",
        "* * * * *",
        "@every 9223372036854775807m",
    ][..];
    let specs = prop_oneof![8 => select(good), 1 => select(bad)];
    let numbers = schedule_opts(pace);
    let schedule = (names(), specs, names(), payloads(), numbers);
    prop_oneof![
        4 => schedule.prop_map(|(name, spec, queue, payload, (priority, max_attempts, expires))| {
            let opts = ScheduleOpts { priority, max_attempts, expires };
            ScheduleStep::Schedule { name, spec, queue, payload, opts }
        }),
        2 => names().prop_map(ScheduleStep::Unschedule),
        2 => Just(ScheduleStep::Lead),
    ]
}

impl ScheduleStep {
    pub(super) async fn run(&self, side: &mut Side) -> Result<String> {
        Ok(match self {
            Self::Schedule { name, spec, queue, payload, opts } => {
                let (name, queue) = (side.name(*name), side.name(*queue));
                let (payload, opts) = (payload.value(), opts.clone());
                let now_us = Clock::System.now_us();
                let schedule = side.store().schedule(&name, spec, &queue, payload, opts).await?;
                if side.boundaries.get(&name).is_none_or(|boundary| boundary.spec != *spec) {
                    let next_us = every::first(now_us, every::parse(spec)?);
                    side.boundaries.insert(name, Boundary { spec, next_us });
                }
                format!("{schedule:?}")
            }
            Self::Unschedule(name) => {
                let name = side.name(*name);
                side.boundaries.remove(&name);
                side.store().unschedule(&name).await?.to_string()
            }
            Self::Lead => lead(side).await?,
        })
    }
}

async fn lead(side: &mut Side) -> Result<String> {
    let now_us = Clock::System.now_us();
    let mut due = Vec::new();
    for (name, Boundary { spec, next_us }) in &mut side.boundaries {
        if let Some(fire) = every::due(*next_us, every::parse(spec)?, now_us) {
            *next_us = fire.next_us;
            due.push(name.clone());
        }
    }
    let before = fires(side, &due).await?;
    let stop = StopToken::new();
    let leader = tokio::spawn({
        let (store, stop) = (side.store().clone(), stop.clone());
        async move { store.run_schedules(stop).await }
    });
    let all_fired = async {
        while !is_led(side).await? || fires(side, &due).await?.iter().any(|f| before.contains(f)) {
            yield_now().await;
        }
        Ok::<_, Error>(())
    };
    let fired = timeout(PATIENCE, all_fired).await;
    let rival = side.store().run_schedules(StopToken::new()).await;
    stop.cancel();
    let led = leader.await.unwrap();
    fired.unwrap_or_else(|_| panic!("{due:?} did not fire in {PATIENCE:?}"))?;
    let outcome = |led: Result<()>| led.map_or_else(|refused| error(&refused), |()| "Ok".into());
    let jobs = if due.is_empty() { String::new() } else { adopt(side).await? };
    Ok(format!("{}, a rival {}, led {}{jobs}", outcome(led), outcome(rival), is_led(side).await?))
}

async fn is_led(side: &Side) -> Result<bool> {
    Ok(side.store().locks().await?.iter().any(|lock| lock.name == SCHEDULER_LOCK))
}

/// The last boundaries of these schedules that fired.
async fn fires(side: &Side, names: &[String]) -> Result<Vec<(String, Option<i64>)>> {
    let schedules = side.store().schedules().await?.into_iter();
    let mut fires: Vec<_> = schedules.map(|info| (info.schedule.name, info.last_fire_at)).collect();
    fires.retain(|(name, _)| names.contains(name));
    Ok(fires)
}

/// Names the jobs that fired.
async fn adopt(side: &mut Side) -> Result<String> {
    let last = side.seen.all_jobs().last().copied();
    let mut ids = Vec::new();
    for queue in side.store().queues().await? {
        let jobs = side.store().jobs(&queue.address(), None, last, i64::MAX).await?;
        ids.extend(jobs.iter().filter(|job| job.state == JobState::Pending).map(|job| job.id));
    }
    ids.sort_unstable();
    Ok(format!(", {}", side.seen.new_jobs(&ids)))
}
