//! Waiting for whichever comes first, and the loop behind `Queue::wait_ready`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::Result;

use super::clock::Clock;
use super::database_error;
use super::hub::{Event, Signal};

/// What ended a [`first`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<A, B> {
    /// The first future was ready; it wins a draw.
    A(A),
    /// The second future was ready.
    B(B),
}

/// Waits for the first of two futures and drops the other.
pub async fn first<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> First<A, B> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| {
        if let Poll::Ready(a) = a.as_mut().poll(cx) {
            return Poll::Ready(First::A(a));
        }
        b.as_mut().poll(cx).map(First::B)
    })
    .await
}

/// What a queue has for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A claim may find work now.
    Ready,
    /// A job becomes ready, or a claim lapses, in so many microseconds.
    After(i64),
    /// Nothing is there that time alone could make ready.
    Idle,
}

/// Waits until `check` finds something ready (`true`) or the timeout is over (`false`).
///
/// `signal` must have been subscribed before: what commits from then on starts another check.
///
/// # Errors
/// What `check` fails with, and a closed signal.
pub async fn wait_ready<F>(
    clock: &Clock,
    signal: &mut Signal,
    timeout: Duration,
    mut check: impl FnMut() -> F,
) -> Result<bool>
where
    F: Future<Output = Result<Readiness>>,
{
    let timeout_us = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX);
    let end = clock.now_us().saturating_add(timeout_us);
    loop {
        // Read before the check: a clock that moves meanwhile must not put the due time off.
        let before = clock.now_us();
        let due = match check().await? {
            Readiness::Ready => return Ok(true),
            Readiness::After(us) => before.saturating_add(us.max(0)),
            Readiness::Idle => i64::MAX,
        };
        if before >= end {
            return Ok(false);
        }
        match first(signal.recv(), clock.sleep_until(due.min(end))).await {
            First::A(Some(Event::Work)) => return Ok(true),
            First::A(Some(_)) | First::B(()) => {}
            First::A(None) => {
                return Err(database_error("the store is closed, or its watcher ended", false));
            }
        }
    }
}
