//! The data pointers of commands: physical region pages, or a scatter gather list of one element, for a range that is contiguous
//! in I/O virtual addresses (NVMe Base Specification 2.0, sections 4.1.1 and 4.1.2). Called by `queue` for every command.

use std::sync::Arc;

use iolane_core::{IoError, Result};

use crate::command::{PSDT_PRP, PSDT_SGL};
use crate::memory::{DmaPages, PAGE_BYTES};
use crate::transport::Transport;

const PAGE: u64 = PAGE_BYTES as u64;

/// The bytes that one page of a PRP list describes, and so the most of one command without SGLs.
pub(crate) const LIST_BYTES_MAX: u64 = (PAGE / 8) * PAGE;

/// Makes the data pointers of a queue's commands. Each slot has a page for a list that does not fit into the command.
pub(crate) struct DataPointers {
    /// A page for each slot.
    lists: DmaPages,
    scatter_gather: bool,
}

/// The `flags` and `data` of a command.
pub(crate) type DataPointer = (u8, [u64; 2]);

impl DataPointers {
    pub(crate) fn new(transport: &Arc<dyn Transport>, slots: u32, scatter_gather: bool) -> Result<Self> {
        Ok(Self { lists: DmaPages::new(transport, slots as usize * PAGE_BYTES)?, scatter_gather })
    }

    /// The pointer to `bytes` from `address` on, for the command in this slot; `bytes` is at most [`LIST_BYTES_MAX`] less one page.
    ///
    /// # Errors
    /// `INVALID` if the address is not aligned to four bytes.
    #[inline]
    pub(crate) fn point(&self, slot: u32, address: u64, bytes: u32) -> Result<DataPointer, IoError> {
        // The first entry may begin within a page; the others are whole pages.
        let first_bytes = PAGE - address % PAGE;
        let rest = u64::from(bytes).saturating_sub(first_bytes);
        if address.is_multiple_of(4) && rest == 0 {
            return Ok((PSDT_PRP, [address, 0]));
        }
        if address.is_multiple_of(4) && rest <= PAGE {
            return Ok((PSDT_PRP, [address, address + first_bytes]));
        }
        self.point_beyond_two_pages(slot, address, bytes)
    }

    fn point_beyond_two_pages(&self, slot: u32, address: u64, bytes: u32) -> Result<DataPointer, IoError> {
        if !address.is_multiple_of(4) {
            return Err(IoError::INVALID);
        }
        if self.scatter_gather {
            // An SGL data block descriptor: address, length, and type 0 (figure 117).
            return Ok((PSDT_SGL, [address, bytes.into()]));
        }
        let second = address + PAGE - address % PAGE;
        let pages = (address + u64::from(bytes) - second).div_ceil(PAGE) as usize;
        let list = slot as usize * (PAGE_BYTES / 8);
        debug_assert!(pages <= PAGE_BYTES / 8, "{bytes} bytes take more than one list");
        for page in 0..pages.min(PAGE_BYTES / 8) {
            self.lists.word(list + page).store(second + page as u64 * PAGE, std::sync::atomic::Ordering::Relaxed);
        }
        Ok((PSDT_PRP, [address, self.list_address(slot)]))
    }

    /// The pointer to as many of these ranges as one command takes, in order, and their bytes: at most `most`, and in each command what
    /// is contiguous in pages. A range follows another in one command if that ends, and it begins, at a page's boundary; a PRP list knows
    /// no other (NVMe Base Specification 2.0, section 4.1.1). Ranges are an address and a number of bytes that is not 0.
    ///
    /// # Errors
    /// `INVALID` if the first address is not aligned to four bytes.
    #[inline(never)]
    pub(crate) fn gather(
        &self,
        slot: u32,
        ranges: impl Iterator<Item = Result<(u64, u64), IoError>>,
        most: u64,
    ) -> Result<(DataPointer, u64), IoError> {
        let list = slot as usize * (PAGE_BYTES / 8);
        let (mut first, mut second, mut entries, mut bytes, mut end) = (None, 0, 0, 0, 0);
        'ranges: for range in ranges {
            let (address, length) = range?;
            match first {
                None if !address.is_multiple_of(4) => return Err(IoError::INVALID),
                None => first = Some(address),
                Some(_) if address.is_multiple_of(PAGE) && end % PAGE == 0 => {}
                Some(_) => break,
            }
            end = address;
            let range_end = address + length;
            while end < range_end {
                if end != address || bytes > 0 {
                    // Another page: the first one is in the command itself.
                    if bytes == most || entries == PAGE_BYTES / 8 {
                        break 'ranges;
                    }
                    if entries == 0 {
                        second = end;
                    }
                    self.lists.word(list + entries).store(end, std::sync::atomic::Ordering::Relaxed);
                    entries += 1;
                }
                let moved = (PAGE - end % PAGE).min(range_end - end).min(most - bytes);
                bytes += moved;
                end += moved;
                if bytes == most {
                    break 'ranges;
                }
            }
        }
        let data = match entries {
            0 | 1 => second,
            _ => self.list_address(slot),
        };
        Ok(((PSDT_PRP, [first.ok_or(IoError::INVALID)?, data]), bytes))
    }

    /// Writes the only range of a Dataset Management command into the slot's page (NVM Command Set Specification 1.0, figure 38).
    pub(crate) fn point_to_range(&self, slot: u32, first_block: u64, blocks: u32) -> DataPointer {
        let list = slot as usize * (PAGE_BYTES / 8);
        self.lists.word(list).store(u64::from(blocks) << 32, std::sync::atomic::Ordering::Relaxed);
        self.lists.word(list + 1).store(first_block, std::sync::atomic::Ordering::Relaxed);
        (PSDT_PRP, [self.list_address(slot), 0])
    }

    fn list_address(&self, slot: u32) -> u64 {
        self.lists.address() + u64::from(slot) * PAGE
    }
}
