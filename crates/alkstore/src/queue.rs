//! Durable queues with at-least-once work.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::{Job, JobHandle, Result, encode_payload};

/// What a queue handle stamps on each job that it enqueues. Taken as given.
///
/// ```
/// let opts = alkstore::QueueOpts { max_attempts: 10, ..Default::default() };
/// assert_eq!(opts.visibility_timeout_s, 300);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOpts {
    /// Seconds that a claim lasts unless it is renewed. Default 300.
    pub visibility_timeout_s: i64,
    /// Claims after which a job is dead-lettered. Default 3.
    pub max_attempts: i64,
    /// Seconds before the first retry; each further one doubles, up to an hour. Default 5.
    pub backoff_base_s: i64,
    /// Seconds that a dead job is kept; `None`, the default, for ever.
    pub dead_letter_retention_s: Option<i64>,
}

impl QueueOpts {
    /// The defaults as a constant.
    pub(crate) const PLAIN: Self = Self {
        visibility_timeout_s: 300,
        max_attempts: 3,
        backoff_base_s: 5,
        dead_letter_retention_s: None,
    };
}

impl Default for QueueOpts {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// Options of one job.
///
/// ```
/// let in_a_minute = alkstore::EnqueueOpts { delay: Some(60), priority: 5, ..Default::default() };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnqueueOpts {
    /// Seconds before it may be claimed; wins over `run_at`.
    pub delay: Option<i64>,
    /// Unix seconds from which it may be claimed.
    pub run_at: Option<i64>,
    /// Higher is claimed first. Default 0.
    pub priority: i64,
    /// Overrides the queue's `max_attempts` for this job.
    pub max_attempts: Option<i64>,
    /// Seconds from now after which it is not handed out any more.
    pub expires: Option<i64>,
}

/// A durable queue of jobs, handed out at least once.
///
/// Claims come by priority (highest first), then ready time, then enqueue order. A claim that is
/// neither ended nor renewed within its visibility timeout may be handed out again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// # use alkstore::{QueueOpts, Store};
/// # use serde_json::json;
/// # let store = alkstore_mem::MemStore::new();
/// let emails = store.queue("emails", QueueOpts::default()).await?;
/// let id = emails.enqueue(json!({"to": "ada@example.org"}), Default::default()).await?;
/// if let Some(job) = emails.claim_one("worker-1").await? {
///     assert_eq!(job.job().id, id);
///     job.retry(Some("smtp is down".into()), None).await?;
/// }
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Queue: Send + Sync {
    /// The queue's name.
    fn name(&self) -> &str;

    /// Enqueues a job and returns its id, which is never used again.
    async fn enqueue(&self, payload: Value, opts: EnqueueOpts) -> Result<i64>;

    /// Claims the next job; `None` if none is ready.
    async fn claim_one(&self, worker_id: &str) -> Result<Option<Box<dyn JobHandle>>>;

    /// Claims up to `n` jobs in claim order; none for an `n` that is not positive.
    async fn claim_batch(&self, worker_id: &str, n: i64) -> Result<Vec<Box<dyn JobHandle>>>;

    /// Acks this queue's jobs among `ids` that are validly claimed, and returns how many.
    ///
    /// A claim that was made through this handle and is over is not counted, even if somebody
    /// else has claimed the job since.
    async fn ack_batch(&self, ids: &[i64]) -> Result<i64>;

    /// Deletes a live job whatever its state; `false` if there is none. It interrupts nobody.
    async fn cancel(&self, job_id: i64) -> Result<bool>;

    /// This queue's job of this id, live or dead.
    async fn get_job(&self, job_id: i64) -> Result<Option<Job>>;

    /// Moves expired and exhausted jobs to dead, deletes dead ones past their retention.
    ///
    /// Returns how many were moved and deleted. Nothing sweeps by itself: call it now and then.
    async fn sweep_expired(&self) -> Result<i64>;

    /// Enqueues all jobs or none; ids come in the order of the input.
    ///
    /// This default checks all payloads first, then enqueues one by one; an engine that can fail
    /// in between must override it to keep the promise. Engines of this project do.
    async fn enqueue_batch(&self, jobs: Vec<(Value, EnqueueOpts)>) -> Result<Vec<i64>> {
        for (payload, _) in &jobs {
            encode_payload(payload)?;
        }
        let mut ids = Vec::with_capacity(jobs.len());
        for (payload, opts) in jobs {
            ids.push(self.enqueue(payload, opts).await?);
        }
        Ok(ids)
    }

    /// Waits until a claim may find work (`true`) or the timeout is over (`false`). Cancel-safe.
    ///
    /// An enqueue, a retry, a due time and a lapsed claim all end the wait, whichever process
    /// caused them. This default sleeps for at most 250 ms and returns `true`; the engines of
    /// this project wait without polling.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore::{QueueOpts, Store};
    /// # use std::time::Duration;
    /// # let store = alkstore_mem::MemStore::new();
    /// let emails = store.queue("emails", QueueOpts::default()).await?;
    /// assert!(!emails.wait_ready(Duration::from_millis(1)).await?);
    /// emails.enqueue(serde_json::json!({}), Default::default()).await?;
    /// assert!(emails.wait_ready(Duration::from_secs(60)).await?);
    /// # Ok(()) }
    /// ```
    async fn wait_ready(&self, timeout: Duration) -> Result<bool> {
        tokio::time::sleep(timeout.min(Duration::from_millis(250))).await;
        Ok(true)
    }
}
