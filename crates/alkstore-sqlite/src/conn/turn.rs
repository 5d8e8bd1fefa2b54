//! Gaps between write transactions, so that others who write to the file get a turn.
//!
//! SQLite has no queue for the write lock: who wants it asks now and then, other programs down to
//! every 0.1 s. Under a load that never ends they would find it taken each time.

use std::time::{Duration, Instant};

/// The share of the time for which the lock is left free at least.
const SHARE: u32 = 10;
/// How long the lock is held, in all, until the gaps are looked at.
const HELD: Duration = Duration::from_millis(20);
const LONGEST_GAP: Duration = Duration::from_millis(5);

/// For how long the lock was held and left free.
#[derive(Debug, Default)]
pub(super) struct Turns {
    held: Duration,
    free: Duration,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Turns {
    /// How long to leave the lock free before it is taken again.
    pub(super) fn gap(&mut self) -> Duration {
        if let Some(ended) = self.ended.take() {
            self.free += ended.elapsed();
        }
        if self.held < HELD {
            return Duration::ZERO;
        }
        let gap = (self.held / SHARE).min(LONGEST_GAP).saturating_sub(self.free);
        (self.held, self.free) = Default::default();
        gap
    }

    /// The lock is taken.
    pub(super) fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// The lock is free, if it was taken at all.
    pub(super) fn end(&mut self) {
        if let Some(began) = self.began.take() {
            let now = Instant::now();
            self.held += now - began;
            self.ended = Some(now);
        }
    }
}
