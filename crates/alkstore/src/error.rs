//! The error taxonomy: a variant exists only where a caller can act on it.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that an operation of a store can fail with.
///
/// "No work", "not mine any more" and "already held" are values, not errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The serialized payload of a notification is over the engine's limit, in bytes.
    ///
    /// Only Postgres has such a limit. Put the content into a stream or a row and send its id.
    #[error("payload is over {limit} bytes: put the content into a stream or a row, notify its id")]
    PayloadTooLarge {
        /// The most bytes that the engine takes.
        limit: usize,
    },
    /// The name starts with `__alkstore_`, which is kept for the store itself.
    #[error("name {} starts with the reserved prefix \"__alkstore_\": choose another", Shown(.name))]
    ReservedName {
        /// The refused name.
        name: String,
    },
    /// The name or key is empty, only white space, over 1,024 bytes or holds a NUL character.
    #[error("name {} is not valid: {}", Shown(.name), name_fault(.name))]
    InvalidName {
        /// The refused name.
        name: String,
    },
    /// The schedule's spec is not `@every <n><s|m|h|d>`.
    #[error("schedule spec {} is not valid: write \"@every <n><s|m|h|d>\", as in \"@every 15m\"", Shown(.spec))]
    InvalidSpec {
        /// The refused spec.
        spec: String,
    },
    /// Another runner holds the scheduler's leadership, or took it over.
    #[error("another runner leads the schedules")]
    LeadershipLost,
    /// The receiver's source is closed.
    #[error("the receiver is closed")]
    Closed,
    /// A payload could not be encoded or decoded.
    #[error("payload does not encode or decode")]
    Codec(#[from] serde_json::Error),
    /// Anything else: driver, connection, SQL, refused numbers. The cause is in `source()`.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Error {
    /// An application's own failure, for closures that must return this type.
    ///
    /// It is a [`Database`](Self::Database) error with the given cause, not transient.
    ///
    /// ```
    /// use alkstore::{Error, JobHandle};
    /// let mut deliver = |_job: Box<dyn JobHandle>| async {
    ///     Err::<(), _>(Error::other("the endpoint answered 503"))
    /// };
    /// # let _: &mut dyn alkstore::Delivery = &mut deliver;
    /// ```
    pub fn other(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        DatabaseError::new(cause.into(), false).into()
    }

    /// Whether the same call may succeed if it is made again.
    ///
    /// True for a busy database, a serialization failure, a deadlock, a lost connection and an
    /// exhausted pool. After a lost connection the outcome of a write may be unknown.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Database(error) if error.transient)
    }
}

/// An engine's own failure: opaque, with the driver's error as its `source()`.
#[derive(Debug)]
pub struct DatabaseError {
    source: Box<dyn StdError + Send + Sync>,
    transient: bool,
}

impl DatabaseError {
    pub(crate) fn new(source: Box<dyn StdError + Send + Sync>, transient: bool) -> Self {
        Self { source, transient }
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.transient {
            "the database could not do it now; it may work when tried again"
        } else {
            "the database operation failed"
        })
    }
}

impl StdError for DatabaseError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_ref())
    }
}

/// A name as it is shown: quoted, control characters escaped, cut after 64 characters.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(64) {
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &self.0[..end], self.0.len()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

fn name_fault(name: &str) -> Cow<'static, str> {
    if name.trim().is_empty() {
        "it is empty".into()
    } else if name.contains('\0') {
        "it holds a NUL character".into()
    } else {
        format!("it is longer than {} bytes", crate::name::MAX_NAME_BYTES).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendered_names_escape_control_characters_and_stay_short() {
        let name = "a\u{1b}[31m\n".to_owned();
        let shown = Error::ReservedName { name }.to_string();
        assert!(!shown.contains('\u{1b}') && !shown.contains('\n'), "{shown}");
        let shown = Error::InvalidName { name: "x".repeat(100_000) }.to_string();
        assert!(shown.len() < 300, "{shown}");
        assert!(shown.contains("longer than 1024 bytes"), "{shown}");
    }

    #[test]
    fn a_database_error_keeps_its_source_and_its_transience() {
        let error = Error::from(DatabaseError::new("disk gone".into(), true));
        assert!(error.is_transient());
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("disk gone"));
        assert!(!Error::Closed.is_transient());
    }
}
