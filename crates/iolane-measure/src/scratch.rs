//! The scratch file that runs and studies use when no target is named. It is fully written, so that reads reach the device,
//! and it has no name, so that nothing is left behind however the program ends.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use iolane::units::Bytes;
use iolane::{Error, Pages, Pool, Result, Target, TargetOptions};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::content;

/// A file without a name, gone when this and the targets opened on it are dropped.
#[derive(Debug)]
pub struct Scratch {
    fd: OwnedFd,
    folder: String,
    bytes: u64,
}

/// Bytes per write while the file is filled.
const CHUNK_BYTES: usize = 1 << 20;

impl Scratch {
    /// Makes a scratch file of `bytes` bytes in `folder` and fills it with content that `--verify` recognises (generation 0
    /// of `seed`). Calls `progress` with the bytes written so far.
    ///
    /// # Errors
    /// `Exhausted` if the disk is full, `Unavailable` if the folder cannot be written, `Failed` if `stop` was set.
    pub fn create(
        folder: &Path,
        bytes: u64,
        seed: u64,
        stop: &AtomicBool,
        mut progress: impl FnMut(u64),
    ) -> Result<Self> {
        let what = what(folder, bytes);
        let failed = |errno| failed(&what, errno);
        let fd = nameless_file(folder).map_err(failed)?;
        // Allocates the whole file first, where the file system can, so that a full disk is found before anything is written.
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            // The size exceeds a signed number of 64 bits.
            Err(Errno::INVAL) => return Err(failed(Errno::FBIG)),
            Err(errno) => return Err(failed(errno)),
        }
        let pool = Pool::new(1, CHUNK_BYTES, Pages::Base)?;
        let mut chunk = pool.take().ok_or_else(|| Error::failed(&what, "its buffer is in use"))?;
        let mut written = 0;
        while written < bytes {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::failed(&what, "interrupted"));
            }
            chunk.set_len((bytes - written).min(CHUNK_BYTES as u64) as usize)?;
            content::fill(&mut chunk, written, content::PREFILL, content::Origin::prefill(seed));
            written += rustix::io::retry_on_intr(|| rustix::io::pwrite(&fd, &chunk, written)).map_err(failed)? as u64;
            progress(written);
        }
        rustix::fs::fsync(&fd).map_err(failed)?;
        // Drops the data from the page cache, so that reads reach the device.
        let _ = rustix::fs::fadvise(&fd, 0, None, rustix::fs::Advice::DontNeed);
        Ok(Self { fd, folder: folder.display().to_string(), bytes })
    }

    /// Makes a scratch file of `bytes` bytes that reads as zeroes and occupies no space, on which paths can be probed.
    ///
    /// # Errors
    /// `Exhausted` if no file can be that large, `Unavailable` if the folder cannot be written.
    pub fn sparse(folder: &Path, bytes: u64) -> Result<Self> {
        let made = nameless_file(folder).and_then(|fd| rustix::fs::ftruncate(&fd, bytes).map(|()| fd));
        let fd = made.map_err(|errno| match errno {
            Errno::INVAL => failed(&what(folder, bytes), Errno::FBIG),
            errno => failed(&what(folder, bytes), errno),
        })?;
        Ok(Self { fd, folder: folder.display().to_string(), bytes })
    }

    /// Opens it as a target, which may be written if `writes`.
    ///
    /// # Errors
    /// As [`iolane::TargetOptions::open`].
    pub fn open(&self, options: TargetOptions, writes: bool) -> Result<Target> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let options = options.called(format!("scratch file in {}", self.folder));
        // It has no name, so that nobody else can have it open.
        if writes { options.write_unguarded() } else { options }.open(path)
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn what(folder: &Path, bytes: u64) -> String {
    format!("scratch file of {} in {}", Bytes(bytes), folder.display())
}

fn failed(what: &str, errno: Errno) -> Error {
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            Error::exhausted(what, "the disk is full").remedy("use --size to make it smaller, or name a target")
        }
        Errno::FBIG => Error::exhausted(what, "the file system does not support files of this size")
            .remedy("use --size to make it smaller"),
        Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::NOENT => {
            Error::unavailable(what, iolane::error::describe(&errno.into()))
                .remedy("run in a folder you may write, or name a target")
        }
        errno => Error::system(what, errno),
    }
}

/// Opens a file without a name (open(2), O_TMPFILE). Where the file system has none, makes a file and unlinks it at once.
///
/// # Errors
/// As open(2).
pub fn nameless_file(folder: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {}
        opened => return opened,
    }
    let name = folder.join(format!(".iolane-scratch-{}", std::process::id()));
    let fd = rustix::fs::openat(CWD, &name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
    rustix::fs::unlink(&name)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> AtomicBool {
        AtomicBool::new(false)
    }

    #[test]
    fn a_scratch_file_leaves_no_name_and_can_be_opened_more_than_once() {
        let folder = std::env::temp_dir().join(format!("iolane-scratch-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let scratch = Scratch::create(&folder, 3 << 20, 1, &never(), |_| {}).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let options = Target::options().direct(false);
        let (one, two) = (scratch.open(options.clone(), false).unwrap(), scratch.open(options, true).unwrap());
        assert_eq!((one.bytes(), two.writable()), (3 << 20, true));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_size_no_disk_has_is_refused_before_anything_is_written() {
        let mut written = 0;
        let error = Scratch::create(&std::env::temp_dir(), 1 << 55, 1, &never(), |bytes| written = bytes).unwrap_err();
        assert_eq!(written, 0, "{error}");
    }

    #[test]
    fn a_sparse_scratch_file_has_its_size_and_occupies_no_space() {
        let scratch = Scratch::sparse(&std::env::temp_dir(), 64 << 30).unwrap();
        assert_eq!(scratch.open(Target::options().direct(false), false).unwrap().bytes(), 64 << 30);
        assert_eq!(rustix::fs::fstat(&scratch.fd).unwrap().st_blocks, 0);
        let error = Scratch::sparse(&std::env::temp_dir(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), iolane::ErrorKind::Exhausted, "{error}");
    }

    #[test]
    fn an_interrupt_stops_the_filling() {
        let error = Scratch::create(&std::env::temp_dir(), 1 << 20, 1, &AtomicBool::new(true), |_| {}).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error =
            Scratch::create(Path::new("/no/such/folder"), 1 << 20, 1, &never(), |_| {}).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder") && error.contains("name a target"), "{error}");
    }
}
