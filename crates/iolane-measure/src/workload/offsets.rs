//! Where each request goes: the generator that the engine calls once per request. After construction nothing here
//! allocates, locks or reads a clock.

use std::num::NonZero;

use iolane::units::Bytes;
use iolane::{Error, Result};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::access::Access;
use super::offset_pattern::{Distribution, OffsetPattern};
use super::random::{random_stream, scale};
use super::skew::Skew;

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

/// Yields the offset of each request in turn. The same arguments yield the same offsets, on every machine for `uniform` and
/// `hot` (the others use the C library's `pow`).
///
/// Random access draws from the whole region: each thread has a stream of its own, and all agree on which blocks are hot.
/// Sequential access walks the thread's own share and starts over at its end. Where a share is smaller than the largest
/// block, it begins at the share and walks the whole region.
#[derive(Debug, Clone)]
pub struct OffsetGenerator {
    grid: Grid,
    /// Derived from the block size of the last call; kept so that only a change of size costs a division.
    fit: Fit,
    random: Xoshiro256PlusPlus,
    order: Order,
}

// With a separate tag, which is faster to read than one folded into a variant.
#[derive(Debug, Clone)]
#[repr(u32)]
enum Order {
    Uniform,
    Sequential(Walk),
    Skewed(Skew),
}

impl OffsetGenerator {
    /// A generator over `region` for one thread. A sequential `access` ignores `pattern`.
    ///
    /// # Errors
    /// `Usage` if the region cannot hold the largest block at an aligned offset, reaches beyond 2^63 - 1 bytes (the
    /// kernel's `loff_t`), an alignment or block size is 0, or the thread is not one of the count.
    pub fn new(pattern: OffsetPattern, access: Access, region: Region, thread: ThreadShare, seed: u64) -> Result<Self> {
        if thread.index >= thread.count {
            return Err(Error::usage(
                format!("thread {} of {}", thread.index, thread.count),
                "threads are numbered from 0",
            ));
        }
        let grid = Grid::new(region)?;
        let units = grid.fit(region.align_bytes.min(region.block_bytes_max)).positions;
        let order = match pattern.0 {
            _ if !access.is_random() => Order::Sequential(Walk::new(&grid, region.block_bytes_max, thread)),
            Distribution::Uniform => Order::Uniform,
            kind => Order::Skewed(Skew::new(kind, units, seed)),
        };
        let fit = grid.fit(region.block_bytes_max);
        Ok(Self { grid, fit, random: random_stream(seed, thread.index), order })
    }

    /// The offset, in bytes from the start of the target, of the next block of `block_bytes`.
    ///
    /// The block lies in the region if `block_bytes` is at most the region's `block_bytes_max`.
    #[inline(always)]
    pub fn next(&mut self, block_bytes: u32) -> u64 {
        if block_bytes != self.fit.block_bytes {
            self.fit = self.grid.fit(block_bytes);
        }
        let last = self.fit.positions - 1;
        let place = match &mut self.order {
            Order::Uniform => scale(self.random.next_u64(), self.fit.positions),
            Order::Sequential(walk) => return self.grid.first + walk.next(&self.fit),
            // The first byte decides whether a block is hot, regardless of its size; the last blocks are moved down to fit.
            Order::Skewed(skew) => skew.next(&mut self.random).min(last),
        };
        self.grid.first + place * self.grid.align_bytes.get()
    }
}

/// The aligned offsets of a region.
#[derive(Debug, Clone)]
struct Grid {
    /// The first aligned byte of the region.
    first: u64,
    /// Bytes from there to the end of the region.
    bytes: u64,
    align_bytes: NonZero<u64>,
}

/// How blocks of one size lie on a grid.
#[derive(Debug, Clone)]
struct Fit {
    block_bytes: u32,
    /// Number of offsets at which a block can begin; at least 1.
    positions: u64,
    /// The block size rounded up to the alignment.
    stride_bytes: u64,
}

impl Grid {
    fn new(region: Region) -> Result<Self> {
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
    fn fit(&self, block_bytes: u32) -> Fit {
        let block = u64::from(block_bytes.max(1));
        debug_assert!(block <= self.bytes, "a block of {block} bytes in a region of {}", self.bytes);
        Fit {
            block_bytes,
            positions: self.bytes.saturating_sub(block) / self.align_bytes + 1,
            stride_bytes: ((block - 1) / self.align_bytes + 1) * self.align_bytes.get(),
        }
    }
}

/// Sequential access, in bytes from the start of the grid.
#[derive(Debug, Clone)]
struct Walk {
    next: u64,
    low: u64,
    high: u64,
}

impl Walk {
    fn new(grid: &Grid, block_bytes_max: u32, thread: ThreadShare) -> Self {
        let units = u128::from(grid.bytes / grid.align_bytes);
        let bound = |index: u32| (units * u128::from(index) / u128::from(thread.count)) as u64 * grid.align_bytes.get();
        let low = bound(thread.index);
        let high = if thread.index + 1 == thread.count { grid.bytes } else { bound(thread.index + 1) };
        if high - low < u64::from(block_bytes_max) {
            return Self { next: low, low: 0, high: grid.bytes };
        }
        Self { next: low, low, high }
    }

    #[inline]
    fn next(&mut self, fit: &Fit) -> u64 {
        let at = if self.next + u64::from(fit.block_bytes) > self.high { self.low } else { self.next };
        self.next = at + fit.stride_bytes;
        at
    }
}

#[cfg(test)]
mod tests;
