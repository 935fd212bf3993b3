//! A folder that looks like a part of /sys and /proc, for tests of what reads them; removed at the test's end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Fixture(pub(crate) PathBuf);

impl Fixture {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("iolane-sysfs-{}-{count}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Makes a file of this text, and the folders it is in.
    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Makes a symbolic link, and the folders it is in.
    pub(crate) fn link(&self, path: &str, to: &str) -> &Self {
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
