//! Where time comes from.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// A source of unix time in microseconds.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that only its owner moves.
    Manual(ManualClock),
}

impl Clock {
    /// Unix microseconds.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        match self {
            Self::System => system_us(),
            Self::Manual(clock) => *clock.now.borrow(),
        }
    }

    /// Returns once this clock shows `us` or later. Cancel-safe.
    pub async fn sleep_until(&self, us: i64) {
        match self {
            Self::System => {
                let now = self.now_us();
                let left = u64::try_from(us.saturating_sub(now)).unwrap_or(0);
                tokio::time::sleep(Duration::from_micros(left)).await;
            }
            Self::Manual(clock) => {
                // The clock owns a sender, so the channel cannot close while this waits.
                let _ = clock.now.subscribe().wait_for(|now| *now >= us).await;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
fn system_us() -> i64 {
    // A clock before 1970 counts as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A clock that moves only when it is told to; clones are one clock.
///
/// ```
/// use alkstore::engine::clock::ManualClock;
/// let clock = ManualClock::at(1_000);
/// clock.advance(std::time::Duration::from_secs(60));
/// assert_eq!(clock.now(), 1_060);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: std::sync::Arc<watch::Sender<i64>>,
}

impl ManualClock {
    /// A clock that shows this unix second.
    #[must_use]
    pub fn at(unix_s: i64) -> Self {
        let now = watch::Sender::new(unix_s.saturating_mul(super::domain::US));
        Self { now: std::sync::Arc::new(now) }
    }

    /// The unix second that it shows.
    #[must_use]
    pub fn now(&self) -> i64 {
        super::domain::whole_seconds(*self.now.borrow())
    }

    /// Moves it forward; whatever was waiting for a time up to then goes on.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.now.send_modify(|now| *now = now.saturating_add(by));
    }
}
