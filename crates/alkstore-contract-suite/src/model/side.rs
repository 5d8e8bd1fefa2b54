//! One of the two stores that a sequence runs on, and all that it holds of it.

use std::collections::BTreeMap;

use alkstore::{
    EventReceiver, JobHandle, Lock, Outbox, Queue, QueueOpts, Result, StreamHandle, TxHandle,
    WakeReceiver,
};

use super::draw::{Name, Pick};
use super::seen::Seen;
use crate::EngineStore;

/// Handles of one kind that are held at most; the oldest goes first.
const HELD: usize = 8;

/// A store under test.
pub(super) struct Side {
    /// Stores on the same data; the first one is in use.
    pub(super) stores: Vec<EngineStore>,
    pub(super) ending: String,
    pub(super) seen: Seen,
    pub(super) queues: Held<Box<dyn Queue>>,
    pub(super) claims: Held<Box<dyn JobHandle>>,
    /// With their streams.
    pub(super) receivers: Held<(String, Box<dyn EventReceiver>)>,
    pub(super) listeners: Held<Listener>,
    pub(super) locks: Held<Box<dyn Lock>>,
    /// Transactions without an operation so far.
    pub(super) idle: Held<Box<dyn TxHandle>>,
    pub(super) other: Other,
    /// By schedule.
    pub(super) boundaries: BTreeMap<String, Boundary>,
}

/// When a schedule fires next, give or take the length of a step.
pub(super) struct Boundary {
    pub(super) spec: &'static str,
    pub(super) next_us: i64,
}

/// What the other side answered to the step that this one is asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    NotAsked,
    Idle,
    /// What it has may still be on its way to this side.
    Something,
}

/// A receiver of wakes and whether anything may have caused one.
pub(super) struct Listener {
    pub(super) channel: String,
    pub(super) receiver: Box<dyn WakeReceiver>,
    pub(super) notified: bool,
}

impl Side {
    pub(super) fn new(stores: Vec<EngineStore>, ending: &str) -> Self {
        Self {
            stores,
            ending: ending.to_owned(),
            seen: Seen::default(),
            queues: Held::default(),
            claims: Held::default(),
            receivers: Held::default(),
            listeners: Held::default(),
            locks: Held::default(),
            idle: Held::default(),
            other: Other::NotAsked,
            boundaries: BTreeMap::new(),
        }
    }

    pub(super) fn store(&self) -> &EngineStore {
        &self.stores[0]
    }

    pub(super) fn name(&self, name: Name) -> String {
        name.with(&self.ending)
    }

    /// Whether a name belongs to this sequence.
    pub(super) fn owns(&self, name: &str) -> bool {
        name.ends_with(&self.ending)
    }

    pub(super) async fn queue(&self, name: Name, opts: QueueOpts) -> Result<Box<dyn Queue>> {
        self.store().queue(&self.name(name), opts).await
    }

    pub(super) async fn stream(&self, name: Name) -> Result<Box<dyn StreamHandle>> {
        self.store().stream(&self.name(name)).await
    }

    pub(super) async fn outbox(&self, name: Name) -> Result<Box<dyn Outbox>> {
        self.store().outbox(&self.name(name)).await
    }

    /// Notes that a notification committed.
    pub(super) fn notified(&mut self, channel: &str) {
        for listener in &mut self.listeners.0 {
            listener.notified |= listener.channel == channel;
        }
    }

    /// Lets go of everything but the stores.
    pub(super) fn let_go(&mut self) {
        self.queues.0.clear();
        self.claims.0.clear();
        self.receivers.0.clear();
        self.listeners.0.clear();
        self.locks.0.clear();
        self.idle.0.clear();
    }
}

/// Handles of one kind.
pub(super) struct Held<T>(Vec<T>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Held<T> {
    pub(super) fn keep(&mut self, item: T) {
        if self.0.len() == HELD {
            self.0.remove(0);
        }
        self.0.push(item);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&mut self, pick: Pick) -> Option<&mut T> {
        let index = self.index(pick)?;
        self.0.get_mut(index)
    }

    pub(super) fn take(&mut self, pick: Pick) -> Option<T> {
        let index = self.index(pick)?;
        Some(self.0.remove(index))
    }

    /// The newest is number 0.
    fn index(&self, pick: Pick) -> Option<usize> {
        let back = pick.checked_rem(self.0.len())?;
        Some(self.0.len() - 1 - back)
    }
}

/// The answer of a step that needs a handle where none is held.
pub(super) const NONE_HELD: &str = "none held";

/// The answer of a receiver that has nothing.
pub(super) const IDLE: &str = "idle";
