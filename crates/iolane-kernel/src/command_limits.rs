//! The largest request that a device takes as one command, from sysfs: for passthrough, which no layer splits, and for polled
//! requests on kernels that never complete one they would have to split. Larger requests are refused before the kernel sees them.

use iolane_core::{Target, TargetKind};

/// The limits of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLimits {
    /// Most bytes, however their memory is scattered.
    pub(crate) bytes_max: u64,
    /// The offset of the target on its disk and the size of the disk's chunks, in bytes; no command crosses a chunk's border. A file whose
    /// disk has chunks has those of its file system's blocks, since each may lie anywhere, or of parts of them, where blocks cross borders.
    chunks: Option<(u64, u64)>,
}

impl CommandLimits {
    /// Those of the device below the target, if sysfs lists them.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        let file_system = || rustix::fs::fstatfs(target.fd()?).ok();
        let block_bytes = || file_system().and_then(|found| u64::try_from(found.f_bsize).ok()).unwrap_or(0);
        Self::from_sysfs(target.kind(), block_bytes, |name| target.device_attribute(name))
    }

    /// `block_bytes` is the size of a block of the file system that a file is on.
    fn from_sysfs(
        kind: TargetKind,
        block_bytes: impl Fn() -> u64,
        attribute: impl Fn(&str) -> Option<u64>,
    ) -> Option<Self> {
        let limit = |name: &str| attribute(&format!("queue/{name}"));
        let sectors_bytes = 1024 * limit("max_sectors_kb")?;
        // Each page may be a segment, and a buffer that begins within a page touches one page more.
        let pages = limit("max_segments").unwrap_or(u64::MAX).saturating_sub(1).max(1);
        let bytes_max = sectors_bytes.min(pages.saturating_mul(rustix::param::page_size() as u64));
        let chunk_bytes = 512 * limit("chunk_sectors").unwrap_or(0);
        let start_bytes = 512 * attribute("start").unwrap_or(0);
        Some(match kind {
            TargetKind::File if chunk_bytes > 0 => {
                let unit =
                    [block_bytes(), start_bytes, chunk_bytes].into_iter().fold(FILE_UNIT_BYTES_MAX, common_divisor);
                Self { bytes_max: bytes_max.min(unit), chunks: Some((0, unit)) }
            }
            TargetKind::Block if chunk_bytes > 0 => Self { bytes_max, chunks: Some((start_bytes, chunk_bytes)) },
            // A drive takes a passthrough command across the border; only the kernel's driver keeps to it.
            _ => Self { bytes_max, chunks: None },
        })
    }

    /// Whether one command can carry a range.
    #[inline]
    pub(crate) fn holds(&self, offset: u64, bytes: u64) -> bool {
        let crosses = |(start, chunk): (u64, u64)| {
            let first = offset.saturating_add(start);
            bytes > 0 && first / chunk != first.saturating_add(bytes - 1) / chunk
        };
        bytes <= self.bytes_max && !self.chunks.is_some_and(crosses)
    }
}

/// A block of most file systems. One that begins at a multiple of its size on the disk lies within a chunk, whose borders are multiples of it.
const FILE_UNIT_BYTES_MAX: u64 = 4096;

/// The largest number that divides both; the other one if one is 0.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_on_a_drive_with_chunks_one_command_carries_a_block_or_a_part_that_crosses_no_border() {
        let of_drive = |chunk_sectors: u64, start: u64| {
            move |name: &str| match name {
                "queue/max_sectors_kb" => Some(128),
                "queue/chunk_sectors" => Some(chunk_sectors),
                "start" => Some(start),
                _ => None,
            }
        };
        let limits = |kind, block_bytes, chunk_sectors, start| {
            CommandLimits::from_sysfs(kind, || block_bytes, of_drive(chunk_sectors, start)).unwrap()
        };
        let file = limits(TargetKind::File, 4096, 256, 2048);
        assert_eq!(file.bytes_max, 4096);
        assert!(file.holds(8192, 4096) && file.holds(512, 512) && !file.holds(2048, 4096));
        assert!(limits(TargetKind::File, 4096, 0, 2048).holds(2048, 128 << 10), "without chunks");
        let of_small_blocks = limits(TargetKind::File, 1024, 256, 2048);
        assert!(of_small_blocks.holds(1024, 1024) && !of_small_blocks.holds(4096, 4096));
        assert_eq!(limits(TargetKind::File, 4096, 256, 63).bytes_max, 512, "a block may cross a border");
        assert_eq!(limits(TargetKind::File, 4096, 256, 0).bytes_max, 4096, "the whole disk");
        let device = limits(TargetKind::Block, 0, 256, 2048);
        assert!(device.holds(0, 128 << 10) && !device.holds(4096, 128 << 10));
        assert!(limits(TargetKind::NvmeGeneric, 0, 256, 2048).holds(4096, 128 << 10));
    }

    #[test]
    fn a_range_is_held_if_it_is_small_enough_and_in_one_chunk_of_the_disk() {
        let limits = CommandLimits { bytes_max: 16 << 10, chunks: Some((4096, 64 << 10)) };
        assert!(limits.holds(0, 16 << 10) && limits.holds((60 << 10) - 4096, 4096) && limits.holds(60 << 10, 8192));
        assert!(!limits.holds(0, 20 << 10), "too large");
        assert!(!limits.holds((60 << 10) - 4096, 8192), "across the border at 64 KiB of the disk");
        assert!(limits.holds(60 << 10, 0) && !limits.holds(u64::MAX - 8191, 16 << 10 | 1));
        let without_chunks = CommandLimits { bytes_max: 16 << 10, chunks: None };
        assert!(without_chunks.holds((60 << 10) - 4096, 8192));
    }
}
