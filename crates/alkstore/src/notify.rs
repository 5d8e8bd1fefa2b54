//! Wakes: "something changed, read again".

use std::time::Duration;

use async_trait::async_trait;

use crate::Result;

/// A hint that something committed on a channel. It carries no payload.
///
/// Wakes coalesce and may repeat: read the state again, and count nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wake {
    /// The channel, or [`LISTENER_RECONNECTED`](crate::LISTENER_RECONNECTED) after a gap.
    pub channel: String,
}

impl Wake {
    pub(crate) fn new(channel: &str) -> Self {
        Self { channel: channel.to_owned() }
    }
}

/// Receives the wakes of one channel, in commit order.
///
/// A receiver that is never read holds bounded memory and slows no notifier.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// # use alkstore::Store;
/// # let store = alkstore_mem::MemStore::new();
/// let mut wakes = store.listen("orders").await?;
/// store.notify("orders", serde_json::json!(null)).await?;
/// assert_eq!(wakes.recv().await.expect("open").channel, "orders");
/// assert_eq!(wakes.try_recv()?, None);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait WakeReceiver: Send {
    /// The next wake; `None` once the source is closed. Cancel-safe.
    async fn recv(&mut self) -> Option<Wake>;

    /// A wake that is there now; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed) once the source is closed and nothing is left.
    fn try_recv(&mut self) -> Result<Option<Wake>>;

    /// The next wake, or `Ok(None)` after `d`. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed) once the source is closed and nothing is left.
    async fn recv_timeout(&mut self, d: Duration) -> Result<Option<Wake>>;
}
