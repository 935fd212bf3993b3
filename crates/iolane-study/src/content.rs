//! What `--verify` writes and how it is recognised: every unit of a block says where it belongs, which write it is of
//! and whether it is whole; `Generations` is the book of which write each block should hold. The engine calls both
//! around its requests. Nothing here performs I/O.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use iolane::units::Bytes;
use iolane::{Error, Result};

/// The smallest block that can be filled and checked, in bytes: the header and some filling.
pub const UNIT_BYTES_MIN: usize = 64;

/// The generation of what a target is prepared with before the first write of a run; a later run with the same run id
/// knows it again.
pub const PREFILL: u64 = 0;

/// Blocks are stamped in units of the smallest sector a device has, so that a write torn between sectors shows.
const SECTOR_BYTES: usize = 512;

const MAGIC: u64 = u64::from_le_bytes(*b"iolane 1");

/// Writes the content of a generation that belongs at target offset `offset` (bytes) into `buffer`, for the run `run`.
///
/// The buffer is stamped in units of 512 bytes if its offset and length are multiples of that, else as one unit, which
/// can be checked at the same offset and length alone; [`Generations::fill`] sees to that.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn fill(buffer: &mut [u8], offset: u64, generation: u64, run: u64) {
    let unit_bytes = unit_bytes(offset, buffer.len());
    let mut header = Header { checksum: 0, unit_bytes: unit_bytes as u32, magic: MAGIC, offset, generation, run };
    for unit in buffer.chunks_exact_mut(unit_bytes) {
        header.stamp(unit);
        header.offset += unit_bytes as u64;
    }
}

/// Compares what was read into `buffer` from target offset `offset` (bytes) with what the run `run` wrote there.
///
/// # Errors
/// The first unit that does not hold what it should.
///
/// # Panics
/// If the buffer is shorter than [`UNIT_BYTES_MIN`].
pub fn check(buffer: &[u8], offset: u64, expected: Expected<'_>, run: u64) -> Result<(), Mismatch> {
    let unit_bytes = unit_bytes(offset, buffer.len());
    if matches!(expected, Expected::Unwritten) {
        return Ok(());
    }
    let units = || (offset..).step_by(unit_bytes).zip(buffer.chunks_exact(unit_bytes));
    let difference = |(at, unit): (u64, &[u8])| Header::read(unit).difference(unit, at, expected, run);
    for (at, unit) in units() {
        if let Some(field) = difference((at, unit)) {
            let others_are_right = units().any(|other| difference(other).is_none());
            return Err(Mismatch::new(at, unit, field, expected, run, others_are_right));
        }
    }
    Ok(())
}

fn unit_bytes(offset: u64, block_bytes: usize) -> usize {
    assert!(block_bytes >= UNIT_BYTES_MIN, "a block of {block_bytes} bytes; content needs {UNIT_BYTES_MIN} at least");
    let in_sectors = offset.is_multiple_of(SECTOR_BYTES as u64) && block_bytes.is_multiple_of(SECTOR_BYTES);
    if in_sectors { SECTOR_BYTES } else { block_bytes }
}

/// Which generations a block may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// This one.
    Exactly(u64),
    /// One of these: where writes overlapped or power failed, each unit may hold any.
    AnyOf(&'a [u64]),
    /// Nobody knows; not checked.
    Unwritten,
}

impl Expected<'_> {
    fn generations(&self) -> &[u64] {
        match self {
            Self::Exactly(generation) => std::slice::from_ref(generation),
            Self::AnyOf(generations) => generations,
            Self::Unwritten => &[],
        }
    }
}

/// What stands at the start of a unit; filling that follows from it takes up the rest.
///
/// On the target: the fields in this order, little-endian, without gaps. The checksum is the CRC-32 (IEEE 802.3) of
/// all of the unit after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    checksum: u32,
    unit_bytes: u32,
    magic: u64,
    offset: u64,
    generation: u64,
    run: u64,
}

impl Header {
    const BYTES: usize = 40;
    const CHECKSUM_BYTES: usize = 4;

    fn read(unit: &[u8]) -> Self {
        let (words, _) = unit[..Self::BYTES].as_chunks::<8>();
        let word = |place: usize| u64::from_le_bytes(words[place]);
        Self {
            checksum: word(0) as u32,
            unit_bytes: (word(0) >> 32) as u32,
            magic: word(1),
            offset: word(2),
            generation: word(3),
            run: word(4),
        }
    }

