//! The part of a target that is used, and where blocks can begin in it. Offset generators draw and walk by it.

use std::num::NonZero;

use iolane::units::Bytes;
use iolane::{Error, Result};

/// The part of a target that is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub bytes: u64,
    /// Every offset is a multiple of this, counted from the start of the target; usually the smallest block size.
    pub align_bytes: u32,
    /// The largest block that will be requested.
    pub block_bytes_max: u32,
}

/// Which of the threads on a target a generator serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadShare {
    pub index: u32,
    pub count: u32,
}

impl ThreadShare {
    pub const ALONE: Self = Self { index: 0, count: 1 };
}

/// The aligned offsets of a region.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// The first aligned byte of the region.
    pub(super) first: u64,
    /// Bytes from there to the end of the region.
    pub(super) bytes: u64,
    pub(super) align_bytes: NonZero<u64>,
}

/// How blocks of one size lie on a grid.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) block_bytes: u32,
    /// Number of offsets at which a block can begin; at least 1.
    pub(super) positions: u64,
    /// The block size rounded up to the alignment.
    pub(super) stride_bytes: u64,
}

impl Grid {
    pub(super) fn new(region: Region) -> Result<Self> {
        let bad = |cause: String| {
            let Region { start, bytes, .. } = region;
            Error::usage(format!("a region of {} at {start}", Bytes(bytes)), cause)
        };
        let align_bytes = NonZero::new(u64::from(region.align_bytes)).filter(|_| region.block_bytes_max > 0);
        let align_bytes = align_bytes.ok_or_else(|| bad("blocks and their alignment are at least 1 byte".into()))?;
        let end = region.start.checked_add(region.bytes).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| bad("it reaches beyond 2^63 - 1 bytes".into()))?;
        let first = region.start.next_multiple_of(align_bytes.get());
        let bytes = end.saturating_sub(first);
        if bytes < u64::from(region.block_bytes_max) {
            let block = Bytes(region.block_bytes_max.into());
            return Err(bad(format!("it cannot hold a block of {block} aligned to {align_bytes} bytes"))
                .remedy("use smaller blocks or a larger --size"));
        }
        Ok(Self { first, bytes, align_bytes })
    }

    /// Not inlined, so that drawing blocks of one size stays short.
    #[inline(never)]
    pub(super) fn fit(&self, block_bytes: u32) -> Fit {
        let block = u64::from(block_bytes.max(1));
        debug_assert!(block <= self.bytes, "a block of {block} bytes in a region of {}", self.bytes);
        Fit {
            block_bytes,
            positions: self.bytes.saturating_sub(block) / self.align_bytes + 1,
            stride_bytes: ((block - 1) / self.align_bytes + 1) * self.align_bytes.get(),
        }
    }
}
