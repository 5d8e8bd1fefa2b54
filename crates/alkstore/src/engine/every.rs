//! `@every` and the arithmetic of its boundaries. Instants are microseconds.

use crate::{Error, Result};

use super::domain::{US, after};

/// Boundaries that one catch-up fires at most; older ones are dropped.
pub const CATCH_UP: i64 = 64;

/// Reads `@every <n><s|m|h|d>` as an interval in seconds.
///
/// # Errors
/// [`Error::InvalidSpec`] for anything else, for 0, and for more seconds than an `i64` holds.
pub fn parse(spec: &str) -> Result<i64> {
    interval(spec).ok_or_else(|| {
        // A hostile spec may be megabytes long.
        Error::InvalidSpec { spec: spec.chars().take(256).collect() }
    })
}

fn interval(spec: &str) -> Option<i64> {
    let text = spec.strip_prefix("@every ")?;
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: i64 = digits.parse().ok()?;
    (n > 0).then_some(n)?.checked_mul(seconds)
}

/// The first boundary of a schedule that is registered at `now_us`.
#[must_use]
pub fn first(now_us: i64, interval_s: i64) -> i64 {
    after(now_us, interval_s)
}

/// What a runner finds at a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// How many jobs to enqueue: one per elapsed boundary, [`CATCH_UP`] at most.
    pub fires: i64,
    /// The last elapsed boundary.
    pub last_us: i64,
    /// The first boundary after now, in phase.
    pub next_us: i64,
}

/// The elapsed boundaries of a schedule whose next one is `next_us`; `None` if it is to come.
#[must_use]
pub fn due(next_us: i64, interval_s: i64, now_us: i64) -> Option<Due> {
    if now_us < next_us {
        return None;
    }
    let step = interval_s.saturating_mul(US).max(1);
    // A stored boundary may be any i64, so the span may need more bits.
    let elapsed = (i128::from(now_us) - i128::from(next_us)) / i128::from(step);
    let last = i128::from(next_us) + elapsed * i128::from(step);
    let clamp = |us: i128| i64::try_from(us).unwrap_or(i64::MAX);
    Some(Due {
        fires: clamp(elapsed + 1).min(CATCH_UP),
        last_us: clamp(last),
        next_us: clamp(last + i128::from(step)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        for (spec, seconds) in [
            ("@every 1s", 1),
            ("@every 0090s", 90),
            ("@every 15m", 900),
            ("@every 2h", 7_200),
            ("@every 1d", 86_400),
            ("@every 9223372036854775807s", i64::MAX),
            ("@every 106751991167300d", 106_751_991_167_300 * 86_400),
        ] {
            assert_eq!(parse(spec).unwrap(), seconds, "{spec}");
        }
        let megabyte = format!("@every {}s", "9".repeat(1 << 20));
        for spec in [
            "",
            "@every",
            "@every ",
            "@every s",
            "@every 0s",
            "@every 00s",
            "@every -1s",
            "@every +1s",
            "@every 1.5s",
            "@every 1 s",
            "@every  1s",
            " @every 1s",
            "@every 1s ",
            "@EVERY 1s",
            "@every 1S",
            "@every 1w",
            "@every 1ms",
            "@every 1s\n",
            "@every ١s",
            "@every 1é",
            "@every 9223372036854775808s",
            "@every 9223372036854775807d",
            "@every 106751991167301d",
            "* * * * *",
            "@daily",
            "@every\t1s",
            &megabyte,
        ] {
            assert!(matches!(parse(spec), Err(Error::InvalidSpec { .. })), "{spec:.40}");
        }
        let padded = format!("@every {}1s", "0".repeat(1 << 20));
        assert_eq!(parse(&padded).unwrap(), 1);
    }

    #[test]
    fn boundaries() {
        let s = |n: i64| n * US;
        assert_eq!(due(s(10), 5, s(10) - 1), None);
        let at = |now| due(s(10), 5, now).unwrap();
        assert_eq!(at(s(10)), Due { fires: 1, last_us: s(10), next_us: s(15) });
        assert_eq!(at(s(14) + 999_999), Due { fires: 1, last_us: s(10), next_us: s(15) });
        assert_eq!(at(s(22)), Due { fires: 3, last_us: s(20), next_us: s(25) });
        assert_eq!(at(s(10 + 63 * 5)), Due { fires: 64, last_us: s(325), next_us: s(330) });
        assert_eq!(at(s(10 + 64 * 5)), Due { fires: 64, last_us: s(330), next_us: s(335) });
        assert_eq!(at(s(1012)), Due { fires: 64, last_us: s(1010), next_us: s(1015) });
    }

    #[test]
    fn extremes_neither_wrap_nor_panic() {
        assert_eq!(first(1, i64::MAX), i64::MAX);
        assert_eq!(due(i64::MAX, i64::MAX, 0), None);
        let due = due(i64::MIN, 1, i64::MAX).unwrap();
        assert_eq!(due.fires, CATCH_UP);
        assert_eq!(due.next_us, i64::MAX);
    }
}
