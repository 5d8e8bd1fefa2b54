//! How long tests that could go on for ever do go on.

use std::env;

/// `base` times `ALKSTORE_TEST_ROUNDS`, which is 1 unless it is set.
///
/// For the rounds, kills or seconds of a random, kill or soak test.
///
/// # Panics
/// If the variable is set to anything but a positive number.
#[must_use]
pub fn rounds(base: u32) -> u32 {
    let factor = env::var("ALKSTORE_TEST_ROUNDS").ok();
    base.saturating_mul(read(factor.as_deref()))
}

fn read(factor: Option<&str>) -> u32 {
    let Some(factor) = factor else { return 1 };
    match factor.parse() {
        Ok(factor) if factor > 0 => factor,
        _ => panic!("ALKSTORE_TEST_ROUNDS must be a number from 1 on, not {factor:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_multiplied() {
        assert_eq!(read(None), 1);
        assert_eq!(read(Some("10")), 10);
        for wrong in ["", "0", "-1", "many"] {
            assert!(std::panic::catch_unwind(|| read(Some(wrong))).is_err(), "{wrong:?}");
        }
    }
}
