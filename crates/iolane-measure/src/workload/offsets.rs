//! Where each request goes: the generator that the engine calls once per request. After construction nothing here
//! allocates, locks or reads a clock.

use iolane::{Error, Result};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::access::Access;
use super::offset_pattern::{Distribution, OffsetPattern};
use super::random::{random_stream, scale};
use super::region::{Fit, Grid, Region, ThreadShare};
use super::skew::{Skew, ZoneDraw};
use super::walk::{SequenceWalk, SkippingWalk, Walk};

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
    Skipping(SkippingWalk),
    Skewed(Skew),
    Zoned(ZoneDraw),
    Sequence(SequenceWalk),
}

impl OffsetGenerator {
    /// A generator over `region` for one thread.
    ///
    /// # Errors
    /// `Usage` if the pattern is not one of this access, or it skips bytes that are no multiple of the region's alignment;
    /// if the region cannot hold the largest block at an aligned offset, reaches beyond 2^63 - 1 bytes (the
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
        if !pattern.suits(access.is_random()) {
            return Err(Error::usage(format!("offset pattern `{pattern}`"), format!("`{access}` cannot have it")));
        }
        pattern.check(region.align_bytes, region.block_bytes_max)?;
        let order = match pattern.0 {
            Distribution::Skip(skip) => {
                Order::Skipping(SkippingWalk::new(skip, Walk::new(&grid, region.block_bytes_max, thread)))
            }
            _ if !access.is_random() => Order::Sequential(Walk::new(&grid, region.block_bytes_max, thread)),
            Distribution::Uniform => Order::Uniform,
            Distribution::Zoned(zones) => Order::Zoned(ZoneDraw::new(&zones, units)),
            Distribution::Sequence(sequence) => Order::Sequence(SequenceWalk::new(sequence)),
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
        if let Order::Uniform = self.order {
            let place = scale(self.random.next_u64(), self.fit.positions);
            return self.grid.first + place * self.grid.align_bytes.get();
        }
        self.next_in_order()
    }

    /// The same for the other orders. It is apart, for most loads are uniform, and a jump through a table costs them more.
    #[inline(never)]
    fn next_in_order(&mut self) -> u64 {
        let last = self.fit.positions - 1;
        let place = match &mut self.order {
            Order::Uniform => scale(self.random.next_u64(), self.fit.positions),
            Order::Sequential(walk) => return self.grid.first + walk.next(&self.fit),
            Order::Skipping(walk) => return self.grid.first + walk.next(&self.fit, self.grid.align_bytes.get()),
            // The first byte decides whether a block is hot, regardless of its size; the last blocks are moved down to fit.
            Order::Skewed(skew) => skew.next(&mut self.random).min(last),
            Order::Zoned(zones) => zones.next(&mut self.random).min(last),
            Order::Sequence(walk) => walk.next(self.fit.positions),
        };
        self.grid.first + place * self.grid.align_bytes.get()
    }
}

#[cfg(test)]
mod tests;
