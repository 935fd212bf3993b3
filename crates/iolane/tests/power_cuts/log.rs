//! A record of what a drive has done, in the format of the kernel's dm-log-writes, and what the drive may hold after a power cut at any
//! place of it. Knows nothing of what was written.
//!
//! The format (drivers/md/dm-log-writes.c): a sector with the magic number, the version, the number of entries and the size of a sector;
//! then for each entry a sector with its first sector, its number of sectors, its flags and the length of a note, and its data.

use std::ops::Range;

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
pub(crate) const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// What a drive did, in the order in which it was done.
#[derive(Debug, PartialEq)]
pub(crate) enum Entry {
    /// Bytes of the log, and where on the drive they were written. They are in the drive's cache, unless `durable`.
    Write { at: u64, data: Range<usize>, durable: bool },
    /// What was written before is durable.
    Flush,
    /// Anything else.
    Other,
}

impl Entry {
    /// Whether it writes to any of these bytes of the drive.
    fn writes_to(&self, begin: u64, bytes: usize) -> bool {
        let Self::Write { at, data, .. } = self else { return false };
        *at < begin + bytes as u64 && begin < at + data.len() as u64
    }
}

/// A record, and its entries.
pub(crate) struct Log {
    bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    sector_bytes: usize,
}

impl Log {
    /// # Panics
    /// If it is not in the format, which the message tells.
    pub(crate) fn parse(bytes: Vec<u8>) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert!(bytes.len() >= 512 && (word(0), word(8)) == (MAGIC, VERSION), "no log of writes, or without a flush");
        let sector_bytes = word(24) as u32 as usize;
        assert!(sector_bytes.is_power_of_two() && sector_bytes >= 512, "sectors of {sector_bytes} bytes");
        let (mut entries, mut at) = (Vec::new(), sector_bytes);
        for number in 0..word(16) {
            let [sector, sectors, flags, note_bytes] = [0, 8, 16, 24].map(|field| word(at + field));
            assert!(flags < 32, "entry {number} at byte {at}: flags {flags:#x}");
            at += sector_bytes;
            let data = at..at + sectors as usize * sector_bytes;
            entries.push(match flags {
                _ if flags & FLUSH != 0 => Entry::Flush,
                _ if flags & (DISCARD | MARK) != 0 => Entry::Other,
                _ => Entry::Write { at: sector * sector_bytes as u64, data: data.clone(), durable: flags & FUA != 0 },
            });
            at = if flags & DISCARD == 0 { data.end } else { data.start };
            // dm-log-writes keeps the note of a mark in the sector of its entry.
            assert!(flags & MARK == 0 || note_bytes as usize <= sector_bytes, "entry {number}: a long note");
        }
        Self { bytes, entries, sector_bytes }
    }

    /// Counts those of these entries that write to a part of the drive as durable at once.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn force(&mut self, entries: Range<usize>, begin: u64, bytes: usize) {
        for entry in self.entries[entries].iter_mut().filter(|entry| entry.writes_to(begin, bytes)) {
            if let Entry::Write { durable, .. } = entry {
                *durable = true;
            }
        }
    }

    pub(crate) fn data(&self, data: &Range<usize>) -> &[u8] {
        &self.bytes[data.clone()]
    }
}

/// Which of the writes that no flush covered are there after a cut. A drive may have written any of them, each sector whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Landed {
    Nothing,
    Everything,
    /// Each write, by chance.
    Writes,
    /// Each sector, by chance.
    Sectors,
    /// All but the first of them.
    AllButFirst,
}

pub(crate) const LANDED: [Landed; 5] =
    [Landed::Nothing, Landed::Everything, Landed::Writes, Landed::Sectors, Landed::AllButFirst];

/// A part of a drive while its log is replayed: zeroes at first.
pub(crate) struct Part<'a> {
    log: &'a Log,
    begin: u64,
    durable: Vec<u8>,
    /// Number of entries that were replayed.
    done: usize,
    /// The writes that no flush has covered, by the number of their entry.
    volatile: Vec<usize>,
}

impl<'a> Part<'a> {
    pub(crate) fn new(log: &'a Log, begin: u64, bytes: usize) -> Self {
        Self { log, begin, durable: vec![0; bytes], done: 0, volatile: Vec::new() }
    }

    /// Replays the entries before this one, which is not before those replayed.
    pub(crate) fn replay_to(&mut self, cut: usize) {
        for number in self.done..cut {
            match self.log.entries[number] {
                Entry::Write { durable: false, .. } => self.volatile.push(number),
                // A write that is durable at once leaves those before it in the cache. One of the same sectors may not come after it.
                Entry::Write { durable: true, ref data, at } => {
                    self.volatile.retain(|earlier| !self.log.entries[*earlier].writes_to(at, data.len()));
                    put(&mut self.durable, self.begin, at, self.log.data(data));
                }
                Entry::Flush => {
                    for number in std::mem::take(&mut self.volatile) {
                        if let Entry::Write { at, data, .. } = &self.log.entries[number] {
                            put(&mut self.durable, self.begin, *at, self.log.data(data));
                        }
                    }
                }
                Entry::Other => {}
            }
        }
        self.done = cut;
    }

