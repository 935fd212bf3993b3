//! What is written to a drive whose writes are recorded, and what may be there after a power cut: the two examples, each in parts of the
//! drive of its own. Their updates follow from a seed, so that the record alone tells what has to be found.

use std::time::Duration;

use iolane::{Completion, Pages, Pool, Queue, Request, TargetId};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::page_writer::{FILE_BYTES, PAGE_BYTES};
use crate::write_ahead::files::{BLOCK_BYTES, BLOCKS};
use crate::write_ahead::{GROUP_MAX, Group, HEADER_BYTES};

pub(crate) const NOTE_BYTES: usize = 4096;
/// Where the files of a run begin, and where the next run begins.
const FILES: u64 = 1 << 20;
pub(crate) const RUN_BYTES: u64 = 8 << 20;
const WRITE_AHEAD_FILE_BYTES: u64 = BLOCKS * BLOCK_BYTES as u64;

const GROUPS: u64 = 60;
const SNAPSHOTS: u64 = 12;
/// Most pages of a snapshot.
const SNAPSHOT_PAGES_MAX: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    WriteAhead,
    PageWriter,
    /// `write_ahead` on a queue whose syncs do nothing: cuts have to show that.
    Unsynced,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::WriteAhead, Kind::PageWriter, Kind::Unsynced];

impl Kind {
    /// Where its files are, from the beginning of the run.
    pub(crate) fn places(self) -> Vec<u64> {
        match self {
            Self::PageWriter => vec![FILES],
            _ => vec![FILES, FILES + WRITE_AHEAD_FILE_BYTES],
        }
    }

    pub(crate) fn file_bytes(self) -> u64 {
        if self == Self::PageWriter { FILE_BYTES } else { WRITE_AHEAD_FILE_BYTES }
    }

    /// Bytes of all its files, which follow each other.
    pub(crate) fn files_bytes(self) -> u64 {
        self.places().len() as u64 * self.file_bytes()
    }

    /// How many times something is committed.
    pub(crate) fn commits(self) -> u64 {
        if self == Self::PageWriter { SNAPSHOTS } else { GROUPS }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WriteAhead => "write_ahead",
            Self::PageWriter => "page_writer",
            Self::Unsynced => "write_ahead without syncs",
        }
    }
}

fn below(random: &mut Xoshiro256PlusPlus, most: u64) -> u64 {
    random.next_u64() % most
}

/// The groups of a run, of few pages, so that pages are updated again and again. No value is like another one.
pub(crate) fn groups(seed: u64) -> Vec<Group> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut group = || {
        let most = [6, 6, 6, GROUP_MAX as u64][below(&mut random, 4) as usize];
        let updates = 1 + below(&mut random, most);
        let mut update = || {
            let mut value = format!("{:016x}", random.next_u64()).into_bytes();
            value.resize(16 + below(&mut random, (BLOCK_BYTES - HEADER_BYTES - 15) as u64) as usize, b'x');
            (below(&mut random, 24), value)
        };
        (0..updates).map(|_| update()).collect()
    };
    (0..GROUPS).map(|_| group()).collect()
}

/// The snapshots of a run, padded with zeroes as they are stored.
pub(crate) fn snapshots(seed: u64) -> Vec<Vec<Vec<u8>>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut page = |_| {
        let mut page = vec![0; PAGE_BYTES];
        let length = below(&mut random, PAGE_BYTES as u64) as usize;
        random.fill_bytes(&mut page[..length]);
        page
    };
    let mut counts = Xoshiro256PlusPlus::seed_from_u64(!seed);
    (0..SNAPSHOTS).map(|_| (0..1 + below(&mut counts, SNAPSHOT_PAGES_MAX)).map(&mut page).collect()).collect()
}

/// What a run writes to its first block: which run it is, and how much of it was acknowledged so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) acknowledged: u64,
    /// Whether writes of roots are durable at once, which the record does not show.
    pub(crate) forced: bool,
    /// The path, as people write it.
    pub(crate) path: String,
}

const NOTE_MAGIC: u64 = 0x6475_7261_626c_6521;

