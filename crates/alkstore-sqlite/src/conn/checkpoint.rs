//! Checkpoints, off the commit path: a thread with a connection of its own.
//!
//! While the writer goes on, the thread cannot quite catch up with it. Past a bound the writer
//! copies the rest between two commits, right after the thread has copied the bulk: the next
//! commit then starts the file over.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use alkstore::Result;
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use tokio::sync::watch;

use super::file::DbFile;
use super::{Session, open};
use crate::SqliteOpts;
use crate::error::Fault;

/// The thread copies pages back each time that the `-wal` file has grown by so many.
const START_FRAMES: i32 = 1_000;
/// Pages from which the writer copies the rest.
const HELP_FRAMES: i32 = 4 * START_FRAMES;
/// Pages after which all that is done again, if the file did not start over: a reader or
/// another checkpoint was in the way.
const RETRY_FRAMES: i32 = 256;
/// Pages from which a file that does not start over is worth a warning.
const TELL_FRAMES: i32 = 16_384;

#[derive(Debug)]
pub(super) struct Checkpointer {
    trigger: Trigger,
    running: watch::Receiver<()>,
}

/// Starts checkpoints.
#[derive(Clone, Debug)]
pub(super) struct Trigger {
    shared: Arc<(Mutex<State>, Condvar)>,
    /// Pages at the last commit.
    last_frames: i32,
    /// Pages at which the thread starts next.
    start_at: i32,
    pinned: Pinned,
}

#[derive(Debug, Default)]
struct State {
    thread: Thread,
    stopped: bool,
}

/// What the thread does. The writer leaves it alone until it is done.
#[derive(Clone, Copy, Debug, Default)]
enum Thread {
    #[default]
    Idle,
    Wanted,
    Running,
    Done(Copied),
}

/// What a checkpoint came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    All,
    /// Pages that a reader needs were left, in a file of so many.
    Part(i32),
    /// Another checkpoint was running, or it failed.
    Nothing,
}

/// Notices a `-wal` file that cannot start over since a reader still needs what is in it.
#[derive(Clone, Debug)]
struct Pinned {
    /// Pages at which it is told next.
    tell_at: i32,
}

impl Pinned {
    /// True for a part of 64 MB of 4 kB pages, and at each doubling.
    fn is_to_be_told(&mut self, copied: Copied) -> bool {
        match copied {
            Copied::Part(pages) if pages >= self.tell_at => {
                self.tell_at = pages.saturating_mul(2);
                true
            }
            Copied::Part(_) | Copied::Nothing => false,
            Copied::All => {
                self.tell_at = TELL_FRAMES;
                false
            }
        }
    }
}

impl Checkpointer {
    pub(super) fn start(file: &Arc<DbFile>, opts: &SqliteOpts) -> Result<Self> {
        let trigger = Trigger {
            shared: Arc::default(),
            last_frames: 0,
            start_at: START_FRAMES,
            pinned: Pinned { tell_at: TELL_FRAMES },
        };
        let (ending, running) = watch::channel(());
        let (waiting, durability, file) = (trigger.clone(), opts.durability, file.clone());
        std::thread::Builder::new()
            .name("alkstore-checkpoint".into())
            .spawn(move || {
                let connected = file.connected();
                let mut connection = None;
                while waiting.wait() {
                    if connection.is_none() {
                        connection = open::checkpointer(file.path(), durability)
                            .inspect_err(|error| tracing::warn!(%error, "cannot checkpoint"))
                            .ok();
                    }
                    let copied = connection.as_ref().map_or(Copied::Nothing, checkpoint);
                    waiting.lock().thread = Thread::Done(copied);
                }
                drop(connection);
                drop(connected);
                drop(ending);
            })
            .map_err(Fault::Thread)?;
        Ok(Self { trigger, running })
    }

    pub(super) fn trigger(&self) -> Trigger {
        self.trigger.clone()
    }

    pub(super) fn stop(&self) {
        self.trigger.lock().stopped = true;
        self.trigger.shared.1.notify_all();
    }

    pub(super) async fn stopped(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Trigger {
    /// For the writer, after a commit that left so many pages in the `-wal` file.
    pub(super) fn after_commit(&mut self, session: &Session, frames: i32) {
        if frames == self.last_frames {
            return;
        }
        if frames < self.last_frames {
            self.start_at = START_FRAMES;
        }
        self.last_frames = frames;
        let thread = self.lock().thread;
        match thread {
            Thread::Done(copied) if frames >= HELP_FRAMES => {
                self.lock().thread = Thread::Idle;
                self.help(session, copied);
                // All may be copied now, but somebody may be reading at the next commit.
                self.start_at = frames.saturating_add(RETRY_FRAMES);
            }
            Thread::Idle | Thread::Done(_) if frames >= self.start_at => {
                self.lock().thread = Thread::Wanted;
                self.shared.1.notify_one();
                self.start_at = frames.saturating_add(START_FRAMES);
            }
            _ => {}
        }
    }

    /// Copies the rest, if the thread has just copied all that it found.
    fn help(&mut self, session: &Session, mut copied: Copied) {
        if copied == Copied::All {
            copied = checkpoint(session.connection());
        }
        if self.pinned.is_to_be_told(copied) {
            let pages = self.last_frames;
            tracing::warn!(pages, "a reader keeps the -wal file from starting over; it grows");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a checkpoint is wanted; `false` once stopped.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        while !matches!(state.thread, Thread::Wanted) && !state.stopped {
            state = self.shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.thread = Thread::Running;
        !state.stopped
    }
}

/// Copies what it can without waiting for anybody. A failure leaves the file longer.
fn checkpoint(connection: &Connection) -> Copied {
    match connection.wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE) {
        Ok((pages, copied)) if copied >= pages => Copied::All,
        Ok((pages, _)) => Copied::Part(pages),
        // Another checkpoint is running.
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
            Copied::Nothing
        }
        Err(error) => {
            tracing::warn!(%error, "checkpoint failed");
            Copied::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_file_is_told_of_at_each_doubling() {
        let mut pinned = Pinned { tell_at: TELL_FRAMES };
        let told = [16_000, 20_000, 39_999, 40_000].map(Copied::Part);
        let told = told.map(|part| pinned.is_to_be_told(part));
        assert_eq!(told, [false, true, false, true]);
        assert!(!pinned.is_to_be_told(Copied::All));
        assert!(pinned.is_to_be_told(Copied::Part(20_000)));
    }
}
