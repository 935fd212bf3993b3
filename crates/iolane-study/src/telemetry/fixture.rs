//! A folder that looks like a part of /sys and /proc, for tests of what reads them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// The folder; removed when dropped.
pub(super) struct Fixture(PathBuf);

impl Fixture {
    /// An empty one; the name is the test's own.
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("iolane-fixture-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// Where something in it is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Makes a file of this text, and the folders it is in.
    pub(super) fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Makes a symbolic link, and the folders it is in.
    pub(super) fn link(&self, path: &str, to: &str) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
        self
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
