//! Checkpoints, off the commit path: a thread with a connection of its own.
//!
//! While the writer goes on, a checkpoint cannot catch up with it; past a bound the writer helps
//! between two commits, when little is left to copy.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use alkstore::Result;
use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use tokio::sync::watch;

use super::{Session, open};
use crate::SqliteOpts;
use crate::error::Fault;

/// The thread copies pages back each time that the `-wal` file has grown by so many.
const START_FRAMES: i32 = 1_000;
/// Pages from which the writer finishes the job, so that the file starts over.
const HELP_FRAMES: i32 = 4 * START_FRAMES;
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
    /// Pages at which the writer helps next; a reader may keep its help from succeeding.
    help_at: i32,
    pinned: Pinned,
}

/// Notices a `-wal` file that cannot start over since a reader still needs what is in it.
#[derive(Clone, Debug)]
struct Pinned {
    /// Pages at which it is told next.
    tell_at: i32,
}

impl Pinned {
    /// The file's pages if that should be told: at 64 MB of 4 kB pages, and at each doubling.
    fn seen(&mut self, pages: i32, copied: i32) -> Option<i32> {
        if copied >= pages {
            self.tell_at = TELL_FRAMES;
        } else if pages >= self.tell_at {
            self.tell_at = pages.saturating_mul(2);
            return Some(pages);
        }
        None
    }
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    stopped: bool,
}

impl Checkpointer {
    pub(super) fn start(path: PathBuf, opts: &SqliteOpts) -> Result<Self> {
        let trigger = Trigger {
            shared: Arc::default(),
            last_frames: 0,
            start_at: START_FRAMES,
            help_at: HELP_FRAMES,
            pinned: Pinned { tell_at: TELL_FRAMES },
        };
        let (ending, running) = watch::channel(());
        let (waiting, durability) = (trigger.clone(), opts.durability);
        std::thread::Builder::new()
            .name("alkstore-checkpoint".into())
            .spawn(move || {
                let mut connection = None;
                while waiting.wait() {
                    if connection.is_none() {
                        connection = open::checkpointer(&path, durability)
                            .inspect_err(|error| tracing::warn!(%error, "cannot checkpoint"))
                            .ok();
                    }
                    connection.as_ref().and_then(checkpoint);
                }
                drop(connection);
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
            self.help_at = HELP_FRAMES;
        }
        self.last_frames = frames;
        if frames >= self.help_at {
            self.help_at = frames.saturating_add(HELP_FRAMES);
            self.start_at = frames.saturating_add(START_FRAMES);
            if let Some((pages, copied)) = checkpoint(session.connection())
                && let Some(pages) = self.pinned.seen(pages, copied)
            {
                tracing::warn!(pages, "a reader keeps the -wal file from starting over; it grows");
            }
        } else if frames >= self.start_at {
            self.start_at = frames.saturating_add(START_FRAMES);
            self.lock().wanted = true;
            self.shared.1.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a checkpoint is wanted; `false` once stopped.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        while !state.wanted && !state.stopped {
            state = self.shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.wanted = false;
        !state.stopped
    }
}

/// Copies what it can without waiting for anybody: the file's pages, and how many are copied.
/// A failure leaves the file longer.
fn checkpoint(connection: &Connection) -> Option<(i32, i32)> {
    match connection.wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE) {
        Ok(pages) => Some(pages),
        // Another checkpoint is running.
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => None,
        Err(error) => {
            tracing::warn!(%error, "checkpoint failed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_file_is_told_of_at_each_doubling() {
        let mut pinned = Pinned { tell_at: TELL_FRAMES };
        assert_eq!(pinned.seen(16_000, 0), None);
        assert_eq!(pinned.seen(20_000, 4_000), Some(20_000));
        assert_eq!(pinned.seen(39_999, 4_000), None);
        assert_eq!(pinned.seen(40_000, 4_000), Some(40_000));
        assert_eq!(pinned.seen(50_000, 50_000), None, "it is free again");
        assert_eq!(pinned.seen(20_000, 0), Some(20_000));
    }
}