    /// Writes a whole unit with this header; the checksum is computed.
    fn stamp(&self, unit: &mut [u8]) {
        let (words, filling) = unit.split_at_mut(Self::BYTES);
        let values = [u64::from(self.unit_bytes) << 32, self.magic, self.offset, self.generation, self.run];
        for (word, value) in words.as_chunks_mut::<8>().0.iter_mut().zip(values) {
            *word = value.to_le_bytes();
        }
        self.write_filling(filling);
        let checksum = checksum(unit);
        unit[..Self::CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Fills with bytes that no drive can compress or find twice, at one multiplication per 8 bytes.
    fn write_filling(&self, filling: &mut [u8]) {
        let mut state = mix(self.offset ^ mix(self.generation ^ mix(self.run)));
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state).to_le_bytes()
        };
        let (words, rest) = filling.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = next());
        rest.copy_from_slice(&next()[..rest.len()]);
    }

    /// The first field that shows `unit`, which has this header, not to be what belongs at `offset`.
    fn difference(&self, unit: &[u8], offset: u64, expected: Expected<'_>, run: u64) -> Option<Field> {
        // The magic and the length come before the checksum, for they tell what else a bad checksum may mean; the other
        // fields come after it, for they mean nothing in a unit that is not whole.
        if self.magic != MAGIC {
            Some(Field::Magic)
        } else if self.unit_bytes as usize != unit.len() {
            Some(Field::UnitBytes)
        } else if self.checksum != checksum(unit) {
            Some(Field::Checksum)
        } else if self.run != run {
            Some(Field::Run)
        } else if self.offset != offset {
            Some(Field::Offset)
        } else if !expected.generations().contains(&self.generation) {
            Some(Field::Generation)
        } else {
            None
        }
    }
}

fn checksum(unit: &[u8]) -> u32 {
    crc32fast::hash(&unit[Header::CHECKSUM_BYTES..])
}

#[inline]
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// The part of a unit by which it was found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The mark that this module wrote it.
    Magic,
    /// The length of the unit.
    UnitBytes,
    /// The checksum over the unit.
    Checksum,
    /// The run that wrote it.
    Run,
    /// Where on the target it belongs.
    Offset,
    /// Which write it is of.
    Generation,
}

/// What most likely happened to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// All zeroes: never written, discarded, or its first write was lost.
    Zeroes,
    /// Something else than this module wrote it, or its header is corrupt.
    Foreign,
    /// It was written as part of a block of another size, or its header is corrupt.
    OtherBlockSize,
    /// It is not whole: torn within the unit, or corrupt.
    Corrupt,
    /// An earlier run wrote it: the write of this run was lost.
    OtherRun,
    /// It belongs elsewhere: a write went to the wrong place, or the read came from there.
    Misdirected,
    /// All of the block is of an older write: the last was acknowledged and lost, or the read was stale.
    LostWrite,
    /// A part of the block is of an older write: the last was acknowledged and written in part.
    TornWrite,
    /// It is of a write that was not acknowledged, or that the book knows nothing of.
    UnknownWrite,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zeroes => "never written or discarded, or a lost write: all bytes are 0",
            Self::Foreign => "content that is not of --verify, or a corrupt header",
            Self::OtherBlockSize => "content written with another block size, or a corrupt header",
            Self::Corrupt => "torn or corrupt data",
            Self::OtherRun => "a lost write: the content is of another run",
            Self::Misdirected => "a misdirected write or read: the content belongs elsewhere",
            Self::LostWrite => "a lost write or a stale read: the content is of an older write",
            Self::TornWrite => "a torn write: this part is older than other parts of the block",
            Self::UnknownWrite => "a write that was not acknowledged: the content is newer than the last one that was",
        })
    }
}

/// A unit that did not hold what was written there; printed as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where on the target the unit was read, in bytes.
    pub offset: u64,
    /// The first field that differs.
    pub field: Field,
    /// What most likely happened.
    pub cause: Cause,
    expected_generations: Vec<u64>,
    expected_run: u64,
    found: Header,
    unit_bytes: usize,
    /// Of the bytes as they were read.
    checksum: u32,
}

impl std::error::Error for Mismatch {}

