//! The writer's thread: groups of operations that share a commit, and leases.
//!
//! A group starts with whatever is there and takes in what arrives while it runs, so an idle store
//! adds no wait. If its commit fails, each operation is run again alone: none fails for another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alkstore::Result;
use alkstore::engine::hub::Hub;
use alkstore::engine::{database_error, text};
use rusqlite::ErrorCode;

use super::checkpoint::Trigger;
use super::file::DbFile;
use super::guard::WriterSession;
use super::inbox::{Entry, Inbox, LeaseId, NextStep, Step};
use super::op::{Op, Ran};
use super::turn::Turns;
use crate::error::{Fault, sqlite_error};
use crate::sql;

/// A group ends at this many operations or this much time, so that other processes get a turn.
const GROUP_OPS: usize = 512;
const GROUP_TIME: Duration = Duration::from_millis(10);

/// How long the writer's connection waits to be the last one to close.
const LAST: Duration = Duration::from_secs(1);

const GONE: &str = "its SQL or a full disk rolled it back";

/// What the writer works with and tells of its commits.
pub(super) struct Surroundings {
    pub(super) session: WriterSession,
    pub(super) file: Arc<DbFile>,
    pub(super) hub: Hub,
    pub(super) checkpoint: Trigger,
    pub(super) busy_timeout: Duration,
}

pub(super) struct Writer {
    session: WriterSession,
    file: Arc<DbFile>,
    hub: Hub,
    checkpoint: Trigger,
    busy_timeout: Duration,
    inbox: Arc<Inbox>,
    turns: Turns,
    ran: Vec<Box<dyn Op>>,
}

