//! The error texts that engines record on dead jobs.

use std::borrow::Cow;

/// `fail(None)`.
pub const FAILED: &str = "failed";
/// A live job past its `expires_at`, swept.
pub const EXPIRED: &str = "expired";
/// Out of attempts, and no error text of the caller's.
pub const MAX_ATTEMPTS_EXCEEDED: &str = "max attempts exceeded";

/// An error text as it is stored: NUL, which not every engine can hold, becomes U+FFFD.
#[must_use]
pub fn stored(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// An error with its causes, as it is recorded on a job: "what: why: why".
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_nul_is_replaced() {
        assert_eq!(super::stored("a\0b\n\u{1b}"), "a\u{fffd}b\n\u{1b}");
        assert_eq!(super::stored(""), "");
    }
}
