//! The readers: a few connections, each on a thread of its own, fed from one queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use alkstore::Result;
use alkstore::engine::store_closed;
use tokio::sync::{oneshot, watch};

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

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
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
    pub(super) fn start(path: &Path, opts: &SqliteOpts) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        // Each thread holds a clone of the sender: the channel closes when the last one ends.
        let (ending, running) = watch::channel(());
        // If one of them cannot be opened, dropping this ends the others.
        let readers = Self { queue, running };
        for _ in 0..opts.max_readers {
            let session = open::reader(path, opts)?;
            let (queue, ending) = (readers.queue.clone(), ending.clone());
            std::thread::Builder::new()
                .name("alkstore-reader".into())
                .spawn(move || {
                    serve(session, &queue);
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
        let (answer, answered) = oneshot::channel();
        self.queue.push(Box::new(move |session| {
            if !answer.is_closed() {
                // A caller that is gone needs no answer.
                let _ = answer.send(f(session));
            }
        }))?;
        match answered.await {
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
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, query: Query) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(store_closed());
        }
        state.queries.push_back(query);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    fn next(&self) -> Option<Query> {
        let mut state = self.lock();
        loop {
            if let Some(query) = state.queries.pop_front() {
                return Some(query);
            }
            if state.closed {
                return None;
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
