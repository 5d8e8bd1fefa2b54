//! Where the system has no file events that are used here: the watcher polls.

use std::path::Path;
use std::time::Duration;

/// Never made.
#[derive(Debug)]
pub(super) enum Events {}

impl Events {
    pub(super) fn new(_db: &Path) -> Option<Self> {
        None
    }

    pub(super) fn wait(&mut self, _timeout: Duration) -> bool {
        match *self {}
    }

    pub(super) fn drain(&mut self) -> bool {
        match *self {}
    }

    pub(super) fn waker(&self) -> Waker {
        match *self {}
    }
}

/// Never made.
#[derive(Clone, Debug)]
pub(super) enum Waker {}

impl Waker {
    pub(super) fn wake(&self) {
        match *self {}
    }
}
