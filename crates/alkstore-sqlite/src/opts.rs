//! What can be set when a store is opened.

use std::time::Duration;

/// Options of [`open`](crate::open) and [`SqliteStore::open`](crate::SqliteStore::open).
///
/// ```
/// use alkstore_sqlite::{Durability, SqliteOpts};
/// let opts = SqliteOpts { durability: Durability::Normal, ..Default::default() };
/// assert!(opts.create);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOpts {
    /// How often commits of other processes are looked for while a receiver is open. Default
    /// 1 ms; zero is refused.
    pub poll_interval: Duration,
    /// Read connections, each with its own thread. Default 2; zero is refused.
    pub max_readers: usize,
    /// What an acknowledged write survives. Default [`Durability::Full`].
    pub durability: Durability,
    /// How long an operation waits for a writer of this or another process. Default 5 s.
    pub busy_timeout: Duration,
    /// Whether to create the file if it is missing. Default true.
    pub create: bool,
    /// Whether the system's file events may spare polls while nothing is written. Default true;
    /// where there are none that work, the store polls all the same.
    pub file_events: bool,
    /// Whether the file may lie on a network or shared file system. Default false: SQLite's
    /// write-ahead log needs shared memory and locks that those do not provide, and several hosts
    /// would corrupt it.
    pub allow_network_fs: bool,
}

impl Default for SqliteOpts {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_millis(1),
            max_readers: 2,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            create: true,
            file_events: true,
            allow_network_fs: false,
        }
    }
}

/// What an acknowledged write survives. Neither level ever corrupts the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A crash of the process and a loss of power: each commit is synced to the disk.
    Full,
    /// A crash of the process; a loss of power may undo the last moments.
    Normal,
}
