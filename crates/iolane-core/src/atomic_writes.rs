//! The writes that are never torn: which lengths a target takes for them. `Target` asks the kernel; the interfaces pass it on.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags};

/// STATX_WRITE_ATOMIC (linux/stat.h, Linux 6.11), which rustix does not name yet.
const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);

/// The lengths of writes that a power cut leaves either whole or undone ([`Request::atomic_write`](crate::Request::atomic_write)):
/// powers of two from one bound to the other, each at a multiple of its own length (statx(2), `stx_atomic_write_unit_min` and `_max`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicWrites {
    /// The shortest in bytes.
    pub bytes_min: u64,
    /// The longest in bytes.
    pub bytes_max: u64,
}

impl AtomicWrites {
    /// Those of an open file or block device; `None` if it has none, or the kernel is older than 6.11.
    pub(crate) fn of(fd: impl AsFd) -> Option<Self> {
        let statx = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, WRITE_ATOMIC).ok()?;
        let (bytes_min, bytes_max) = (statx.stx_atomic_write_unit_min.into(), statx.stx_atomic_write_unit_max.into());
        (statx.stx_mask & WRITE_ATOMIC.bits() != 0 && bytes_max > 0).then_some(Self { bytes_min, bytes_max })
    }

    /// Whether a write is one of them.
    pub fn allow(self, offset: u64, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let has_length = bytes.is_power_of_two() && (self.bytes_min..=self.bytes_max).contains(&bytes);
        has_length && offset.is_multiple_of(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two_within_the_bounds_at_multiples_of_themselves() {
        let writes = AtomicWrites { bytes_min: 4096, bytes_max: 16_384 };
        for (offset, bytes) in [(0, 4096), (4096, 4096), (8192, 8192), (32_768, 16_384)] {
            assert!(writes.allow(offset, bytes), "{bytes} at {offset}");
        }
        for (offset, bytes) in [(0, 0), (0, 2048), (0, 12_288), (0, 32_768), (4096, 8192), (8192, 16_384), (1, 4096)] {
            assert!(!writes.allow(offset, bytes), "{bytes} at {offset}");
        }
    }
}
