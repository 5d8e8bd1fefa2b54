#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod engine;
mod error;
pub mod ext;
mod job;
mod lock;
mod name;
mod notify;
pub mod ops;
mod outbox;
mod payload;
mod queue;
mod schedule;
mod stop;
mod store;
mod stream;
mod tx;

pub use async_trait::async_trait;
pub use error::{DatabaseError, Error, Result};
pub use job::{Job, JobHandle, JobState};
pub use lock::Lock;
pub use name::{LISTENER_RECONNECTED, RESERVED_PREFIX, validate_local_name, validate_shared_name};
pub use notify::{Wake, WakeReceiver};
pub use outbox::{Delivery, Outbox};
pub use payload::{encode_payload, encode_payload_text};
pub use queue::{EnqueueOpts, Queue, QueueOpts};
pub use schedule::{Schedule, ScheduleOpts};
pub use stop::StopToken;
pub use store::{BoxedFuture, Store, TxFn};
pub use stream::{EventReceiver, StreamEvent, StreamHandle};
pub use tx::TxHandle;
