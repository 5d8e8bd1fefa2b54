//! Everything that a store holds, behind one lock.

use std::collections::{BTreeMap, BTreeSet};

use alkstore::engine::rows::{LockRow, ScheduleRow};

use super::{HandleId, Jobs, Log};

/// The tables and counters. A queue or stream without rows has no table.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) closed: bool,
    /// The clock as it was read for the operation that is running.
    pub(crate) now_us: i64,
    pub(crate) queues: BTreeMap<String, Jobs>,
    pub(crate) streams: BTreeMap<String, Log>,
    pub(crate) locks: BTreeMap<String, LockRow>,
    /// The locks by the time at which they lapse or lapsed.
    pub(crate) lock_ends: BTreeSet<(i64, String)>,
    pub(crate) schedules: BTreeMap<String, ScheduleRow>,
    /// How many notifications committed.
    pub(crate) notifications: i64,
    last_job: i64,
    last_offset: i64,
    last_token: i64,
    runners: i64,
    handles: HandleId,
}

impl State {
    /// A job id that was never given out and never will be again.
    pub(crate) fn next_job(&mut self) -> i64 {
        self.last_job += 1;
        self.last_job
    }

    /// An offset beyond all of every stream, so that a dropped table needs no counter.
    pub(crate) fn next_offset(&mut self) -> i64 {
        self.last_offset += 1;
        self.last_offset
    }

    /// A fencing token above all others.
    pub(crate) fn next_token(&mut self) -> i64 {
        self.last_token += 1;
        self.last_token
    }

    /// Numbers the handles of queues.
    pub(crate) fn next_handle(&mut self) -> HandleId {
        self.handles += 1;
        self.handles
    }

    /// Numbers the runs of `run_schedules`.
    pub(crate) fn next_runner(&mut self) -> i64 {
        self.runners += 1;
        self.runners
    }

    /// The queue's jobs; makes the table.
    pub(crate) fn jobs(&mut self, queue: &str) -> &mut Jobs {
        table(&mut self.queues, queue)
    }

    /// The stream's log; makes the table.
    pub(crate) fn log(&mut self, stream: &str) -> &mut Log {
        table(&mut self.streams, stream)
    }

    /// Runs on the queue's jobs, if there are any, and drops the table once it is empty.
    pub(crate) fn with_jobs<T: Default>(
        &mut self,
        queue: &str,
        f: impl FnOnce(&mut Jobs, i64) -> T,
    ) -> T {
        let Some(jobs) = self.queues.get_mut(queue) else {
            return T::default();
        };
        let result = f(jobs, self.now_us);
        if jobs.is_empty() {
            self.queues.remove(queue);
        }
        result
    }

    /// Runs on the stream's log, if there is one, and drops the table once it is empty.
    pub(crate) fn with_log<T: Default>(
        &mut self,
        stream: &str,
        f: impl FnOnce(&mut Log) -> T,
    ) -> T {
        let Some(log) = self.streams.get_mut(stream) else {
            return T::default();
        };
        let result = f(log);
        if log.is_empty() {
            self.streams.remove(stream);
        }
        result
    }

    /// Ends every operation and every open transaction; what is committed can still be drained.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.streams.values_mut().for_each(Log::withdraw_all);
    }
}

fn table<'a, T: Default>(tables: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    // Looked up first: the name is copied only for a new table.
    if !tables.contains_key(name) {
        tables.insert(name.to_owned(), T::default());
    }
    tables.get_mut(name).expect("it was just inserted")
}
