//! What numbers mean: extents clamp, durations reject, boundaries are total.

use crate::{Error, Result};

use super::database_error;

/// Microseconds in a second.
pub const US: i64 = 1_000_000;

/// "At most this many": `None` asks for nothing.
#[must_use]
pub fn extent(n: i64) -> Option<i64> {
    (n > 0).then_some(n)
}

/// Checks a TTL or a claim's extension, in seconds.
///
/// # Errors
/// [`Error::Database`] if it is not positive.
pub fn duration(what: &str, seconds: i64) -> Result<i64, Error> {
    if seconds > 0 {
        return Ok(seconds);
    }
    Err(database_error(format!("{what} is {seconds} s: it must be at least 1 s"), false))
}

/// `seconds` after `now_us`, in microseconds; saturates.
#[must_use]
pub fn after(now_us: i64, seconds: i64) -> i64 {
    now_us.saturating_add(seconds.saturating_mul(US))
}

/// The whole second that an instant lies in.
#[must_use]
pub fn whole_seconds(us: i64) -> i64 {
    us.div_euclid(US)
}

/// Whether a live job is past its expiry.
#[must_use]
pub fn is_expired(expires_at: Option<i64>, now_us: i64) -> bool {
    expires_at.is_some_and(|at| at <= whole_seconds(now_us))
}

/// Whether a dead job is past its retention.
#[must_use]
pub fn is_past_retention(died_at: i64, retention_s: Option<i64>, now_us: i64) -> bool {
    retention_s.is_some_and(|s| died_at.saturating_add(s) <= whole_seconds(now_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_total() {
        assert_eq!(extent(i64::MIN), None);
        assert_eq!(extent(0), None);
        assert_eq!(extent(7), Some(7));
        assert!(duration("ttl", 0).is_err() && duration("ttl", -1).is_err());
        assert_eq!(after(5, i64::MAX), i64::MAX);
        assert_eq!(after(-5, i64::MIN), i64::MIN);
        assert_eq!(after(1_500_000, 2), 3_500_000);
        assert_eq!(whole_seconds(-1), -1);
        assert!(is_expired(Some(1), US) && !is_expired(Some(2), US) && !is_expired(None, US));
        assert!(is_past_retention(1, Some(0), US) && !is_past_retention(1, None, US));
        assert!(!is_past_retention(1, Some(i64::MAX), US));
    }
}
