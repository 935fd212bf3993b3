//! Claims a block device, so that no process can mount it, swap to it or build on it while it is checked and written. Called by
//! `mod.rs`; it reads and writes no data.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use iolane_core::error::describe;
use rustix::fs::{FileType, FlockOperation, OFlags};
use rustix::io::Errno;

use super::handle;
use super::identity::Found;
use super::in_use::Survey;
use super::refusal::{Reason, Refusal};
use super::sysfs::{BlockDevice, Number};

/// Claims the device exclusively, as mounts, swap and arrays do.
pub(super) fn take(found: &Found, device: &BlockDevice) -> Result<OwnedFd, Refusal> {
    match FileType::from_raw_mode(found.stat.st_mode) {
        FileType::BlockDevice => take_node(&found.node, device),
        _ => take_node(&device.node()?, device),
    }
}

/// As [`take`], given the device's node.
pub(super) fn take_node(node: &OwnedFd, device: &BlockDevice) -> Result<OwnedFd, Refusal> {
    handle::open(node, OFlags::RDONLY | OFlags::EXCL).map_err(|errno| match errno {
        Errno::BUSY => why_claimed(device),
        errno => unopened(errno),
    })
}

/// Locks the disk as programs do that change what is on it, so that udev does not look at it meanwhile, which would count as an
/// opener. Source: https://systemd.io/BLOCK_DEVICE_LOCKING
///
/// Permits of this process for two partitions of a disk share its lock.
pub(super) fn lock_disk(device: &BlockDevice) -> Result<Arc<OwnedFd>, Refusal> {
    /// udev has the lock for as long as it looks at a device.
    const WAIT: Duration = Duration::from_secs(5);
    static LOCKS: Mutex<BTreeMap<Number, Weak<OwnedFd>>> = Mutex::new(BTreeMap::new());
    let disk = device.disk()?;
    let number = disk.as_ref().unwrap_or(device).number;
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lock) = locks.get(&number).and_then(Weak::upgrade) {
        return Ok(lock);
    }
    let node = disk.as_ref().unwrap_or(device).node()?;
    let opened = handle::open(&node, OFlags::RDONLY | OFlags::NONBLOCK).map_err(unopened)?;
    let deadline = Instant::now() + WAIT;
    loop {
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let lock = Arc::new(opened);
                locks.insert(number, Arc::downgrade(&lock));
                return Ok(lock);
            }
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(Errno::WOULDBLOCK) => {
                let cause = "it is locked (flock(2)), as by a program that makes partitions or file systems";
                return Err(Refusal::in_use(cause, "wait until it ends (lslocks)"));
            }
            Err(errno) => return Err(Refusal::unreadable("its lock", errno)),
        }
    }
}

fn unopened(errno: Errno) -> Refusal {
    Refusal::new(
        Reason::Unanswered,
        format!("it cannot be opened to see what is on it ({})", describe(&errno.into())),
        "run as a user who may read it (root, or group `disk`)",
    )
}

fn why_claimed(device: &BlockDevice) -> Refusal {
    let known = Survey::of_device(device).and_then(|survey| survey.check());
    known.err().unwrap_or_else(|| {
        Refusal::in_use(
            "it is claimed, by a mount elsewhere, an array or another program",
            format!("find and stop its user (lsblk, fuser -v /dev/{})", device.name),
        )
    })
}
