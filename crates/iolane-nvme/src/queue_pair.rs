//! A submission ring, a completion ring and their doorbells. The entries are not interpreted here. One thread owns each pair (a
//! lock guards the admin pair); threads share nothing but the gate of an I/O pair.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iolane_core::Result;

use crate::command::{Command, CompletionEntry};
use crate::doorbell::{Doorbell, Shadow};
use crate::memory::DmaPages;
use crate::registers::Registers;
use crate::reset_gate::{Gate, Resets};
use crate::transport::Transport;

/// A completion ring takes at least a page.
const COMPLETIONS_PER_PAGE: u32 = 256;

/// The index after another in a ring of `entries`.
#[inline]
fn after(index: u32, entries: u32) -> u32 {
    if index + 1 == entries { 0 } else { index + 1 }
}

/// A pair of rings.
pub(crate) struct QueuePair {
    identifier: u16,
    /// Entries of the submission ring: one more than can be in flight, since a full ring would look like an empty one.
    entries: u32,
    /// Entries of the completion ring. It is larger, so that its doorbell need not be rung for every entry.
    completion_entries: u32,
    /// Most entries that can be read and not released while there is room for all commands in flight.
    unreleased_max: u32,
    /// Both rings; the completion ring begins at `completions_offset`.
    rings: DmaPages,
    batches: u64,
    completions_offset: usize,
    submission_tail: u32,
    completion_head: u32,
    phase: bool,
    submission_doorbell: Doorbell,
    completion_doorbell: Doorbell,
    /// Keeps the doorbell registers mapped.
    _transport: Arc<dyn Transport>,
}

/// An I/O queue pair known to the controller, and the count of resets when it was created.
pub(crate) struct IoQueuePair {
    pub(crate) pair: QueuePair,
    pub(crate) resets: u32,
    /// The number of its interrupt; `None` if it is polled.
    pub(crate) vector: Option<u16>,
    /// The controller has it, too.
    pub(crate) gate: Arc<Gate>,
}

impl IoQueuePair {
    /// Rings a doorbell of it, unless any thread has begun to reset the controller.
    #[inline(always)]
    pub(crate) fn ring(&mut self, resets: &Resets, ring: impl FnOnce(&mut QueuePair)) {
        self.gate.pass(resets, self.resets, || ring(&mut self.pair));
    }
}

/// The location of a controller's doorbells.
pub(crate) struct Doorbells {
    pub(crate) registers: Registers,
    pub(crate) stride_bytes: usize,
}

impl Doorbells {
    /// Offset of a doorbell from the first one.
    pub(crate) fn offset(&self, queue: u16, completion: bool) -> usize {
        Registers::doorbell_offset(queue, completion, self.stride_bytes) - crate::registers::DOORBELLS
    }

    fn register(&self, queue: u16, completion: bool) -> &AtomicU32 {
        self.registers.at(Registers::doorbell_offset(queue, completion, self.stride_bytes))
    }
}

impl QueuePair {
    /// Allocates the rings; the caller gives them to the controller.
    ///
    /// # Errors
    /// As [`DmaPages::new`].
    pub(crate) fn new(
        transport: &Arc<dyn Transport>,
        doorbells: &Doorbells,
        identifier: u16,
        depth: u32,
        entries_max: u32,
        shadow: impl Fn(bool) -> Option<Shadow>,
    ) -> Result<Self> {
        let entries = depth + 1;
        debug_assert!(entries >= 2 && entries <= entries_max, "the controller takes {depth} commands");
        let completion_entries = (4 * entries).max(COMPLETIONS_PER_PAGE).min(entries_max).max(entries);
        let completions_offset = (entries as usize * size_of::<Command>()).next_multiple_of(crate::memory::PAGE_BYTES);
        let rings = DmaPages::new(transport, completions_offset + completion_entries as usize * 16)?;
        // SAFETY: the pair holds the transport, which keeps the registers mapped.
        let doorbell =
            |completion| unsafe { Doorbell::new(doorbells.register(identifier, completion), shadow(completion)) };
        Ok(Self {
            identifier,
            entries,
            completion_entries,
            unreleased_max: completion_entries - entries,
            rings,
            batches: 0,
            completions_offset,
            submission_tail: 0,
            completion_head: 0,
            phase: true,
            submission_doorbell: doorbell(false),
            completion_doorbell: doorbell(true),
            _transport: transport.clone(),
        })
    }

