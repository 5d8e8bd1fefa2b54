//! The two verbs that every mechanism calls: [`Conn::read`] and [`Conn::write`].
//!
//! Both run a closure on the state under its one lock, where no waker runs: the caller wakes
//! receivers once the change is visible.

mod jobs;
mod log;
mod row;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alkstore::Result;
use alkstore::engine::clock::Clock;
use alkstore::engine::hub::{Hub, Kind, Signal};
use alkstore::engine::store_closed;
use tokio::task::coop::consume_budget;

pub(crate) use jobs::Jobs;
pub(crate) use log::{Event, Log};
pub(crate) use row::{Fence, HandleId, Row};
pub(crate) use state::State;

/// The state behind a store, its handles and its receivers. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Conn(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    hub: Hub,
    clock: Clock,
}

impl Conn {
    pub(crate) fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner { state: Mutex::default(), hub: Hub::new(), clock }))
    }

    /// Looks at the state as it is now.
    pub(crate) async fn read<T>(&self, f: impl FnOnce(&State) -> T) -> Result<T> {
        self.write(|state| f(state)).await
    }

    /// Changes the state: all of the closure or, on a closed store, nothing of it.
    pub(crate) async fn write<T>(&self, f: impl FnOnce(&mut State) -> T) -> Result<T> {
        // Nothing here waits, so without this a task that loops over calls would never yield.
        consume_budget().await;
        let mut state = self.lock();
        if state.closed {
            return Err(store_closed());
        }
        state.now_us = self.0.clock.now_us();
        Ok(f(&mut state))
    }

    /// Looks at the state also when the store is closed; receivers drain what is there.
    pub(crate) fn drain<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.lock())
    }

    /// Undoes what a transaction had announced, also when the store is closed.
    pub(crate) fn abandon(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.lock());
    }

    pub(crate) fn close(&self) {
        self.lock().close();
        self.0.hub.shut();
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn subscribe(&self, kind: Kind, name: &str) -> Signal {
        self.0.hub.subscribe(kind, name)
    }

    /// Wakes who waits on a queue, stream or the schedules. Call it after the change.
    pub(crate) fn wake(&self, kind: Kind, name: &str) {
        self.0.hub.wake(kind, name);
    }

    /// Wakes a channel's listeners but for those that came after this notification.
    pub(crate) fn wake_channel(&self, channel: &str, notification: i64) {
        self.0.hub.wake_caused(Kind::Channel, channel, notification);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