impl Mismatch {
    #[cold]
    fn new(offset: u64, unit: &[u8], field: Field, expected: Expected<'_>, run: u64, others_are_right: bool) -> Self {
        let found = Header::read(unit);
        let generations = expected.generations();
        let cause = match field {
            Field::Magic if unit.iter().all(|byte| *byte == 0) => Cause::Zeroes,
            Field::Magic => Cause::Foreign,
            Field::UnitBytes => Cause::OtherBlockSize,
            Field::Checksum => Cause::Corrupt,
            Field::Run => Cause::OtherRun,
            Field::Offset => Cause::Misdirected,
            Field::Generation if generations.iter().all(|generation| *generation < found.generation) => {
                Cause::UnknownWrite
            }
            Field::Generation if others_are_right => Cause::TornWrite,
            Field::Generation => Cause::LostWrite,
        };
        Self {
            offset,
            field,
            cause,
            expected_generations: generations.to_vec(),
            expected_run: run,
            found,
            unit_bytes: unit.len(),
            checksum: checksum(unit),
        }
    }

    fn expected_generation(&self) -> String {
        self.expected_generations.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ")
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, offset, unit_bytes, .. } = self;
        let generation = self.expected_generation();
        write!(f, "target offset {offset}: ")?;
        match self.field {
            Field::Magic => write!(f, "magic differs: expected {MAGIC:#018x}, found {:#018x}", found.magic),
            Field::UnitBytes => write!(f, "unit length differs: expected {unit_bytes}, found {}", found.unit_bytes),
            Field::Checksum => {
                write!(f, "checksum differs: expected {:#010x}, found {:#010x}", found.checksum, self.checksum)
            }
            Field::Run => write!(f, "run differs: expected {}, found {}", self.expected_run, found.run),
            Field::Offset => write!(f, "offset differs: expected {offset}, found {}", found.offset),
            Field::Generation => write!(f, "generation differs: expected {generation}, found {}", found.generation),
        }?;
        write!(
            f,
            "; these {unit_bytes} bytes should be offset {offset} generation {generation}, and read \
             offset {} generation {} checksum {:#010x} over data of {:#010x}; likely {}",
            found.offset, found.generation, found.checksum, self.checksum, self.cause
        )
    }
}

/// The book of what was written where, one entry for each block of the smallest size.
///
/// Threads share it: each entry is claimed by itself, without a lock. A range that is being written is given to nobody
/// else, one that is being read to other readers alone; so what a read should find is known exactly.
///
/// Generations count to 4 194 303 and go on with 1: a lost write is missed only if the old content is a whole round
/// old. What an earlier run with the same run id wrote can be mistaken for this run's, if its write here is lost: a run
/// that writes prepares the target first, or takes a run id of its own.
///
/// Ranges are `offset` and `bytes` on the target. Every method that takes one panics if it is empty, reaches outside
/// the region, or is not made of whole blocks of the smallest size.
#[derive(Debug)]
pub struct Generations {
    /// The first multiple of `unit_bytes` in the region.
    start: u64,
    unit_bytes: u32,
    run: u64,
    entries: Box<[AtomicU32]>,
}

/// An entry: the generation last written, how many read it now, whether its content is unknown, whether it is written.
const GENERATION: u32 = READER - 1;
const READER: u32 = 1 << 22;
const READERS: u32 = UNKNOWN - READER;
const UNKNOWN: u32 = 1 << 30;
const WRITING: u32 = 1 << 31;

impl Generations {
    /// The most memory a book may take, in bytes: enough for 1 TiB in blocks of 4 KiB.
    pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

    /// A book of `bytes` of a target from `start`, all of it holding generation [`PREFILL`] of the run `run`.
    ///
    /// # Errors
    /// `Usage` if a unit is shorter than [`UNIT_BYTES_MIN`] or the region holds none; `Exhausted` if the book would
    /// be larger than [`MEMORY_BYTES_MAX`](Self::MEMORY_BYTES_MAX) or memory runs out.
    pub fn prefilled(start: u64, bytes: u64, unit_bytes: u32, run: u64) -> Result<Self> {
        Self::new(start, bytes, unit_bytes, run, PREFILL as u32)
    }

    /// A book of `bytes` of a target from `start` whose content is unknown; nothing is checked before it is written.
    ///
    /// # Errors
    /// As [`prefilled`](Self::prefilled).
    pub fn unwritten(start: u64, bytes: u64, unit_bytes: u32, run: u64) -> Result<Self> {
        Self::new(start, bytes, unit_bytes, run, UNKNOWN)
    }

