//! Typed convenience over the object-safe traits.

use std::fmt;
use std::ops::{AsyncFnOnce, Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream as FuturesStream;
use serde::Serialize;

use crate::store::BoxedFuture;
use crate::{
    EnqueueOpts, EventReceiver, Queue, Result, Store, StreamEvent, StreamHandle, TxHandle, Wake,
    WakeReceiver,
};

/// A transaction as [`StoreExt::transaction`] lends it; derefs to [`TxHandle`].
pub struct Tx(Box<dyn TxHandle>);

impl Tx {
    /// The engine's own handle, for the application's SQL; `None` if it is another engine's.
    pub fn downcast_mut<T: TxHandle>(&mut self) -> Option<&mut T> {
        let any: &mut dyn std::any::Any = &mut *self.0;
        any.downcast_mut()
    }
}

impl Deref for Tx {
    type Target = dyn TxHandle;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

/// Transactions as async closures.
pub trait StoreExt: Store {
    /// Runs the closure in a transaction: `Ok` commits; `Err`, drop and panic roll back.
    ///
    /// Captures by reference are fine, inside a spawned task too.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> alkstore::Result<()> {
    /// use alkstore::Store;
    /// use alkstore::ext::{StoreExt, Tx};
    /// use std::sync::Arc;
    /// # use serde_json::json;
    ///
    /// let store: Arc<dyn Store> = Arc::new(alkstore_mem::MemStore::new());
    /// let task = tokio::spawn(async move {
    ///     let customer = String::from("ada");
    ///     let mut ids = Vec::new();
    ///     let offset = store
    ///         .transaction(async |tx: &mut Tx| {
    ///             let job = json!({"greet": &customer});
    ///             ids.push(tx.enqueue_tx("emails", Default::default(), job).await?);
    ///             tx.publish_tx("customers", json!({"new": &customer})).await
    ///         })
    ///         .await?;
    ///     Ok::<_, alkstore::Error>((ids, offset))
    /// });
    /// let (ids, offset) = task.await.expect("no panic")?;
    /// assert_eq!(ids.len(), 1);
    /// assert!(offset > 0);
    /// # Ok(()) }
    /// ```
    fn transaction<T, F>(&self, f: F) -> impl Future<Output = Result<T>>
    where
        F: AsyncFnOnce(&mut Tx) -> Result<T>,
    {
        async move {
            let mut tx = Tx(self.begin_tx().await?);
            match f(&mut tx).await {
                Ok(value) => tx.0.commit().await.map(|()| value),
                Err(error) => {
                    // The closure's error is the one to report; a failed rollback loses nothing.
                    let _ = tx.0.rollback().await;
                    Err(error)
                }
            }
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// Typed enqueues.
pub trait QueueExt: Queue {
    /// Enqueues anything that serializes.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if it does not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
    /// use alkstore::{QueueOpts, Store, ext::QueueExt};
    /// #[derive(serde::Serialize)]
    /// struct Email { to: String }
    /// # let store = alkstore_mem::MemStore::new();
    /// let queue = store.queue("emails", QueueOpts::default()).await?;
    /// queue.enqueue_as(&Email { to: "ada@example.org".into() }, Default::default()).await?;
    /// # Ok(()) }
    /// ```
    fn enqueue_as<'a, T: Serialize + ?Sized>(
        &'a self,
        payload: &T,
        opts: EnqueueOpts,
    ) -> BoxedFuture<'a, Result<i64>> {
        match serde_json::to_value(payload) {
            Ok(payload) => self.enqueue(payload, opts),
            Err(error) => Box::pin(async move { Err(error.into()) }),
        }
    }
}

impl<Q: Queue + ?Sized> QueueExt for Q {}

/// Typed publishes.
pub trait StreamExt: StreamHandle {
    /// Publishes anything that serializes.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if it does not.
    fn publish_as<'a, T: Serialize + ?Sized>(
        &'a self,
        payload: &T,
    ) -> BoxedFuture<'a, Result<i64>> {
        match serde_json::to_value(payload) {
            Ok(payload) => self.publish(payload),
            Err(error) => Box::pin(async move { Err(error.into()) }),
        }
    }
}

impl<S: StreamHandle + ?Sized> StreamExt for S {}

/// A stream's events as a [`futures_core::Stream`]; made by [`events`].
pub struct Events(Unfold<Box<dyn EventReceiver>, Result<StreamEvent>>);

/// A channel's wakes as a [`futures_core::Stream`]; made by [`wakes`].
pub struct Wakes(Unfold<Box<dyn WakeReceiver>, Wake>);

/// Adapts a receiver to [`futures_core::Stream`]; it ends when the receiver closes.
///
/// Save the checkpoint with [`StreamHandle::save_offset`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> alkstore::Result<()> {
/// use alkstore::{Store, ext};
/// use futures_util::StreamExt;
/// # let store = alkstore_mem::MemStore::new();
/// # let orders = store.stream("orders").await?;
/// orders.publish(serde_json::json!({"id": 1})).await?;
/// let mut events = ext::events(orders.subscribe("invoices").await?);
/// let event = events.next().await.expect("open")?;
/// orders.save_offset("invoices", event.offset).await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn events(receiver: Box<dyn EventReceiver>) -> Events {
    Events(Unfold::new(receiver, |mut receiver| {
        Box::pin(async move {
            let item = receiver.recv().await;
            (receiver, item)
        })
    }))
}

/// Adapts a receiver to [`futures_core::Stream`]; it ends when the receiver closes.
#[must_use]
pub fn wakes(receiver: Box<dyn WakeReceiver>) -> Wakes {
    Wakes(Unfold::new(receiver, |mut receiver| {
        Box::pin(async move {
            let item = receiver.recv().await;
            (receiver, item)
        })
    }))
}

impl FuturesStream for Events {
    type Item = Result<StreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl FuturesStream for Wakes {
    type Item = Wake;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(cx)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wakes")
    }
}

/// Owns a receiver between polls and the future that borrows it while one is in flight.
struct Unfold<R, T> {
    step: Option<BoxedFuture<'static, (R, Option<T>)>>,
    next: fn(R) -> BoxedFuture<'static, (R, Option<T>)>,
}

impl<R, T> Unfold<R, T> {
    fn new(receiver: R, next: fn(R) -> BoxedFuture<'static, (R, Option<T>)>) -> Self {
        Self { step: Some(next(receiver)), next }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(step) = &mut self.step else {
            return Poll::Ready(None);
        };
        let (receiver, item) = ready!(step.as_mut().poll(cx));
        self.step = item.is_some().then(|| (self.next)(receiver));
        Poll::Ready(item)
    }
}
