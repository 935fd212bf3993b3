//! Compressed blocks: each is 4 KiB on the target, and 16 KiB of records in memory.

use iolane::{Error, Result};

use super::sorted::{RECORD_BYTES, Record, record_at};

pub(crate) const PACKED_BYTES: usize = 4 << 10;
pub(crate) const UNPACKED_BYTES: usize = 16 << 10;
/// The length of the compressed bytes, before them.
const HEADER_BYTES: usize = 2;
const RECORDS: usize = UNPACKED_BYTES / RECORD_BYTES;

/// Makes and opens packed blocks.
#[derive(Debug)]
pub(crate) struct Packed {
    unpacked: Vec<u8>,
}

impl Packed {
    pub(crate) fn new() -> Self {
        Self { unpacked: vec![0; UNPACKED_BYTES] }
    }

    fn first_key(number: u64) -> u64 {
        number * RECORDS as u64
    }

    /// Fills one block.
    ///
    /// # Errors
    /// `Failed` if the records do not fit, which a test excludes.
    pub(crate) fn fill(&mut self, number: u64, block: &mut [u8]) -> Result<()> {
        for (record, bytes) in self.unpacked.chunks_exact_mut(RECORD_BYTES).enumerate() {
            Record::of(Self::first_key(number) + record as u64).write(bytes);
        }
        block.fill(0);
        let (header, room) = block.split_at_mut(HEADER_BYTES);
        let compressed = lz4_flex::block::compress(&self.unpacked);
        let Some(room) = room.get_mut(..compressed.len()) else {
            return Err(Error::failed("compressing a block", format!("it has {} bytes", compressed.len())));
        };
        room.copy_from_slice(&compressed);
        header.copy_from_slice(&(compressed.len() as u16).to_le_bytes());
        Ok(())
    }

    /// Decompresses the block of that number to `to`, which has 16 KiB.
    ///
    /// # Errors
    /// `Failed` if it holds something else.
    pub(crate) fn open(number: u64, block: &[u8], to: &mut [u8]) -> Result<()> {
        let damaged = || {
            Error::failed(format!("packed block {number}"), "it does not hold what was written")
                .remedy("let nothing else write to the target")
        };
        let bytes = usize::from(u16::from_le_bytes([block[0], block[1]]));
        let compressed = block.get(HEADER_BYTES..HEADER_BYTES + bytes).ok_or_else(damaged)?;
        let unpacked = lz4_flex::block::decompress_into(compressed, to).map_err(|_| damaged())?;
        let (first, last) = (Self::first_key(number), Self::first_key(number + 1) - 1);
        let is_whole = unpacked == UNPACKED_BYTES
            && record_at(to, 0) == Record::of(first)
            && record_at(to, RECORDS - 1) == Record::of(last);
        if is_whole { Ok(()) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_opened_as_it_was_filled_and_another_or_a_damaged_one_is_refused() {
        let (mut block, mut to) = (vec![0; PACKED_BYTES], vec![0; UNPACKED_BYTES]);
        for number in [0, 1, 77, 1 << 20, 1 << 40] {
            Packed::new().fill(number, &mut block).unwrap();
            Packed::open(number, &block, &mut to).unwrap();
            assert_eq!(record_at(&to, RECORDS - 1), Record::of((number + 1) * RECORDS as u64 - 1));
            assert!(Packed::open(number + 1, &block, &mut to).is_err());
        }
        block[1] = 0xff;
        assert!(Packed::open(1 << 40, &block, &mut to).is_err());
    }
}
