//! A job as a value, and the handle to a claim on it.

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use crate::Result;
use crate::payload::decode_payload;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// Waiting to be claimed, now or later.
    Pending,
    /// Claimed. The claim may have lapsed.
    Processing,
    /// Given up; see [`Job::last_error`].
    Dead,
}

/// A job's row. Times are unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// Unique within the store, never used again.
    pub id: i64,
    /// The queue's name.
    pub queue: String,
    /// Where it stands.
    pub state: JobState,
    /// The payload's bytes, exactly as stored.
    pub payload: Vec<u8>,
    /// Higher is claimed first.
    pub priority: i64,
    /// When it became or becomes ready; the second key of the claim order.
    pub run_at: i64,
    /// Claims so far.
    pub attempts: i64,
    /// Claims after which it is dead-lettered.
    pub max_attempts: i64,
    /// Who claimed it; `None` while pending.
    pub worker_id: Option<String>,
    /// When it was last claimed; `None` while pending.
    pub claimed_at: Option<i64>,
    /// When the claim lapses; `None` while pending.
    pub claim_expires_at: Option<i64>,
    /// When it was enqueued.
    pub created_at: i64,
    /// When it stops being handed out; `None` for never.
    pub expires_at: Option<i64>,
    /// Seconds that a claim lasts.
    pub visibility_timeout_s: i64,
    /// Seconds before the first retry.
    pub backoff_base_s: i64,
    /// Seconds that it is kept once dead; `None` for ever.
    pub dead_letter_retention_s: Option<i64>,
    /// Why it is dead; `None` while live.
    pub last_error: Option<String>,
    /// When it died; `None` while live.
    pub died_at: Option<i64>,
}

impl Job {
    /// Decodes the payload.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if it does not fit `T`.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        decode_payload(&self.payload)
    }
}

/// A claim on a job.
///
/// Every operation lands only while this very claim is live: `false` means that it lapsed, or
/// that the job was ended, cancelled or claimed again, and that nothing was changed. Dropping the
/// handle does nothing; the claim lapses in its time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// # use alkstore::{JobState, QueueOpts, Store};
/// # let store = alkstore_mem::MemStore::new();
/// # let queue = store.queue("reports", QueueOpts::default()).await?;
/// let id = queue.enqueue(serde_json::json!({"month": 11}), Default::default()).await?;
/// let job = queue.claim_one("worker-1").await?.expect("ready");
/// assert!(job.heartbeat(600).await?, "this will take a while");
/// assert!(job.fail(Some("no such month".into())).await?);
/// let dead = queue.get_job(id).await?.expect("kept");
/// assert_eq!(dead.state, JobState::Dead);
/// assert_eq!(dead.last_error.as_deref(), Some("no such month"));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait JobHandle: Send + Sync {
    /// The job as it was when it was claimed.
    fn job(&self) -> &Job;

    /// Done: deletes the job.
    async fn ack(self: Box<Self>) -> Result<bool>;

    /// Tries again after `delay` seconds, or on the queue's curve; dead when attempts are used up.
    ///
    /// The curve: `cap = min(base · 2^(attempts - 1), 3600)`, drawn uniformly from the upper half.
    async fn retry(self: Box<Self>, err: Option<String>, delay: Option<i64>) -> Result<bool>;

    /// Gives up: dead at once, with `err` or `"failed"`.
    async fn fail(self: Box<Self>, err: Option<String>) -> Result<bool>;

    /// Renews the claim: it lapses `extend` seconds from now.
    ///
    /// # Errors
    /// [`Database`](crate::Error::Database) for an `extend` that is not positive.
    async fn heartbeat(&self, extend: i64) -> Result<bool>;

    /// Hands the job back unstarted: pending at once, the attempt not counted.
    ///
    /// This default is a retry without delay, which counts the attempt.
    async fn hand_back(self: Box<Self>) -> Result<bool> {
        self.retry(None, Some(0)).await
    }
}