    /// What is there if the power is cut now.
    pub(crate) fn after_cut(&self, landed: Landed, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let mut content = self.durable.clone();
        let mut coin = || random.next_u64() & 1 == 1;
        let in_part = |number: &&usize| self.log.entries[**number].writes_to(self.begin, self.durable.len());
        for (index, number) in self.volatile.iter().filter(in_part).enumerate() {
            let Entry::Write { at, data, .. } = &self.log.entries[*number] else { continue };
            let is_there = match landed {
                Landed::Nothing => false,
                Landed::Everything | Landed::Sectors => true,
                Landed::Writes => coin(),
                Landed::AllButFirst => index > 0,
            };
            if !is_there {
                continue;
            }
            for (sector, bytes) in self.log.data(data).chunks(self.log.sector_bytes).enumerate() {
                if landed != Landed::Sectors || coin() {
                    put(&mut content, self.begin, at + (sector * self.log.sector_bytes) as u64, bytes);
                }
            }
        }
        content
    }
}

/// Writes bytes at a place of a drive into a part of it, as far as they are in it.
fn put(part: &mut [u8], begin: u64, at: u64, bytes: &[u8]) {
    let end = (at + bytes.len() as u64).min(begin + part.len() as u64);
    let first = at.max(begin);
    if first < end {
        let length = (end - first) as usize;
        part[(first - begin) as usize..][..length].copy_from_slice(&bytes[(first - at) as usize..][..length]);
    }
}

/// A log of these entries, each with its first sector of 512 bytes, its flags and its data.
#[cfg(test)]
pub(crate) fn encode(entries: &[(u64, u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = [MAGIC, VERSION, entries.len() as u64, 512].map(u64::to_le_bytes).concat();
    bytes.resize(512, 0);
    for (sector, flags, data) in entries {
        bytes.extend([*sector, data.len() as u64 / 512, *flags, 0].map(u64::to_le_bytes).concat());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes.extend(data);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;

    /// A log of these entries: first sector, flags, and the byte that fills its sectors, or none.
    fn log(entries: &[(u64, u64, &[u8])]) -> Log {
        let filled = |(sector, flags, fills): &(u64, u64, &[u8])| {
            (*sector, *flags, fills.iter().flat_map(|fill| [*fill; 512]).collect())
        };
        Log::parse(encode(&entries.iter().map(filled).collect::<Vec<_>>()))
    }

    /// The first byte of each sector after a cut.
    fn found(part: &Part<'_>, landed: Landed, seed: u64) -> Vec<u8> {
        let content = part.after_cut(landed, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        assert!(content.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "sectors are whole");
        content.chunks(512).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_flush_covers_what_was_done_before_it_and_nothing_after() {
        let log = log(&[(1, 0, &[1, 2]), (0, FLUSH, &[]), (1, 0, &[3]), (3, 0, &[4]), (0, MARK, &[])]);
        let mut part = Part::new(&log, 0, 4 * 512);
        for (cut, nothing, everything) in [
            (0, [0; 4], [0; 4]),
            (1, [0; 4], [0, 1, 2, 0]),
            (2, [0, 1, 2, 0], [0, 1, 2, 0]),
            (5, [0, 1, 2, 0], [0, 3, 2, 4]),
        ] {
            part.replay_to(cut);
            assert_eq!(found(&part, Landed::Nothing, 0), nothing, "cut {cut}");
            assert_eq!(found(&part, Landed::Everything, 0), everything, "cut {cut}");
        }
        assert_eq!(found(&part, Landed::AllButFirst, 0), [0, 1, 2, 4]);
        let some: std::collections::BTreeSet<_> = (0..64).map(|seed| found(&part, Landed::Writes, seed)).collect();
        assert_eq!(some.len(), 4, "any subset of two writes");
    }

    #[test]
    fn a_write_may_be_torn_between_sectors() {
        let log = log(&[(0, 0, &[1, 1, 1])]);
        let mut part = Part::new(&log, 0, 3 * 512);
        part.replay_to(1);
        let torn: std::collections::BTreeSet<_> = (0..99).map(|seed| found(&part, Landed::Sectors, seed)).collect();
        assert_eq!(torn.len(), 8);
    }

    #[test]
    fn a_durable_write_is_there_and_leaves_others_in_the_cache() {
        let log = log(&[(0, 0, &[1, 1]), (0, FUA, &[2]), (2, 0, &[3])]);
        let mut part = Part::new(&log, 0, 3 * 512);
        part.replay_to(3);
        assert_eq!(found(&part, Landed::Nothing, 0), [2, 0, 0]);
        assert_eq!(found(&part, Landed::Everything, 0)[0], 2);
    }

    #[test]
    fn a_part_holds_only_what_was_written_to_it() {
        let log = log(&[(0, 0, &[1, 2, 3, 4, 5]), (0, FLUSH, &[]), (7, 0, &[9])]);
        let mut part = Part::new(&log, 512, 2 * 512);
        part.replay_to(3);
        assert_eq!(found(&part, Landed::Everything, 0), [2, 3]);
    }
}
