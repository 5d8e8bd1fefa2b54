//! The operator surface: look at a store and repair it.
//!
//! Kept apart from [`Store`](crate::Store) on purpose: application code has no redrive. Concrete
//! stores implement both traits.
//!
//! A queue is addressed by its name, an outbox's jobs by `outbox:NAME`. A queue whose own name
//! starts with `outbox:` or `queue:` is addressed as `queue:NAME`; see [`QueueAddress`].

use std::fmt;

use async_trait::async_trait;

use crate::{Job, JobState, Result, Schedule};

/// Looks at a store. Never blocks writers; bounded work on millions of rows.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Every queue and outbox that holds a job, live or dead, by address.
    async fn queues(&self) -> Result<Vec<QueueInfo>>;

    /// Up to `limit` jobs with an id beyond `after`, ascending; all states for `None`.
    async fn jobs(
        &self,
        queue: &str,
        state: Option<JobState>,
        after: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Job>>;

    /// Every stream that holds an event or a consumer, by name.
    async fn streams(&self) -> Result<Vec<StreamInfo>>;

    /// The stream's consumers, by name.
    async fn consumers(&self, stream: &str) -> Result<Vec<ConsumerInfo>>;

    /// The locks that are held now, the scheduler's included, by name.
    async fn locks(&self) -> Result<Vec<LockInfo>>;

    /// Every schedule, by name.
    async fn schedules(&self) -> Result<Vec<ScheduleInfo>>;
}

/// Repairs a store by hand.
#[async_trait]
pub trait Operate: Send + Sync {
    /// Enqueues dead jobs anew and returns the new ids; each job moves atomically.
    ///
    /// Payload, priority and stamps are kept, attempts start afresh, expiry is dropped. Ids that
    /// are not dead jobs of this queue are passed over.
    async fn redrive(&self, queue: &str, job_ids: &[i64]) -> Result<Vec<i64>>;

    /// Deletes dead jobs and returns how many.
    async fn discard(&self, queue: &str, job_ids: &[i64]) -> Result<i64>;

    /// Makes delayed jobs ready now and returns how many.
    async fn retry_now(&self, queue: &str, job_ids: &[i64]) -> Result<i64>;

    /// Sets a consumer's checkpoint; unlike a save it may lower it.
    async fn set_offset(&self, stream: &str, consumer: &str, offset: i64) -> Result<()>;

    /// Removes a consumer's checkpoint; `false` if there was none.
    async fn forget_consumer(&self, stream: &str, consumer: &str) -> Result<bool>;

    /// Frees a lock whoever holds it; `false` if nobody does. Fencing tokens go on growing.
    async fn release_lock(&self, name: &str) -> Result<bool>;
}

/// Whether jobs belong to a queue or to an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum QueueKind {
    /// A queue.
    Queue,
    /// An outbox.
    Outbox,
}

/// Where jobs are: a queue or an outbox, and its name.
///
/// ```
/// use alkstore::ops::{QueueAddress, QueueKind};
/// let address = QueueAddress::parse("outbox:webhooks");
/// assert_eq!((address.kind, address.name.as_str()), (QueueKind::Outbox, "webhooks"));
/// assert_eq!(QueueAddress::parse("emails").to_string(), "emails");
/// assert_eq!(QueueAddress::parse("queue:outbox:x").to_string(), "queue:outbox:x");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueAddress {
    /// Queue or outbox.
    pub kind: QueueKind,
    /// Its own name.
    pub name: String,
}

impl QueueAddress {
    /// Reads an address. Every text is one; whether the name is valid is checked where it is used.
    #[must_use]
    pub fn parse(address: &str) -> Self {
        let (kind, name) = if let Some(name) = address.strip_prefix("outbox:") {
            (QueueKind::Outbox, name)
        } else {
            (QueueKind::Queue, address.strip_prefix("queue:").unwrap_or(address))
        };
        Self { kind, name: name.to_owned() }
    }
}

impl fmt::Display for QueueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ambiguous = self.name.starts_with("outbox:") || self.name.starts_with("queue:");
        match self.kind {
            QueueKind::Outbox => write!(f, "outbox:{}", self.name),
            QueueKind::Queue if ambiguous => write!(f, "queue:{}", self.name),
            QueueKind::Queue => f.write_str(&self.name),
        }
    }
}

/// A queue's or outbox's figures. Counts are exact up to [`COUNT_BOUND`], then stay there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Queue or outbox.
    pub kind: QueueKind,
    /// Its own name.
    pub name: String,
    /// Jobs that wait, ready ones included.
    pub pending: i64,
    /// Jobs that a claim could take now, lapsed claims included.
    pub ready: i64,
    /// Jobs that are claimed, lapsed claims included.
    pub processing: i64,
    /// Dead jobs.
    pub dead: i64,
    /// Seconds since the longest-waiting ready job became ready; `None` if none is ready.
    pub oldest_ready_age_s: Option<i64>,
}

impl QueueInfo {
    /// The address by which [`Inspect`] and [`Operate`] reach its jobs.
    #[must_use]
    pub fn address(&self) -> String {
        QueueAddress { kind: self.kind, name: self.name.clone() }.to_string()
    }
}

/// Up to this number the counts of [`QueueInfo`] are exact.
pub const COUNT_BOUND: i64 = 1_000_000;

/// A stream's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Its name.
    pub name: String,
    /// The first event's offset; 0 if it is empty.
    pub first: i64,
    /// The last event's offset; 0 if it is empty.
    pub head: i64,
    /// Events in it, exact up to [`COUNT_BOUND`].
    pub length: i64,
}

/// A consumer's place in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// Its name.
    pub consumer: String,
    /// Its checkpoint.
    pub offset: i64,
    /// Events beyond the checkpoint, exact up to [`COUNT_BOUND`].
    pub lag: i64,
    /// The checkpoint is beyond every offset that was ever given out.
    pub ahead_of_log: bool,
    /// Events beyond the checkpoint may have been trimmed away before it reached them.
    pub trimmed_past: bool,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// The tenure's token.
    pub fencing_token: i64,
    /// Whole seconds left, rounded up.
    pub remaining_s: i64,
}

/// A schedule and its boundaries, in unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// The schedule.
    pub schedule: Schedule,
    /// When it fires next.
    pub next_fire_at: i64,
    /// The last boundary that fired; `None` if none did.
    pub last_fire_at: Option<i64>,
}
