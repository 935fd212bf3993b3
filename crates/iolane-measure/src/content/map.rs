//! `ContentMap`: which write each block of a target should hold, shared by the engines of a run. They claim ranges in it
//! around their requests. It holds no content and performs no I/O.

use std::sync::atomic::{AtomicU32, Ordering};

use iolane::units::Bytes;
use iolane::{Error, Result};

use super::header::{Expected, Origin};
use super::mismatch::Mismatch;
use super::units::{PREFILL, UNIT_BYTES_MIN, check, fill};

/// Which write each block of a target holds, one entry per block of the smallest size.
///
/// Threads share it and claim each entry without a lock. A range that is being written is exclusive; a range that is being
/// read is shared with other readers only. So the expected content of a read is known exactly.
///
/// Generations count to 4 194 303 and continue with 1: a lost write is missed only if the old content is exactly that many
/// writes old. Content of an earlier run of the same origin can be mistaken for this run's if a write is lost; a run
/// that writes therefore prepares the target first, or takes a run number of its own.
///
/// A range is `offset` and `bytes` on the target. Every method that takes one panics if it is empty, reaches outside the
/// region, or is not made of whole blocks of the smallest size.
#[derive(Debug)]
pub struct ContentMap {
    /// The first multiple of `unit_bytes` in the region.
    start: u64,
    unit_bytes: u32,
    origin: Origin,
    entries: Box<[AtomicU32]>,
}

// An entry, from the low bit: the generation last written, the number of current readers, whether the content is unknown,
// whether it is being written.
const GENERATION: u32 = READER - 1;
const READER: u32 = 1 << 22;
const READERS: u32 = UNKNOWN - READER;
const UNKNOWN: u32 = 1 << 30;
const WRITING: u32 = 1 << 31;

impl ContentMap {
    /// The most memory a map may take, in bytes: enough for 1 TiB in blocks of 4 KiB.
    pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

    /// A map of `bytes` of a target from `start`, all of it [prepared](Origin::prefill) with generation [`PREFILL`] of a seed.
    ///
    /// # Errors
    /// `Usage` if a unit is shorter than [`UNIT_BYTES_MIN`] or the region holds none; `Exhausted` if the map would
    /// be larger than [`MEMORY_BYTES_MAX`](Self::MEMORY_BYTES_MAX) or memory runs out.
    pub fn prefilled(start: u64, bytes: u64, unit_bytes: u32, seed: u64) -> Result<Self> {
        Self::new(start, bytes, unit_bytes, Origin::prefill(seed), PREFILL as u32)
    }

    /// A map of `bytes` of a target from `start` whose content is unknown; a block is checked once it has been written.
    ///
    /// # Errors
    /// As [`prefilled`](Self::prefilled).
    pub fn unwritten(start: u64, bytes: u64, unit_bytes: u32, origin: Origin) -> Result<Self> {
        Self::new(start, bytes, unit_bytes, origin, UNKNOWN)
    }

    fn new(start: u64, bytes: u64, unit_bytes: u32, origin: Origin, entry: u32) -> Result<Self> {
        let what = || format!("--verify of {} in blocks of {}", Bytes(bytes), Bytes(unit_bytes.into()));
        if (unit_bytes as usize) < UNIT_BYTES_MIN {
            return Err(Error::usage(what(), format!("a block needs at least {UNIT_BYTES_MIN} bytes for its header")));
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
            return too_large(format!(
                "the map of expected content would take {memory_bytes} bytes; the limit is {limit}"
            ));
        }
        let mut entries = Vec::new();
        if entries.try_reserve_exact(units as usize).is_err() {
            return too_large(format!("no memory for the map of expected content, {memory_bytes} bytes"));
        }
        entries.extend((0..units).map(|_| AtomicU32::new(entry)));
        Ok(Self { start: first.unwrap_or(start), unit_bytes, origin, entries: entries.into() })
    }

    /// Claims a range for a write and returns its generation; `None` if a part of it is being read or written.
    pub fn try_begin_write(&self, offset: u64, bytes: u64) -> Option<u64> {
        let entries = self.entries(offset, bytes);
        let begin = |state: u32| (state & (READERS | WRITING) == 0).then_some(state | WRITING);
        let end = |entry: &AtomicU32| entry.fetch_and(!WRITING, Ordering::Release);
        claim(entries, begin, end)?;
        let newest = entries.iter().map(|entry| entry.load(Ordering::Relaxed) & GENERATION).fold(0, u32::max);
        let generation = if newest == GENERATION { 1 } else { newest + 1 };
        debug_assert!(
            (1..=GENERATION).contains(&generation),
            "generation {generation} fits an entry and is no prefill"
        );
        // The claim keeps every other thread from changing an entry, so plain stores are enough. Until the write has ended
        // an entry counts as unknown: the block holds the old generation, the new one, or both.
        entries.iter().for_each(|entry| entry.store(generation | UNKNOWN | WRITING, Ordering::Relaxed));
        Some(u64::from(generation))
    }

