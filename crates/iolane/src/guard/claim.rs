//! Claims a block device, so that no process can mount it, swap to it or build on it while it is checked and written. Called by
//! `mod.rs`; it reads and writes nothing.

use std::os::fd::{AsRawFd, OwnedFd};

use iolane_core::error::describe;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::identity::Found;
use super::in_use::Survey;
use super::refusal::Refusal;
use super::sysfs::BlockDevice;

/// Claims the device exclusively, as mounts, swap and arrays do.
pub(super) fn take(found: &Found, device: &BlockDevice) -> Result<OwnedFd, Refusal> {
    match FileType::from_raw_mode(found.stat.st_mode) {
        FileType::BlockDevice => take_node(&found.node, device),
        _ => take_node(&device.node()?, device),
    }
}

/// As [`take`], given the device's node.
pub(super) fn take_node(node: &OwnedFd, device: &BlockDevice) -> Result<OwnedFd, Refusal> {
    // Through the handle, not by name, which may lead elsewhere by now.
    let path = format!("/proc/self/fd/{}", node.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::BUSY => why_claimed(device),
        errno => Refusal::new(
            format!("it cannot be opened to see what is on it ({})", describe(&errno.into())),
            "run as a user who may read it (root, or group `disk`)",
        ),
    })
}

fn why_claimed(device: &BlockDevice) -> Refusal {
    let known = Survey::of_device(device).and_then(|survey| survey.check());
    known.err().unwrap_or_else(|| {
        Refusal::new(
            "it is claimed, by a mount elsewhere, an array or another program",
            format!("find and stop its user (lsblk, fuser -v /dev/{})", device.name),
        )
    })
}
