//! Keeps doorbells apart from a reset by another thread. The doorbell of a queue that does not exist must not be rung (NVMe over PCIe
//! Transport Specification 1.0, section 3.1.2), and a reset ends all queues. `tests/resets.rs` tries every order of the two.
//!
//! A queue marks itself as ringing, and then rings only if no reset has begun since the queue was created. A reset first announces itself, and
//! then waits until no queue rings; for a second at most, should the scheduler keep a queue's thread off its core for this long between two
//! instructions. Each side writes its word before it reads the other's, with a fence in between, so that one of the two sees the other. Resets
//! are rare, and pay for the fence of both sides.

use crate::atomic::{AtomicU32, Ordering, heavy_fence, light_fence};

/// Whether a queue is ringing a doorbell. Alone on its cache line, which its thread writes for each batch.
#[repr(align(64))]
pub(crate) struct Gate {
    ringing: AtomicU32,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { ringing: AtomicU32::new(0) }
    }

    /// Rings, unless a reset has begun since the resets were counted as `known`.
    #[inline(always)]
    pub(crate) fn pass(&self, resets: &Resets, known: u32, ring: impl FnOnce()) {
        self.ringing.store(1, Ordering::Relaxed);
        light_fence();
        if resets.count() == known {
            ring();
        }
        // Release: the doorbell is rung before this is seen.
        self.ringing.store(0, Ordering::Release);
    }
}

/// The resets of a controller. One thread at a time resets it.
pub(crate) struct Resets {
    /// Twice their number, and one more while one is under way.
    count: AtomicU32,
}

impl Resets {
    pub(crate) fn new() -> Self {
        Self { count: AtomicU32::new(0) }
    }

    /// A count that differs from an earlier one if a reset has begun since.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// How many have ended.
    pub(crate) fn ended(&self) -> u32 {
        self.count() / 2
    }

    /// Whether a reset has ended since the resets were counted as `known`, and no other is under way.
    pub(crate) fn is_over_since(&self, known: u32) -> bool {
        let count = self.count();
        count != known && count.is_multiple_of(2)
    }

    /// Announces a reset, and returns when none of the queues rings a doorbell, or once `wait`, which waits a moment, returns false.
    pub(crate) fn begin<'a>(&self, queues: impl Iterator<Item = &'a Gate>, mut wait: impl FnMut() -> bool) {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        debug_assert!(count.is_multiple_of(2), "one thread at a time resets");
        heavy_fence();
        for queue in queues {
            while queue.ringing.load(Ordering::Acquire) != 0 && wait() {}
        }
    }

    /// Ends it. A thread that sees this sees a controller that has none of the queues, and accesses none of their memory.
    pub(crate) fn end(&self) {
        self.count.fetch_add(1, Ordering::Release);
    }
}