    pub(crate) fn identifier(&self) -> u16 {
        self.identifier
    }

    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    pub(crate) fn completion_entries(&self) -> u32 {
        self.completion_entries
    }

    /// Device addresses of the submission and the completion ring.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.rings.address(), self.rings.address() + self.completions_offset as u64)
    }

    /// How often commands were handed over together so far.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// The number of doorbell register writes so far.
    pub(crate) fn register_writes(&self) -> u64 {
        self.submission_doorbell.writes() + self.completion_doorbell.writes()
    }

    /// Empties the rings, after the controller has dropped them.
    pub(crate) fn restart(&mut self) {
        for entry in 0..self.completion_entries {
            self.completion_dword(entry, 3).store(0, Ordering::Relaxed);
        }
        (self.submission_tail, self.completion_head, self.phase) = (0, 0, true);
        self.submission_doorbell.restart();
        self.completion_doorbell.restart();
    }

    /// Puts a command into the ring. The caller ensures that fewer than `entries` - 1 are in flight. The controller has read every
    /// command that completed, so the place of a new one is never one that it has yet to read.
    #[inline]
    pub(crate) fn push(&mut self, command: Command) {
        debug_assert!(self.submission_tail < self.entries, "the tail is an index of the ring");
        debug_assert!(
            after(self.submission_tail, self.entries) != self.submission_doorbell.rung() || !self.is_pushed(),
            "commands that wait for the doorbell do not fill the ring"
        );
        // SAFETY: the tail is less than `entries`, for which there is room; the controller reads the place only after the
        // doorbell was rung, and not after the command that had it before completed.
        unsafe { self.rings.base().cast::<Command>().add(self.submission_tail as usize).write(command) };
        self.submission_tail = after(self.submission_tail, self.entries);
    }

    /// Whether commands wait for the doorbell.
    #[inline]
    pub(crate) fn is_pushed(&self) -> bool {
        self.submission_tail != self.submission_doorbell.rung()
    }

    /// Rings the doorbell for commands that were pushed.
    #[inline(always)]
    pub(crate) fn ring(&mut self) {
        debug_assert!(self.is_pushed(), "there is something to hand over");
        self.batches += 1;
        self.submission_doorbell.ring(self.submission_tail);
    }

    /// The next completion, if the controller has written it; [`release`](Self::release) frees its place.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<CompletionEntry> {
        let dword = |index| self.completion_dword(self.completion_head, index);
        // An entry with the current phase is complete: the controller writes the dword with the phase together with the others or
        // after them (NVMe over PCIe Transport Specification 1.0, section 2.3). Acquire keeps our reads of the others, and of the
        // data moved before, from happening earlier.
        let last = dword(3).load(Ordering::Acquire);
        if (last >> 16 & 1 == 1) != self.phase {
            return None;
        }
        let entry = [dword(0).load(Ordering::Relaxed), 0, dword(2).load(Ordering::Relaxed), last];
        self.completion_head = after(self.completion_head, self.completion_entries);
        self.phase ^= self.completion_head == 0;
        Some(CompletionEntry::from_dwords(entry))
    }

    /// Whether half of the spare places are those of popped completions.
    #[inline]
    pub(crate) fn is_release_due(&self) -> bool {
        let (head, given_back) = (self.completion_head, self.completion_doorbell.rung());
        let unreleased =
            if head >= given_back { head - given_back } else { head + self.completion_entries - given_back };
        debug_assert!(unreleased <= self.completion_entries, "no more is read than there are entries");
        unreleased > self.unreleased_max / 2
    }

    /// Releases the places of popped completions to the controller.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.completion_doorbell.ring(self.completion_head);
    }

    #[inline]
    fn completion_dword(&self, entry: u32, dword: usize) -> &AtomicU32 {
        debug_assert!(entry < self.completion_entries && dword < 4, "dword {dword} of entry {entry}");
        let offset = self.completions_offset + entry as usize * 16 + dword * 4;
        // SAFETY: the ring has room for `completion_entries` of 16 bytes from its offset on, `entry` is less, and the pages are
        // aligned; both sides access them only by atomics.
        unsafe { self.rings.base().add(offset).cast::<AtomicU32>().as_ref() }
    }
}
