//! The thread that watches for commits of other processes.
//!
//! It starts with the first receiver. If it ends, every receiver closes, and the next `listen`,
//! `subscribe` or wait starts another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alkstore::Result;
use alkstore::engine::hub::Hub;
use alkstore::engine::store_closed;
use tokio::sync::watch;

use super::Pace;
use super::pace::Stop;
use super::seen::Seen;
use crate::conn::{DbFile, Session};
use crate::error::{Fault, sqlite_error};

/// Starts the thread when it is needed, and stops it.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    thread: Option<Thread>,
    stopped: bool,
}

#[derive(Debug)]
struct Thread {
    stop: Stop,
    running: watch::Receiver<()>,
}

/// What the thread works with.
pub(crate) struct Watched {
    pub(crate) session: Session,
    pub(crate) file: Arc<DbFile>,
    pub(crate) pace: Pace,
}

impl Watcher {
    /// Starts the thread unless it runs. What commits from then on wakes the hub's receivers that
    /// were there before this call.
    pub(crate) fn ensure(&self, hub: &Hub, open: impl FnOnce() -> Result<Watched>) -> Result<()> {
        let mut state = lock(&self.state);
        if state.stopped {
            return Err(store_closed());
        }
        if state.thread.is_some() {
            return Ok(());
        }
        let watched = open()?;
        let seen = Seen::new(&watched.session).map_err(sqlite_error)?;
        let stop = watched.pace.stop();
        let (ending, running) = watch::channel(());
        let (hub, shared) = (hub.clone(), self.state.clone());
        std::thread::Builder::new()
            .name("alkstore-watcher".into())
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| run(watched, seen, &hub)));
                if let Ok(Err(error)) = ended {
                    tracing::error!(%error, "cannot watch for commits; receivers close");
                }
                // Under the lock: whoever subscribes afterwards starts another thread.
                let mut state = lock(&shared);
                state.thread = None;
                hub.close_receivers();
                drop(state);
                drop(ending);
            })
            .map_err(Fault::Thread)?;
        state.thread = Some(Thread { stop, running });
        Ok(())
    }

    pub(crate) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        if let Some(thread) = &state.thread {
            thread.stop.stop();
        }
    }

    pub(crate) async fn stopped(&self) {
        let running = lock(&self.state).thread.as_ref().map(|thread| thread.running.clone());
        if let Some(mut running) = running {
            while running.changed().await.is_ok() {}
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks until it is stopped, fails, or the file is gone. The files are closed when it returns.
fn run(watched: Watched, mut seen: Seen, hub: &Hub) -> rusqlite::Result<()> {
    // Dropped after the session.
    let _connected = watched.file.connected();
    let Watched { session, file, mut pace } = watched;
    while pace.next() {
        if !file.is_there() {
            break;
        }
        if seen.look(&session, hub)? {
            pace.found();
        }
    }
    Ok(())
}