impl Note {
    pub(crate) fn encode(&self, block: &mut [u8]) {
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u64;
        let fields = [NOTE_MAGIC, kind, self.seed, self.acknowledged, self.forced.into(), self.path.len() as u64];
        block.fill(0);
        block[..48].copy_from_slice(&fields.map(u64::to_le_bytes).concat());
        block[48..][..self.path.len()].copy_from_slice(self.path.as_bytes());
    }

    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let (words, _) = block.get(..48)?.as_chunks::<8>();
        let [magic, kind, seed, acknowledged, forced, length] =
            [0, 1, 2, 3, 4, 5].map(|field| u64::from_le_bytes(words[field]));
        let path = block.get(48..)?.get(..length as usize)?;
        let kind = *KINDS.get(kind as usize)?;
        let path = String::from_utf8_lossy(path).into();
        (magic == NOTE_MAGIC).then_some(Self { kind, seed, acknowledged, forced: forced != 0, path })
    }
}

/// Writes the notes of a run on a queue of its own: in the record, what is acknowledged stands behind what made it durable. No sync follows, so that
/// the notes make nothing durable.
pub(crate) struct Notes {
    queue: Box<dyn Queue>,
    pool: Pool,
    begin: u64,
    note: Note,
}

impl Notes {
    pub(crate) fn new(queue: Box<dyn Queue>, pool: Pool, begin: u64, note: Note) -> Self {
        Self { queue, pool, begin, note }
    }

    pub(crate) fn acknowledge(&mut self, count: u64) -> anyhow::Result<()> {
        self.note.acknowledged = count;
        let mut buffer = self.pool.take().ok_or_else(|| anyhow::anyhow!("a note in flight"))?;
        self.note.encode(&mut buffer);
        let mut completions = Vec::new();
        self.queue.submit(&mut [Request::write(0, self.begin, buffer)].into());
        self.queue.drain(&mut completions)?;
        let written = completions.first().map(|completion| completion.result);
        anyhow::ensure!(written == Some(Ok(NOTE_BYTES as u32)), "a note: {written:?}");
        Ok(())
    }
}

pub(crate) fn note_pool() -> iolane::Result<Pool> {
    Pool::new(1, NOTE_BYTES, Pages::Base)
}

/// A queue on a part of a drive: requests for a file go to the file's place.
pub(crate) struct Placed {
    queue: Box<dyn Queue>,
    targets: Vec<TargetId>,
    places: Vec<u64>,
    /// Whether syncs do nothing.
    unsynced: bool,
    ended: Vec<Completion>,
}

impl Placed {
    pub(crate) fn new(queue: Box<dyn Queue>, targets: &[TargetId], begin: u64, kind: Kind) -> Self {
        let places = kind.places().iter().map(|place| begin + place).collect();
        Self { queue, targets: targets.into(), places, unsynced: kind == Kind::Unsynced, ended: Vec::new() }
    }
}

impl Queue for Placed {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let mut count = 0;
        while !requests.is_empty() {
            let mut request = requests.remove(0);
            if self.unsynced && request.operation.buffer().is_none() {
                self.ended.push(request.complete(Ok(0)));
                count += 1;
                continue;
            }
            let (offset, target) = (request.offset, request.target);
            let file = self.targets.iter().position(|known| *known == target).unwrap_or(0);
            request.offset += self.places[file];
            let mut one = vec![request.on(TargetId::FIRST)];
            if self.queue.submit(&mut one) == 0 {
                requests.splice(..0, one.pop().map(|request| Request { offset, ..request.on(target) }));
                break;
            }
            count += 1;
        }
        count
    }

    fn flush(&mut self) -> iolane::Result<()> {
        self.queue.flush()
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> iolane::Result<usize> {
        let ended = self.ended.len();
        completions.append(&mut self.ended);
        Ok(ended + self.queue.reap(min.saturating_sub(ended), completions)?)
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, to: &mut Vec<Completion>) -> iolane::Result<usize> {
        let ended = self.ended.len();
        to.append(&mut self.ended);
        Ok(ended + self.queue.reap_within(min.saturating_sub(ended), timeout, to)?)
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.ended.len()
    }

    fn syscalls(&self) -> Option<u64> {
        self.queue.syscalls()
    }
}

#[test]
fn a_note_is_read_as_it_was_written_and_nothing_else_is_one() {
    let note =
        Note { kind: Kind::PageWriter, seed: 7, acknowledged: 3, forced: true, path: "io_uring,fixedbufs".into() };
    let mut block = vec![1; NOTE_BYTES];
    note.encode(&mut block);
    assert_eq!(Note::decode(&block), Some(note));
    for other in [vec![0; NOTE_BYTES], vec![1; NOTE_BYTES], vec![0; 8]] {
        assert_eq!(Note::decode(&other), None);
    }
}
