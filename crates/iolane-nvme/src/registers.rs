//! The registers of an NVMe controller (NVMe Base Specification 2.0, section 3.1.3 "Controller Properties"; PCIe Transport
//! Specification 1.0, section 3.1), and the accessors that driver and model use.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Controller Capabilities, 64 bits.
pub const CAP: usize = 0x00;
/// Version.
pub const VS: usize = 0x08;
/// Controller Configuration.
pub const CC: usize = 0x14;
/// Controller Status.
pub const CSTS: usize = 0x1c;
/// Admin Queue Attributes: entries less one, of the completion queue in the upper half.
pub const AQA: usize = 0x24;
/// Admin Submission Queue Base Address, 64 bits.
pub const ASQ: usize = 0x28;
/// Admin Completion Queue Base Address, 64 bits.
pub const ACQ: usize = 0x30;
/// The first doorbell, of submission queue 0. That of completion queue 0 follows one stride later, and so on.
pub const DOORBELLS: usize = 0x1000;

/// CC.EN: enable.
pub const CC_ENABLE: u32 = 1;
/// CC.IOCQES 16 bytes (2^4) and CC.IOSQES 64 bytes (2^6); NVM command set, pages of 4 KiB, round robin are all 0.
pub const CC_ENTRY_SIZES: u32 = 4 << 20 | 6 << 16;
/// CC.SHN: a normal shutdown is notified.
pub const CC_SHUTDOWN_NORMAL: u32 = 1 << 14;
/// CC.SHN, both bits.
pub const CC_SHUTDOWN_MASK: u32 = 3 << 14;
/// CSTS.RDY: it accepts commands.
pub const CSTS_READY: u32 = 1;
/// CSTS.CFS: controller fatal status.
pub const CSTS_FATAL: u32 = 1 << 1;
/// CSTS.SHST, both bits.
pub const CSTS_SHUTDOWN_MASK: u32 = 3 << 2;
/// CSTS.SHST: shutdown processing complete.
pub const CSTS_SHUTDOWN_COMPLETE: u32 = 2 << 2;
/// The value of any register of a device that is gone.
pub const GONE: u32 = u32::MAX;

/// The fields of CAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerCapabilities(pub u64);

impl ControllerCapabilities {
    /// CAP.MQES: most entries of an I/O queue (the field holds one less).
    pub fn queue_entries_max(self) -> u32 {
        (self.0 & 0xffff) as u32 + 1
    }

    /// CAP.CQR: the queues must be contiguous in memory.
    pub fn contiguous_queues(self) -> bool {
        self.0 >> 16 & 1 == 1
    }

    /// CAP.TO: the longest that CSTS.RDY takes to follow CC.EN, in milliseconds.
    pub fn ready_timeout_ms(self) -> u64 {
        (self.0 >> 24 & 0xff) * 500
    }

    /// CAP.DSTRD: bytes from one doorbell to the next.
    pub fn doorbell_stride_bytes(self) -> usize {
        4 << (self.0 >> 32 & 0xf)
    }

    /// CAP.CSS bit 0: the NVM command set is supported.
    pub fn nvm_command_set(self) -> bool {
        self.0 >> 37 & 1 == 1
    }

    /// CAP.MPSMIN: the smallest memory page in bytes.
    pub fn page_bytes_min(self) -> u64 {
        1 << (12 + (self.0 >> 48 & 0xf))
    }
}

/// The register memory of one controller: BAR 0 of a real one, ordinary memory of a model. Whoever has it promised to use it only
/// while it is mapped, and to answer for the memory that the controller accesses ([`Transport::registers`]).
///
/// [`Transport::registers`]: crate::transport::Transport::registers
///
/// Each access is one aligned, atomic 32-bit load or store, which the compiler neither reorders nor omits, so that a model on
/// another thread of this process can take the device's place.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: accesses are atomic, and the caller of `new` promised that the memory outlives it.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Registers {
    /// # Safety
    /// `base .. base + bytes` is mapped, aligned to 8 bytes, and accessed only by 32-bit atomics, for as long as this and
    /// all its copies and doorbells are used.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        Self { base, bytes }
    }

    /// Bytes of the register memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The register at `offset`.
    ///
    /// # Panics
    /// If the offset is not a multiple of 4 or lies outside, which is a programming error.
    pub fn at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes, "register {offset:#x} of {:#x}", self.bytes);
        // SAFETY: it lies within the memory, aligned, by the assertion.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }
    }

    /// Reads 32 bits. Later reads see what the controller wrote to memory before it changed the register.
    pub fn read(&self, offset: usize) -> u32 {
        self.at(offset).load(Ordering::Acquire)
    }

    /// Writes 32 bits. The controller sees earlier writes to memory.
    pub fn write(&self, offset: usize, value: u32) {
        self.at(offset).store(value, Ordering::Release);
    }

    /// Reads 64 bits as two halves, which every controller supports (section 3.1.1).
    pub fn read64(&self, offset: usize) -> u64 {
        u64::from(self.read(offset)) | u64::from(self.read(offset + 4)) << 32
    }

    /// Writes 64 bits as two halves, the lower first.
    pub fn write64(&self, offset: usize, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }

    /// The offset of the doorbell of a submission or a completion queue.
    pub fn doorbell_offset(queue: u16, completion: bool, stride_bytes: usize) -> usize {
        DOORBELLS + (2 * usize::from(queue) + usize::from(completion)) * stride_bytes
    }
}
