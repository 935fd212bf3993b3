//! Access in a fixed order: one block after another, with bytes left out between them, or by the numbers of the blocks. `offsets` calls it once per request.

use super::offset_pattern::{Sequence, Skip};
use super::region::{Fit, Grid, ThreadShare};

/// Sequential access, in bytes from the start of the grid.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    next: u64,
    low: u64,
    high: u64,
}

impl Walk {
    pub(super) fn new(grid: &Grid, block_bytes_max: u32, thread: ThreadShare) -> Self {
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
    pub(super) fn next(&mut self, fit: &Fit) -> u64 {
        let at = if self.next + u64::from(fit.block_bytes) > self.high { self.low } else { self.next };
        self.next = at + fit.stride_bytes;
        at
    }
}

/// A walk that leaves out bytes on its way.
#[derive(Debug, Clone)]
pub(super) struct SkippingWalk {
    /// Its bounds.
    walk: Walk,
    /// Where the next block begins; `None` if the walk starts over.
    next: Option<u64>,
    skip: Skip,
    /// Bytes since the last skip.
    since: u64,
}

impl SkippingWalk {
    /// `skip` must consist of multiples of the grid's alignment.
    pub(super) fn new(skip: Skip, walk: Walk) -> Self {
        Self { walk, next: None, skip, since: 0 }
    }

    /// Not inlined, so that access without skips stays short.
    #[inline(never)]
    pub(super) fn next(&mut self, fit: &Fit, align_bytes: u64) -> u64 {
        let Walk { low, high, .. } = self.walk;
        let last = low + (high - low - u64::from(fit.block_bytes)) / align_bytes * align_bytes;
        let at = self.next.filter(|at| *at <= last).unwrap_or_else(|| {
            self.since = 0;
            if self.skip.bytes < 0 { last } else { low }
        });
        self.since += fit.stride_bytes;
        let skipped = match self.since >= self.skip.every {
            true => {
                self.since = 0;
                self.skip.bytes
            }
            false => 0,
        };
        self.next = (at + fit.stride_bytes).checked_add_signed(skipped).filter(|at| *at >= low);
        at
    }
}

/// Blocks by their numbers, over and over.
#[derive(Debug, Clone)]
pub(super) struct SequenceWalk {
    sequence: Sequence,
    /// The block from which the numbers of this round count.
    base: u64,
    /// Place in the sequence of the next block.
    next: usize,
}

impl SequenceWalk {
    pub(super) fn new(sequence: Sequence) -> Self {
        Self { sequence, base: 0, next: 0 }
    }

    /// The next block's place among `positions`. Blocks beyond the end count from the start.
    #[inline(never)]
    pub(super) fn next(&mut self, positions: u64) -> u64 {
        let blocks = self.sequence.blocks();
        if self.next == blocks.len() {
            self.next = 0;
            self.base = (self.base + u64::from(self.sequence.advance)) % positions;
        }
        let place = self.base + u64::from(blocks[self.next]);
        self.next += 1;
        place % positions
    }
}
