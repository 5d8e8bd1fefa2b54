//! What an operation writes through: the writer's session, the ids, and what to wake afterwards.

use std::ops::Deref;
use std::sync::Arc;

use alkstore::engine::clock::Clock;
use alkstore::engine::domain::US;
use alkstore::engine::hub::{Hub, Kind};
use rusqlite::{Result, params};

use super::Session;
use super::guard::{UserSql, WriterSession};
use crate::sql;

/// Channels that have been quiet for this long are forgotten.
const FORGET_CHANNEL_US: i64 = 3_600 * US;
const PRUNE_EVERY_US: i64 = 60 * US;
const PRUNE_LIMIT: i64 = 1_000;

/// A write transaction in progress, as mechanism functions see it.
pub(crate) struct Write<'a> {
    session: &'a WriterSession,
    state: &'a mut WriteState,
}

/// What the writer keeps beside its connection.
#[derive(Debug, Default)]
pub(crate) struct WriteState {
    sequences: Sequences,
    touched: Vec<(Kind, Arc<str>)>,
    notified: Vec<Arc<str>>,
    pruned_us: i64,
}

/// A place in the lists of a [`WriteState`] to return to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    touched: usize,
    notified: usize,
}

/// The ids of which each is given out once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sequence {
    Job = 0,
    Event = 1,
    FencingToken = 2,
    Notification = 3,
}

/// The last ids. They only grow, so that an id from a rolled-back write is not used again.
#[derive(Debug, Default)]
struct Sequences {
    last: [i64; 4],
    /// Whether this transaction has seen what other processes gave out.
    read: bool,
    /// Whether `last` is ahead of the stored row.
    ahead: bool,
}

impl<'a> Write<'a> {
    pub(crate) fn new(session: &'a WriterSession, state: &'a mut WriteState) -> Self {
        Self { session, state }
    }

    pub(super) fn session(&self) -> &'a WriterSession {
        self.session
    }

    /// Unix microseconds.
    pub(crate) fn now_us(&self) -> i64 {
        Clock::System.now_us()
    }

    /// The next id.
    pub(crate) fn next_id(&mut self, sequence: Sequence) -> Result<i64> {
        self.next_ids(sequence, 1)
    }

    /// The first of `n` ids in a row.
    pub(crate) fn next_ids(&mut self, sequence: Sequence, n: i64) -> Result<i64> {
        let sequences = &mut self.state.sequences;
        if !sequences.read {
            let stored: [i64; 4] = self.session.one(&sql::SEQUENCES, [], |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
            })?;
            for (last, stored) in sequences.last.iter_mut().zip(stored) {
                *last = stored.max(*last);
            }
            sequences.read = true;
        }
        let last = &mut sequences.last[sequence as usize];
        let first = *last + 1;
        *last += n;
        sequences.ahead = true;
        Ok(first)
    }

    /// Wakes those who wait for this name once this is committed.
    pub(crate) fn touch(&mut self, kind: Kind, name: &Arc<str>) {
        let touched = &mut self.state.touched;
        if !touched.last().is_some_and(|last| last.0 == kind && last.1 == *name) {
            touched.push((kind, name.clone()));
        }
    }

    /// Wakes the channel's listeners, of every process, once this is committed.
    pub(crate) fn notify(&mut self, channel: &Arc<str>) {
        let notified = &mut self.state.notified;
        if notified.last() != Some(channel) {
            notified.push(channel.clone());
        }
    }

    /// Until it is dropped, SQL that would end this transaction is refused.
    pub(crate) fn guard_user_sql(&self) -> UserSql {
        self.session.guard_user_sql()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { touched: self.state.touched.len(), notified: self.state.notified.len() }
    }

    /// Forgets what was touched since; ids stay given out.
    pub(crate) fn forget_since(&mut self, mark: Mark) {
        self.state.touched.truncate(mark.touched);
        self.state.notified.truncate(mark.notified);
    }
}

impl Deref for Write<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl WriteState {
    /// Writes what belongs to the commit: notifications and the last ids.
    ///
    /// Returns the channels with the ids that wake their listeners.
    pub(super) fn before_commit(
        &mut self,
        session: &WriterSession,
    ) -> Result<Vec<(Arc<str>, i64)>> {
        let mut channels = std::mem::take(&mut self.notified);
        channels.sort_unstable();
        channels.dedup();
        let mut sent = Vec::with_capacity(channels.len());
        if !channels.is_empty() {
            let now_us = Clock::System.now_us();
            self.prune(session, now_us)?;
            for channel in channels {
                let id = Write::new(session, self).next_id(Sequence::Notification)?;
                session.run(&sql::NOTIFY_SEND, params![&*channel, id, now_us])?;
                sent.push((channel, id));
            }
        }
        self.store_sequences(session)?;
        Ok(sent)
    }

    /// Stores the last ids, if any were given out.
    pub(crate) fn store_sequences(&mut self, session: &Session) -> Result<()> {
        if self.sequences.ahead {
            session.run(&sql::ADVANCE_SEQUENCES, self.sequences.last)?;
        }
        Ok(())
    }

    /// Whether ids were given out that the stored row does not know.
    pub(crate) fn gave_out_ids(&self) -> bool {
        self.sequences.ahead
    }

    /// The last ids were stored and committed.
    pub(super) fn stored_ids(&mut self) {
        self.sequences.read = false;
        self.sequences.ahead = false;
    }

    /// Wakes everybody concerned, after the commit.
    pub(crate) fn after_commit(&mut self, hub: &Hub, sent: Vec<(Arc<str>, i64)>) {
        self.stored_ids();
        for (kind, name) in self.touched.drain(..) {
            hub.wake(kind, &name);
        }
        for (channel, id) in sent {
            hub.wake_caused(Kind::Channel, &channel, id);
        }
    }

    /// Forgets what was touched. Ids stay given out, to be stored with the next commit.
    pub(crate) fn after_rollback(&mut self) {
        self.sequences.read = false;
        self.touched.clear();
        self.notified.clear();
    }

    fn prune(&mut self, session: &Session, now_us: i64) -> Result<()> {
        if now_us - self.pruned_us >= PRUNE_EVERY_US {
            session.run(&sql::NOTIFY_PRUNE, params![PRUNE_LIMIT, now_us - FORGET_CHANNEL_US])?;
            self.pruned_us = now_us;
        }
        Ok(())
    }
}
