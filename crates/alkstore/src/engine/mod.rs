//! For authors of engines. No stability promise.
//!
//! An engine, in order: validate names ([`crate::validate_shared_name`]), numbers ([`domain`])
//! and payloads ([`crate::encode_payload`]) before anything else; resolve options with
//! [`stamps`]; store rows and hand them out through [`rows`]; wake receivers through [`hub`]
//! after the commit; fence `ack_batch` with [`ledger`]; time schedules with [`every`] and run
//! them with [`leader`]; time retries with [`backoff`]; wait with [`wait`]; turn failures into [`crate::Error`] with [`database_error`].

use std::error::Error as StdError;

use crate::{DatabaseError, Error};

pub mod backoff;
pub mod clock;
pub mod domain;
pub mod every;
pub mod hub;
pub mod leader;
pub mod ledger;
pub mod rows;
pub mod stamps;
pub mod text;
pub mod wait;

/// The reserved lock that the leader of the schedules holds.
pub const SCHEDULER_LOCK: &str = "__alkstore_scheduler";

/// Seconds for which the leader holds [`SCHEDULER_LOCK`] without renewing it.
pub const SCHEDULER_TTL_S: i64 = 15;

const OUTBOX_PREFIX: &str = "__alkstore_outbox:";

/// The queue behind an outbox. Its name is out of reach of every name that callers can give.
#[must_use]
pub fn outbox_queue(outbox: &str) -> String {
    format!("{OUTBOX_PREFIX}{outbox}")
}

/// The outbox that a queue is behind, if it is one.
#[must_use]
pub fn outbox_of_queue(queue: &str) -> Option<&str> {
    queue.strip_prefix(OUTBOX_PREFIX)
}

/// Wraps an engine's own failure. `transient`: the same call may work when made again.
#[must_use]
pub fn database_error(
    source: impl Into<Box<dyn StdError + Send + Sync>>,
    transient: bool,
) -> Error {
    DatabaseError::new(source.into(), transient).into()
}

/// The error of every call on a store that was closed.
#[must_use]
pub fn store_closed() -> Error {
    database_error("the store is closed", false)
}
