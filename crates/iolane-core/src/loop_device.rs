//! The file or device behind a loop device, as the kernel reports it (loop(4), LOOP_GET_STATUS64). The guard calls it because the
//! name in sysfs is of no use once the file was deleted or is in another mount namespace.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// The file or device behind a loop device, as stat(2) numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopBacking {
    /// `st_dev` of the file.
    pub device: u64,
    /// `st_ino` of the file.
    pub inode: u64,
    /// `st_rdev` of the block device behind it; 0 for a file.
    pub block_device: u64,
}

/// `struct loop_info64` (linux/loop.h), of which only the first fields are used.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    rest: [u8; 208],
}

/// The backing of an open loop device; `None` if it is another device or has no backing.
pub fn loop_backing(device: impl AsFd) -> Option<LoopBacking> {
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
    let mut info = MaybeUninit::<LoopInfo>::zeroed();
    // SAFETY: the call writes one `loop_info64`, 232 bytes, to the pointer, which has room for it.
    if unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: all fields are integers, for which every bit pattern is valid, and they were zeroed before the call.
    let info = unsafe { info.assume_init() };
    Some(LoopBacking { device: info.device, inode: info.inode, block_device: info.rdevice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<LoopInfo>(), 232);
    }

    #[test]
    fn a_device_other_than_a_loop_device_has_no_backing() {
        assert_eq!(loop_backing(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
