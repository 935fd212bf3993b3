//! The data pointers of commands: PRP entries, PRP lists and SGL descriptors (NVMe Base Specification 2.0, section 4.1.1
//! "Physical Region Page Entry and List", 4.1.2 "Scatter Gather List"), with every rule checked.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::dma::Dma;
use super::status;
use crate::command::{Command, PSDT_PRP, PSDT_SGL, Status};
use crate::memory::PAGE_BYTES;

const PAGE: u64 = PAGE_BYTES as u64;

/// The command and its queue, for violations and completions.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) queue: u16,
    pub(super) identifier: u16,
}

impl Dma {
    /// Records a violation by a command.
    #[cold]
    pub(super) fn command_violation(&mut self, origin: Origin, text: &str) {
        let Origin { queue, identifier } = origin;
        self.violation(format!("command {identifier:#06x} of submission queue {queue}: {text}"));
    }

    /// The location of memory that a command names, or the status for memory that is not mapped.
    pub(super) fn reach(&mut self, origin: Origin, address: u64, bytes: usize) -> Result<NonNull<u8>, Status> {
        self.find(address, bytes).ok_or_else(|| {
            self.command_violation(origin, &format!("{bytes} bytes at {address:#x} are not mapped for the controller"));
            status::DATA_TRANSFER
        })
    }

    /// Calls `part` with each piece of the `bytes` of a command's data, in order.
    ///
    /// # Errors
    /// The status of the completion: the data pointer is invalid, or `part` failed. Earlier pieces may have been used.
    pub(super) fn walk(
        &mut self,
        origin: Origin,
        command: &Command,
        bytes: usize,
        part: impl FnMut(NonNull<u8>, usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        match command.flags & 0xc0 {
            PSDT_PRP => self.walk_pages(origin, command.data, bytes, part),
            PSDT_SGL => self.walk_descriptor(origin, command.data, bytes, part),
            _ => {
                self.command_violation(origin, &format!("flags {:#x}: neither PRP nor a plain SGL", command.flags));
                Err(Status::INVALID_FIELD)
            }
        }
    }

    fn walk_pages(
        &mut self,
        origin: Origin,
        [first, second]: [u64; 2],
        bytes: usize,
        mut part: impl FnMut(NonNull<u8>, usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        self.aligned(origin, "PRP entry 1", first, 4)?;
        let length = bytes.min((PAGE - first % PAGE) as usize);
        part(self.reach(origin, first, length)?, length)?;
        let mut left = bytes - length;
        if left == 0 {
            return Ok(());
        }
        if left <= PAGE_BYTES {
            self.aligned(origin, "PRP entry 2", second, PAGE)?;
            return part(self.reach(origin, second, left)?, left);
        }
        self.aligned(origin, "the PRP list", second, 8)?;
        let mut list = second;
        while left > 0 {
            let is_last = list % PAGE == PAGE - 8;
            let entry = self.list_entry(origin, list)?;
            if is_last && left > PAGE_BYTES {
                self.aligned(origin, "the next page of the PRP list", entry, PAGE)?;
                list = entry;
                continue;
            }
            self.aligned(origin, "an entry of the PRP list", entry, PAGE)?;
            let length = left.min(PAGE_BYTES);
            part(self.reach(origin, entry, length)?, length)?;
            left -= length;
            list += 8;
        }
        Ok(())
    }

    fn list_entry(&mut self, origin: Origin, address: u64) -> Result<u64, Status> {
        let entry = self.reach(origin, address, 8)?.cast::<AtomicU64>();
        // SAFETY: mapped, and aligned: the address is a multiple of 8 and mappings are of whole pages. The doorbell's Acquire
        // came before; the driver writes no list of a command in flight.
        Ok(u64::from_le(unsafe { entry.as_ref() }.load(Ordering::Relaxed)))
    }

    fn aligned(&mut self, origin: Origin, what: &str, address: u64, multiple: u64) -> Result<(), Status> {
        if address.is_multiple_of(multiple) {
            return Ok(());
        }
        self.command_violation(origin, &format!("{what} is {address:#x}, no multiple of {multiple}"));
        Err(status::INVALID_PRP_OFFSET)
    }

    /// An SGL data block descriptor: address; length and, in the last byte, type and subtype, both 0.
    fn walk_descriptor(
        &mut self,
        origin: Origin,
        [address, rest]: [u64; 2],
        bytes: usize,
        mut part: impl FnMut(NonNull<u8>, usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let (length, kind) = (rest as u32 as usize, rest >> 32);
        if kind != 0 {
            self.command_violation(origin, &format!("SGL descriptor type {:#04x}, and reserved bytes", kind >> 24));
            return Err(status::INVALID_SGL_TYPE);
        }
        if length != bytes {
            self.command_violation(origin, &format!("SGL descriptor of {length} bytes for {bytes}"));
            return Err(status::INVALID_SGL_LENGTH);
        }
        part(self.reach(origin, address, bytes)?, bytes)
    }
}
