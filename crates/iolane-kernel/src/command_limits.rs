//! The largest request that a device takes as one command, from sysfs: for passthrough, which no layer splits, and for polled
//! requests on kernels that never complete one they would have to split. Larger requests are refused before the kernel sees them.

use iolane_core::{Target, TargetKind};

/// The limits of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLimits {
    /// Most bytes, however their memory is scattered.
    pub(crate) bytes_max: u64,
    /// The offset of the target on its disk and the size of the disk's chunks, in bytes; no command crosses a chunk's border.
    chunks: Option<(u64, u64)>,
}

impl CommandLimits {
    /// Those of the device below the target, if sysfs lists them.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        let limit = |name: &str| target.device_attribute(&format!("queue/{name}"));
        let sectors_bytes = 1024 * limit("max_sectors_kb")?;
        // Each page may be a segment, and a buffer that begins within a page touches one page more.
        let pages = limit("max_segments").unwrap_or(u64::MAX).saturating_sub(1).max(1);
        let bytes_max = sectors_bytes.min(pages.saturating_mul(rustix::param::page_size() as u64));
        let chunk_bytes = 512 * limit("chunk_sectors").unwrap_or(0);
        // The place of a file's extents on the device is unknown here.
        let has_chunks = chunk_bytes > 0 && target.kind() == TargetKind::Block;
        let start_bytes = 512 * target.device_attribute("start").unwrap_or(0);
        Some(Self { bytes_max, chunks: has_chunks.then_some((start_bytes, chunk_bytes)) })
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

#[cfg(test)]
mod tests {
    use super::*;

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
