//! Where callers leave work for the writer and get their answers.

use std::collections::{HashMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use alkstore::Result;
use alkstore::engine::store_closed;
use tokio::sync::{oneshot, watch};

use super::op::{Mode, Op, Outcome, Single};
use super::patience::{Caller, Look, Patience};
use super::unanswered;
use super::write::Write;
use super::writer::{Surroundings, Writer};
use crate::error::{Fault, sqlite_error};

/// How long the writer stays awake for more work, and a lone caller for its answer: some times
/// what it takes to wake a thread.
pub(super) const LINGER: Duration = Duration::from_micros(200);
pub(super) const ATTEND: Duration = Duration::from_micros(200);

/// The writer's queue of work.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
    /// Grows with all that arrives, so that the writer can look without the lock.
    arrivals: AtomicU64,
    /// For the writer, while nothing is there.
    linger: Patience,
    /// Callers that wait for an answer.
    callers: AtomicUsize,
    /// For a caller that is alone.
    attend: Patience,
    writer: OnceLock<ThreadId>,
    ended: watch::Sender<bool>,
}

#[derive(Default, Debug)]
pub(super) struct State {
    pub(super) entries: VecDeque<Entry>,
    leases: HashMap<LeaseId, LeaseState>,
    closed: bool,
    /// What the writer sleeps for, if it does.
    waiting: Option<Waiting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Entries,
    Steps(LeaseId),
}

/// A unit of work in order of arrival.
pub(super) enum Entry {
    /// An operation for a group.
    Op(Box<dyn Op>, Instant),
    /// A caller-held transaction that wants the writer.
    Lease(LeaseId, Instant),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Op(..) => f.write_str("Op"),
            Self::Lease(id, _) => write!(f, "{id:?}"),
        }
    }
}

impl Entry {
    pub(super) fn since(&self) -> Instant {
        match self {
            Self::Op(_, since) | Self::Lease(_, since) => *since,
        }
    }
}

/// Identifies a caller-held transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseId(pub(super) i64);

#[derive(Debug, Default)]
struct LeaseState {
    steps: VecDeque<Step>,
    /// Why it cannot go on, once it cannot.
    gone: Option<&'static str>,
}

/// A step of a caller-held transaction.
pub(super) enum Step {
    /// An operation.
    Run(Box<dyn Op>),
    /// The end; nobody waits for the answer of a dropped handle.
    End { commit: bool, answer: Option<oneshot::Sender<Result<()>>> },
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Run(_) => "Run",
            Self::End { .. } => "End",
        })
    }
}

impl Step {
    pub(super) fn refuse(self, fault: Fault) {
        match self {
            Self::Run(op) => op.finish(Err(fault.into())),
            Self::End { answer, .. } => {
                if let Some(answer) = answer {
                    // A caller that is gone needs no answer.
                    let _ = answer.send(Err(fault.into()));
                }
            }
        }
    }
}