    fn new(start: u64, bytes: u64, unit_bytes: u32, run: u64, entry: u32) -> Result<Self> {
        let what = || format!("--verify of {} in blocks of {}", Bytes(bytes), Bytes(unit_bytes.into()));
        if (unit_bytes as usize) < UNIT_BYTES_MIN {
            return Err(Error::usage(what(), format!("a block needs {UNIT_BYTES_MIN} bytes to say what it holds")));
        }
        let unit = u64::from(unit_bytes);
        let first = start.checked_next_multiple_of(unit);
        let units =
            first.and_then(|first| start.checked_add(bytes)?.checked_sub(first)).map_or(0, |bytes| bytes / unit);
        if units == 0 {
            return Err(Error::usage(what(), "the region holds no whole block").remedy("use a larger --size"));
        }
        let memory_bytes = units.saturating_mul(size_of::<AtomicU32>() as u64);
        let too_large =
            |cause: String| Err(Error::exhausted(what(), cause).remedy("use a smaller --size or larger --bs"));
        if memory_bytes > Self::MEMORY_BYTES_MAX {
            let limit = Bytes(Self::MEMORY_BYTES_MAX);
            return too_large(format!("the book of what was written needs {memory_bytes} bytes, {limit} at most"));
        }
        let mut entries = Vec::new();
        if entries.try_reserve_exact(units as usize).is_err() {
            return too_large(format!("no memory for {memory_bytes} bytes, the book of what was written"));
        }
        entries.extend((0..units).map(|_| AtomicU32::new(entry)));
        Ok(Self { start: first.unwrap_or(start), unit_bytes, run, entries: entries.into() })
    }

    /// Claims a range for a write and gives its generation, or `None` if a part of it is being read or written.
    pub fn try_begin_write(&self, offset: u64, bytes: u64) -> Option<u64> {
        let entries = self.entries(offset, bytes);
        let begin = |state: u32| (state & (READERS | WRITING) == 0).then_some(state | WRITING);
        let end = |entry: &AtomicU32| entry.fetch_and(!WRITING, Ordering::Release);
        claim(entries, begin, end)?;
        let newest = entries.iter().map(|entry| entry.load(Ordering::Relaxed) & GENERATION).fold(0, u32::max);
        let generation = if newest == GENERATION { 1 } else { newest + 1 };
        // The claim keeps everyone else from changing an entry, so plain stores do. Until the write has ended, an entry
        // counts as unknown: what is there is of the old generation, the new one, or both.
        entries.iter().for_each(|entry| entry.store(generation | UNKNOWN | WRITING, Ordering::Relaxed));
        Some(u64::from(generation))
    }

    /// Ends a write: the range holds its generation if it was written whole (`ok`), and is unknown if not.
    pub fn end_write(&self, offset: u64, bytes: u64, ok: bool) {
        let over = if ok { WRITING | UNKNOWN } else { WRITING };
        for entry in self.entries(offset, bytes) {
            let before = entry.fetch_and(!over, Ordering::Release);
            debug_assert!(before & WRITING != 0, "end_write at {offset} without try_begin_write");
        }
    }

    /// Claims a range for a read; false if a part of it is being written, or by 255 readers read.
    pub fn try_begin_read(&self, offset: u64, bytes: u64) -> bool {
        let begin = |state: u32| (state & WRITING == 0 && state & READERS != READERS).then(|| state + READER);
        let end = |entry: &AtomicU32| entry.fetch_sub(READER, Ordering::Release);
        claim(self.entries(offset, bytes), begin, end).is_some()
    }

    /// Ends a read, once its content is [checked](Self::check).
    pub fn end_read(&self, offset: u64, bytes: u64) {
        for entry in self.entries(offset, bytes) {
            let before = entry.fetch_sub(READER, Ordering::Release);
            debug_assert!(before & READERS != 0, "end_read at {offset} without try_begin_read");
        }
    }

    /// Fills `buffer` with what a write of `generation` at `offset` puts there.
    pub fn fill(&self, buffer: &mut [u8], offset: u64, generation: u64) {
        let _ = self.entries(offset, buffer.len() as u64);
        let offsets = (offset..).step_by(self.unit_bytes as usize);
        for (block, at) in buffer.chunks_exact_mut(self.unit_bytes as usize).zip(offsets) {
            fill(block, at, generation, self.run);
        }
    }

    /// Compares what a claimed read brought from `offset` with what the book says.
    ///
    /// # Errors
    /// The first unit that does not hold what it should.
    pub fn check(&self, buffer: &[u8], offset: u64) -> Result<(), Mismatch> {
        let entries = self.entries(offset, buffer.len() as u64);
        let offsets = (offset..).step_by(self.unit_bytes as usize);
        for ((block, at), entry) in buffer.chunks_exact(self.unit_bytes as usize).zip(offsets).zip(entries) {
            check(block, at, expected(entry), self.run)?;
        }
        Ok(())
    }

