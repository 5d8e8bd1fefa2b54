//! The retry curve: exponential with equal jitter, capped at an hour.

/// The longest delay, in seconds.
pub const CAP_S: i64 = 3600;

/// The least and the greatest delay after `attempts` claims, in seconds.
///
/// `cap = min(base · 2^(attempts - 1), 3600)`; the range is `[ceil(cap / 2), cap]`, the "equal
/// jitter" of the AWS Architecture Blog, "Exponential Backoff And Jitter" (2015).
#[must_use]
pub fn range(base_s: i64, attempts: i64) -> (i64, i64) {
    if base_s <= 0 {
        return (0, 0);
    }
    let doublings = u32::try_from(attempts.saturating_sub(1).clamp(0, 62)).unwrap_or(62);
    let cap = base_s.saturating_mul(1_i64 << doublings).min(CAP_S);
    (cap - cap / 2, cap)
}

/// The delay in seconds for a uniformly drawn `draw`.
#[must_use]
pub fn delay(base_s: i64, attempts: i64, draw: u64) -> i64 {
    let (least, most) = range(base_s, attempts);
    let width = u64::try_from(most - least + 1).unwrap_or(1);
    least + i64::try_from(draw % width).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (base, attempts, expected) in [
            (5, 1, (3, 5)),
            (5, 2, (5, 10)),
            (5, 3, (10, 20)),
            (5, 10, (1280, 2560)),
            (5, 11, (1800, 3600)),
            (5, i64::MAX, (1800, 3600)),
            (1, 1, (1, 1)),
            (1, 0, (1, 1)),
            (1, i64::MIN, (1, 1)),
            (7200, 1, (1800, 3600)),
            (i64::MAX, 63, (1800, 3600)),
            (0, 5, (0, 0)),
            (-1, 5, (0, 0)),
            (i64::MIN, i64::MIN, (0, 0)),
        ] {
            assert_eq!(range(base, attempts), expected, "base {base}, attempts {attempts}");
        }
    }

    #[test]
    fn draws_reach_every_second_of_the_range_and_no_other() {
        let drawn: std::collections::BTreeSet<i64> = (0..100).map(|d| delay(5, 2, d)).collect();
        assert_eq!(drawn, (5..=10).collect());
        assert!((3..=5).contains(&delay(5, 1, u64::MAX)));
    }
}
