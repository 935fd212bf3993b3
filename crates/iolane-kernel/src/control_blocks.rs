//! The control blocks of a queue's slots, as the kernel (`libaio`) and glibc (`posix_aio`) take them. They are reached only through
//! pointers from one allocation: a reference to them would claim that nobody else uses the blocks.

use std::ptr::NonNull;

/// A control block for each slot.
pub(crate) struct ControlBlocks<T> {
    first: NonNull<T>,
    count: usize,
}

impl<T: Copy> ControlBlocks<T> {
    /// Blocks of zeroes.
    ///
    /// # Safety
    /// Zero is a value of `T`.
    pub(crate) unsafe fn zeroed(count: usize) -> Self {
        // SAFETY: the caller says that zero is a value.
        let blocks: Box<[T]> = (0..count).map(|_| unsafe { std::mem::zeroed() }).collect();
        let first = Box::into_raw(blocks).cast();
        // SAFETY: a box is not null, and dangles if it is empty.
        Self { first: unsafe { NonNull::new_unchecked(first) }, count }
    }

    /// The block of a slot. All calls return pointers of one origin, so that none ends the use of another.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> *mut T {
        debug_assert!((slot as usize) < self.count, "each slot has a control block");
        self.first.as_ptr().wrapping_add(slot as usize)
    }
}

impl<T> Drop for ControlBlocks<T> {
    fn drop(&mut self) {
        let blocks = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.count);
        // SAFETY: the pointer and the count are those of the box that `zeroed` took apart, and the queue that drops this has waited
        // for everybody who uses the blocks.
        drop(unsafe { Box::from_raw(blocks) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_another_thread_writes_stays_its_own_while_others_are_filled_in_and_the_queue_moves() {
        // SAFETY: zero is an integer.
        let blocks = unsafe { ControlBlocks::<u64>::zeroed(2) };
        let held = blocks.at(0).expose_provenance();
        let other = std::thread::spawn(move || {
            // SAFETY: only this thread uses the block, which is freed after it has ended.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(held).write(7) }
        });
        let moved = Box::new(blocks);
        // SAFETY: only this thread uses the second block.
        unsafe { moved.at(1).write(8) };
        other.join().unwrap();
        // SAFETY: the other thread has ended.
        assert_eq!(unsafe { (moved.at(0).read(), moved.at(1).read()) }, (7, 8));
    }
}