    /// What the block that begins at `offset` should hold.
    pub fn expected(&self, offset: u64) -> Expected<'static> {
        expected(&self.entries(offset, self.unit_bytes.into())[0])
    }

    /// The size of the blocks the book is kept in, in bytes.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// What the book covers: the first byte, and the length in bytes, which is a multiple of the unit.
    pub fn region(&self) -> (u64, u64) {
        (self.start, self.entries.len() as u64 * u64::from(self.unit_bytes))
    }

    fn entries(&self, offset: u64, bytes: u64) -> &[AtomicU32] {
        let unit = u64::from(self.unit_bytes);
        let whole = bytes > 0 && offset.is_multiple_of(unit) && bytes.is_multiple_of(unit);
        let first = offset.checked_sub(self.start).map(|bytes| (bytes / unit) as usize);
        let entries = first.and_then(|first| self.entries.get(first..)?.get(..(bytes / unit) as usize));
        entries.filter(|_| whole).unwrap_or_else(|| {
            let (start, length) = self.region();
            panic!("{bytes} bytes at {offset} are not whole blocks of {unit} bytes in the {length} bytes from {start}")
        })
    }
}

fn expected(entry: &AtomicU32) -> Expected<'static> {
    match entry.load(Ordering::Relaxed) {
        state if state & UNKNOWN != 0 => Expected::Unwritten,
        state => Expected::Exactly(u64::from(state & GENERATION)),
    }
}

