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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::model::{Model, ModelConfig};

    const SLOT: u32 = 1;

    fn pointers(scatter_gather: bool) -> DataPointers {
        let port: Arc<dyn Transport> = Arc::new(Model::new(ModelConfig::default()).port());
        DataPointers::new(&port, 3, scatter_gather).unwrap()
    }

    /// The ranges that a controller accesses for a command of `bytes`, read as the specification says (NVMe Base Specification 2.0,
    /// section 4.1.1): what follows one another in memory is one.
    fn accessed(pointers: &DataPointers, data: [u64; 2], bytes: u64) -> Vec<(u64, u64)> {
        let in_first = (PAGE - data[0] % PAGE).min(bytes);
        let pages = (bytes - in_first).div_ceil(PAGE);
        let list_begin = SLOT as usize * (PAGE_BYTES / 8);
        let entry = |index: u64| match pages {
            1 => data[1],
            _ => {
                assert_eq!(data[1], pointers.lists.address() + u64::from(SLOT) * PAGE);
                assert!(index < PAGE / 8, "the list ends with its page");
                pointers.lists.word(list_begin + index as usize).load(Ordering::Relaxed)
            }
        };
        let mut left = bytes - in_first;
        let mut ranges = vec![(data[0], in_first)];
        for index in 0..pages {
            let (address, here) = (entry(index), left.min(PAGE));
            assert!(address.is_multiple_of(PAGE), "entries after the first are whole pages");
            match ranges.last_mut() {
                Some((begin, length)) if *begin + *length == address => *length += here,
                _ => ranges.push((address, here)),
            }
            left -= here;
        }
        ranges
    }

    /// At every offset in a page, all lengths up to four pages, and those around the most that a list describes, in steps of four bytes.
    #[test]
    fn a_command_names_the_bytes_of_its_buffer_and_no_others() {
        let pointers = pointers(false);
        let long = LIST_BYTES_MAX - 2 * PAGE - 8..=LIST_BYTES_MAX - PAGE;
        let lengths = || (4..=4 * PAGE).step_by(4).chain(long.clone().step_by(4));
        for offset in (0..PAGE).step_by(4) {
            let address = (1 << 32) + offset;
            // Long lists once in a while: they take longest, and differ only in the number of pages.
            for bytes in lengths().filter(|bytes| *bytes <= 4 * PAGE || (offset + bytes) % 64 == 0) {
                let (flags, data) = pointers.point(SLOT, address, bytes as u32).unwrap();
                assert_eq!(flags, PSDT_PRP);
                assert_eq!(accessed(&pointers, data, bytes), [(address, bytes)]);
            }
        }
    }

    #[test]
    fn memory_that_is_not_aligned_to_four_bytes_is_refused_whatever_its_length() {
        for scatter_gather in [false, true] {
            let pointers = pointers(scatter_gather);
            for (offset, bytes) in (1..4).flat_map(|offset| [1, 4096, 8192, 1 << 20].map(|bytes| (offset, bytes))) {
                assert_eq!(pointers.point(SLOT, (1 << 32) + offset, bytes).unwrap_err(), IoError::INVALID);
            }
        }
    }

    /// Every three ranges of these offsets and lengths, with every limit: the command takes a beginning of them, in order, and ends only at
    /// the limit, at their end, or where a page would have a gap.
    #[test]
    fn of_several_ranges_a_command_takes_a_beginning_in_order_and_no_other_byte() {
        const OFFSETS: [u64; 4] = [0, 4, 2048, PAGE - 4];
        const LENGTHS: [u64; 6] = [4, 2048, PAGE - 4, PAGE, PAGE + 2048, 3 * PAGE];
        let pointers = pointers(false);
        let shapes: Vec<(u64, u64)> =
            OFFSETS.iter().flat_map(|offset| LENGTHS.map(|length| (*offset, length))).collect();
        // Far apart.
        let place = |index: u64, (offset, length): (u64, u64)| ((1 << 32) + (index << 20) + offset, length);
        let count = shapes.len();
        for number in 0..count.pow(3) {
            let shape = |index: usize| shapes[number / count.pow(index as u32) % count];
            let ranges = [0, 1, 2].map(|index| place(index as u64, shape(index)));
            let all: u64 = ranges.iter().map(|(_, length)| length).sum();
            for most in [512, PAGE, 2 * PAGE, all, 1 << 20] {
                let ((flags, data), bytes) = pointers.gather(SLOT, ranges.iter().copied().map(Ok), most).unwrap();
                assert!(flags == PSDT_PRP && bytes > 0 && bytes <= most.min(all));
                let mut left = bytes;
                let taken = ranges.iter().map_while(|(address, length)| {
                    let here = left.min(*length);
                    left -= here;
                    (here > 0).then_some((*address, here))
                });
                let expected: Vec<(u64, u64)> = taken.collect();
                assert_eq!(accessed(&pointers, data, bytes), expected, "{ranges:x?}, at most {most}");
                let whole: u64 = expected.iter().map(|(_, length)| length).sum();
                let next = ranges.get(expected.len());
                let (last, length) = expected[expected.len() - 1];
                let has_gap = next
                    .is_some_and(|(address, _)| !address.is_multiple_of(PAGE) || !(last + length).is_multiple_of(PAGE));
                assert!(whole == most || whole == all || has_gap, "{ranges:x?}, at most {most}: only {bytes}");
            }
        }
    }
}
