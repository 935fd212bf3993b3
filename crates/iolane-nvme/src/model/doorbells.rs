//! The doorbells of a model controller, in registers and in shadow memory: what the driver wrote since the last step, and
//! when it is asked to write the register again. Called by `engine` and `admin`.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::engine::{Engine, Shadow};
use super::queues::CompletionQueue;
use crate::registers::{DOORBELLS, Registers};

/// The value of a doorbell that was not written since it was read. No driver writes it: a ring has at most 65536 entries.
const UNRUNG: u32 = u32::MAX;

impl Engine {
    fn doorbell_offset(&self, queue: u16, completion: bool) -> usize {
        Registers::doorbell_offset(queue, completion, self.config.doorbell_stride_bytes)
    }

    pub(super) fn unring_all(&self) {
        for offset in (DOORBELLS..self.registers.bytes()).step_by(4) {
            self.registers.at(offset).store(UNRUNG, Ordering::Relaxed);
        }
    }

    /// Looks for doorbells that were rung while there were no queues.
    pub(super) fn refuse_early(&mut self) {
        for offset in (DOORBELLS + 2 * self.config.doorbell_stride_bytes..self.registers.bytes()).step_by(4) {
            if self.registers.at(offset).load(Ordering::Relaxed) != UNRUNG {
                self.dma.violation(format!("the doorbell at {offset:#x} was written while the controller was off"));
            }
        }
    }

    /// Resets a doorbell for a new queue.
    pub(super) fn unring(&mut self, queue: u16, completion: bool) {
        if self.rung(queue, completion).is_some() {
            self.dma.violation(format!("a doorbell of queue {queue} was written before there was such a queue"));
        }
        self.set_event_index(queue, completion, 0);
    }

    /// The value written to a doorbell since the last call.
    #[inline]
    fn rung(&mut self, queue: u16, completion: bool) -> Option<u32> {
        let register = self.registers.at(self.doorbell_offset(queue, completion));
        if register.load(Ordering::Relaxed) == UNRUNG {
            return None;
        }
        self.counts.doorbells += 1;
        Some(register.swap(UNRUNG, Ordering::Acquire))
    }

    pub(super) fn use_shadow(&mut self, shadow: Shadow) {
        self.shadow = Some(shadow);
        let now = self.counts.steps;
        for queue in self.submission.iter_mut().flatten() {
            queue.attention.awake_until = now + self.config.shadow_awake_steps.max(1);
        }
    }

    /// A word of the shadow doorbells or of the event indexes.
    fn shadow_word(&mut self, queue: u16, completion: bool, index: bool) -> Option<&AtomicU32> {
        let Shadow { doorbells, event_indexes } = self.shadow?;
        let offset = self.doorbell_offset(queue, completion) - DOORBELLS;
        let address = if index { event_indexes } else { doorbells } + offset as u64;
        let Some(place) = self.dma.find(address, 4) else {
            self.dma.violation(format!("shadow doorbells at {address:#x} are not mapped for the controller"));
            self.shadow = None;
            return None;
        };
        // SAFETY: it is mapped, and aligned to the stride of doorbells, 4 at least; the driver accesses it by atomics.
        Some(unsafe { place.cast().as_ref() })
    }

    /// Requests a register write when the doorbell passes this value.
    fn set_event_index(&mut self, queue: u16, completion: bool, value: u32) {
        if let Some(place) = self.shadow_word(queue, completion, true) {
            place.store(value, Ordering::Relaxed);
            // The driver writes its doorbell and then reads this word; the model writes this word and then reads the doorbell. With a
            // full fence between the two on both sides, at least one sees the other's write.
            fence(Ordering::SeqCst);
        }
    }

    fn shadow_doorbell(&mut self, queue: u16, completion: bool) -> Option<u32> {
        self.shadow_word(queue, completion, false).map(|place| place.load(Ordering::Acquire))
    }

    /// Updates the tail of a submission queue and the head of its completion queue. The admin queue has no shadow here, since
    /// drivers that have one ring its register too.
    pub(super) fn listen(&mut self, id: u16, completion: u16) {
        let rung = self.rung(id, false);
        if self.shadow.is_some() && id > 0 {
            self.listen_to_shadow(id, rung.is_some());
        } else if let Some(tail) = rung {
            self.set_tail(id, tail);
        }
        if let Some(head) = self.rung(completion, true) {
            let shadow = if completion > 0 { self.shadow_doorbell(completion, true) } else { None };
            self.set_head(completion, shadow.unwrap_or(head));
        }
    }

    /// Polls the shadow while awake. Before it falls asleep, it requests a register write, and polls once more.
    fn listen_to_shadow(&mut self, id: u16, was_told: bool) {
        let now = self.counts.steps;
        let awake_until = now + self.config.shadow_awake_steps.max(1);
        let Some(queue) = &mut self.submission[usize::from(id)] else { return };
        if was_told {
            queue.attention.awake_until = awake_until;
        }
        if now > queue.attention.awake_until {
            return;
        }
        let (before, falls_asleep) = (queue.tail, now == queue.attention.awake_until);
        let Some(mut tail) = self.shadow_doorbell(id, false) else { return };
        if falls_asleep && tail == before {
            self.set_event_index(id, false, tail);
            tail = self.shadow_doorbell(id, false).unwrap_or(tail);
        }
        if tail != before {
            self.set_tail(id, tail);
            if let Some(queue) = &mut self.submission[usize::from(id)] {
                queue.attention.awake_until = awake_until;
            }
        }
    }

    fn set_tail(&mut self, id: u16, tail: u32) {
        let Some(queue) = &mut self.submission[usize::from(id)] else { return };
        if tail >= queue.entries() {
            let entries = queue.entries();
            return self.dma.violation(format!("the tail of submission queue {id} is {tail} of {entries} entries"));
        }
        queue.tail = tail;
    }

    fn set_head(&mut self, id: u16, head: u32) {
        let Some(queue) = &mut self.completion[usize::from(id)] else { return };
        if !queue.set_head(head) {
            self.dma.violation(format!("the head of completion queue {id} is {head}, beyond what was written to it"));
        }
    }

    /// Whether the driver has made room in a full queue without ringing.
    pub(super) fn makes_room(&mut self, id: u16) -> bool {
        if id == 0 || self.shadow.is_none() {
            return false;
        }
        let head = self.completion[usize::from(id)].as_ref().map_or(0, CompletionQueue::head);
        self.set_event_index(id, true, head);
        if let Some(head) = self.shadow_doorbell(id, true) {
            self.set_head(id, head);
        }
        self.completion[usize::from(id)].as_ref().is_some_and(|queue| !queue.is_full())
    }
}
