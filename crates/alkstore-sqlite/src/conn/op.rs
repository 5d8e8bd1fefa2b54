//! Operations: closures that run in the writer's transactions, and their answers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use alkstore::Result;
use tokio::sync::oneshot;

use super::write::Write;
use crate::error::sqlite_error;
use crate::sql;

/// An operation that somebody waits for.
pub(super) trait Op: Send {
    /// Runs it in the open transaction, which must be kept if something before it cannot be run
    /// again.
    fn run(&mut self, write: &mut Write<'_>, keep: bool) -> Ran;
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

    fn attempt(&mut self, write: &mut Write<'_>, savepoint: bool) -> Result<T> {
        if !savepoint {
            return (self.f)(write);
        }
        write.run(&sql::SAVEPOINT, []).map_err(sqlite_error)?;
        let value = (self.f)(write)?;
        write.run(&sql::RELEASE, []).map_err(sqlite_error)?;
        Ok(value)
    }
}

impl<F, T> Op for Single<F, T>
where
    F: FnMut(&mut Write<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, write: &mut Write<'_>, keep: bool) -> Ran {
        let savepoint = self.mode == Mode::Once || self.mode == Mode::Many && keep;
        let mark = write.mark();
        let outcome = match catch_unwind(AssertUnwindSafe(|| self.attempt(write, savepoint))) {
            Ok(result) => Outcome::Done(result),
            Err(payload) => Outcome::Panicked(payload),
        };
        let failed = !matches!(outcome, Outcome::Done(Ok(_)));
        self.outcome = Some(outcome);
        if !failed {
            return Ran::Whole;
        }
        write.forget_since(mark);
        let undone = || {
            write.run(&sql::ROLLBACK_TO, [])?;
            write.run(&sql::RELEASE, [])
        };
        if self.mode == Mode::One || savepoint && undone().is_ok() { Ran::Whole } else { Ran::Half }
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
