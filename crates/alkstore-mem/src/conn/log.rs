//! One stream's events and checkpoints, and how far it may be read.
//!
//! A transaction announces the lowest offset that it has taken. Readers stop below every such
//! bound: whoever has been given an offset never sees a lower one appear later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use alkstore::StreamEvent;
use alkstore::engine::rows::EventRow;

/// An event; its offset is its key.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) created_at: i64,
}

/// A stream's tables.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// What is committed, visible or not.
    events: BTreeMap<i64, Event>,
    consumers: BTreeMap<String, i64>,
    /// The lowest offset of each open transaction that publishes here.
    bounds: BTreeSet<i64>,
    /// The greatest offset that was trimmed away.
    trimmed: i64,
}

impl Event {
    pub(crate) fn at(&self, stream: &str, offset: i64) -> StreamEvent {
        EventRow {
            offset,
            stream: stream.to_owned(),
            key: self.key.clone(),
            payload: self.payload.clone(),
            created_at: self.created_at,
        }
        .into()
    }
}

impl Log {
    pub(crate) fn is_empty(&self) -> bool {
        // How far it was trimmed is kept: a consumer that comes later is told.
        let is_bare = self.events.is_empty() && self.consumers.is_empty();
        is_bare && self.bounds.is_empty() && self.trimmed == 0
    }

    pub(crate) fn append(&mut self, offset: i64, event: Event) {
        self.events.insert(offset, event);
    }

    /// Announces an open transaction's lowest offset.
    pub(crate) fn announce(&mut self, bound: i64) {
        self.bounds.insert(bound);
    }

    /// Ends the announcement.
    pub(crate) fn withdraw(&mut self, bound: i64) {
        self.bounds.remove(&bound);
    }

    pub(crate) fn withdraw_all(&mut self) {
        self.bounds.clear();
    }

    /// The first offset that may not be read yet; `own` is the reading transaction's bound.
    pub(crate) fn horizon(&self, own: Option<i64>) -> i64 {
        let foreign = self.bounds.iter().find(|bound| Some(**bound) != own);
        foreign.copied().unwrap_or(i64::MAX)
    }

    /// The committed events beyond `offset` and below `horizon`, in order.
    pub(crate) fn between(&self, offset: i64, horizon: i64) -> impl Iterator<Item = (i64, &Event)> {
        let end = Bound::Excluded(horizon.max(offset.saturating_add(1)));
        // An offset at the very end would make an empty range panic.
        let start = Bound::Excluded(offset.min(i64::MAX - 1));
        self.events.range((start, end)).map(|(offset, event)| (*offset, event))
    }

    /// A consumer's checkpoint; 0 if there is none.
    pub(crate) fn checkpoint(&self, consumer: &str) -> i64 {
        self.consumers.get(consumer).copied().unwrap_or(0)
    }

    pub(crate) fn set_checkpoint(&mut self, consumer: &str, offset: i64) {
        match self.consumers.get_mut(consumer) {
            Some(stored) => *stored = offset,
            None => {
                self.consumers.insert(consumer.to_owned(), offset);
            }
        }
    }

    pub(crate) fn forget(&mut self, consumer: &str) -> bool {
        self.consumers.remove(consumer).is_some()
    }

    /// Takes the events up to `horizon` out, for the caller to drop.
    pub(crate) fn trim(&mut self, horizon: i64) -> BTreeMap<i64, Event> {
        let kept = horizon.checked_add(1).map(|first| self.events.split_off(&first));
        let trimmed = std::mem::replace(&mut self.events, kept.unwrap_or_default());
        if let Some((last, _)) = trimmed.last_key_value() {
            self.trimmed = self.trimmed.max(*last);
        }
        trimmed
    }

    /// The last event's offset; 0 if there is none.
    pub(crate) fn head(&self) -> i64 {
        self.events.last_key_value().map_or(0, |(offset, _)| *offset)
    }

    pub(crate) fn trimmed(&self) -> i64 {
        self.trimmed
    }

    pub(crate) fn events(&self) -> &BTreeMap<i64, Event> {
        &self.events
    }

    pub(crate) fn consumers(&self) -> &BTreeMap<String, i64> {
        &self.consumers
    }
}
