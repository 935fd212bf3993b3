//! The rings of the model: their location, their heads and tails, and the format of completions in memory. Commands are not
//! interpreted here.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::dma::Dma;
use crate::command::{Command, CompletionEntry};

/// A ring in the driver's memory.
pub(super) struct Ring {
    address: u64,
    entries: u32,
    entry_bytes: usize,
    /// Its location, and the generation of mappings in which that is valid.
    base: NonNull<u8>,
    generation: u64,
}

// SAFETY: as for `Dma`: `Transport::map` defines which accesses are sound.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) const COMMAND_BYTES: usize = size_of::<Command>();
    pub(super) const COMPLETION_BYTES: usize = 16;

    /// `None` if it is not mapped as a whole.
    pub(super) fn new(dma: &mut Dma, address: u64, entries: u32, entry_bytes: usize) -> Option<Self> {
        let base = dma.find(address, entries as usize * entry_bytes)?;
        Some(Self { address, entries, entry_bytes, base, generation: dma.generation() })
    }

    /// The entry at `index`, or `None` if the ring is no longer mapped.
    #[inline]
    fn entry(&mut self, dma: &mut Dma, index: u32) -> Option<NonNull<u8>> {
        if self.generation != dma.generation() {
            *self = Self::new(dma, self.address, self.entries, self.entry_bytes)?;
        }
        // SAFETY: the index is below `entries`, and all of the ring is mapped.
        Some(unsafe { self.base.add(index as usize * self.entry_bytes) })
    }

    #[inline]
    fn after(&self, index: u32) -> u32 {
        if index + 1 == self.entries { 0 } else { index + 1 }
    }
}

/// How long the shadow of a doorbell is polled.
#[derive(Default)]
pub(super) struct Attention {
    /// The last step at which the shadow is polled.
    pub(super) awake_until: u64,
}

/// The controller's state of a submission queue.
pub(super) struct SubmissionQueue {
    pub(super) ring: Ring,
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) completion_queue: u16,
    pub(super) attention: Attention,
    /// One bit for each command identifier, set until its completion.
    in_flight: Box<[u64]>,
}

impl SubmissionQueue {
    pub(super) fn new(ring: Ring, completion_queue: u16) -> Self {
        let in_flight = vec![0; 1 << 10].into_boxed_slice();
        Self { ring, head: 0, tail: 0, completion_queue, attention: Attention::default(), in_flight }
    }

    pub(super) fn entries(&self) -> u32 {
        self.ring.entries
    }

    /// Takes the next command, or `None` if its place is no longer mapped. Head and tail must differ.
    #[inline]
    pub(super) fn take(&mut self, dma: &mut Dma) -> Option<Command> {
        let entry = self.ring.entry(dma, self.head)?.cast::<[AtomicU64; 8]>();
        // SAFETY: the entry lies within the ring, which is mapped, and is aligned. The doorbell was read with Acquire, so the
        // driver wrote these words before.
        let words = unsafe { entry.as_ref() };
        let word = |index: usize| words[index].load(Ordering::Relaxed);
        let halves = |index: usize| [word(index) as u32, (word(index) >> 32) as u32];
        let (first, dwords) = (word(0), [halves(5), halves(6), halves(7)]);
        self.head = self.ring.after(self.head);
        Some(Command {
            opcode: first as u8,
            flags: (first >> 8) as u8,
            identifier: (first >> 16) as u16,
            namespace: (first >> 32) as u32,
            dwords_2_3: halves(1),
            metadata: word(2),
            data: [word(3), word(4)],
            dwords: [dwords[0][0], dwords[0][1], dwords[1][0], dwords[1][1], dwords[2][0], dwords[2][1]],
        })
    }

    /// Marks a command as in flight; false if one with its identifier already is.
    #[inline]
    pub(super) fn begin(&mut self, identifier: u16) -> bool {
        let (word, bit) = (usize::from(identifier / 64), 1 << (identifier % 64));
        let is_new = self.in_flight[word] & bit == 0;
        self.in_flight[word] |= bit;
        is_new
    }

    #[inline]
    pub(super) fn end(&mut self, identifier: u16) {
        self.in_flight[usize::from(identifier / 64)] &= !(1 << (identifier % 64));
    }
}

/// The controller's state of a completion queue.
pub(super) struct CompletionQueue {
    pub(super) ring: Ring,
    head: u32,
    tail: u32,
    phase: bool,
    /// The interrupt vector, if it raises interrupts.
    pub(super) vector: Option<u16>,
    pub(super) interrupt_due: bool,
    /// Submission queues that complete to it.
    pub(super) users: u32,
    /// Completions that wait for room.
    pub(super) waiting: VecDeque<CompletionEntry>,
    /// Whether a completion with a wrong phase was written: the driver may take it or not, so its head is not checked any more.
    pub(super) phase_was_wrong: bool,
}

impl CompletionQueue {
    pub(super) fn new(ring: Ring, vector: Option<u16>) -> Self {
        let waiting = VecDeque::new();
        Self {
            ring,
            head: 0,
            tail: 0,
            phase: true,
            vector,
            interrupt_due: false,
            users: 0,
            waiting,
            phase_was_wrong: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.ring.after(self.tail) == self.head
    }

    /// Sets the driver's head; false if there are no entries up to there.
    pub(super) fn set_head(&mut self, head: u32) -> bool {
        if head >= self.ring.entries {
            return false;
        }
        let distance = |to: u32| (to + self.ring.entries - self.head) % self.ring.entries;
        let plausible = self.phase_was_wrong || distance(head) <= distance(self.tail);
        self.head = head;
        plausible
    }

    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Writes an entry, for which there must be room; `phase` selects the correct phase or the wrong one. `None` if the ring is no
    /// longer mapped.
    #[inline]
    pub(super) fn write(&mut self, dma: &mut Dma, entry: CompletionEntry) -> Option<()> {
        let place = self.ring.entry(dma, self.tail)?.cast::<[AtomicU32; 4]>();
        let phase = self.phase == entry.phase;
        self.phase_was_wrong |= !entry.phase;
        let dwords = CompletionEntry { phase, ..entry }.to_dwords();
        // SAFETY: the entry lies within the ring, which is mapped, and is aligned; the driver reads it by atomics.
        let place = unsafe { place.as_ref() };
        for (place, dword) in place[..3].iter().zip(dwords) {
            place.store(dword, Ordering::Relaxed);
        }
        // Release: a reader that sees the new phase sees the rest of the entry, and the data moved before.
        place[3].store(dwords[3], Ordering::Release);
        self.tail = self.ring.after(self.tail);
        self.phase ^= self.tail == 0;
        Some(())
    }
}
