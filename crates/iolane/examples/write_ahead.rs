//! Pages with a write-ahead log, both on one queue: a group of updates goes to the log at depth, one sync makes it durable, it is
//! acknowledged, and its pages are written while the next group goes to the log. Opening recovers what a crash left.
//! Run: seq 200 | sed 's/$/ value/' | cargo run --release --example write_ahead -- FOLDER [PATH]      prints the pages at the end

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use iolane::Operation;

#[path = "write_ahead/files.rs"]
pub(crate) mod files;
use files::{BLOCK_BYTES, BLOCKS, DATA, Files, LOG, NAMES, Outcome};

/// Blocks 0 and 1 of the log name its epoch, in turns, so that one is whole while the other is written. Records follow.
pub(crate) const FIRST_RECORD: u64 = 2;
/// Most updates of a group.
pub(crate) const GROUP_MAX: usize = 32;
/// A block begins with a crc32 of the rest, its epoch, its place in the log, its page, and the number of records behind it in its group,
/// each a u64 in little endian; then comes the value. A page is a copy of its last record.
pub(crate) const HEADER_BYTES: usize = 40;

pub(crate) type Group = BTreeMap<u64, Vec<u8>>;

pub(crate) fn encode(block: &mut [u8], fields: [u64; 4], value: &[u8]) {
    block.fill(0);
    block.as_chunks_mut().0[1..5].copy_from_slice(&fields.map(u64::to_le_bytes));
    block[HEADER_BYTES..][..value.len()].copy_from_slice(value);
    let checksum = u64::from(crc32fast::hash(&block[8..]));
    block[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The fields, if the block is whole. Zeroes are not: their checksum is not 0.
pub(crate) fn decode(block: &[u8]) -> Option<[u64; 4]> {
    let [checksum, fields @ ..] = block.as_chunks().0.first_chunk::<5>()?.map(u64::from_le_bytes);
    (checksum == u64::from(crc32fast::hash(&block[8..])) && fields[2] < BLOCKS).then_some(fields)
}

/// After an error what was in flight is unknown: drop it, and recover.
pub(crate) struct Store {
    files: Files,
    epoch: u64,
    next: u64,
}

impl Store {
    /// Writes the pages of all whole groups in the log, and begins a new epoch.
    pub(crate) fn recover(mut files: Files) -> Outcome<Self> {
        let blocks = files.read(LOG)?;
        // What is left of an earlier epoch would set pages back.
        let current = blocks.iter().filter_map(|block| decode(block)).map(|[epoch, ..]| epoch).max().unwrap_or(0);
        let (mut pages, mut group) = (BTreeMap::new(), Vec::new());
        for (number, block) in (0..).zip(blocks).skip(FIRST_RECORD as usize) {
            let record = decode(&block).filter(|[epoch, place, ..]| (*epoch, *place) == (current, number));
            let Some([.., page, behind]) = record else { break };
            group.push((page, block));
            if behind == 0 {
                pages.extend(group.drain(..)); // the last update of a page replaces those before it
            }
        }
        pages.into_iter().for_each(|(page, block)| files.begin(DATA, page, Operation::Write(block)));
        let mut store = Self { files, epoch: current, next: FIRST_RECORD };
        store.checkpoint().map(|()| store)
    }

    /// Makes a group durable, all of it or nothing, acknowledges it, and begins to write its pages.
    pub(crate) fn commit(&mut self, group: &Group, acknowledge: impl FnOnce() -> io::Result<()>) -> Outcome<()> {
        assert!(group.len() <= GROUP_MAX, "the pool holds two groups at least");
        if self.next + group.len() as u64 > BLOCKS {
            self.checkpoint()?;
        }
        for (behind, (page, value)) in (0..group.len() as u64).rev().zip(group) {
            let fields = [self.epoch, self.next, *page, behind];
            self.files.write(LOG, self.next, |block| encode(block, fields, value))?;
            self.next += 1;
        }
        let blocks = self.files.sync(LOG)?;
        acknowledge()?;
        // Requests in flight are not ordered: a page of the group before could land after its successor.
        self.files.wait(DATA)?;
        for block in blocks {
            let [.., page, _] = decode(&block).ok_or("a record changed in memory")?;
            self.files.begin(DATA, page, Operation::Write(block));
        }
        self.files.flush()
    }

    /// Lets the log start again, once the pages are durable without it. Its new epoch has to be durable before a record is written:
    /// if a crash tears that one, nothing else tells that what is left of the old epoch is not all of it.
    pub(crate) fn checkpoint(&mut self) -> Outcome<()> {
        self.files.sync(DATA)?;
        (self.epoch, self.next) = (self.epoch + 1, FIRST_RECORD);
        let fields = [self.epoch, self.epoch % FIRST_RECORD, 0, 0];
        self.files.write(LOG, self.epoch % FIRST_RECORD, |block| encode(block, fields, &[]))?;
        self.files.sync(LOG).map(drop)
    }

    /// The pages that were written; zeroes follow each value.
    pub(crate) fn pages(&mut self) -> Outcome<Group> {
        let mut pages = Group::new();
        for (number, block) in (0..).zip(self.files.read(DATA)?) {
            match decode(&block) {
                None if block.iter().all(|byte| *byte == 0) => continue,
                Some([.., page, _]) if page == number => pages.insert(page, block[HEADER_BYTES..].to_vec()),
                _ => return Err(format!("{}, block {number}: damaged", NAMES[DATA]).into()),
            };
        }
        Ok(pages)
    }
}

fn update(line: &str) -> Option<(u64, Vec<u8>)> {
    let (page, value) = line.split_once(' ')?;
    let page = page.parse().ok().filter(|page| *page < BLOCKS)?;
    (value.len() <= BLOCK_BYTES - HEADER_BYTES).then(|| (page, value.into()))
}

fn run() -> Outcome<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or("usage: write_ahead FOLDER [PATH]")?;
    let path = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;
    let mut store = Store::recover(Files::open(Path::new(&folder), &path, 2 * GROUP_MAX as u32)?)?;
    let (mut group, mut updates) = (Group::new(), 0);
    // An empty line commits, and so does the end of the input.
    for line in io::stdin().lines().chain([Ok(String::new())]) {
        let line = line?;
        if !line.is_empty() {
            group.extend([update(&line).ok_or_else(|| format!("not a PAGE below {BLOCKS} and a VALUE: {line}"))?]);
            updates += 1;
        }
        if group.len() == GROUP_MAX || line.is_empty() && !group.is_empty() {
            store.commit(&group, || writeln!(io::stdout(), "committed {updates}"))?;
            group.clear();
        }
    }
    store.checkpoint()?;
    store.pages()?.iter().try_for_each(|(page, value)| {
        writeln!(io::stdout(), "{page} {}", String::from_utf8_lossy(value).trim_end_matches('\0'))
    })?;
    Ok(())
}

fn main() {
    run().unwrap_or_else(|error| {
        eprintln!("write_ahead: {error}");
        std::process::exit(1);
    });
}
