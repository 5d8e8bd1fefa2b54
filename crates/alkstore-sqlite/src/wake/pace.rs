//! When to look: at each file event and for a while after it, else rarely; or at every interval.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::inotify::{Events, Waker};

/// A commit becomes visible after the write that an event reports, with full durability after a
/// sync as well. So looks go on for this long after each event.
const ATTENTION: Duration = Duration::from_millis(100);
/// How often to look though no event came.
const SAFETY: Duration = Duration::from_millis(500);

/// The watcher's rhythm.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    events: Option<Events>,
    stop: Stop,
    attentive_until: Option<Instant>,
}

/// Ends a watcher's sleep, for good.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    waker: Option<Waker>,
}

impl Pace {
    /// With file events if they are wanted and the file system reports them.
    pub(crate) fn new(db: &Path, interval: Duration, file_events: bool) -> Self {
        let events = if file_events { Events::new(db) } else { None };
        let stop = Stop { stopped: Arc::default(), waker: events.as_ref().map(Events::waker) };
        // What was committed just before is looked for as well.
        let attentive_until = Instant::now().checked_add(ATTENTION);
        Self { interval, events, stop, attentive_until }
    }

    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Sleeps until the next look is due; `false` once stopped.
    pub(super) fn next(&mut self) -> bool {
        match &mut self.events {
            None => self.stop.sleep(self.interval),
            Some(events) => {
                let now = Instant::now();
                let attentive = self.attentive_until.is_some_and(|until| now < until);
                let event = if attentive {
                    self.stop.sleep(self.interval);
                    events.drain()
                } else {
                    events.wait(SAFETY)
                };
                if event {
                    self.attentive_until = now.checked_add(ATTENTION);
                }
            }
        }
        !self.stop.is_stopped()
    }

    /// A look found a commit. If no event told of it, events cannot be relied upon.
    pub(super) fn found(&mut self) {
        let attentive = self.attentive_until.is_some_and(|until| Instant::now() < until);
        if self.events.is_some() && !attentive {
            tracing::warn!("a commit came without a file event; polling from now on");
            self.events = None;
        }
    }
}

impl Stop {
    pub(super) fn stop(&self) {
        *self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.1.notify_all();
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, interval: Duration) {
        let stopped = self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.1.wait_timeout_while(stopped, interval, |stopped| !*stopped);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
