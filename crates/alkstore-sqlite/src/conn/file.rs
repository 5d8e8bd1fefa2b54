//! The database file: that it is still the one that was opened, and what it lies on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::error::Fault;

/// The file behind the connections. One that was deleted or replaced stays gone.
#[derive(Debug)]
pub(crate) struct DbFile {
    path: PathBuf,
    identity: Option<Identity>,
    gone: AtomicBool,
    /// Connections of this store but for the writer's.
    connections: AtomicUsize,
}

/// A connection that is open, but for the writer's.
#[derive(Debug)]
pub(crate) struct Connected(Arc<DbFile>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Release);
    }
}

impl DbFile {
    pub(super) fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        let (gone, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { path, identity, gone, connections }
    }

    /// Counts a connection until the value is dropped, which must be after it is closed.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }

    /// Waits until the writer's connection is the only one, but not for ever. Of two that close at
    /// the same moment neither takes itself for the last one, which tidies up.
    pub(super) fn outlast_others(&self, longest: Duration) {
        let started = Instant::now();
        while self.connections.load(Ordering::Acquire) > 0 && started.elapsed() < longest {
            std::thread::park_timeout(Duration::from_micros(200));
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to the file that was opened. Opens nothing: closing it again
    /// would drop this process's locks.
    pub(crate) fn is_there(&self) -> bool {
        if self.gone.load(Ordering::Relaxed) {
            return false;
        }
        let there = identity(&self.path) == self.identity;
        if !there {
            tracing::error!(path = %self.path.display(), "the database file is gone");
            self.gone.store(true, Ordering::Relaxed);
        }
        there
    }

    /// Errs if the file was deleted or replaced.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_there() { Ok(()) } else { Err(Fault::Gone(self.path.clone())) }
    }
}

/// Device and inode.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    path.exists().then_some((0, 0))
}

/// The network or shared file system that a path lies on, if it lies on one.
#[cfg(target_os = "linux")]
pub(super) fn network_file_system(path: &Path) -> Option<&'static str> {
    // A file that is yet to be made lies where its folder does.
    let there = std::iter::successors(Some(path), |path| path.parent())
        .map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path })
        .find(|path| path.exists())?;
    let magic = rustix::fs::statfs(there).ok()?.f_type;
    named(magic).or_else(|| {
        // Local and remote file systems share the type of FUSE; the mount tells them apart.
        (magic == FUSE).then(|| mounted(there, &std::fs::read_to_string(MOUNTS).ok()?)).flatten()
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn network_file_system(_path: &Path) -> Option<&'static str> {
    None
}

#[cfg(target_os = "linux")]
const MOUNTS: &str = "/proc/self/mounts";
/// `FUSE_SUPER_MAGIC` of statfs(2), as are the numbers below.
#[cfg(target_os = "linux")]
const FUSE: i64 = 0x6573_5546;

#[cfg(target_os = "linux")]
fn named(magic: i64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x786f_4256 => "vboxsf",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x0bd0_0bd0 => "Lustre",
        _ => return None,
    })
}

/// The type of the mount that a path lies on, if other hosts can write there.
#[cfg(target_os = "linux")]
fn mounted(path: &Path, mounts: &str) -> Option<&'static str> {
    const SHARED: [&str; 6] =
        ["virtiofs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.grpcfuse"];
    let path = std::fs::canonicalize(path).ok()?;
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(point, _)| path.starts_with(point))
        // Of two mounts at one point the later one is seen.
        .max_by_key(|(point, _)| point.len())?;
    SHARED.into_iter().find(|shared| *shared == mount.1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_type() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xff53_4d42, "SMB"), (0xfe53_4d42, "SMB"), (0x0102_1997, "9p")]
        {
            assert_eq!(named(magic), Some(name));
        }
        for local in [0xef53, 0x0102_1994, 0x794c_7630, 0x9123_683e, 0x5846_5342, FUSE] {
            assert_eq!(named(local), None, "{local:x}");
        }
        assert_eq!(network_file_system(&std::env::temp_dir().join("no/such.db")), None);
    }

    #[test]
    fn shared_fuse_mounts_are_known_by_their_mount() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\nhost /tmp virtiofs rw 0 0\nx /tmpx fuse.sshfs rw 0 0\n";
        let tmp = Path::new("/tmp");
        assert_eq!(mounted(tmp, mounts), Some("virtiofs"));
        assert_eq!(mounted(Path::new("/"), mounts), None);
        assert_eq!(mounted(tmp, "/dev/vda / ext4 rw 0 0\nm /tmp fuse.ntfs rw 0 0\n"), None);
    }

    #[test]
    fn a_file_that_was_replaced_is_gone_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        std::fs::write(&path, "1").unwrap();
        let file = DbFile::new(path.clone());
        assert!(file.is_there());
        std::fs::rename(&path, folder.path().join("b.db")).unwrap();
        assert!(!file.is_there());
        std::fs::rename(folder.path().join("b.db"), &path).unwrap();
        assert!(file.check().is_err());
    }
}
