//! The memory of a fake ring: a file in memory in place of the kernel's, so that the io-uring crate maps it like a ring of the kernel.
//! `ring` and `lost_wake_ups` are the kernel's side of it.

use std::os::fd::{AsFd, IntoRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use ::io_uring::IoUring;
use rustix::fs::MemfdFlags;
use rustix::io_uring::{IoringFeatureFlags, IoringSetupFlags, io_uring_params};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Where the entries of submissions begin in a ring's file (linux/io_uring.h, IORING_OFF_SQES).
const SQES_OFFSET: u64 = 0x1000_0000;
const RING_BYTES: usize = 8192;
const SQE_BYTES: usize = 64;
const CQE_BYTES: usize = 16;

/// Offsets in the ring's file, each counter in a cache line of its own.
const SQ_HEAD: u32 = 0;
const SQ_TAIL: u32 = 64;
const SQ_MASK: u32 = 128;
const SQ_ENTRIES: u32 = 132;
const SQ_FLAGS: u32 = 192;
const SQ_DROPPED: u32 = 256;
const CQ_HEAD: u32 = 320;
const CQ_TAIL: u32 = 384;
const CQ_MASK: u32 = 448;
const CQ_ENTRIES: u32 = 452;
const CQ_OVERFLOW: u32 = 456;
const CQ_FLAGS: u32 = 460;
const SQ_ARRAY: u32 = 512;
const CQES: u32 = 4096;

/// Flags of the submission ring (linux/io_uring.h).
pub(super) const NEED_WAKEUP: u32 = 1;
pub(super) const OVERFLOWN: u32 = 2;
pub(super) const TASKRUN: u32 = 4;

/// A submission entry, as far as the fake kernels read it.
pub(super) struct Submission {
    pub(super) opcode: u8,
    /// Whether a worker begins it (IOSQE_ASYNC).
    pub(super) by_worker: bool,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) user_data: u64,
}

/// The kernel's mappings of a ring.
pub(super) struct RingMemory {
    ring: NonNull<u8>,
    sqes: NonNull<u8>,
    sqes_bytes: usize,
    sq_entries: u32,
    cq_entries: u32,
}

