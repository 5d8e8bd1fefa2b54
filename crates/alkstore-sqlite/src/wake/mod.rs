//! Wakes from other processes. Those of this one come straight from the writer.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
#[path = "no_events.rs"]
mod inotify;
mod pace;
mod seen;
mod watcher;

pub(crate) use pace::Pace;
pub(crate) use watcher::{Watched, Watcher};
