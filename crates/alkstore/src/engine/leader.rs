//! The loop behind `Store::run_schedules`: lead, fire what is due, sleep, renew, stop.

use async_trait::async_trait;

use crate::{Error, Lock, Result, StopToken};

use super::clock::Clock;
use super::domain::after;
use super::hub::Signal;
use super::wait::{First, first};
use super::{SCHEDULER_TTL_S, store_closed};

/// The leadership is renewed when this much of its time is gone.
const RENEW_S: i64 = SCHEDULER_TTL_S / 3;

/// What one tick found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// The leadership was not this runner's any more; nothing fired.
    Lost,
    /// Some boundaries fired and more are due.
    More,
    /// Nothing is due; the next boundary is in so many microseconds, if there is a schedule.
    Idle(Option<i64>),
}

/// What the loop needs of an engine.
#[async_trait]
pub trait Leader: Send + Sync {
    /// Takes [`SCHEDULER_LOCK`](super::SCHEDULER_LOCK) for [`SCHEDULER_TTL_S`] under an owner
    /// that nobody else uses.
    async fn lead(&self) -> Result<Option<Box<dyn Lock>>>;

    /// In one transaction: checks that the tenure `token` still leads, then fires a bounded
    /// number of due schedules and advances their boundaries.
    async fn tick(&self, token: i64) -> Result<Tick>;

    /// A signal that changed schedules, of whatever process, wake.
    async fn changes(&self) -> Result<Signal>;

    /// The engine's clock.
    fn clock(&self) -> &Clock;
}

/// Runs until `stop`, an error, or another leader.
///
/// # Errors
/// [`Error::LeadershipLost`], or what the engine fails with.
pub async fn run_schedules(engine: &dyn Leader, stop: StopToken) -> Result<()> {
    let mut changes = engine.changes().await?;
    // Times are read before what they belong to: a clock that moves meanwhile, or an engine that
    // takes its time, must put neither a renewal nor a boundary off.
    let since_us = engine.clock().now_us();
    let lock = engine.lead().await?.ok_or(Error::LeadershipLost)?;
    let outcome = lead(engine, &*lock, since_us, &mut changes, &stop).await;
    let released = lock.release().await;
    outcome.and(released.map(|_| ()))
}

async fn lead(
    engine: &dyn Leader,
    lock: &dyn Lock,
    since_us: i64,
    changes: &mut Signal,
    stop: &StopToken,
) -> Result<()> {
    let clock = engine.clock();
    let mut renew_us = after(since_us, RENEW_S);
    while !stop.is_cancelled() {
        let before = clock.now_us();
        if before >= renew_us {
            if !lock.renew(SCHEDULER_TTL_S).await? {
                return Err(Error::LeadershipLost);
            }
            renew_us = after(before, RENEW_S);
        }
        let next_us = match engine.tick(lock.fencing_token()).await? {
            Tick::Lost => return Err(Error::LeadershipLost),
            Tick::More => continue,
            Tick::Idle(None) => i64::MAX,
            Tick::Idle(Some(us)) => before.saturating_add(us.max(0)),
        };
        let asleep = first(stop.cancelled(), clock.sleep_until(next_us.min(renew_us)));
        if let First::A(None) = first(changes.recv(), asleep).await {
            return Err(store_closed());
        }
    }
    Ok(())
}
