//! Two sorted runs of records, as an LSM tree has them: in blocks of 16 KiB, the first key of each in an index in memory.

use iolane::{Error, Result};

use super::layout::{Layout, Part};

pub(crate) const BLOCK_BYTES: usize = 16 << 10;
pub(crate) const RECORD_BYTES: usize = 128;
/// Records of a block.
pub(crate) const RECORDS: usize = BLOCK_BYTES / RECORD_BYTES;

/// A key with its value, the square of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) key: u64,
    pub(crate) value: u64,
}

impl Record {
    pub(crate) fn of(key: u64) -> Self {
        Self { key, value: key.wrapping_mul(key) }
    }

    /// Writes it to the begin of its 128 bytes; the rest is left.
    pub(crate) fn write(self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.value.to_le_bytes());
    }
}

/// The record of that number in a block, or in several that follow each other.
pub(crate) fn record_at(blocks: &[u8], number: usize) -> Record {
    let at = number * RECORD_BYTES;
    let word = |at: usize| u64::from_le_bytes(blocks[at..at + 8].try_into().expect("eight bytes"));
    Record { key: word(at), value: word(at + 8) }
}

/// The index of one run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) part: Part,
    /// The keys of a run are its number, and that plus multiples of [`Sorted::KEY_STEP`].
    first_keys: Vec<u64>,
}

impl Run {
    fn new(part: Part, number: u64) -> Self {
        let first_key = |block: u64| Sorted::key(number, block * RECORDS as u64);
        Self { part, first_keys: (0..part.blocks(BLOCK_BYTES)).map(first_key).collect() }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.first_keys.len() as u64
    }

    /// The offset of the block that has the key, if any has it.
    fn offset_of(&self, key: u64) -> u64 {
        let block = self.first_keys.partition_point(|first| *first <= key).saturating_sub(1);
        self.part.start + (block * BLOCK_BYTES) as u64
    }
}

/// Both runs. Their keys interleave, and a gap lies between any two.
#[derive(Debug, Clone)]
pub(crate) struct Sorted {
    pub(crate) runs: [Run; 2],
}

impl Sorted {
    const KEY_STEP: u64 = 4;

    pub(crate) fn new(layout: &Layout) -> Self {
        Self { runs: [Run::new(layout.runs[0], 0), Run::new(layout.runs[1], 1)] }
    }

    /// The key of a record: even keys only, in turn from run 0 and run 1.
    fn key(run: u64, record: u64) -> u64 {
        Self::KEY_STEP * record + 2 * run
    }

    /// Keys that are in it, of all of them.
    pub(crate) fn keys(&self) -> u64 {
        self.runs.iter().map(Run::blocks).sum::<u64>() * RECORDS as u64
    }

    /// The key of that number, from 0 to [`keys`](Self::keys).
    pub(crate) fn nth_key(&self, number: u64) -> u64 {
        2 * number
    }

    /// The offset of the block that holds a key: an LSM tree's filters tell which run has it.
    pub(crate) fn offset_of(&self, key: u64) -> u64 {
        self.runs[(key / 2 % 2) as usize].offset_of(key)
    }

    /// The value of a key in its block; `None` if the block does not have it.
    pub(crate) fn find(block: &[u8], key: u64) -> Option<u64> {
        let (mut low, mut high) = (0, block.len() / RECORD_BYTES);
        while low < high {
            let middle = (low + high) / 2;
            let record = record_at(block, middle);
            match record.key.cmp(&key) {
                std::cmp::Ordering::Equal => return Some(record.value),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Checks that a chunk begins with the record that was written there.
    ///
    /// # Errors
    /// `Failed` if it begins with something else.
    pub(crate) fn check(&self, offset: u64, chunk: &[u8]) -> Result<()> {
        let number = usize::from(offset >= self.runs[1].part.start);
        let record = (offset - self.runs[number].part.start) / RECORD_BYTES as u64;
        match record_at(chunk, 0) == Record::of(Self::key(number as u64, record)) {
            true => Ok(()),
            false => Err(Error::failed("a sorted run", "it does not hold what was written")
                .remedy("let nothing else write to the target")),
        }
    }

    /// Fills a chunk of whole blocks of a run, from that block on.
    pub(crate) fn fill(run: u64, first_block: u64, chunk: &mut [u8]) {
        for (number, record) in chunk.chunks_exact_mut(RECORD_BYTES).enumerate() {
            record.fill(0);
            Record::of(Self::key(run, first_block * RECORDS as u64 + number as u64)).write(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use iolane::Target;

    use super::*;

    #[test]
    fn every_key_is_found_in_the_block_that_the_index_names() {
        let layout = Layout::of(&Target::open("null").unwrap(), 0, Some(16 << 20)).unwrap();
        let sorted = Sorted::new(&layout);
        let mut block = vec![0; BLOCK_BYTES];
        for number in (0..sorted.keys()).step_by(997).chain([sorted.keys() - 1]) {
            let key = sorted.nth_key(number);
            let offset = sorted.offset_of(key);
            let run = u64::from(offset >= layout.runs[1].start);
            Sorted::fill(run, (offset - layout.runs[run as usize].start) / BLOCK_BYTES as u64, &mut block);
            assert_eq!(Sorted::find(&block, key), Some(key.wrapping_mul(key)), "{key}");
            assert_eq!(Sorted::find(&block, key + 1), None);
        }
    }
}
