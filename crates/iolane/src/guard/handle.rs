//! Handles that open nothing (O_PATH): what was looked up stays the same however its name moves. Held by `identity` and `sysfs`.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// Opens what a handle stands for, not what its name leads to by now.
pub(super) fn open(handle: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(name(handle), flags | OFlags::CLOEXEC, Mode::empty())
}

/// A name that leads to what the handle stands for.
pub(super) fn name(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}
