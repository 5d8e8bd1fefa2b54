//! The hub and the signals that it raises.
//!
//! A signal holds flags and no queue, so it is bounded however slow its receiver is. State is
//! checked and the waker stored under one lock: no wake is lost between the check and the wait.

use std::collections::HashMap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use super::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use crate::{Error, Result};

/// What a name is the name of. Equal names of different kinds are separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel that `listen` receives from.
    Channel,
    /// A queue that `wait_ready` waits on.
    Queue,
    /// A stream that a subscriber follows.
    Stream,
    /// The set of schedules; its one name is empty.
    Schedules,
}

const KINDS: usize = 4;

/// The receivers of one store. Clones are one hub.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    slots: [HashMap<String, Vec<Arc<Slot>>>; KINDS],
    shut: bool,
}

#[derive(Debug, Default)]
struct Slot(Mutex<SlotState>);

#[derive(Debug)]
struct SlotState {
    pending: bool,
    /// Pending, and known to be work for a claim.
    work: bool,
    reconnected: bool,
    closed: bool,
    /// The id of the last cause that was taken into account.
    seen: i64,
    waker: Option<Waker>,
}

impl Default for SlotState {
    fn default() -> Self {
        Self {
            pending: false,
            work: false,
            reconnected: false,
            closed: false,
            seen: i64::MIN,
            waker: None,
        }
    }
}

/// What a [`Signal`] yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something changed under the signal's name.
    Changed,
    /// A job became ready in the queue of the signal's name.
    Work,
    /// The engine's listening had a gap; anything may have changed.
    Reconnected,
}

impl Hub {
    /// A hub without receivers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a receiver; on a hub that was shut it is closed from the start.
    #[must_use]
    pub fn subscribe(&self, kind: Kind, name: &str) -> Signal {
        let slot = Arc::new(Slot::default());
        let mut state = self.lock();
        if state.shut {
            slot.lock().closed = true;
        } else {
            let slots = &mut state.slots[kind as usize];
            // Looked up first: most subscriptions are to a name that is there.
            match slots.get_mut(name) {
                Some(list) => list.push(slot.clone()),
                None => {
                    slots.insert(name.to_owned(), vec![slot.clone()]);
                }
            }
        }
        drop(state);
        Signal { hub: Arc::downgrade(&self.0), kind, name: name.to_owned(), slot }
    }

    /// Wakes the receivers of a name.
    pub fn wake(&self, kind: Kind, name: &str) {
        self.set(kind, Some(name), |slot| slot.pending = true);
    }

    /// Wakes those who wait on a queue: a claim may find work in it.
    pub fn wake_work(&self, queue: &str) {
        self.set(Kind::Queue, Some(queue), |slot| {
            slot.pending = true;
            slot.work = true;
        });
    }

    /// Wakes the receivers of a name that have not taken this cause, or a later one, into account.
    pub fn wake_caused(&self, kind: Kind, name: &str, cause: i64) {
        self.set(kind, Some(name), |slot| {
            if cause > slot.seen {
                slot.seen = cause;
                slot.pending = true;
            }
        });
    }

    /// Wakes every receiver of a kind.
    pub fn wake_kind(&self, kind: Kind) {
        self.set(kind, None, |slot| slot.pending = true);
    }

    /// Tells every receiver that the engine's listening had a gap.
    pub fn reconnected(&self) {
        self.set(Kind::Channel, None, |slot| slot.reconnected = true);
        for kind in [Kind::Queue, Kind::Stream, Kind::Schedules] {
            self.wake_kind(kind);
        }
    }

    /// Closes every receiver that is there now. Later ones are open.
    pub fn close_receivers(&self) {
        let slots = std::mem::take(&mut self.lock().slots);
        close(slots);
    }

    /// Closes every receiver and all that come later.
    pub fn shut(&self) {
        let mut state = self.lock();
        state.shut = true;
        let slots = std::mem::take(&mut state.slots);
        drop(state);
        close(slots);
    }

    /// The names of a kind that have receivers.
    #[must_use]
    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.lock().slots[kind as usize].keys().cloned().collect()
    }

    /// Whether anybody receives anything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lock().slots.iter().all(HashMap::is_empty)
    }

    fn set(&self, kind: Kind, name: Option<&str>, change: impl Fn(&mut SlotState)) {
        let mut woken = Vec::new();
        {
            let state = self.lock();
            let slots = &state.slots[kind as usize];
            let mut each = |list: &Vec<Arc<Slot>>| {
                for slot in list {
                    let mut slot = slot.lock();
                    change(&mut slot);
                    if slot.pending || slot.reconnected {
                        woken.extend(slot.waker.take());
                    }
                }
            };
            match name {
                Some(name) => slots.get(name).into_iter().for_each(&mut each),
                None => slots.values().for_each(&mut each),
            }
        }
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close(slots: [HashMap<String, Vec<Arc<Slot>>>; KINDS]) {
    for slot in slots.iter().flat_map(HashMap::values).flatten() {
        let waker = {
            let mut slot = slot.lock();
            slot.closed = true;
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One receiver's place in a [`Hub`]; dropping it leaves the hub.
#[derive(Debug)]
pub struct Signal {
    hub: Weak<Mutex<State>>,
    kind: Kind,
    name: String,
    slot: Arc<Slot>,
}

impl Signal {
    /// The name that it was subscribed to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ignores every cause up to and including `cause`, also one that has come already.
    pub fn ignore_until(&mut self, cause: i64) {
        let mut slot = self.slot.lock();
        if slot.seen <= cause {
            slot.seen = cause;
            slot.pending = false;
        }
    }

    /// Whether it is closed; something may be left to receive.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.slot.lock().closed
    }

    /// What is there now; `Ok(None)` if nothing is.
    ///
    /// # Errors
    /// [`Error::Closed`] once it is closed and nothing is left.
    pub fn try_recv(&mut self) -> Result<Option<Event>> {
        match take(&mut self.slot.lock()) {
            Poll::Ready(Some(event)) => Ok(Some(event)),
            Poll::Ready(None) => Err(Error::Closed),
            Poll::Pending => Ok(None),
        }
    }

    /// The next event; `None` once it is closed. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut slot = self.slot.lock();
        let taken = take(&mut slot);
        let mut replaced = None;
        if taken.is_pending() && !slot.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            replaced = slot.waker.replace(cx.waker().clone());
        }
        // Wakers are dropped as they are woken, without a lock: with them may go what uses the hub.
        drop(slot);
        drop(replaced);
        taken
    }
}

fn take(slot: &mut SlotState) -> Poll<Option<Event>> {
    if std::mem::take(&mut slot.reconnected) {
        Poll::Ready(Some(Event::Reconnected))
    } else if std::mem::take(&mut slot.pending) {
        let work = std::mem::take(&mut slot.work);
        Poll::Ready(Some(if work { Event::Work } else { Event::Changed }))
    } else if slot.closed {
        Poll::Ready(None)
    } else {
        Poll::Pending
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        let Some(hub) = self.hub.upgrade() else {
            return;
        };
        let mut state = hub.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = &mut state.slots[self.kind as usize];
        if let Some(list) = slots.get_mut(&self.name) {
            list.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
            if list.is_empty() {
                slots.remove(&self.name);
            }
        }
    }
}
