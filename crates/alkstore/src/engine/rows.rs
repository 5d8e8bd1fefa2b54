//! Rows as engines read them, with named fields, and the values that they become.

use crate::ops::{
    ConsumerInfo, LockInfo, QueueAddress, QueueInfo, QueueKind, ScheduleInfo, StreamInfo,
};
use crate::{Job, JobState, Schedule, ScheduleOpts, StreamEvent};

use super::domain::{US, whole_seconds};
use super::{outbox_of_queue, outbox_queue};

/// A job's row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Job`")]
pub struct JobRow {
    pub id: i64,
    pub queue: String,
    pub state: JobState,
    pub payload: Vec<u8>,
    pub priority: i64,
    pub run_at: i64,
    pub attempts: i64,
    pub max_attempts: i64,
    pub worker_id: Option<String>,
    pub claimed_at: Option<i64>,
    pub claim_expires_at: Option<i64>,
    pub created_at: i64,
    pub expires_at: Option<i64>,
    pub visibility_timeout_s: i64,
    pub backoff_base_s: i64,
    pub dead_letter_retention_s: Option<i64>,
    pub last_error: Option<String>,
    pub died_at: Option<i64>,
}

impl From<JobRow> for Job {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id,
            queue: row.queue,
            state: row.state,
            payload: row.payload,
            priority: row.priority,
            run_at: row.run_at,
            attempts: row.attempts,
            max_attempts: row.max_attempts,
            worker_id: row.worker_id,
            claimed_at: row.claimed_at,
            claim_expires_at: row.claim_expires_at,
            created_at: row.created_at,
            expires_at: row.expires_at,
            visibility_timeout_s: row.visibility_timeout_s,
            backoff_base_s: row.backoff_base_s,
            dead_letter_retention_s: row.dead_letter_retention_s,
            last_error: row.last_error,
            died_at: row.died_at,
        }
    }
}

/// An event's row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `StreamEvent`")]
pub struct EventRow {
    pub offset: i64,
    pub stream: String,
    pub key: Option<String>,
    pub payload: Vec<u8>,
    pub created_at: i64,
}

impl From<EventRow> for StreamEvent {
    fn from(row: EventRow) -> Self {
        Self {
            offset: row.offset,
            stream: row.stream,
            key: row.key,
            payload: row.payload,
            created_at: row.created_at,
        }
    }
}

/// A schedule's row; boundaries in unix microseconds.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Schedule` and `ScheduleInfo`")]
pub struct ScheduleRow {
    pub name: String,
    pub spec: String,
    pub queue: String,
    pub payload: Vec<u8>,
    pub opts: ScheduleOpts,
    pub next_fire_us: i64,
    pub last_fire_us: Option<i64>,
}

impl From<ScheduleRow> for Schedule {
    fn from(row: ScheduleRow) -> Self {
        Self { name: row.name, spec: row.spec, queue: row.queue, opts: row.opts }
    }
}

impl From<ScheduleRow> for ScheduleInfo {
    fn from(row: ScheduleRow) -> Self {
        Self {
            next_fire_at: whole_seconds(row.next_fire_us),
            last_fire_at: row.last_fire_us.map(whole_seconds),
            schedule: row.into(),
        }
    }
}

/// A lock's row.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `LockInfo`")]
pub struct LockRow {
    pub name: String,
    pub owner: String,
    pub fencing_token: i64,
    pub expires_us: i64,
}

impl LockRow {
    /// The lock as it is seen at `now_us`.
    #[must_use]
    pub fn info(self, now_us: i64) -> LockInfo {
        let left = self.expires_us.saturating_sub(now_us).max(0);
        LockInfo {
            name: self.name,
            owner: self.owner,
            fencing_token: self.fencing_token,
            remaining_s: left / US + i64::from(left % US > 0),
        }
    }
}

/// A queue's figures; `queue` is the stored name, an outbox's included.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of `QueueInfo`")]
pub struct QueueRow {
    pub queue: String,
    pub pending: i64,
    pub ready: i64,
    pub processing: i64,
    pub dead: i64,
    pub oldest_ready_age_s: Option<i64>,
}

impl From<QueueRow> for QueueInfo {
    fn from(row: QueueRow) -> Self {
        let (kind, name) = match outbox_of_queue(&row.queue) {
            Some(outbox) => (QueueKind::Outbox, outbox.to_owned()),
            None => (QueueKind::Queue, row.queue),
        };
        Self {
            kind,
            name,
            pending: row.pending,
            ready: row.ready,
            processing: row.processing,
            dead: row.dead,
            oldest_ready_age_s: row.oldest_ready_age_s,
        }
    }
}

/// The stored queue name that an operator's address leads to.
///
/// # Errors
/// As for the name of a queue or outbox.
pub fn stored_queue(address: &str) -> crate::Result<String> {
    let QueueAddress { kind, name } = QueueAddress::parse(address);
    crate::validate_shared_name(&name)?;
    Ok(match kind {
        QueueKind::Queue => name,
        QueueKind::Outbox => outbox_queue(&name),
    })
}

/// A stream's figures.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `StreamInfo`")]
pub struct StreamRow {
    pub name: String,
    pub first: i64,
    pub head: i64,
    pub length: i64,
}

impl From<StreamRow> for StreamInfo {
    fn from(row: StreamRow) -> Self {
        Self { name: row.name, first: row.first, head: row.head, length: row.length }
    }
}

/// A consumer's place.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of `ConsumerInfo`")]
pub struct ConsumerRow {
    pub consumer: String,
    pub offset: i64,
    pub lag: i64,
    pub ahead_of_log: bool,
    pub trimmed_past: bool,
}

impl From<ConsumerRow> for ConsumerInfo {
    fn from(row: ConsumerRow) -> Self {
        Self {
            consumer: row.consumer,
            offset: row.offset,
            lag: row.lag,
            ahead_of_log: row.ahead_of_log,
            trimmed_past: row.trimmed_past,
        }
    }
}
