//! The folder in which the lab keeps what is worth keeping: kernels, a newer QEMU, the log of the last guest that failed, and whether
//! KVM can be used. All of it can be removed at any time. The folder may be one that holds other things, by `IOLANE_LAB_CACHE`: what the lab removes
//! or replaces there has a name that only the lab gives, or is a kernel of the lab's.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use iolane_core::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::files;

const WORK: &str = ".iolane-lab-work";
const CONSOLE: &str = "iolane-console.log";

/// A folder of the user's own, shared by all runs.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// `$IOLANE_LAB_CACHE`, or `iolane/lab` below `$XDG_CACHE_HOME` or `~/.cache`.
    ///
    /// # Errors
    /// If none of them is set, or the folder cannot be made.
    pub fn of_user() -> Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = set("IOLANE_LAB_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("iolane/lab")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/iolane/lab")))
            .ok_or_else(|| {
                Error::unavailable("the lab's cache folder", "neither HOME nor XDG_CACHE_HOME is set")
                    .remedy("set IOLANE_LAB_CACHE to a folder")
            })?;
        Self::at(&folder)
    }

    /// At a place of the caller's choice.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn at(folder: &Path) -> Result<Self> {
        let folder = std::path::absolute(folder).map_err(|error| Error::system(folder.display().to_string(), error))?;
        files::make_folder(&folder)?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where kernels fetched from Debian are kept.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.folder.join("kernels")
    }

    /// Where a newer QEMU is kept.
    pub(crate) fn emulator(&self) -> PathBuf {
        self.folder.join("qemu")
    }

    /// A folder for work in progress, gone when it is dropped; what killed runs left is swept out first. Whoever holds
    /// it works alone: a second run waits here.
    pub(crate) fn workshop(&self) -> Result<Workshop> {
        let lock_path = self.folder.join("lock");
        let options = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(&lock_path, options, Mode::from_raw_mode(0o666))
            .map_err(|error| Error::system(lock_path.display().to_string(), error))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| Error::system(format!("lock {}", lock_path.display()), error))?;
        let folder = self.folder.join(WORK);
        let swept = match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(&folder),
        };
        swept.map_err(|error| Error::system(folder.display().to_string(), error))?;
        Ok(Workshop { folder, _lock: lock })
    }

    /// Keeps a failed guest's console, and says where; it replaces the one before.
    pub(crate) fn keep_console(&self, console: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(CONSOLE);
        files::write(&path, console)?;
        Ok(path)
    }

    /// What is known about a fact that holds until the machine is booted again.
    pub(crate) fn recall(&self, fact: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join(fact)).ok()?;
        text.strip_prefix(&boot_id())?.strip_prefix('\n').map(str::to_owned)
    }

    /// Remembers such a fact. It only saves time, so that failing to write it is no failure.
    pub(crate) fn remember(&self, fact: &str, value: &str) {
        let _ = fs::write(self.folder.join(fact), format!("{}\n{value}", boot_id()));
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// A folder that is gone when this is dropped, and a lock.
pub(crate) struct Workshop {
    folder: PathBuf,
    _lock: OwnedFd,
}

impl Workshop {
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // What stays is swept out by the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_swept_out() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join(WORK).join("half/unpacked")).unwrap();
        let workshop = cache.workshop().unwrap();
        assert_eq!(files::list(workshop.folder()), Vec::<PathBuf>::new());
        drop(workshop);
        assert!(!folder.path().join(WORK).exists());
    }

    #[test]
    fn what_others_keep_in_the_folder_stays() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("work")).unwrap();
        let theirs = ["work/thesis", "lock", "console.log"].map(|name| folder.path().join(name));
        theirs.iter().for_each(|file| fs::write(file, "theirs").unwrap());
        drop(cache.workshop().unwrap());
        cache.keep_console(b"ours").unwrap();
        assert!(theirs.iter().all(|file| fs::read(file).unwrap() == b"theirs"));
    }

    #[test]
    fn a_fact_is_remembered_until_the_next_boot() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        assert_eq!(cache.recall("kvm"), None);
        cache.remember("kvm", "no guest ran");
        assert_eq!(cache.recall("kvm").as_deref(), Some("no guest ran"));
        fs::write(folder.path().join("kvm"), "another-boot\nno guest ran").unwrap();
        assert_eq!(cache.recall("kvm"), None);
    }
}
