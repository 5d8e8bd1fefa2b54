//! From options to the values that land on a row.

use crate::{EnqueueOpts, QueueOpts, ScheduleOpts};

use super::domain::{US, after, whole_seconds};

/// The stamps of `enqueue_tx` and of schedules: 300 s, 3 attempts, 5 s, kept for ever.
pub const PLAIN: QueueOpts = QueueOpts::PLAIN;

/// The stamps of outboxes: 60 s, 5 attempts, 5 s, kept for ever.
pub const OUTBOX: QueueOpts = QueueOpts {
    visibility_timeout_s: 60,
    max_attempts: 5,
    backoff_base_s: 5,
    dead_letter_retention_s: None,
};

/// What an enqueue writes, resolved at one reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// Higher is claimed first.
    pub priority: i64,
    /// Unix seconds; the second key of the claim order.
    pub run_at: i64,
    /// Unix microseconds from which it may be claimed: a delay is never cut short.
    pub ready_us: i64,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds; `None` for never.
    pub expires_at: Option<i64>,
    /// Claims after which it is dead-lettered.
    pub max_attempts: i64,
    /// Seconds that a claim lasts.
    pub visibility_timeout_s: i64,
    /// Seconds before the first retry.
    pub backoff_base_s: i64,
    /// Seconds that it is kept once dead.
    pub dead_letter_retention_s: Option<i64>,
}

impl Stamps {
    /// Resolves the options of an enqueue at `now_us` over a queue's.
    #[must_use]
    pub fn resolve(opts: &EnqueueOpts, queue: &QueueOpts, now_us: i64) -> Self {
        let now = whole_seconds(now_us);
        let (run_at, ready_us) = match (opts.delay, opts.run_at) {
            (Some(delay), _) => (now.saturating_add(delay), after(now_us, delay)),
            (None, Some(run_at)) => (run_at, run_at.saturating_mul(US)),
            (None, None) => (now, now_us),
        };
        Self {
            priority: opts.priority,
            run_at,
            ready_us,
            created_at: now,
            expires_at: opts.expires.map(|s| now.saturating_add(s)),
            max_attempts: opts.max_attempts.unwrap_or(queue.max_attempts),
            visibility_timeout_s: queue.visibility_timeout_s,
            backoff_base_s: queue.backoff_base_s,
            dead_letter_retention_s: queue.dead_letter_retention_s,
        }
    }
}

/// A schedule's options as those of the job that a fire enqueues.
#[must_use]
pub fn of_schedule(opts: &ScheduleOpts) -> EnqueueOpts {
    EnqueueOpts {
        delay: None,
        run_at: None,
        priority: opts.priority,
        max_attempts: opts.max_attempts,
        expires: opts.expires,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_900_000;

    fn resolve(opts: EnqueueOpts) -> Stamps {
        Stamps::resolve(&opts, &PLAIN, NOW)
    }

    #[test]
    fn defaults() {
        assert_eq!(
            resolve(EnqueueOpts::default()),
            Stamps {
                priority: 0,
                run_at: 1_000,
                ready_us: NOW,
                created_at: 1_000,
                expires_at: None,
                max_attempts: 3,
                visibility_timeout_s: 300,
                backoff_base_s: 5,
                dead_letter_retention_s: None,
            }
        );
    }

    #[test]
    fn a_delay_wins_over_run_at_and_is_never_cut_short() {
        let opts = EnqueueOpts { delay: Some(1), run_at: Some(5), ..Default::default() };
        let stamps = resolve(opts);
        assert_eq!((stamps.run_at, stamps.ready_us), (1_001, 1_001_900_000));
        let stamps = resolve(EnqueueOpts { run_at: Some(5), ..Default::default() });
        assert_eq!((stamps.run_at, stamps.ready_us), (5, 5_000_000));
        let stamps = resolve(EnqueueOpts { delay: Some(-2), ..Default::default() });
        assert_eq!((stamps.run_at, stamps.ready_us), (998, 998_900_000));
    }

    #[test]
    fn sums_saturate() {
        for n in [i64::MIN, i64::MAX] {
            let opts = EnqueueOpts {
                delay: Some(n),
                run_at: Some(n),
                priority: n,
                max_attempts: Some(n),
                expires: Some(n),
            };
            let stamps = resolve(opts.clone());
            assert_eq!(stamps.max_attempts, n);
            let stamps = resolve(EnqueueOpts { delay: None, ..opts });
            assert_eq!((stamps.run_at, stamps.ready_us), (n, n));
        }
    }
}