    /// Ends a write. The range holds its generation if all of it was written (`ok`), and is unknown otherwise.
    pub fn end_write(&self, offset: u64, bytes: u64, ok: bool) {
        let over = if ok { WRITING | UNKNOWN } else { WRITING };
        for entry in self.entries(offset, bytes) {
            let before = entry.fetch_and(!over, Ordering::Release);
            debug_assert!(before & WRITING != 0, "end_write at {offset} without try_begin_write");
        }
    }

    /// Claims a range for a read; false if a part of it is being written or has 255 readers.
    pub fn try_begin_read(&self, offset: u64, bytes: u64) -> bool {
        let begin = |state: u32| (state & WRITING == 0 && state & READERS != READERS).then(|| state + READER);
        let end = |entry: &AtomicU32| entry.fetch_sub(READER, Ordering::Release);
        claim(self.entries(offset, bytes), begin, end).is_some()
    }

    /// Ends a read, after its content was [checked](Self::check).
    pub fn end_read(&self, offset: u64, bytes: u64) {
        for entry in self.entries(offset, bytes) {
            let before = entry.fetch_sub(READER, Ordering::Release);
            debug_assert!(before & READERS != 0, "end_read at {offset} without try_begin_read");
        }
    }

    /// Fills `buffer` with the content of `generation` at `offset`.
    pub fn fill(&self, buffer: &mut [u8], offset: u64, generation: u64) {
        let _ = self.entries(offset, buffer.len() as u64);
        let offsets = (offset..).step_by(self.unit_bytes as usize);
        for (block, at) in buffer.chunks_exact_mut(self.unit_bytes as usize).zip(offsets) {
            fill(block, at, generation, self.origin);
        }
    }

    /// Compares the data of a claimed read at `offset` with the expected content.
    ///
    /// # Errors
    /// The first unit that does not hold the expected content.
    pub fn check(&self, buffer: &[u8], offset: u64) -> Result<(), Mismatch> {
        let entries = self.entries(offset, buffer.len() as u64);
        let offsets = (offset..).step_by(self.unit_bytes as usize);
        for ((block, at), entry) in buffer.chunks_exact(self.unit_bytes as usize).zip(offsets).zip(entries) {
            check(block, at, expected(entry), self.origin)?;
        }
        Ok(())
    }

    /// The expected content of the block that begins at `offset`.
    pub fn expected(&self, offset: u64) -> Expected<'static> {
        expected(&self.entries(offset, self.unit_bytes.into())[0])
    }

    /// The offsets of the blocks whose content is known, in part `part` of `parts` of the region, which together are all of
    /// it.
    pub fn known_blocks(&self, part: u32, parts: u32) -> impl Iterator<Item = u64> + '_ {
        assert!(part < parts, "part {part} of {parts}");
        let begin = |part: u32| (self.entries.len() as u128 * u128::from(part) / u128::from(parts)) as usize;
        let entries = self.entries.iter().enumerate().take(begin(part + 1)).skip(begin(part));
        let known = entries.filter(|(_, entry)| expected(entry) != Expected::Unwritten);
        known.map(|(index, _)| self.start + index as u64 * u64::from(self.unit_bytes))
    }

    /// The size of the blocks that have an entry, in bytes.
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// The region covered: first byte, and length in bytes, a multiple of the unit.
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

