//! Operations: closures that run in the writer's transactions, and their answers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use alkstore::Result;
use rusqlite::CachedStatement;
use tokio::sync::oneshot;

use super::Session;
use super::guard::WriterSession;
use super::write::Write;
use crate::error::sqlite_error;
use crate::sql;

/// An operation that somebody waits for.
pub(super) trait Op: Send {
    /// Runs it in the open transaction, which must be kept if something before it cannot be run
    /// again.
    fn run(&mut self, writer: &WriterSession, keep: bool) -> Ran;
    /// Whether its caller has gone away.
    fn is_abandoned(&self) -> bool;
    /// Whether it may be run again after its transaction was lost.
    fn is_repeatable(&self) -> bool;
    /// Answers its caller: with its result if what it did lasts, else with the error.
    fn finish(self: Box<Self>, lasting: Result<()>);
}

/// What a run left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// All of it, or nothing.
    Whole,
    /// Perhaps half of it: the transaction must be rolled back.
    Half,
}

/// How a closure is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One statement, which SQLite undoes by itself if it fails. It may be run again.
    One,
    /// Several statements. It may be run again, and so may what came before it: its failure,
    /// which is rare, costs the whole transaction rather than each run a savepoint.
    Many,
    /// Any number of statements, run once, in a savepoint.
    Once,
}

/// What an operation came to.
pub(super) enum Outcome<T> {
    Done(Result<T>),
    Panicked(Box<dyn Any + Send>),
}

/// An [`Op`] made of a closure and the channel of its answer.
pub(super) struct Single<F, T> {
    f: F,
    mode: Mode,
    outcome: Option<Outcome<T>>,
    answer: oneshot::Sender<Outcome<T>>,
}

impl<F, T> Single<F, T>
where
    F: FnMut(&mut Write<'_>) -> Result<T> + Send,
    T: Send,
{
    pub(super) fn new(f: F, mode: Mode, answer: oneshot::Sender<Outcome<T>>) -> Self {
        Self { f, mode, outcome: None, answer }
    }
}

/// A savepoint around a closure. Its statements are taken out of the cache, from where the
/// application's SQL could run them past the authorizer.
struct Savepoint<'a> {
    release: CachedStatement<'a>,
    undo: CachedStatement<'a>,
    _begin: CachedStatement<'a>,
}

impl<'a> Savepoint<'a> {
    fn begin(session: &'a Session) -> rusqlite::Result<Self> {
        let mut begin = session.prepared(&sql::SAVEPOINT)?;
        let release = session.prepared(&sql::RELEASE)?;
        let undo = session.prepared(&sql::ROLLBACK_TO)?;
        begin.execute([])?;
        Ok(Self { release, undo, _begin: begin })
    }

    fn release(&mut self) -> rusqlite::Result<()> {
        self.release.execute([]).map(|_| ())
    }

    fn undo(&mut self) -> rusqlite::Result<()> {
        self.undo.execute([])?;
        self.release()
    }
}

impl<F, T> Op for Single<F, T>
where
    F: FnMut(&mut Write<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, writer: &WriterSession, keep: bool) -> Ran {
        let mark = writer.state().mark();
        let mut savepoint = None;
        let attempt = || {
            if self.mode == Mode::Once || self.mode == Mode::Many && keep {
                savepoint = Some(Savepoint::begin(writer).map_err(sqlite_error)?);
            }
            let value = (self.f)(&mut Write::new(writer))?;
            if let Some(savepoint) = &mut savepoint {
                savepoint.release().map_err(sqlite_error)?;
            }
            Ok(value)
        };
        let outcome = match catch_unwind(AssertUnwindSafe(attempt)) {
            Ok(result) => Outcome::Done(result),
            Err(payload) => Outcome::Panicked(payload),
        };
        let failed = !matches!(outcome, Outcome::Done(Ok(_)));
        self.outcome = Some(outcome);
        if !failed {
            return Ran::Whole;
        }
        writer.state().forget_since(mark);
        let undone = savepoint.is_some_and(|mut savepoint| savepoint.undo().is_ok());
        if self.mode == Mode::One || undone { Ran::Whole } else { Ran::Half }
    }

    fn is_repeatable(&self) -> bool {
        self.mode != Mode::Once
    }

    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    fn finish(self: Box<Self>, lasting: Result<()>) {
        let outcome = match (self.outcome, lasting) {
            (Some(Outcome::Done(Ok(_))) | None, Err(error)) => Outcome::Done(Err(error)),
            (Some(outcome), _) => outcome,
            (None, Ok(())) => return,
        };
        // A caller that is gone needs no answer.
        let _ = self.answer.send(outcome);
    }
}
