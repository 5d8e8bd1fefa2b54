//! The readers: a few connections, each on a thread of its own, fed from one queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use alkstore::Result;
use alkstore::engine::store_closed;
use tokio::sync::{oneshot, watch};

use super::file::DbFile;
use super::inbox::{ATTEND, LINGER};
use super::patience::{Caller, Look, Patience};
use super::{Session, open, unanswered};
use crate::SqliteOpts;
use crate::error::{Fault, sqlite_error};

type Query = Box<dyn FnOnce(&Session) + Send>;

/// Runs queries, each on the next reader that is free.
#[derive(Debug)]
pub(super) struct Readers {
    queue: Arc<Queue>,
    running: watch::Receiver<()>,
}

struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    /// Grows with all that arrives, so that a reader can look without the lock.
    arrivals: AtomicU64,
    /// For a reader, while nothing is there.
    linger: Patience,
    /// Callers that wait for an answer.
    callers: AtomicUsize,
    /// For a caller that is alone.
    attend: Patience,
}

#[derive(Default)]
struct State {
    queries: VecDeque<Query>,
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

impl Readers {
    pub(super) fn start(file: &Arc<DbFile>, opts: &SqliteOpts) -> Result<Self> {
        let queue = Arc::new(Queue::new());
        // Each thread holds a clone of the sender: the channel closes when the last one ends.
        let (ending, running) = watch::channel(());
        // If one of them cannot be opened, dropping this ends the others.
        let readers = Self { queue, running };
        for _ in 0..opts.max_readers {
            let connected = file.connected();
            let session = open::reader(file.path(), opts)?;
            let (queue, ending) = (readers.queue.clone(), ending.clone());
            std::thread::Builder::new()
                .name("alkstore-reader".into())
                .spawn(move || {
                    serve(session, &queue);
                    drop(connected);
                    drop(ending);
                })
                .map_err(Fault::Thread)?;
        }
        Ok(readers)
    }

    pub(super) async fn read<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, mut answered) = oneshot::channel();
        self.queue.push(Box::new(move |session| {
            if !answer.is_closed() {
                // A caller that is gone needs no answer.
                let _ = answer.send(f(session));
            }
        }))?;
        let caller = Caller::new(&self.queue.callers);
        let answer = match self.queue.attend.attend(|| caller.look(&mut answered)).await {
            Some(answer) => Ok(answer),
            None => answered.await,
        };
        match answer {
            Ok(result) => result.map_err(sqlite_error),
            Err(_) => Err(unanswered(self.queue.lock().closed)),
        }
    }

    /// Reads while the calling thread waits.
    pub(super) fn read_now<T, F>(&self, f: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        self.queue.push(Box::new(move |session| {
            // A caller that is gone needs no answer.
            let _ = answer.send(f(session));
        }))?;
        match answered.recv() {
            Ok(result) => result.map_err(sqlite_error),
            Err(_) => Err(unanswered(self.queue.lock().closed)),
        }
    }

    pub(super) fn close(&self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
    }

    pub(super) async fn closed(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn new() -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            arrivals: AtomicU64::new(0),
            linger: Patience::new(LINGER),
            callers: AtomicUsize::new(0),
            attend: Patience::new(ATTEND),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, query: Query) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(store_closed());
        }
        state.queries.push_back(query);
        self.arrivals.fetch_add(1, Ordering::Release);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    fn next(&self) -> Option<Query> {
        let mut state = self.lock();
        let mut lingered = false;
        loop {
            if let Some(query) = state.queries.pop_front() {
                return Some(query);
            }
            if state.closed {
                return None;
            }
            if !lingered {
                lingered = true;
                let seen = self.arrivals.load(Ordering::Acquire);
                drop(state);
                self.linger.wait(|| match self.arrivals.load(Ordering::Acquire) {
                    arrivals if arrivals == seen => Look::NotYet,
                    _ => Look::There(()),
                });
                state = self.lock();
                continue;
            }
            state.idle += 1;
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

fn serve(session: Session, queue: &Queue) {
    while let Some(query) = queue.next() {
        // A query that panics drops its answer, which tells its caller; the reader goes on.
        let _ = catch_unwind(AssertUnwindSafe(|| query(&session)));
    }
}
