//! The submission thread that queues with `share` have in common. `queue` asks for it when it opens a ring.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use iolane_core::{Error, IoPath, Result};

/// Keeps the thread: the descriptor of the ring that started it. The thread ends with the last queue that holds this.
pub(super) struct SharedThread(OwnedFd);

static SHARED_THREAD: Mutex<Weak<SharedThread>> = Mutex::new(Weak::new());

/// Opens a ring attached to the shared thread, or the first ring, which starts the thread. `open` gets the descriptor to
/// attach to.
pub(super) fn open_sharing<R: AsRawFd>(
    path: &IoPath,
    open: impl FnOnce(Option<RawFd>) -> Result<R>,
) -> Result<(R, Option<Arc<SharedThread>>)> {
    if !path.options.share {
        return Ok((open(None)?, None));
    }
    // Locked until the thread is known to others, so that two queues do not both start one.
    let mut shared = SHARED_THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(thread) = shared.upgrade() {
        return Ok((open(Some(thread.0.as_raw_fd()))?, Some(thread)));
    }
    let ring = open(None)?;
    let thread = Arc::new(SharedThread(duplicate(path, ring.as_raw_fd())?));
    *shared = Arc::downgrade(&thread);
    Ok((ring, Some(thread)))
}

fn duplicate(path: &IoPath, fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: the descriptor belongs to a ring that the caller holds.
    rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 0)
        .map_err(|errno| Error::system(format!("{path}: dup"), errno))
}