/// Claims all entries or none. Acquire pairs with the Release of the thread that ended its claim, so that what it wrote in
/// the entry is visible here.
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
    use iolane::ErrorKind;
    use proptest::prelude::*;

    use super::super::header::mix;
    use super::super::mismatch::Cause;
    use super::*;

    const SEED: u64 = 7;
    const ORIGIN: Origin = Origin { seed: SEED, run: 77 };

    fn content_map(units: u64) -> ContentMap {
        ContentMap::prefilled(0, units * 4096, 4096, SEED).unwrap()
    }

    #[test]
    fn a_range_being_written_cannot_be_claimed() {
        let map = content_map(10);
        assert_eq!(map.try_begin_write(4096, 3 * 4096), Some(1));
        for offset in [4096, 8192, 12_288] {
            assert_eq!(map.try_begin_write(offset, 4096), None);
            assert!(!map.try_begin_read(offset, 4096));
        }
        assert_eq!(map.try_begin_write(0, 8192), None);
        assert_eq!(map.try_begin_write(0, 4096), Some(1), "a refused claim leaves nothing claimed");
        map.end_write(4096, 3 * 4096, true);
        assert_eq!(map.try_begin_write(8192, 4096), Some(2));
    }

    #[test]
    fn readers_share_a_range_and_keep_writers_out() {
        let map = content_map(4);
        assert!(map.try_begin_read(0, 8192) && map.try_begin_read(4096, 8192));
        assert_eq!(map.try_begin_write(4096, 4096), None);
        map.end_read(0, 8192);
        assert_eq!((map.try_begin_write(4096, 4096), map.try_begin_write(0, 4096)), (None, Some(1)));
        map.end_read(4096, 8192);
        assert_eq!(map.try_begin_write(4096, 8192), Some(1));
    }

    #[test]
    fn readers_beyond_the_count_an_entry_holds_are_refused() {
        let map = content_map(1);
        assert_eq!((0..300).filter(|_| map.try_begin_read(0, 4096)).count(), 255);
        assert_eq!(map.try_begin_write(0, 4096), None);
        (0..255).for_each(|_| map.end_read(0, 4096));
        assert_eq!(map.expected(0), Expected::Exactly(PREFILL));
        assert_eq!(map.try_begin_write(0, 4096), Some(1));
    }

    #[test]
    fn a_write_over_several_blocks_is_newer_than_all_of_them() {
        let map = content_map(3);
        for _ in 0..5 {
            map.try_begin_write(4096, 4096).unwrap();
            map.end_write(4096, 4096, true);
        }
        assert_eq!(map.try_begin_write(0, 3 * 4096), Some(6));
        map.end_write(0, 3 * 4096, true);
        assert_eq!(map.expected(0), Expected::Exactly(6));
    }

    #[test]
    fn a_failed_write_leaves_its_range_unchecked_until_it_is_rewritten() {
        let map = content_map(2);
        assert_eq!(map.expected(0), Expected::Exactly(PREFILL));
        let failed = map.try_begin_write(0, 4096).unwrap();
        map.end_write(0, 4096, false);
        assert_eq!((map.expected(0), map.expected(4096)), (Expected::Unwritten, Expected::Exactly(PREFILL)));
        let again = map.try_begin_write(0, 4096).unwrap();
        assert!(again > failed);
        map.end_write(0, 4096, true);
        assert_eq!(map.expected(0), Expected::Exactly(again));
    }

    #[test]
    fn an_unwritten_target_is_checked_only_where_it_was_written() {
        let map = ContentMap::unwritten(0, 8192, 4096, ORIGIN).unwrap();
        assert_eq!(map.check(&[9; 8192], 0), Ok(()));
        let generation = map.try_begin_write(4096, 4096).unwrap();
        map.end_write(4096, 4096, true);
        assert_eq!(map.check(&[9; 8192], 0).unwrap_err().offset, 4096);
        let mut buffer = vec![9; 8192];
        map.fill(&mut buffer[4096..], 4096, generation);
        assert_eq!(map.check(&buffer, 0), Ok(()));
    }

    #[test]
    fn what_one_run_prefilled_is_recognised_by_another_with_the_same_seed() {
        let mut target = vec![0; 10 * 4096];
        content_map(10).fill(&mut target, 0, PREFILL);
        assert_eq!(content_map(10).check(&target, 0), Ok(()));
        let other = ContentMap::prefilled(0, 10 * 4096, 4096, SEED + 1).unwrap();
        assert_eq!(other.check(&target, 0).unwrap_err().cause, Cause::OtherRun);
    }

    #[test]
    fn the_parts_of_a_map_have_each_known_block_once() {
        let map = ContentMap::unwritten(4096, 11 * 4096, 4096, ORIGIN).unwrap();
        for (unit, ok) in [(1, true), (4, true), (5, false), (11, true)] {
            map.try_begin_write(unit * 4096, 4096).unwrap();
            map.end_write(unit * 4096, 4096, ok);
        }
        map.try_begin_write(7 * 4096, 4096).unwrap();
        for parts in [1, 2, 3, 20] {
            let known: Vec<u64> = (0..parts).flat_map(|part| map.known_blocks(part, parts)).collect();
            assert_eq!(known, [4096, 4 * 4096, 11 * 4096], "{parts}");
        }
    }

    #[test]
    fn blocks_of_odd_size_can_be_read_together_and_apart() {
        let map = ContentMap::prefilled(0, 10_000, 1000, SEED).unwrap();
        let mut buffer = vec![0; 3000];
        let generation = map.try_begin_write(1000, 3000).unwrap();
        map.fill(&mut buffer, 1000, generation);
        map.end_write(1000, 3000, true);
        assert_eq!(map.check(&buffer, 1000), Ok(()));
        assert_eq!(map.check(&buffer[1000..2000], 2000), Ok(()));
    }

    #[test]
    fn generations_wrap_around_without_a_second_prefill() {
        let map = content_map(1);
        map.entries[0].store(GENERATION - 1, Ordering::Relaxed);
        for expected in [u64::from(GENERATION), 1, 2] {
            assert_eq!(map.try_begin_write(0, 4096), Some(expected));
            map.end_write(0, 4096, true);
            assert_eq!(map.expected(0), Expected::Exactly(expected));
        }
    }

    #[test]
    fn a_map_covers_the_whole_blocks_of_its_region() {
        let map = ContentMap::prefilled(1000, 20_000, 4096, SEED).unwrap();
        assert_eq!(map.region(), (4096, 4 * 4096));
        assert_eq!(map.try_begin_write(4 * 4096, 4096), Some(1));
    }

    #[test]
    fn a_range_that_is_no_whole_blocks_of_the_region_panics() {
        let map = content_map(4);
        for (offset, bytes) in [(0, 0), (0, 100), (100, 4096), (4 * 4096, 4096), (0, 5 * 4096), (1 << 60, 4096)] {
            let panics = std::panic::catch_unwind(|| map.try_begin_write(offset, bytes)).is_err();
            assert!(panics, "{bytes} at {offset}");
        }
    }

    #[test]
    fn a_map_that_would_be_too_large_is_refused_with_its_limit() {
        let error = ContentMap::prefilled(0, 2 << 40, 4096, SEED).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.to_string().contains("2147483648 bytes; the limit is 1g"), "{error}");
        assert!(ContentMap::prefilled(0, 4096, 63, SEED).is_err());
        assert!(ContentMap::prefilled(1, 4096, 4096, SEED).is_err());
        assert!(ContentMap::prefilled(u64::MAX, 4096, 4096, SEED).is_err());
    }

    #[test]
    fn threads_never_write_what_another_reads_or_writes() {
        const UNITS: u64 = 8;
        let map = content_map(UNITS);
        let users: Vec<AtomicU32> = (0..UNITS).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (map, users) = (&map, &users);
                scope.spawn(move || {
                    let mut state = thread;
                    for _ in 0..50_000 {
                        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15 + thread));
                        let (first, count) = (state % UNITS, (state >> 8) % 3 + 1);
                        let count = count.min(UNITS - first);
                        let (offset, bytes) = (first * 4096, count * 4096);
                        let mine = &users[first as usize..(first + count) as usize];
                        if state >> 63 == 0 {
                            if map.try_begin_read(offset, bytes) {
                                mine.iter().for_each(|user| assert!(user.fetch_add(1, Ordering::SeqCst) < 1000));
                                mine.iter().for_each(|user| assert!(user.fetch_sub(1, Ordering::SeqCst) < 1000));
                                map.end_read(offset, bytes);
                            }
                        } else if map.try_begin_write(offset, bytes).is_some() {
                            mine.iter().for_each(|user| assert_eq!(user.fetch_add(1000, Ordering::SeqCst), 0));
                            mine.iter().for_each(|user| assert_eq!(user.fetch_sub(1000, Ordering::SeqCst), 1000));
                            map.end_write(offset, bytes, true);
                        }
                    }
                });
            }
        });
        assert!((0..UNITS).all(|unit| matches!(map.expected(unit * 4096), Expected::Exactly(1..))));
        assert!(map.try_begin_write(0, UNITS * 4096).is_some(), "every claim was released");
    }

    proptest! {
        #[test]
        fn writes_in_any_order_read_back_right_and_a_lost_one_is_found(
            writes in prop::collection::vec((0u64..16, 1u64..5, any::<bool>()), 1..60),
            lost in any::<prop::sample::Index>(),
        ) {
            let map = content_map(20);
            let mut target = vec![0; 20 * 4096];
            map.fill(&mut target, 0, PREFILL);
            for (first, count, ok) in &writes {
                let (offset, bytes) = (first * 4096, count * 4096);
                let generation = map.try_begin_write(offset, bytes).unwrap();
                let written = if *ok { bytes } else { bytes / 2 };
                map.fill(&mut target[offset as usize..][..bytes as usize], offset, generation);
                target[(offset + written) as usize..(offset + bytes) as usize].fill(0xee);
                map.end_write(offset, bytes, *ok);
            }
            prop_assert_eq!(map.check(&target, 0), Ok(()));
            let (first, count, _) = writes[lost.index(writes.len())];
            let (offset, bytes) = (first * 4096, count * 4096);
            map.try_begin_write(offset, bytes).unwrap();
            map.end_write(offset, bytes, true);
            prop_assert_eq!(map.check(&target, 0).unwrap_err().offset, offset);
        }
    }
}
