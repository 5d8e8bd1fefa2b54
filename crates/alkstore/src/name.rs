//! What a name may be, and the names that the store keeps for itself.

use crate::{Error, Result};

/// Names of channels, streams, queues, outboxes, locks and schedules may not start with this.
pub const RESERVED_PREFIX: &str = "__alkstore_";

/// The channel of the wake that every receiver gets after a gap in the engine's listening.
pub const LISTENER_RECONNECTED: &str = "__alkstore_listener_reconnected__";

/// The longest name that every engine can store and index, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 1024;

/// Checks the name of a channel, stream, queue, outbox, lock or schedule.
///
/// # Errors
/// [`Error::InvalidName`] as for [`validate_local_name`]; [`Error::ReservedName`] if it starts
/// with [`RESERVED_PREFIX`].
///
/// ```
/// use alkstore::{Error, validate_shared_name};
/// assert!(validate_shared_name("orders/2026 'x'").is_ok());
/// assert!(matches!(validate_shared_name("__alkstore_x"), Err(Error::ReservedName { .. })));
/// ```
pub fn validate_shared_name(name: &str) -> Result<()> {
    validate_local_name(name)?;
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Error::ReservedName { name: name.to_owned() });
    }
    Ok(())
}

/// Checks a consumer, a lock's owner, a worker id or an event's key.
///
/// # Errors
/// [`Error::InvalidName`] if it is empty, only white space, over 1,024 bytes or holds a NUL.
///
/// ```
/// use alkstore::{Error, validate_local_name};
/// assert!(validate_local_name("__alkstore_is_fine_here").is_ok());
/// assert!(matches!(validate_local_name(" \t"), Err(Error::InvalidName { .. })));
/// ```
pub fn validate_local_name(name: &str) -> Result<()> {
    if name.trim().is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(Error::InvalidName { name: name.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_kind() {
        for bad in ["", " ", "\u{a0}\n\t", "a\0b", &"x".repeat(1025)] {
            assert!(matches!(validate_local_name(bad), Err(Error::InvalidName { .. })), "{bad:?}");
            assert!(matches!(validate_shared_name(bad), Err(Error::InvalidName { .. })), "{bad:?}");
        }
        for good in ["a", " a ", "ü'\"; DROP TABLE x", "__alkstore", &"x".repeat(1024)] {
            assert!(validate_shared_name(good).is_ok(), "{good:?}");
        }
        assert!(matches!(
            validate_shared_name(LISTENER_RECONNECTED),
            Err(Error::ReservedName { .. })
        ));
        assert!(validate_local_name(LISTENER_RECONNECTED).is_ok());
    }
}
