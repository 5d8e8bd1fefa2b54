//! A store on a database of its own, and a future that is given up midway.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use alkstore::engine::clock::ManualClock;

use crate::{Database, EngineStore, StoreFactory};

/// A store and its database, which is removed once both are gone. Clones are one store.
#[derive(Clone)]
pub(crate) struct Opened {
    store: EngineStore,
    database: Arc<dyn Database>,
}

/// Opens a store on a fresh database.
pub(crate) async fn open(f: &Arc<dyn StoreFactory>) -> Opened {
    let database = f.database().await;
    Opened { store: database.open().await, database }
}

/// Opens a store on a fresh database that takes its time from `clock`.
pub(crate) async fn open_at(f: &Arc<dyn StoreFactory>, clock: &ManualClock) -> Opened {
    let database = f.database_at(clock.clone()).await;
    Opened { store: database.open().await, database }
}

impl Opened {
    /// Another store on the same data, or another handle to the one store.
    pub(crate) async fn another(&self) -> Self {
        Self { store: self.database.open().await, database: self.database.clone() }
    }

    /// Closes the store and opens the data again.
    pub(crate) async fn reopen(self) -> Self {
        self.store.close().await;
        let Self { store, database } = self;
        drop(store);
        Self { store: database.open().await, database }
    }

    /// Drops the store and opens the data again.
    pub(crate) async fn drop_and_reopen(self) -> Self {
        let Self { store, database } = self;
        drop(store);
        Self { store: database.open().await, database }
    }
}

impl Deref for Opened {
    type Target = EngineStore;

    fn deref(&self) -> &Self::Target {
        &self.store
    }
}

/// Polls a future up to `polls` times and drops it; `None` if it did not end by then.
pub(crate) async fn polled<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