/// Claims all entries or none. Acquire pairs with the Release of whoever ended: what it wrote in the entry is seen.
fn claim(entries: &[AtomicU32], begin: impl Fn(u32) -> Option<u32>, end: impl Fn(&AtomicU32) -> u32) -> Option<()> {
    let taken =
        entries.iter().take_while(|e| e.fetch_update(Ordering::Acquire, Ordering::Relaxed, &begin).is_ok()).count();
    if taken == entries.len() {
        return Some(());
    }
    entries[..taken].iter().for_each(|entry| {
        end(entry);
    });
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::ErrorKind;
    use proptest::prelude::*;

    const RUN: u64 = 77;

    fn filled(bytes: usize, offset: u64, generation: u64) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        fill(&mut buffer, offset, generation, RUN);
        buffer
    }

    fn mismatch(buffer: &[u8], offset: u64, expected: Expected<'_>) -> Mismatch {
        check(buffer, offset, expected, RUN).unwrap_err()
    }

    #[test]
    fn content_is_found_whole_where_and_when_it_was_written() {
        for (bytes, offset) in [(64, 0), (100, 100), (512, 512), (1000, 3000), (4096, 1 << 40), (4097, 3), (4096, 100)]
        {
            let buffer = filled(bytes, offset, 5);
            assert_eq!(check(&buffer, offset, Expected::Exactly(5), RUN), Ok(()));
        }
    }

    #[test]
    fn content_written_in_large_blocks_can_be_read_in_smaller_ones() {
        let buffer = filled(8192, 4096, 3);
        for (place, part) in buffer.chunks(1024).enumerate() {
            assert_eq!(check(part, 4096 + place as u64 * 1024, Expected::Exactly(3), RUN), Ok(()));
        }
    }

    #[test]
    fn a_misdirected_write_is_told_with_both_offsets() {
        let mismatch = mismatch(&filled(4096, 8192, 7), 4096, Expected::Exactly(7));
        assert_eq!((mismatch.offset, mismatch.field, mismatch.cause), (4096, Field::Offset, Cause::Misdirected));
        let line = mismatch.to_string();
        assert!(line.starts_with("target offset 4096: offset differs: expected 4096, found 8192; "), "{line}");
        assert!(line.contains("misdirected") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn a_lost_write_is_told_with_both_generations() {
        let mismatch = mismatch(&filled(4096, 4096, 6), 4096, Expected::Exactly(7));
        assert_eq!((mismatch.field, mismatch.cause), (Field::Generation, Cause::LostWrite));
        let line = mismatch.to_string();
        assert!(line.contains("generation differs: expected 7, found 6") && line.contains("lost write"), "{line}");
    }

    #[test]
    fn a_write_torn_between_sectors_is_told_apart_from_a_lost_one() {
        let mut buffer = filled(4096, 0, 7);
        buffer[1024..].copy_from_slice(&filled(4096, 0, 6)[1024..]);
        let mismatch = mismatch(&buffer, 0, Expected::Exactly(7));
        assert_eq!((mismatch.offset, mismatch.field, mismatch.cause), (1024, Field::Generation, Cause::TornWrite));
        assert!(mismatch.to_string().contains("torn write"), "{mismatch}");
    }

    #[test]
    fn a_write_torn_within_a_sector_is_told_with_both_checksums() {
        for cut in [41, 256, 511] {
            let mut buffer = filled(512, 0, 7);
            buffer[cut..].copy_from_slice(&filled(512, 0, 6)[cut..]);
            let mismatch = mismatch(&buffer, 0, Expected::Exactly(7));
            assert_eq!((mismatch.field, mismatch.cause), (Field::Checksum, Cause::Corrupt), "{cut}");
            let (stored, of_data) = (u32::from_le_bytes(buffer[..4].try_into().unwrap()), checksum(&buffer));
            let both = format!("expected {stored:#010x}, found {of_data:#010x}");
            assert!(
                mismatch.to_string().contains(&both) && mismatch.to_string().contains("torn or corrupt"),
                "{mismatch}"
            );
        }
    }

    #[test]
    fn content_newer_than_any_acknowledged_write_is_told_as_such() {
        let mismatch = mismatch(&filled(512, 0, 9), 0, Expected::AnyOf(&[7, 8]));
        assert_eq!((mismatch.field, mismatch.cause), (Field::Generation, Cause::UnknownWrite));
        assert!(mismatch.to_string().contains("expected 7 or 8, found 9"), "{mismatch}");
    }

    #[test]
    fn zeroes_foreign_data_other_runs_and_other_block_sizes_are_told_apart() {
        assert_eq!(mismatch(&[0; 4096], 0, Expected::Exactly(0)).cause, Cause::Zeroes);
        assert_eq!(mismatch(&[0xff; 4096], 0, Expected::Exactly(0)).cause, Cause::Foreign);
        assert_eq!(mismatch(&filled(1000, 0, 1)[..100], 0, Expected::Exactly(1)).cause, Cause::OtherBlockSize);
        let mismatch = check(&filled(512, 0, 1), 0, Expected::Exactly(1), RUN + 1).unwrap_err();
        assert_eq!(mismatch.cause, Cause::OtherRun);
        assert!(mismatch.to_string().contains("run differs: expected 78, found 77"), "{mismatch}");
    }

    #[test]
    fn what_may_hold_several_generations_takes_each_and_what_is_unwritten_is_not_checked() {
        let mut buffer = filled(1024, 0, 7);
        fill(&mut buffer[512..], 512, 8, RUN);
        assert_eq!(check(&buffer, 0, Expected::AnyOf(&[7, 8]), RUN), Ok(()));
        assert!(check(&buffer, 0, Expected::AnyOf(&[7, 9]), RUN).is_err());
        assert!(check(&buffer, 0, Expected::AnyOf(&[]), RUN).is_err());
        assert_eq!(check(&[1; 1024], 0, Expected::Unwritten, RUN), Ok(()));
    }

    #[test]
    fn no_eight_bytes_of_filling_occur_twice() {
        let mut words = Vec::new();
        for (offset, generation, run) in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1 << 18, 0, 0), (1 << 18, 1, 1)] {
            let mut buffer = vec![0; 1 << 18];
            fill(&mut buffer, offset, generation, run);
            words.extend(buffer.chunks(512).flat_map(|unit| unit[Header::BYTES..].as_chunks::<8>().0.to_vec()));
        }
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
    }

    #[test]
    #[should_panic(expected = "a block of 63 bytes")]
    fn a_block_too_small_for_a_header_is_refused() {
        fill(&mut [0; 63], 0, 0, 0);
    }

    fn book(units: u64) -> Generations {
        Generations::prefilled(0, units * 4096, 4096, RUN).unwrap()
    }

    #[test]
    fn a_range_being_written_is_given_to_nobody_else() {
        let book = book(10);
        assert_eq!(book.try_begin_write(4096, 3 * 4096), Some(1));
        for offset in [4096, 8192, 12_288] {
            assert_eq!(book.try_begin_write(offset, 4096), None);
            assert!(!book.try_begin_read(offset, 4096));
        }
        assert_eq!(book.try_begin_write(0, 8192), None);
        assert_eq!(book.try_begin_write(0, 4096), Some(1), "a refused claim leaves nothing claimed");
        book.end_write(4096, 3 * 4096, true);
        assert_eq!(book.try_begin_write(8192, 4096), Some(2));
    }

    #[test]
    fn readers_share_a_range_and_keep_writers_out() {
        let book = book(4);
        assert!(book.try_begin_read(0, 8192) && book.try_begin_read(4096, 8192));
        assert_eq!(book.try_begin_write(4096, 4096), None);
        book.end_read(0, 8192);
        assert_eq!((book.try_begin_write(4096, 4096), book.try_begin_write(0, 4096)), (None, Some(1)));
        book.end_read(4096, 8192);
        assert_eq!(book.try_begin_write(4096, 8192), Some(1));
    }

    #[test]
    fn readers_beyond_the_count_an_entry_holds_are_turned_away() {
        let book = book(1);
        assert_eq!((0..300).filter(|_| book.try_begin_read(0, 4096)).count(), 255);
        assert_eq!(book.try_begin_write(0, 4096), None);
        (0..255).for_each(|_| book.end_read(0, 4096));
        assert_eq!(book.expected(0), Expected::Exactly(PREFILL));
        assert_eq!(book.try_begin_write(0, 4096), Some(1));
    }

    #[test]
    fn a_write_over_several_blocks_is_newer_than_all_of_them() {
        let book = book(3);
        for _ in 0..5 {
            book.try_begin_write(4096, 4096).unwrap();
            book.end_write(4096, 4096, true);
        }
        assert_eq!(book.try_begin_write(0, 3 * 4096), Some(6));
        book.end_write(0, 3 * 4096, true);
        assert_eq!(book.expected(0), Expected::Exactly(6));
    }

    #[test]
    fn a_failed_write_leaves_its_range_unchecked_until_it_is_rewritten() {
        let book = book(2);
        assert_eq!(book.expected(0), Expected::Exactly(PREFILL));
        let failed = book.try_begin_write(0, 4096).unwrap();
        book.end_write(0, 4096, false);
        assert_eq!((book.expected(0), book.expected(4096)), (Expected::Unwritten, Expected::Exactly(PREFILL)));
        let again = book.try_begin_write(0, 4096).unwrap();
        assert!(again > failed);
        book.end_write(0, 4096, true);
        assert_eq!(book.expected(0), Expected::Exactly(again));
    }

    #[test]
    fn an_unwritten_target_is_checked_where_it_was_written_alone() {
        let book = Generations::unwritten(0, 8192, 4096, RUN).unwrap();
        assert_eq!(book.check(&[9; 8192], 0), Ok(()));
        let generation = book.try_begin_write(4096, 4096).unwrap();
        book.end_write(4096, 4096, true);
        assert_eq!(book.check(&[9; 8192], 0).unwrap_err().offset, 4096);
        let mut buffer = vec![9; 8192];
        book.fill(&mut buffer[4096..], 4096, generation);
        assert_eq!(book.check(&buffer, 0), Ok(()));
    }

    #[test]
    fn what_one_run_prefilled_another_with_the_same_id_knows() {
        let mut target = vec![0; 10 * 4096];
        book(10).fill(&mut target, 0, PREFILL);
        assert_eq!(book(10).check(&target, 0), Ok(()));
        let other = Generations::prefilled(0, 10 * 4096, 4096, RUN + 1).unwrap();
        assert_eq!(other.check(&target, 0).unwrap_err().cause, Cause::OtherRun);
    }

    #[test]
    fn blocks_of_odd_size_can_be_read_together_and_apart() {
        let book = Generations::prefilled(0, 10_000, 1000, RUN).unwrap();
        let mut buffer = vec![0; 3000];
        let generation = book.try_begin_write(1000, 3000).unwrap();
        book.fill(&mut buffer, 1000, generation);
        book.end_write(1000, 3000, true);
        assert_eq!(book.check(&buffer, 1000), Ok(()));
        assert_eq!(book.check(&buffer[1000..2000], 2000), Ok(()));
    }

    #[test]
    fn generations_go_round_without_a_second_prefill() {
        let book = book(1);
        book.entries[0].store(GENERATION - 1, Ordering::Relaxed);
        for expected in [u64::from(GENERATION), 1, 2] {
            assert_eq!(book.try_begin_write(0, 4096), Some(expected));
            book.end_write(0, 4096, true);
            assert_eq!(book.expected(0), Expected::Exactly(expected));
        }
    }

    #[test]
    fn a_book_covers_the_whole_blocks_of_its_region() {
        let book = Generations::prefilled(1000, 20_000, 4096, RUN).unwrap();
        assert_eq!(book.region(), (4096, 4 * 4096));
        assert_eq!(book.try_begin_write(4 * 4096, 4096), Some(1));
    }

    #[test]
    fn a_range_that_is_no_whole_blocks_of_the_region_panics() {
        let book = book(4);
        for (offset, bytes) in [(0, 0), (0, 100), (100, 4096), (4 * 4096, 4096), (0, 5 * 4096), (1 << 60, 4096)] {
            let panics = std::panic::catch_unwind(|| book.try_begin_write(offset, bytes)).is_err();
            assert!(panics, "{bytes} at {offset}");
        }
    }

    #[test]
    fn a_book_that_would_be_too_large_is_refused_with_its_limit() {
        let error = Generations::prefilled(0, 2 << 40, 4096, RUN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.to_string().contains("2147483648 bytes, 1g at most"), "{error}");
        assert!(Generations::prefilled(0, 4096, 63, RUN).is_err());
        assert!(Generations::prefilled(1, 4096, 4096, RUN).is_err());
        assert!(Generations::prefilled(u64::MAX, 4096, 4096, RUN).is_err());
    }

    #[test]
    fn threads_never_write_what_another_reads_or_writes() {
        const UNITS: u64 = 8;
        let book = book(UNITS);
        let users: Vec<AtomicU32> = (0..UNITS).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (book, users) = (&book, &users);
                scope.spawn(move || {
                    let mut state = thread;
                    for _ in 0..50_000 {
                        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15 + thread));
                        let (first, count) = (state % UNITS, (state >> 8) % 3 + 1);
                        let count = count.min(UNITS - first);
                        let (offset, bytes) = (first * 4096, count * 4096);
                        let mine = &users[first as usize..(first + count) as usize];
                        if state >> 63 == 0 {
                            if book.try_begin_read(offset, bytes) {
                                mine.iter().for_each(|user| assert!(user.fetch_add(1, Ordering::SeqCst) < 1000));
                                mine.iter().for_each(|user| assert!(user.fetch_sub(1, Ordering::SeqCst) < 1000));
                                book.end_read(offset, bytes);
                            }
                        } else if book.try_begin_write(offset, bytes).is_some() {
                            mine.iter().for_each(|user| assert_eq!(user.fetch_add(1000, Ordering::SeqCst), 0));
                            mine.iter().for_each(|user| assert_eq!(user.fetch_sub(1000, Ordering::SeqCst), 1000));
                            book.end_write(offset, bytes, true);
                        }
                    }
                });
            }
        });
        assert!((0..UNITS).all(|unit| matches!(book.expected(unit * 4096), Expected::Exactly(1..))));
        assert!(book.try_begin_write(0, UNITS * 4096).is_some(), "every claim was given back");
    }

    proptest! {
        #[test]
        fn any_single_flipped_bit_is_found(
            (bytes, offset) in prop_oneof![
                (64usize..3000, 0u64..1 << 50),
                (1usize..20, 0u64..1 << 40).prop_map(|(sectors, at)| (sectors * 512, at * 512)),
            ],
            generation: u64,
            bit in 0.0f64..1.0,
        ) {
            let mut buffer = filled(bytes, offset, generation);
            let bit = (bytes as f64 * 8.0 * bit) as usize;
            buffer[bit / 8] ^= 1 << (bit % 8);
            let mismatch = check(&buffer, offset, Expected::Exactly(generation), RUN).unwrap_err();
            let unit_bytes = unit_bytes(offset, bytes);
            prop_assert_eq!(mismatch.offset, offset + (bit / 8 / unit_bytes * unit_bytes) as u64);
            let header_bits = 32..128;
            let in_header = header_bits.contains(&(bit % (unit_bytes * 8)));
            prop_assert_eq!(mismatch.field == Field::Checksum, !in_header);
        }

        #[test]
        fn writes_in_any_order_read_back_right_and_a_lost_one_is_found(
            writes in prop::collection::vec((0u64..16, 1u64..5, any::<bool>()), 1..60),
            lost in any::<prop::sample::Index>(),
        ) {
            let book = book(20);
            let mut target = vec![0; 20 * 4096];
            book.fill(&mut target, 0, PREFILL);
            for (first, count, ok) in &writes {
                let (offset, bytes) = (first * 4096, count * 4096);
                let generation = book.try_begin_write(offset, bytes).unwrap();
                let written = if *ok { bytes } else { bytes / 2 };
                book.fill(&mut target[offset as usize..][..bytes as usize], offset, generation);
                target[(offset + written) as usize..(offset + bytes) as usize].fill(0xee);
                book.end_write(offset, bytes, *ok);
            }
            prop_assert_eq!(book.check(&target, 0), Ok(()));
            let (first, count, _) = writes[lost.index(writes.len())];
            let (offset, bytes) = (first * 4096, count * 4096);
            book.try_begin_write(offset, bytes).unwrap();
            book.end_write(offset, bytes, true);
            prop_assert_eq!(book.check(&target, 0).unwrap_err().offset, offset);
        }
    }
}
