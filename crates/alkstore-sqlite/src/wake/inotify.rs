//! Events of the `-wal` file, so that nothing is polled while nothing is written.
//!
//! Files are watched by path: opening and closing the database's files here would drop the locks
//! that SQLite holds on them for this process.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

/// How long a file system has to report a write that was made to try it.
const PROBE: Duration = Duration::from_millis(100);

/// Reports writes to a database's `-wal` file, and files that come and go beside it.
#[derive(Debug)]
pub(super) struct Events {
    inotify: OwnedFd,
    woken: Arc<OwnedFd>,
    wal: PathBuf,
}

/// Ends a wait for events.
#[derive(Clone, Debug)]
pub(super) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn wake(&self) {
        // It fails only when it is set already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Events {
    /// `None` if the file system does not report writes.
    pub(super) fn new(db: &Path) -> Option<Self> {
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let mut events = Self {
            inotify: init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?,
            woken: Arc::new(woken),
            wal: with_suffix(db, "-wal"),
        };
        events.probe(db).then_some(())?;
        let folder = db.parent().filter(|folder| !folder.as_os_str().is_empty());
        let comes_and_goes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        add_watch(&events.inotify, folder.unwrap_or(Path::new(".")), comes_and_goes).ok()?;
        events.watch_wal();
        Some(events)
    }

    pub(super) fn waker(&self) -> Waker {
        Waker(self.woken.clone())
    }

    /// Waits for an event, the waker or the timeout; `true` for an event.
    pub(super) fn wait(&mut self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).ok();
        let mut fds =
            [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&*self.woken, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, timeout.as_ref());
        self.drain()
    }

    /// Takes all events that are there; `true` if there were any.
    pub(super) fn drain(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut any = false;
        while reader.next().is_ok() {
            any = true;
        }
        if any {
            // It may have been made anew.
            self.watch_wal();
        }
        any
    }

    /// There is none after a clean close of the last store; the folder's event tells of it.
    fn watch_wal(&self) {
        let _ = add_watch(&self.inotify, &self.wal, WatchFlags::MODIFY);
    }

    /// Whether a write to a file in the database's folder is reported.
    fn probe(&mut self, db: &Path) -> bool {
        let path =
            with_suffix(db, &format!("-probe-{}-{:x}", std::process::id(), fastrand::u64(..)));
        let Ok(mut file) = File::create_new(&path) else { return false };
        let watch = add_watch(&self.inotify, &path, WatchFlags::MODIFY);
        // The name goes first: whatever happens next, no file stays behind.
        let written = fs::remove_file(&path).and_then(|()| file.write_all(b"?"));
        watch.is_ok() && written.is_ok() && self.wait(PROBE)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn writes_to_the_wal_file_are_reported_also_when_it_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("a.db");
        let wal = folder.path().join("a.db-wal");
        let mut events = Events::new(&db).expect("a file system that reports writes");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays behind");
        while events.drain() {}
        assert!(!events.wait(Duration::from_millis(1)));
        for _ in 0..3 {
            let mut file = File::create(&wal).unwrap();
            assert!(events.wait(SOON), "it was made");
            while events.drain() {}
            file.write_all(b"frame").unwrap();
            assert!(events.wait(SOON), "it was written");
            drop(file);
            fs::remove_file(&wal).unwrap();
            while events.wait(Duration::from_millis(1)) {}
        }
    }

    #[test]
    fn the_waker_ends_a_wait() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = Events::new(&folder.path().join("a.db")).unwrap();
        while events.drain() {}
        events.waker().wake();
        assert!(!events.wait(Duration::from_secs(3600)));
    }
}
