//! The memory engine of [`alkstore`]: for unit tests and ephemeral work.
//!
//! It keeps the whole contract, rollback and concurrent claims included, and nothing after the
//! process ends. It needs no thread, file or network, and no runtime but for waits on the
//! machine's clock. Calls return without waiting; now and then one yields to other tasks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
//! use alkstore::{QueueOpts, Store};
//! use alkstore_mem::MemStore;
//! use serde_json::json;
//!
//! let store = MemStore::new();
//! let queue = store.queue("emails", QueueOpts::default()).await?;
//! queue.enqueue(json!({"to": "ada@example.org"}), Default::default()).await?;
//! let job = queue.claim_one("worker-1").await?.expect("ready");
//! assert!(job.ack().await?);
//! # Ok(()) }
//! ```
//!
//! # Tests that need no sleep
//!
//! On a [`ManualClock`] time passes when the test says so: delays, deadlines, locks, schedules
//! and waits follow it. Here a job is retried with backoff until it is dead, at once:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
//! use alkstore::{JobState, QueueOpts, Store};
//! use alkstore_mem::{ManualClock, MemStore};
//! use serde_json::json;
//! use std::time::Duration;
//!
//! let clock = ManualClock::at(1_700_000_000);
//! let store = MemStore::with_clock(clock.clone());
//! let queue = store.queue("emails", QueueOpts::default()).await?;
//! let id = queue.enqueue(json!({"to": "nobody"}), Default::default()).await?;
//!
//! while let Some(job) = queue.claim_one("worker-1").await? {
//!     job.retry(Some("no such mailbox".into()), None).await?;
//!     clock.advance(Duration::from_secs(3_600));
//! }
//! let job = queue.get_job(id).await?.expect("kept");
//! assert_eq!((job.state, job.attempts), (JobState::Dead, 3));
//! assert_eq!(job.last_error.as_deref(), Some("no such mailbox"));
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod conn;
mod job;
mod lock;
mod notify;
mod ops;
mod outbox;
mod queue;
mod schedule;
mod store;
mod stream;
mod tx;

pub use alkstore::engine::clock::ManualClock;
pub use store::MemStore;
pub use tx::MemTx;