impl Inbox {
    /// Starts the writer's thread.
    pub(super) fn start(surroundings: Surroundings) -> Result<Arc<Self>> {
        let inbox = Arc::new(Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            arrivals: AtomicU64::new(0),
            linger: Patience::new(LINGER),
            callers: AtomicUsize::new(0),
            attend: Patience::new(ATTEND),
            writer: OnceLock::new(),
            ended: watch::Sender::new(false),
        });
        let writer = Writer::new(surroundings, inbox.clone());
        let thread = thread::Builder::new()
            .name("alkstore-writer".into())
            .spawn(move || writer.run())
            .map_err(Fault::Thread)?;
        // It is set before anybody can leave work.
        let _ = inbox.writer.set(thread.thread().id());
        Ok(inbox)
    }

    /// Runs an operation in a group and waits for its answer.
    pub(super) async fn write<T, F>(&self, f: F, mode: Mode) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let op = Box::new(Single::new(f, mode, answer));
        self.push(Entry::Op(op, Instant::now()))?;
        receive(answered, self).await
    }

    fn push(&self, entry: Entry) -> Result<()> {
        self.refuse_writer()?;
        let mut state = self.lock();
        if state.closed {
            return Err(store_closed());
        }
        let wake = self.enter(&mut state, entry);
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Errs on the writer's own thread, which would wait for itself.
    fn refuse_writer(&self) -> Result<(), Fault> {
        match self.writer.get() {
            Some(writer) if *writer == thread::current().id() => Err(Fault::OnTheWriter),
            _ => Ok(()),
        }
    }

    /// Takes an entry in; `true` if the writer must be woken for it.
    fn enter(&self, state: &mut State, entry: Entry) -> bool {
        state.entries.push_back(entry);
        self.arrivals.fetch_add(1, Ordering::Release);
        match state.waiting {
            Some(Waiting::Entries) => true,
            // The first one's patience sets the end of the wait for a step.
            Some(Waiting::Steps(_)) => state.entries.len() == 1,
            None => false,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    pub(super) async fn closed(&self) {
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// For the writer: says that its connection is closed.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.closed = true;
        // Their answers drop with them, after the lock: what the application left in them may
        // well be a handle.
        let entries = std::mem::take(&mut state.entries);
        let mut steps = Vec::new();
        for lease in state.leases.values_mut() {
            steps.extend(lease.steps.drain(..));
            lease.gone = Some("the store is closed");
        }
        drop(state);
        drop((entries, steps));
        self.ended.send_replace(true);
    }

    /// For the writer: waits a moment for something to arrive, awake.
    fn linger<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let seen = self.arrivals.load(Ordering::Acquire);
        drop(state);
        self.linger.wait(|| match self.arrivals.load(Ordering::Acquire) {
            arrivals if arrivals == seen => Look::NotYet,
            _ => Look::There(()),
        });
        self.lock()
    }

    /// For the writer: the next entry; `None` once closed and empty.
    pub(super) fn next(&self) -> Option<Entry> {
        let mut state = self.lock();
        let mut lingered = false;
        loop {
            if let Some(entry) = state.entries.pop_front() {
                return Some(entry);
            }
            if state.closed {
                return None;
            }
            if !lingered {
                lingered = true;
                state = self.linger(state);
                continue;
            }
            state.waiting = Some(Waiting::Entries);
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting = None;
        }
    }

    /// For the writer: the next operation, if one is waiting in front.
    pub(super) fn next_op(&self) -> Option<Box<dyn Op>> {
        let mut state = self.lock();
        match state.entries.front() {
            Some(Entry::Op(..)) => match state.entries.pop_front() {
                Some(Entry::Op(op, _)) => Some(op),
                _ => None,
            },
            _ => None,
        }
    }

    /// For the writer: the next step of a lease, or what came up while there was none.
    pub(super) fn next_step(&self, id: LeaseId, busy: Duration) -> NextStep {
        let mut state = self.lock();
        let mut lingered = false;
        loop {
            if let Some(step) = state.leases.get_mut(&id).and_then(|lease| lease.steps.pop_front())
            {
                return NextStep::Step(step);
            }
            if state.closed {
                return NextStep::Closed;
            }
            if !lingered {
                lingered = true;
                state = self.linger(state);
                continue;
            }
            let now = Instant::now();
            let patience = state.entries.front().map(|entry| entry.since() + busy);
            state.waiting = Some(Waiting::Steps(id));
            state = match patience {
                Some(end) if end <= now => {
                    state.waiting = None;
                    if let Some(entry) = state.entries.pop_front() {
                        return NextStep::OutOfPatience(entry);
                    }
                    state
                }
                Some(end) => {
                    let waited = self.arrived.wait_timeout(state, end - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.waiting = None;
        }
    }

    /// For the writer: takes what a lease has queued and leaves it without a place.
    pub(super) fn dismiss(&self, id: LeaseId) -> Vec<Step> {
        let lease = self.lock().leases.remove(&id);
        lease.map(|lease| lease.steps.into()).unwrap_or_default()
    }

    /// For the writer: marks a lease whose transaction is gone; its next calls err.
    pub(super) fn mark_gone(&self, id: LeaseId, why: &'static str) {
        let steps: Vec<Step> = match self.lock().leases.get_mut(&id) {
            Some(lease) => {
                lease.gone = Some(why);
                lease.steps.drain(..).collect()
            }
            None => Vec::new(),
        };
        for step in steps {
            step.refuse(Fault::TransactionGone(why));
        }
    }

    /// Leaves a step for the writer.
    fn push_step(&self, id: LeaseId, step: Step) -> Result<()> {
        self.refuse_writer()?;
        let mut state = self.lock();
        let wake = if let Some(lease) = state.leases.get_mut(&id) {
            if let Some(why) = lease.gone {
                return Err(Fault::TransactionGone(why).into());
            }
            lease.steps.push_back(step);
            self.arrivals.fetch_add(1, Ordering::Release);
            state.waiting == Some(Waiting::Steps(id))
        } else {
            if state.closed {
                return Err(store_closed());
            }
            let lease = LeaseState { steps: [step].into(), gone: None };
            state.leases.insert(id, lease);
            self.enter(&mut state, Entry::Lease(id, Instant::now()))
        };
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }
}

/// What the writer finds when it asks for a step.
pub(super) enum NextStep {
    /// The step.
    Step(Step),
    /// Somebody has waited too long for this lease to end.
    OutOfPatience(Entry),
    /// The store is being closed.
    Closed,
}

/// The caller's end of a transaction; dropping it rolls back.
#[derive(Debug)]
pub(crate) struct Lease {
    inbox: Arc<Inbox>,
    id: LeaseId,
    ended: bool,
}

impl Lease {
    pub(super) fn new(inbox: Arc<Inbox>, id: LeaseId) -> Self {
        Self { inbox, id, ended: false }
    }

    /// Runs a step in the transaction, undone as a whole if it fails.
    pub(crate) async fn step<T, F>(&mut self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Write<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(f, Mode::Once).await
    }

    /// [`step`](Self::step) of one statement, which SQLite undoes by itself.
    pub(crate) async fn step_one<T, F>(&mut self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Write<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run(f, Mode::One).await
    }

    async fn run<T, F>(&mut self, f: F, mode: Mode) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Write<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let mut f = Some(f);
        let once = move |write: &mut Write<'_>| {
            let f = f.take().expect("a step runs once");
            f(write).map_err(sqlite_error)
        };
        let op = Single::new(once, mode, answer);
        self.inbox.push_step(self.id, Step::Run(Box::new(op)))?;
        receive(answered, &self.inbox).await
    }

    /// Commits or rolls back.
    pub(crate) async fn end(mut self, commit: bool) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        let began = self.inbox.lock().leases.contains_key(&self.id);
        if !began {
            self.ended = true;
            // Nothing was done in it, so there is nothing to commit.
            return if self.inbox.is_closed() { Err(store_closed()) } else { Ok(()) };
        }
        self.inbox.push_step(self.id, Step::End { commit, answer: Some(answer) })?;
        self.ended = true;
        let inbox = self.inbox.clone();
        match answered.await {
            Ok(result) => result,
            Err(_) => Err(unanswered(inbox.is_closed())),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut state = self.inbox.lock();
        let Some(lease) = state.leases.get_mut(&self.id) else {
            return;
        };
        if lease.gone.is_some() {
            state.leases.remove(&self.id);
            return;
        }
        lease.steps.push_back(Step::End { commit: false, answer: None });
        let wake = state.waiting == Some(Waiting::Steps(self.id));
        drop(state);
        if wake {
            self.inbox.arrived.notify_one();
        }
    }
}

/// Waits for an answer; a panic of the operation goes on in the caller.
async fn receive<T>(mut answered: oneshot::Receiver<Outcome<T>>, inbox: &Inbox) -> Result<T> {
    let caller = Caller::new(&inbox.callers);
    let answer = match inbox.attend.attend(|| caller.look(&mut answered)).await {
        Some(answer) => Ok(answer),
        None => answered.await,
    };
    match answer {
        Ok(Outcome::Done(result)) => result,
        Ok(Outcome::Panicked(payload)) => resume_unwind(payload),
        Err(_) => Err(unanswered(inbox.is_closed())),
    }
}
