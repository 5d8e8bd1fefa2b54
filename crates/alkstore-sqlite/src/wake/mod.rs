//! Wakes from other processes. Those of this one come straight from the writer.

mod watcher;

pub(crate) use watcher::Watcher;
