//! A folder for one test's database file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A database path in a folder of its own, removed on drop.
///
/// If the test is panicking, the folder stays and its path is printed.
///
/// ```
/// let db = alkstore_testkit::TempDb::new();
/// assert!(db.dir().is_dir() && !db.path().exists());
/// ```
#[derive(Debug)]
pub struct TempDb {
    dir: TempDir,
    path: PathBuf,
}

impl TempDb {
    /// A folder with nothing in it.
    ///
    /// # Panics
    /// If the folder cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let made = tempfile::Builder::new().prefix("alkstore-").tempdir();
        let dir = made.unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}"));
        let path = dir.path().join("test.db");
        Self { dir, path }
    }

    /// Where the database goes; nothing is there yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, for further files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Default for TempDb {
    fn default() -> Self {
        Self::new()
    }
}

impl AsRef<Path> for TempDb {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl AsRef<OsStr> for TempDb {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

impl Drop for TempDb {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("the database is kept at {}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_unless_the_test_panics() {
        let db = TempDb::new();
        let dir = db.dir().to_owned();
        std::fs::write(db.path(), "x").unwrap();
        drop(db);
        assert!(!dir.exists());

        let kept = std::sync::Mutex::new(PathBuf::new());
        let outcome = std::panic::catch_unwind(|| {
            let db = TempDb::new();
            db.dir().clone_into(&mut kept.lock().unwrap());
            panic!("a failing test");
        });
        assert!(outcome.is_err());
        let kept = kept.into_inner().unwrap();
        assert!(kept.is_dir());
        std::fs::remove_dir_all(kept).unwrap();
    }
}
