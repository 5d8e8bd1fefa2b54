//! Durable streams with explicit consumer offsets.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::payload::decode_payload;
use crate::{Result, encode_payload, validate_local_name};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// Positive, strictly increasing per stream, never changed and never used again.
    pub offset: i64,
    /// The stream's name.
    pub stream: String,
    /// Metadata that the publisher gave; it has no effect on order.
    pub key: Option<String>,
    /// The payload's bytes, exactly as stored.
    pub payload: Vec<u8>,
    /// Unix seconds at the publish; not an ordering field.
    pub created_at: i64,
}

impl StreamEvent {
    /// Decodes the payload.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if it does not fit `T`.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T> {
        decode_payload(&self.payload)
    }
}

/// A durable, ordered log of events.
///
/// A reader that has been given an offset never sees a lower one appear later.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// # use alkstore::Store;
/// # use serde_json::json;
/// # let store = alkstore_mem::MemStore::new();
/// let orders = store.stream("orders").await?;
/// orders.publish(json!({"id": 1})).await?;
/// let last = orders.publish_with_key(Some("customer-9".into()), json!({"id": 2})).await?;
///
/// for event in orders.read_from_consumer("invoices", 100).await? {
///     orders.save_offset("invoices", event.offset).await?;
/// }
/// assert_eq!(orders.get_offset("invoices").await?, last);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait StreamHandle: Send + Sync {
    /// The stream's name.
    fn name(&self) -> &str;

    /// Appends an event and returns its offset.
    async fn publish(&self, payload: Value) -> Result<i64>;

    /// Appends an event that carries a key.
    ///
    /// # Errors
    /// [`InvalidName`](crate::Error::InvalidName) for a key that is present and blank.
    async fn publish_with_key(&self, key: Option<String>, payload: Value) -> Result<i64>;

    /// Up to `limit` events beyond `offset`, ascending; none for a `limit` that is not positive.
    async fn read_since(&self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>>;

    /// Up to `limit` events beyond the consumer's checkpoint.
    async fn read_from_consumer(&self, consumer: &str, limit: i64) -> Result<Vec<StreamEvent>>;

    /// Saves the consumer's checkpoint; below the stored one (0 if none) it does nothing.
    async fn save_offset(&self, consumer: &str, offset: i64) -> Result<()>;

    /// The consumer's checkpoint; 0 if there is none.
    async fn get_offset(&self, consumer: &str) -> Result<i64>;

    /// Deletes the events with `offset <= horizon` and returns how many there were.
    ///
    /// The others keep their offsets. Reads from below go on at the first event that is left.
    async fn trim_to(&self, horizon: i64) -> Result<i64>;

    /// Follows the stream from the consumer's checkpoint, through its end and on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// # use alkstore::Store;
    /// # use serde_json::json;
    /// # let store = alkstore_mem::MemStore::new();
    /// # let orders = store.stream("orders").await?;
    /// orders.publish(json!({"id": 1})).await?;
    /// let mut events = orders.subscribe("invoices").await?;
    /// let event = events.recv().await.expect("open")?;
    /// assert_eq!(event.payload_as::<serde_json::Value>()?["id"], 1);
    /// events.save_offset().await?;
    /// # Ok(()) }
    /// ```
    async fn subscribe(&self, consumer: &str) -> Result<Box<dyn EventReceiver>>;

    /// Appends all events or none; offsets come in the order of the input.
    ///
    /// This default checks everything first, then publishes one by one; an engine that can fail
    /// in between must override it to keep the promise. Engines of this project do.
    async fn publish_batch(&self, events: Vec<(Option<String>, Value)>) -> Result<Vec<i64>> {
        check_batch(&events)?;
        let mut offsets = Vec::with_capacity(events.len());
        for (key, payload) in events {
            offsets.push(self.publish_with_key(key, payload).await?);
        }
        Ok(offsets)
    }
}

/// Follows one stream for one consumer. It saves nothing by itself.
#[async_trait]
pub trait EventReceiver: Send {
    /// The next event; `None` once the source is closed, for good. Cancel-safe.
    ///
    /// # Errors
    /// [`Database`](crate::Error::Database) only; the position stays, so it may be called again.
    async fn recv(&mut self) -> Option<Result<StreamEvent>>;

    /// An event that is there now; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed) once the source is closed and nothing is left.
    fn try_recv(&mut self) -> Result<Option<StreamEvent>>;

    /// Reads like [`StreamHandle::read_since`]; the receiver's own position does not move.
    async fn read_since(&mut self, offset: i64, limit: i64) -> Result<Vec<StreamEvent>>;

    /// Saves the last yielded event's offset; before the first one it does nothing.
    async fn save_offset(&mut self) -> Result<()>;

    /// The last yielded event's offset; 0 before the first one.
    fn offset(&self) -> i64;
}

/// Finds what a batch would be refused for before any of it is written.
pub(crate) fn check_batch(events: &[(Option<String>, Value)]) -> Result<()> {
    for (key, payload) in events {
        if let Some(key) = key {
            validate_local_name(key)?;
        }
        encode_payload(payload)?;
    }
    Ok(())
}