impl Writer {
    pub(super) fn new(surroundings: Surroundings, inbox: Arc<Inbox>) -> Self {
        let Surroundings { session, file, hub, checkpoint, busy_timeout } = surroundings;
        Self {
            session,
            file,
            hub,
            checkpoint,
            busy_timeout,
            inbox,
            turns: Turns::default(),
            ran: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        let end = EndOnDrop(self.inbox.clone());
        while let Some(entry) = self.inbox.next() {
            match entry {
                Entry::Op(op, since) => self.group(op, since),
                Entry::Lease(id, since) => self.lease(id, since),
            }
            self.turns.end();
            self.checkpoint.after_commit(&self.session, self.session.wal_frames());
        }
        self.file.outlast_others(LAST);
        // The connection closes before the end is announced.
        drop(self);
        drop(end);
    }

    fn group(&mut self, first: Box<dyn Op>, since: Instant) {
        if first.is_abandoned() {
            return;
        }
        if let Err(fault) = self.begin(since) {
            return first.finish(Err(fault.into()));
        }
        let mut ops = std::mem::take(&mut self.ran);
        let started = Instant::now();
        let mut next = Some(first);
        let mut keep = false;
        let mut ran = Ran::Whole;
        while let Some(mut op) = next {
            if !op.is_abandoned() {
                ran = op.run(&self.session, keep);
                keep |= !op.is_repeatable();
                ops.push(op);
                if ran == Ran::Half || self.session.is_gone() {
                    break;
                }
            }
            let open = ops.len() < GROUP_OPS && started.elapsed() < GROUP_TIME;
            next = if open { self.inbox.next_op() } else { None };
        }
        match self.commit_after(ran) {
            Ok(()) => ops.drain(..).for_each(|op| op.finish(Ok(()))),
            Err(error) if ops.len() == 1 => {
                if let Some(op) = ops.pop() {
                    op.finish(Err(error));
                }
            }
            Err(error) => {
                let why = text::chain(&error);
                for op in ops.drain(..) {
                    if op.is_repeatable() {
                        self.alone(op);
                    } else {
                        // Alone it may well succeed.
                        op.finish(Err(database_error(why.clone(), true)));
                    }
                }
            }
        }
        self.ran = ops;
    }

    fn alone(&mut self, mut op: Box<dyn Op>) {
        if let Err(fault) = self.begin(Instant::now()) {
            return op.finish(Err(fault.into()));
        }
        let ran = op.run(&self.session, false);
        let committed = self.commit_after(ran);
        op.finish(committed);
    }

    /// Commits, unless what ran last left half of itself behind.
    fn commit_after(&mut self, ran: Ran) -> Result<()> {
        if ran == Ran::Half {
            // The operation's own error is the one to report.
            let _ = self.session.roll_back();
        }
        self.commit()
    }

    fn lease(&mut self, id: LeaseId, since: Instant) {
        let mut began = None;
        loop {
            match self.inbox.next_step(id, self.busy_timeout) {
                NextStep::Step(Step::Run(op)) if op.is_abandoned() => {}
                NextStep::Step(Step::Run(mut op)) => {
                    if began.is_none() {
                        if let Err(fault) = self.begin_lease(since) {
                            op.finish(Err(fault.into()));
                            return self.dismiss(id);
                        }
                        began = Some(Instant::now());
                    }
                    let ran = op.run(&self.session, true);
                    if ran == Ran::Half || self.session.is_gone() {
                        self.lose();
                        op.finish(Err(Fault::TransactionGone(GONE).into()));
                        return self.inbox.mark_gone(id, GONE);
                    }
                    op.finish(Ok(()));
                }
                NextStep::Step(Step::End { commit, answer }) => {
                    let result = match (commit, began) {
                        (_, None) => Ok(()),
                        (true, _) => self.commit(),
                        (false, _) => self.rollback(),
                    };
                    self.dismiss(id);
                    if let Some(answer) = answer {
                        // A caller that is gone needs no answer.
                        let _ = answer.send(result);
                    }
                    return;
                }
                NextStep::OutOfPatience(entry) => {
                    let age = began.map_or(Duration::ZERO, |began| began.elapsed());
                    self.refuse(entry, age);
                }
                NextStep::Closed => {
                    // There is nobody left to tell of a failure; closing the connection undoes it.
                    let _ = self.rollback();
                    return self.inbox.mark_gone(id, "the store was closed");
                }
            }
        }
    }

    fn refuse(&self, entry: Entry, age: Duration) {
        let waited = entry.since().elapsed();
        match entry {
            Entry::Op(op, _) => op.finish(Err(Fault::BusyTransaction { waited, age }.into())),
            Entry::Lease(id, _) => {
                for step in self.inbox.dismiss(id) {
                    step.refuse(Fault::BusyTransaction { waited, age });
                }
            }
        }
    }

    fn dismiss(&self, id: LeaseId) {
        for step in self.inbox.dismiss(id) {
            step.refuse(Fault::TransactionGone("it had ended or could not begin"));
        }
    }

    fn begin_lease(&mut self, since: Instant) -> Result<(), Fault> {
        self.begin(since)?;
        if let Err(source) = self.session.run_uncached(&sql::SAVEPOINT_TX) {
            let _ = self.session.roll_back();
            return Err(Fault::Begin(source));
        }
        Ok(())
    }

    /// Takes the file's write lock; waits for other processes until the busy timeout.
    fn begin(&mut self, since: Instant) -> Result<(), Fault> {
        self.file.check()?;
        let gap = self.turns.gap();
        if !gap.is_zero() {
            pause_for(gap);
        }
        let mut pause = Duration::from_micros(50);
        loop {
            match self.session.begin() {
                Ok(()) => {
                    self.turns.begin();
                    return Ok(());
                }
                Err(source) if source.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                    return Err(Fault::Begin(source));
                }
                Err(source) => {
                    let waited = since.elapsed();
                    if waited >= self.busy_timeout || self.inbox.is_closed() {
                        return Err(Fault::BusyElsewhere { waited, source });
                    }
                }
            }
            // Jitter keeps several waiting processes from asking in step.
            pause_for(pause.mul_f64(0.5 + fastrand::f64()));
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    fn commit(&mut self) -> Result<()> {
        if self.session.is_gone() {
            self.lose();
            return Err(Fault::TransactionGone(GONE).into());
        }
        let committed = self.session.state().before_commit(&self.session).and_then(|sent| {
            self.session.committing(|session| session.run(&sql::COMMIT, []))?;
            Ok(sent)
        });
        match committed {
            Ok(sent) => {
                self.session.state().after_commit(&self.hub, sent);
                Ok(())
            }
            Err(error) => {
                self.lose();
                Err(sqlite_error(error))
            }
        }
    }

    /// Undoes a lease, but keeps the ids that it gave out from being used again.
    fn rollback(&mut self) -> Result<()> {
        let gave_out_ids = self.session.state().gave_out_ids();
        self.session.state().after_rollback();
        if gave_out_ids && self.session.run_uncached(&sql::ROLLBACK_TO_TX).is_ok() {
            return self.commit();
        }
        self.session.roll_back().map_err(sqlite_error)
    }

    /// Rolls back what is left of a failed transaction. Its ids may be known already: a
    /// transaction of their own keeps other processes from using them again.
    fn lose(&mut self) {
        // The failure itself is the error to report, and BEGIN rolls back as well.
        let _ = self.session.roll_back();
        self.session.state().after_rollback();
        if self.session.state().gave_out_ids() && self.begin(Instant::now()).is_ok() {
            let stored =
                self.session.state().store_sequences(&self.session).and_then(|()| {
                    self.session.committing(|session| session.run(&sql::COMMIT, []))
                });
            match stored {
                Ok(_) => self.session.state().stored_ids(),
                // The next commit stores them.
                Err(_) => drop(self.session.roll_back()),
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "SQLite has no way to wait for a lock but to ask")]
fn pause_for(pause: Duration) {
    std::thread::sleep(pause);
}

struct EndOnDrop(Arc<Inbox>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
