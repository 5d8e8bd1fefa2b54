//! What an operation writes through: the writer's session, the ids, and what to wake afterwards.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    session: &'a Session,
    writer: Option<&'a WriterSession>,
    /// None on a connection of the application's, whose commit nobody here sees.
    state: Option<&'a WriteState>,
}

/// What the writer keeps beside its connection, for the functions on it as well.
///
/// No statement runs under the lock: it may run triggers, which may call those functions.
#[derive(Debug, Default)]
pub(crate) struct WriteState(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sequences: Sequences,
    touched: Vec<(Touch, Arc<str>)>,
    notified: Vec<Arc<str>>,
    pruned_us: i64,
}

/// What happened under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touch {
    Changed(Kind),
    /// A job became ready in the queue of this name.
    Work,
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
#[derive(Clone, Copy, Debug, Default)]
struct Sequences {
    last: [i64; 4],
    /// Whether this transaction has seen what other processes gave out.
    read: bool,
    /// Whether `last` is ahead of the stored row.
    ahead: bool,
}

impl<'a> Write<'a> {
    /// In the writer's transaction: ids and notifications are stored with its commit.
    pub(crate) fn new(writer: &'a WriterSession) -> Self {
        Self { session: writer, writer: Some(writer), state: Some(writer.state()) }
    }

    /// In the writer's transaction, from a function that SQL in it calls.
    pub(crate) fn within(session: &'a Session, state: &'a WriteState) -> Self {
        Self { session, writer: None, state: Some(state) }
    }

    /// In a transaction of the application's own: ids and notifications are stored at once.
    pub(crate) fn foreign(session: &'a Session) -> Self {
        Self { session, writer: None, state: None }
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
        if let Some(state) = self.state {
            return state.next_ids(self.session, sequence, n);
        }
        // First of all a write: a transaction that began with a read could not wait for its turn.
        let mut taken = [0; 4];
        taken[sequence as usize] = n;
        let last: i64 =
            self.session.one(&sql::TAKE_IDS, taken, |row| row.get(sequence as usize))?;
        Ok(last - n + 1)
    }

    /// Wakes those who wait for this name once this is committed.
    pub(crate) fn touch(&mut self, kind: Kind, name: &Arc<str>) {
        self.touched(Touch::Changed(kind), name);
    }

    /// Wakes those who wait for work in this queue once this is committed.
    pub(crate) fn touch_work(&mut self, queue: &Arc<str>) {
        self.touched(Touch::Work, queue);
    }

    fn touched(&mut self, touch: Touch, name: &Arc<str>) {
        if let Some(state) = self.state {
            let touched = &mut state.lock().touched;
            if !touched.last().is_some_and(|last| last.0 == touch && last.1 == *name) {
                touched.push((touch, name.clone()));
            }
        }
    }

    /// Wakes the channel's listeners, of every process, once this is committed.
    pub(crate) fn notify(&mut self, channel: &Arc<str>) -> Result<()> {
        if let Some(state) = self.state {
            let notified = &mut state.lock().notified;
            if notified.last() != Some(channel) {
                notified.push(channel.clone());
            }
            return Ok(());
        }
        let now_us = self.now_us();
        let id = self.send(channel, now_us)?;
        if id % PRUNE_LIMIT == 0 {
            self.prune(now_us)?;
        }
        Ok(())
    }

    fn send(&mut self, channel: &str, now_us: i64) -> Result<i64> {
        let id = self.next_id(Sequence::Notification)?;
        self.run(&sql::NOTIFY_SEND, params![channel, id, now_us])?;
        Ok(id)
    }

    fn prune(&self, now_us: i64) -> Result<()> {
        self.run(&sql::NOTIFY_PRUNE, params![PRUNE_LIMIT, now_us - FORGET_CHANNEL_US])?;
        Ok(())
    }

    /// Until it is dropped, SQL that would end this transaction is refused.
    pub(crate) fn guard_user_sql(&self) -> Option<UserSql> {
        self.writer.map(WriterSession::guard_user_sql)
    }
}

impl Deref for Write<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl WriteState {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_ids(&self, session: &Session, sequence: Sequence, n: i64) -> Result<i64> {
        if !self.lock().sequences.read {
            let stored: [i64; 4] = session.one(&sql::SEQUENCES, [], |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
            })?;
            self.lock().sequences.saw(stored);
        }
        Ok(self.lock().sequences.give_out(sequence, n))
    }

    pub(super) fn mark(&self) -> Mark {
        let kept = self.lock();
        Mark { touched: kept.touched.len(), notified: kept.notified.len() }
    }

    /// Forgets what was touched since; ids stay given out.
    pub(super) fn forget_since(&self, mark: Mark) {
        let mut kept = self.lock();
        kept.touched.truncate(mark.touched);
        kept.notified.truncate(mark.notified);
    }

    /// Writes what belongs to the commit: notifications and the last ids.
    ///
    /// Returns the channels with the ids that wake their listeners.
    pub(super) fn before_commit(&self, session: &Session) -> Result<Vec<(Arc<str>, i64)>> {
        let mut channels = std::mem::take(&mut self.lock().notified);
        channels.sort_unstable();
        channels.dedup();
        let mut sent = Vec::with_capacity(channels.len());
        if !channels.is_empty() {
            let mut write = Write::within(session, self);
            let now_us = write.now_us();
            if now_us - self.lock().pruned_us >= PRUNE_EVERY_US {
                write.prune(now_us)?;
                self.lock().pruned_us = now_us;
            }
            for channel in channels {
                let id = write.send(&channel, now_us)?;
                sent.push((channel, id));
            }
        }
        self.store_sequences(session)?;
        Ok(sent)
    }

    /// Stores the last ids, if any were given out.
    pub(super) fn store_sequences(&self, session: &Session) -> Result<()> {
        let Sequences { last, ahead, .. } = self.lock().sequences;
        if ahead {
            session.run(&sql::ADVANCE_SEQUENCES, last)?;
        }
        Ok(())
    }

    /// Whether ids were given out that the stored row does not know.
    pub(super) fn gave_out_ids(&self) -> bool {
        self.lock().sequences.ahead
    }

    /// The last ids were stored and committed.
    pub(super) fn stored_ids(&self) {
        let sequences = &mut self.lock().sequences;
        sequences.read = false;
        sequences.ahead = false;
    }

    /// Wakes everybody concerned, after the commit.
    pub(super) fn after_commit(&self, hub: &Hub, sent: Vec<(Arc<str>, i64)>) {
        self.stored_ids();
        let touched = std::mem::take(&mut self.lock().touched);
        for (touch, name) in touched {
            match touch {
                Touch::Changed(kind) => hub.wake(kind, &name),
                Touch::Work => hub.wake_work(&name),
            }
        }
        for (channel, id) in sent {
            hub.wake_caused(Kind::Channel, &channel, id);
        }
    }

    /// Forgets what was touched. Ids stay given out, to be stored with the next commit.
    pub(super) fn after_rollback(&self) {
        let mut kept = self.lock();
        kept.sequences.read = false;
        kept.touched.clear();
        kept.notified.clear();
    }
}

impl Sequences {
    fn saw(&mut self, stored: [i64; 4]) {
        for (last, stored) in self.last.iter_mut().zip(stored) {
            *last = stored.max(*last);
        }
        self.read = true;
    }

    fn give_out(&mut self, sequence: Sequence, n: i64) -> i64 {
        let last = &mut self.last[sequence as usize];
        let first = *last + 1;
        *last += n;
        self.ahead = true;
        first
    }
}