// SAFETY: the mappings belong to the process. What two threads use at once are atomics, and the entries, which one side hands to the
// other with them.
unsafe impl Send for RingMemory {}
// SAFETY: as above; one thread at a time is the kernel's side.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// A ring with these numbers of entries, powers of two, and the program's side of it.
    pub(super) fn new(sq_entries: u32, cq_entries: u32, features: IoringFeatureFlags, sqpoll: bool) -> (Self, IoUring) {
        assert!(sq_entries <= 512 && CQES as usize + cq_entries as usize * CQE_BYTES <= RING_BYTES);
        let file = rustix::fs::memfd_create("fake ring", MemfdFlags::CLOEXEC).unwrap();
        let sqes_bytes = sq_entries as usize * SQE_BYTES;
        rustix::fs::ftruncate(&file, SQES_OFFSET + sqes_bytes as u64).unwrap();
        let map = |offset, bytes| {
            // SAFETY: a new mapping of a file that this function made.
            let base = unsafe {
                mmap(
                    std::ptr::null_mut(),
                    bytes,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED,
                    file.as_fd(),
                    offset,
                )
            };
            NonNull::new(base.unwrap().cast::<u8>()).unwrap()
        };
        let (ring, sqes) = (map(0, RING_BYTES), map(SQES_OFFSET, sqes_bytes));
        let memory = Self { ring, sqes, sqes_bytes, sq_entries, cq_entries };
        memory.word(SQ_MASK).store(sq_entries - 1, Ordering::Relaxed);
        memory.word(SQ_ENTRIES).store(sq_entries, Ordering::Relaxed);
        memory.word(CQ_MASK).store(cq_entries - 1, Ordering::Relaxed);
        memory.word(CQ_ENTRIES).store(cq_entries, Ordering::Relaxed);
        let mut params = io_uring_params::default();
        (params.sq_entries, params.cq_entries) = (sq_entries, cq_entries);
        params.features = features | IoringFeatureFlags::SINGLE_MMAP;
        if sqpoll {
            params.flags |= IoringSetupFlags::SQPOLL;
        }
        (params.sq_off.head, params.sq_off.tail, params.sq_off.flags) = (SQ_HEAD, SQ_TAIL, SQ_FLAGS);
        (params.sq_off.ring_mask, params.sq_off.ring_entries) = (SQ_MASK, SQ_ENTRIES);
        (params.sq_off.dropped, params.sq_off.array) = (SQ_DROPPED, SQ_ARRAY);
        (params.cq_off.head, params.cq_off.tail, params.cq_off.flags) = (CQ_HEAD, CQ_TAIL, CQ_FLAGS);
        (params.cq_off.ring_mask, params.cq_off.ring_entries) = (CQ_MASK, CQ_ENTRIES);
        (params.cq_off.overflow, params.cq_off.cqes) = (CQ_OVERFLOW, CQES);
        // SAFETY: both types are the kernel's `struct io_uring_params`, one of them behind a transparent wrapper. The file is as
        // long as the parameters say, and moves into the ring.
        let program = unsafe {
            let params = std::mem::transmute::<io_uring_params, ::io_uring::Parameters>(params);
            IoUring::from_fd(file.into_raw_fd(), params).unwrap()
        };
        (memory, program)
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the offsets are multiples of four within the mapping, which lives as long as `self`.
        unsafe { self.ring.cast::<AtomicU32>().byte_add(offset as usize).as_ref() }
    }

    /// The flags of the submission ring.
    pub(super) fn flags(&self) -> &AtomicU32 {
        self.word(SQ_FLAGS)
    }

    pub(super) fn set_flag(&self, flag: u32, on: bool) {
        match on {
            true => self.flags().fetch_or(flag, Ordering::SeqCst),
            false => self.flags().fetch_and(!flag, Ordering::SeqCst),
        };
    }

    /// Entries in the submission ring from `skipped` on.
    pub(super) fn submitted(&self, skipped: u32) -> u32 {
        let (head, tail) = (self.word(SQ_HEAD).load(Ordering::Relaxed), self.word(SQ_TAIL).load(Ordering::Acquire));
        let entries = tail.wrapping_sub(head);
        assert!(entries <= self.sq_entries, "the ring holds more entries than it has places");
        entries - skipped
    }

    /// The entry at this distance from the head.
    pub(super) fn submission(&self, distance: u32) -> Submission {
        assert!(distance < self.submitted(0), "the entry is not in the ring");
        let index = self.word(SQ_HEAD).load(Ordering::Relaxed).wrapping_add(distance) & (self.sq_entries - 1);
        // SAFETY: the entry is within the mapping, and the program does not write it again before the head has passed it.
        let words: [u64; 8] = unsafe { self.sqes.byte_add(index as usize * SQE_BYTES).cast::<[u64; 8]>().read() };
        let [opcode, flags, ..] = words[0].to_ne_bytes();
        let by_worker = flags & io_uring::squeue::Flags::ASYNC.bits() != 0;
        Submission {
            opcode,
            by_worker,
            offset: words[1],
            address: words[2],
            length: words[3] as u32,
            user_data: words[4],
        }
    }

    /// Gives places of entries back to the program.
    pub(super) fn consume(&self, entries: u32) {
        let head = self.word(SQ_HEAD);
        head.store(head.load(Ordering::Relaxed).wrapping_add(entries), Ordering::Release);
    }

    /// Completions that the program has not read.
    pub(super) fn unread(&self) -> u32 {
        let (head, tail) = (self.word(CQ_HEAD).load(Ordering::Acquire), self.word(CQ_TAIL).load(Ordering::Relaxed));
        let unread = tail.wrapping_sub(head);
        assert!(unread <= self.cq_entries, "the program read completions that were not there");
        unread
    }

    /// Completions that there is room for.
    pub(super) fn room(&self) -> u32 {
        self.cq_entries - self.unread()
    }

    pub(super) fn cq_entries(&self) -> u32 {
        self.cq_entries
    }

    /// Adds a completion; there is room for it.
    pub(super) fn complete(&self, user_data: u64, result: i32) {
        assert!(self.room() > 0, "the completion ring is full");
        let tail = self.word(CQ_TAIL).load(Ordering::Relaxed);
        let place = CQES as usize + (tail & (self.cq_entries - 1)) as usize * CQE_BYTES;
        // SAFETY: the place is within the mapping, and the program does not read it before the tail has passed it.
        unsafe { self.ring.byte_add(place).cast::<[u64; 2]>().write([user_data, u64::from(result as u32)]) };
        self.word(CQ_TAIL).store(tail.wrapping_add(1), Ordering::Release);
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: both were mapped in `new`, and are used by `self` only.
        unsafe {
            munmap(self.ring.as_ptr().cast(), RING_BYTES).unwrap();
            munmap(self.sqes.as_ptr().cast(), self.sqes_bytes).unwrap();
        }
    }
}
