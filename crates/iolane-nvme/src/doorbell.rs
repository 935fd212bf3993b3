//! The doorbell of a ring: a register of the controller, or a word in memory that the controller reads by itself, with the register
//! written only when it asks. `tests/doorbells.rs` tries every order in which the two can see each other's writes.

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, fence};

/// A doorbell register, and its shadow in memory where the controller has taken one (NVMe Base Specification 2.0, annex B.5).
pub(crate) struct Doorbell {
    register: NonNull<AtomicU32>,
    shadow: Option<Shadow>,
    rung: u32,
    writes: u64,
}

// SAFETY: its pointers point to atomics, which any thread may access.
unsafe impl Send for Doorbell {}

/// The controller polls `value`, and needs the register written when `value` passes `event_index`.
#[derive(Clone, Copy)]
pub(crate) struct Shadow {
    value: NonNull<AtomicU32>,
    event_index: NonNull<AtomicU32>,
}

impl Shadow {
    /// # Safety
    /// The words live as long as it is used, and are accessed only by atomics.
    pub(crate) unsafe fn new(value: NonNull<AtomicU32>, event_index: NonNull<AtomicU32>) -> Self {
        Self { value, event_index }
    }
}

impl Doorbell {
    /// # Safety
    /// The register stays mapped as long as the doorbell is used.
    pub(crate) unsafe fn new(register: &AtomicU32, shadow: Option<Shadow>) -> Self {
        let mut doorbell = Self { register: NonNull::from(register), shadow, rung: 0, writes: 0 };
        doorbell.restart();
        doorbell
    }

    /// Resets it for an empty ring. A value that the last ring of this identifier left in the shadow would count as commands.
    pub(crate) fn restart(&mut self) {
        self.rung = 0;
        if let Some(shadow) = self.shadow {
            // SAFETY: the caller of `Shadow::new` promised that the words live.
            let words = unsafe { [shadow.value.as_ref(), shadow.event_index.as_ref()] };
            words.iter().for_each(|word| word.store(0, Ordering::Release));
        }
    }

    /// The index that the controller was last given.
    #[inline]
    pub(crate) fn rung(&self) -> u32 {
        self.rung
    }

    /// How often the register was written so far.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Gives the controller the new index of the ring. It sees everything written to memory before.
    #[inline]
    pub(crate) fn ring(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.rung, index);
        if let Some(shadow) = self.shadow {
            // SAFETY: the caller of `Shadow::new` promised that the words live.
            let (value, event_index) = unsafe { (shadow.value.as_ref(), shadow.event_index.as_ref()) };
            value.store(index, Ordering::Release);
            // The controller writes its event index and then reads the value again; we write the value and then read its event
            // index. With a full fence on both sides, at least one of the two sees the other's write.
            fence(Ordering::SeqCst);
            if !is_passed(event_index.load(Ordering::Relaxed), index, before) {
                return;
            }
        }
        self.writes += 1;
        // SAFETY: the caller of `new` promised that the register stays mapped.
        unsafe { self.register.as_ref() }.store(index, Ordering::Release);
    }
}

/// Whether a ring that went from `before` to `now` passed the entry that the controller waits for. Indices wrap at the ring's
/// end; differences are taken modulo 2^16, as in Linux (nvme_dbbuf_need_event).
fn is_passed(event_index: u32, now: u32, before: u32) -> bool {
    let (event_index, now, before) = (event_index as u16, now as u16, before as u16);
    now.wrapping_sub(event_index).wrapping_sub(1) < now.wrapping_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_is_written_when_the_ring_passes_the_event_index() {
        for (event_index, now, before, passed) in [
            (0, 1, 0, true),
            (0, 2, 1, false),
            (5, 5, 4, false),
            (5, 6, 5, true),
            (5, 9, 3, true),
            (30, 1, 30, true),
            (5, 1, 30, false),
        ] {
            assert_eq!(is_passed(event_index, now, before), passed, "{event_index} from {before} to {now}");
        }
    }
}
