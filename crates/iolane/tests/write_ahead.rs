//! The example `write_ahead`: what it acknowledged is there after a kill, a power cut or damage, group by group. Power cuts run in this
//! process, on a disk that loses what no sync covered; kills run the program itself. `cargo test -p iolane` builds it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use iolane::{Completion, IoError, Operation, Pages, Pool, Queue, Request, TargetId};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use write_ahead::files::{BLOCK_BYTES, BLOCKS, Files, LOG, NAMES};
use write_ahead::{FIRST_RECORD, GROUP_MAX, Group, HEADER_BYTES, Store};

mod example_programs;
use example_programs::{Folder, example};

#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/write_ahead.rs"]
mod write_ahead;

const FILE_BYTES: usize = BLOCKS as usize * BLOCK_BYTES;
const VALUE_BYTES_MAX: usize = BLOCK_BYTES - HEADER_BYTES;

fn program(folder: &Path, path: &str) -> Command {
    let mut command = example("write_ahead");
    command.arg(folder).arg(path);
    command
}

impl Folder {
    fn put(&self, files: &[Vec<u8>; 2]) {
        for (name, content) in NAMES.iter().zip(files) {
            fs::write(self.0.join(name), content).unwrap();
        }
    }

    fn open(&self, path: &str) -> Store {
        Store::recover(Files::open(&self.0, &path.parse().unwrap(), 64).unwrap()).unwrap()
    }
}

/// The paths that work here; the others print SKIPPED.
fn paths(test: &str) -> Vec<&'static str> {
    Folder::new(&format!("probe-{}", test.replace(' ', "-"))).paths(test)
}

fn below(random: &mut Xoshiro256PlusPlus, most: usize) -> usize {
    (random.next_u64() % most as u64) as usize
}

/// A group of few pages, so that pages are updated again and again. No value is like another one.
fn group(random: &mut Xoshiro256PlusPlus, most: usize) -> Group {
    let mut group = Group::new();
    for _ in 0..1 + below(random, most) {
        let mut value = format!("{:016x}", random.next_u64()).into_bytes();
        value.resize(16 + below(random, VALUE_BYTES_MAX - 15), b'x');
        group.insert(random.next_u64() % 16, value);
    }
    group
}

fn pages(store: &mut Store) -> Group {
    let mut pages = store.pages().unwrap();
    for value in pages.values_mut() {
        value.truncate(value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    }
    pages
}

fn with(pages: &Group, group: &Group) -> Group {
    pages.iter().chain(group).map(|(page, value)| (*page, value.clone())).collect()
}

/// What the disk does at last.
#[derive(Clone, Copy, Debug)]
enum End {
    PowerCut,
    Error,
    Short,
}

/// Two files on a disk with a volatile cache. Requests end in any order.
struct Disk {
    random: Xoshiro256PlusPlus,
    depth: usize,
    targets: [TargetId; 2],
    /// With each, how many writes of its file had completed when the disk took it.
    at_work: Vec<(Request, usize)>,
    content: Rc<RefCell<Content>>,
    /// The request at which it ends, counted from 0.
    end: (usize, End),
}

#[derive(Default)]
struct Content {
    written: [Vec<u8>; 2],
    durable: [Vec<u8>; 2],
    /// Writes that no sync has covered: number, offset and bytes.
    volatile: [Vec<(usize, usize, Vec<u8>)>; 2],
    writes: [usize; 2],
    syncs: [usize; 2],
    requests: usize,
    at_work_max: usize,
    has_ended: bool,
}

impl Content {
    /// What is there when the power is back: of each write that no sync covered all, nothing, or some words. Disks that write a sector
    /// whole do less harm; the header of a block is in one.
    fn after_power_cut(&self, random: &mut Xoshiro256PlusPlus) -> [Vec<u8>; 2] {
        let mut files = self.durable.clone();
        for (file, writes) in files.iter_mut().zip(&self.volatile) {
            for (_, offset, bytes) in writes {
                let landed = [0, u64::MAX, random.next_u64()][below(random, 3)];
                for (word, bytes) in bytes.chunks(8).enumerate().filter(|(word, _)| landed >> (word % 64) & 1 == 1) {
                    file[offset + word * 8..][..bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        files
    }
}

impl Disk {
    fn files(files: &[Vec<u8>; 2], seed: u64, depth: usize, end: (usize, End)) -> (Files, Rc<RefCell<Content>>) {
        let content = Content { written: files.clone(), durable: files.clone(), ..Content::default() };
        let content = Rc::new(RefCell::new(content));
        let targets = [TargetId::FIRST, iolane_core::Targets::new(2, ()).attach(()).unwrap()];
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let disk = Self { random, depth, targets, at_work: vec![], content: content.clone(), end };
        let pool = Pool::new(BLOCKS as usize, BLOCK_BYTES, Pages::Base).unwrap();
        let files = Files { queue: Box::new(disk), targets, pool, waiting: Vec::new(), unfinished: Default::default() };
        (files, content)
    }

    fn file(&self, request: &Request) -> usize {
        self.targets.iter().position(|target| *target == request.target).unwrap()
    }

    /// Carries out a request, or the first bytes of it.
    fn carry_out(&mut self, mut request: Request, covered: usize, bytes_max: usize) -> Completion {
        let (file, at) = (self.file(&request), request.offset as usize);
        let content = &mut *self.content.borrow_mut();
        let moved = match &mut request.operation {
            Operation::Read(buffer) => {
                let bytes = buffer.len().min(bytes_max);
                buffer[..bytes].copy_from_slice(&content.written[file][at..at + bytes]);
                bytes
            }
            Operation::Write(buffer) => {
                let bytes = buffer.len().min(bytes_max);
                content.written[file][at..at + bytes].copy_from_slice(&buffer[..bytes]);
                content.volatile[file].push((content.writes[file], at, buffer[..bytes].to_vec()));
                content.writes[file] += 1;
                bytes
            }
            _ => {
                content.syncs[file] += 1;
                for (_, at, bytes) in content.volatile[file].extract_if(.., |(number, ..)| *number < covered) {
                    content.durable[file][at..at + bytes.len()].copy_from_slice(&bytes);
                }
                0
            }
        };
        request.complete(Ok(moved as u32))
    }
}

impl Queue for Disk {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.at_work.len());
        for request in requests.drain(..count) {
            let covered = self.content.borrow().writes[self.file(&request)];
            self.at_work.push((request, covered));
        }
        let content = &mut self.content.borrow_mut();
        content.at_work_max = content.at_work_max.max(self.at_work.len());
        count
    }

    fn flush(&mut self) -> iolane::Result<()> {
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> iolane::Result<usize> {
        for _ in 0..min {
            let chosen = below(&mut self.random, self.at_work.len());
            let (request, covered) = self.at_work.swap_remove(chosen);
            let ends = self.content.borrow().requests == self.end.0;
            self.content.borrow_mut().requests += 1;
            let is_sync = request.operation.buffer().is_none();
            let completion = match self.end.1 {
                _ if !ends => self.carry_out(request, covered, BLOCK_BYTES),
                End::Short if !is_sync => self.carry_out(request, covered, 512),
                End::Short | End::Error => request.complete(Err(IoError::from_errno(libc::EIO))),
                End::PowerCut => {
                    self.at_work.push((request, covered));
                    self.content.borrow_mut().has_ended = true;
                    return Err(iolane::Error::usage("the disk", "power cut"));
                }
            };
            self.content.borrow_mut().has_ended |= ends;
            completions.push(completion);
        }
        Ok(min)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.at_work.len()
    }

    fn syscalls(&self) -> Option<u64> {
        None
    }
}

impl Drop for Disk {
    /// What was in flight may reach the disk, too.
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.at_work);
        for (request, covered) in left.into_iter().filter(|(request, _)| request.operation.buffer().is_some()) {
            self.carry_out(request, covered, BLOCK_BYTES);
        }
    }
}

const NEVER: (usize, End) = (usize::MAX, End::PowerCut);

fn pages_of(files: &[Vec<u8>; 2]) -> Group {
    pages(&mut Store::recover(Disk::files(files, 0, 64, NEVER).0).unwrap())
}

/// One run of the program on a disk that ends it: the states of which one has to be found then. The first is the last that was
/// acknowledged.
fn live(
    (files, content): (Files, Rc<RefCell<Content>>),
    before: Group,
    random: &mut Xoshiro256PlusPlus,
    group_max: usize,
) -> Vec<Group> {
    let mut possible = vec![before];
    let mut store = match Store::recover(files) {
        Ok(store) => store,
        Err(_) => return possible,
    };
    loop {
        assert!(!content.borrow().has_ended, "it goes on after an error");
        let group = group(random, group_max);
        possible.push(with(&possible[0], &group));
        let mut is_acknowledged = false;
        let committed = store.commit(&group, || {
            is_acknowledged = true;
            Ok(())
        });
        if is_acknowledged {
            possible.remove(0);
        }
        if let Err(error) = committed {
            let error = error.to_string();
            let tells = error.contains("power cut") || NAMES.iter().any(|name| error.starts_with(name));
            assert!(tells && error.lines().count() == 1, "{error}");
            return possible;
        }
        assert!(is_acknowledged);
    }
}

/// A kill leaves the page cache as it is, so that only this shows a sync that is missing or comes too early.
#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged_and_no_part_of_a_group() {
    for seed in 0..24 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut files = [vec![0; FILE_BYTES], vec![0; FILE_BYTES]];
        let mut pages = Group::new();
        for life in 0..16 {
            let depth = [1, 3, 64][below(&mut random, 3)];
            // Recovery reads the log. Where an epoch begins is where most can go wrong: short lives have many beginnings.
            let requests = [BLOCKS as usize + 120, BLOCKS as usize + 120, 2000][below(&mut random, 3)];
            let end = [End::PowerCut, End::PowerCut, End::Error, End::Short][below(&mut random, 4)];
            let requests = BLOCKS as usize * 7 / 8 + below(&mut random, requests - BLOCKS as usize * 7 / 8);
            let (disk, content) = Disk::files(&files, random.next_u64(), depth, (requests, end));
            let possible = live((disk, content.clone()), pages, &mut random, GROUP_MAX);
            files = content.borrow().after_power_cut(&mut random);
            pages = pages_of(&files);
            let place = format!("seed {seed}, life {life}, {end:?} at request {requests}, depth {depth}");
            assert!(possible.contains(&pages), "{place}: {} states are possible", possible.len());
        }
    }
}

#[test]
fn a_group_is_in_flight_together_and_takes_one_sync_of_the_log() {
    let (disk, content) = Disk::files(&[vec![0; FILE_BYTES], vec![0; FILE_BYTES]], 1, 64, NEVER);
    let mut store = Store::recover(disk).unwrap();
    let before = content.borrow().syncs;
    content.borrow_mut().at_work_max = 0;
    let group: Group = (0..GROUP_MAX as u64).map(|page| (page, b"value".to_vec())).collect();
    store.commit(&group, || Ok(())).unwrap();
    assert_eq!(content.borrow().at_work_max, GROUP_MAX);
    store.commit(&group, || Ok(())).unwrap();
    assert_eq!(content.borrow().at_work_max, 2 * GROUP_MAX, "the pages go on while the next group is logged");
    assert_eq!(content.borrow().syncs, [before[0], before[1] + 2]);
}

/// Groups as a first epoch has them, none of them in the data file: the files, and after each group the block behind it and the pages.
fn logged(
    test: &str,
    random: &mut Xoshiro256PlusPlus,
    group_max: usize,
    blocks: usize,
) -> ([Vec<u8>; 2], Vec<(usize, Group)>) {
    let folder = Folder::new(&format!("logged-{test}"));
    let mut store = folder.open("psync");
    let mut states = vec![(FIRST_RECORD as usize, Group::new())];
    while states[states.len() - 1].0 < blocks {
        let group = group(random, group_max);
        store.commit(&group, || Ok(())).unwrap();
        let (end, pages) = &states[states.len() - 1];
        states.push((end + group.len(), with(pages, &group)));
    }
    ([vec![0; FILE_BYTES], fs::read(folder.0.join(NAMES[LOG])).unwrap()], states)
}

#[test]
fn a_log_that_is_cut_or_damaged_anywhere_gives_the_whole_groups_before() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let (files, states) = logged("damaged", &mut random, 7, 60);
    let paths = paths("a damaged log");
    let folder = Folder::new("damaged");
    for block in 0..states[states.len() - 1].0 + 2 {
        // Two kinds for each block: opening a store takes several syncs of a real disk.
        let kinds = [["flipped", "cut"], ["zeroed", "misplaced"], ["flipped", "cut within"]];
        for damage in kinds[below(&mut random, 3)] {
            let path = paths[below(&mut random, paths.len())];
            let mut damaged = files.clone();
            let at = block * BLOCK_BYTES;
            match damage {
                // Every second time among the fields, where few random places are.
                "flipped" => {
                    let byte = below(&mut random, [HEADER_BYTES, BLOCK_BYTES][block % 2]);
                    damaged[LOG][at + byte] ^= 1 << below(&mut random, 8);
                }
                "zeroed" => damaged[LOG][at..at + BLOCK_BYTES].fill(0),
                "misplaced" => damaged[LOG].copy_within(at + BLOCK_BYTES..at + 2 * BLOCK_BYTES, at),
                "cut" => damaged[LOG].truncate(at),
                // The last bytes of a block may be zeroes, which are there again when the file has its length.
                _ => damaged[LOG].truncate(at + 1 + below(&mut random, HEADER_BYTES / 2)),
            }
            // A record names the epoch, too: the log does without its first blocks.
            let first_lost =
                if block < FIRST_RECORD as usize && !damage.starts_with("cut") { usize::MAX } else { block };
            let (_, expected) = states.iter().rfind(|(end, _)| *end <= first_lost).unwrap_or(&states[0]);
            folder.put(&damaged);
            let mut store = folder.open(path);
            let place = format!("block {block} {damage}, {path}");
            assert!(pages(&mut store) == *expected, "{place}");
            // The records behind the damage are not taken for those of the new epoch.
            let group = group(&mut random, 7);
            store.commit(&group, || Ok(())).unwrap();
            drop(store);
            assert!(pages(&mut folder.open(path)) == with(expected, &group), "{place}, and a group after it");
        }
    }
}

#[test]
fn records_of_an_earlier_epoch_are_never_replayed() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    // Each group is a record, so that each block behind the new ones begins a whole group.
    let (files, states) = logged("epochs", &mut random, 1, 40);
    let newest = &states[states.len() - 1].1;
    let folder = Folder::new("epochs");
    for path in paths("earlier epochs") {
        for groups in [0, 1, 2, 5, 20] {
            folder.put(&files);
            let mut store = folder.open(path);
            let mut expected = newest.clone();
            for _ in 0..groups {
                // Of the pages in the old records.
                let group = group(&mut random, 1);
                store.commit(&group, || Ok(())).unwrap();
                expected = with(&expected, &group);
            }
            drop(store);
            let mut log = fs::read(folder.0.join(NAMES[LOG])).unwrap();
            let mut store = folder.open(path);
            assert!(pages(&mut store) == expected, "{path}, {groups} groups");
            drop(store);
            // The same log with its first record torn: all behind the new ones is whole, and old.
            log[FIRST_RECORD as usize * BLOCK_BYTES + 100] ^= 1;
            let data = fs::read(folder.0.join(NAMES[0])).unwrap();
            folder.put(&[data, log]);
            assert!(pages(&mut folder.open(path)) == expected, "{path}, {groups} groups, the first torn");
        }
    }
}

/// Old records are whole. If they count again up to the first that a new record tore, pages go back to values that were replaced.
#[test]
fn power_cuts_while_an_epoch_begins_bring_no_old_records_back() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let (files, states) = logged("begins", &mut random, 1, 40);
    let (disk, content) = Disk::files(&files, 0, 64, NEVER);
    drop(Store::recover(disk).unwrap());
    let recovered = content.borrow().requests;
    for seed in 0..400 {
        let mut pages = states[states.len() - 1].1.clone();
        let mut files = files.clone();
        // In the first groups of an epoch, and then where the next recovery, which has no page to write, names one.
        for (life, end) in
            [recovered + below(&mut random, 6), BLOCKS as usize + 1 + below(&mut random, 3)].into_iter().enumerate()
        {
            let (disk, content) = Disk::files(&files, seed, 64, (end, End::PowerCut));
            let possible = live((disk, content.clone()), pages, &mut random, 3);
            files = content.borrow().after_power_cut(&mut random);
            pages = pages_of(&files);
            assert!(possible.contains(&pages), "seed {seed}, life {life}, request {end}");
        }
    }
}

#[test]
fn an_update_of_a_page_is_never_replaced_by_an_earlier_one() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
    let mut store = Store::recover(Disk::files(&[vec![0; FILE_BYTES], vec![0; FILE_BYTES]], 6, 64, NEVER).0).unwrap();
    for round in 0..200 {
        let mut expected = Group::new();
        for _ in 0..4 {
            let group =
                (0..8).map(|page| (page, random.next_u64().to_be_bytes().map(|byte| byte | 1).to_vec())).collect();
            store.commit(&group, || Ok(())).unwrap();
            expected = group;
        }
        assert!(pages(&mut store) == expected, "round {round}");
    }
}

/// The groups of a run as the program reads them, each ended by an empty line.
fn lines_of(groups: &[Group]) -> String {
    let update = |(page, value): (&u64, &Vec<u8>)| format!("{page} {}\n", String::from_utf8_lossy(value));
    groups.iter().map(|group| group.iter().map(update).collect::<String>() + "\n").collect()
}

fn acknowledged(line: &str) -> usize {
    line.strip_prefix("committed ").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// What the program prints at the end of its input, acknowledgements aside.
#[track_caller]
fn printed_pages(folder: &Path, path: &str) -> Group {
    let output = program(folder, path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(page, value)| (page.parse().unwrap(), value.into()))
        .collect()
}

/// SIGKILL leaves the page cache as it is: this shows that nothing is acknowledged before it is written, that no group is there in part,
/// and that what the kernel still has of a killed program does no harm.
#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    for path in paths("a kill") {
        let folder = Folder::new(&format!("kill-{path}"));
        let mut pages = Group::new();
        for seed in 0..8 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let groups: Vec<Group> = (0..400).map(|_| group(&mut random, GROUP_MAX - 1)).collect();
            let mut child = program(&folder.0, path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (mut stdin, text) = (child.stdin.take().unwrap(), lines_of(&groups));
            // It fails when the program is killed.
            let feeder = std::thread::spawn(move || _ = stdin.write_all(text.as_bytes()));
            let mut printed = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let enough = 1 + below(&mut random, 60);
            let mut acknowledgements: Vec<usize> =
                printed.by_ref().take(enough).map(|line| acknowledged(&line)).collect();
            child.kill().unwrap();
            // Pipes outlive who wrote to them: what it said before it died counts, too.
            acknowledgements.extend(printed.map(|line| acknowledged(&line)));
            assert!(!child.wait().unwrap().success(), "it was killed");
            feeder.join().unwrap();
            let ends = groups.iter().scan(0, |end, group| {
                *end += group.len();
                Some(*end)
            });
            assert!(
                acknowledgements.iter().copied().eq(ends.take(acknowledgements.len())),
                "{path}: one for each group"
            );
            let found = printed_pages(&folder.0, path);
            let (done, rest) = groups.split_at(acknowledgements.len());
            let before = done.iter().fold(pages, |pages, group| with(&pages, group));
            // The next group may be there as well, but whole.
            let is_there = found == before || rest.first().is_some_and(|group| found == with(&before, group));
            assert!(is_there, "{path}, seed {seed}: {} groups acknowledged", done.len());
            pages = found;
        }
    }
}

#[test]
fn an_update_without_an_empty_line_is_committed_at_32_and_at_the_end() {
    for path in paths("commits") {
        let folder = Folder::new(&format!("commits-{path}"));
        let mut child = program(&folder.0, path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines: String = (0..40).map(|page| format!("{page} value {page}\n")).collect();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let printed = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(printed, format!("committed 32\ncommitted 40\n{lines}"), "{path}");
    }
}

#[test]
fn wrong_use_ends_with_one_line_that_says_so() {
    let folder = Folder::new("wrong");
    let error_of = |command: &mut Command, input: &str| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes()); // which it may not read
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count(), output.stdout.len()), (Some(1), 1, 0), "{error}");
        error
    };
    let this = program(&folder.0, "psync").get_program().to_owned();
    assert!(error_of(&mut Command::new(this), "").starts_with("write_ahead: usage: write_ahead FOLDER"));
    let missing = folder.0.join("missing");
    assert!(error_of(&mut program(&missing, "psync"), "").contains("missing/write_ahead.data: No such file"));
    assert!(error_of(&mut program(&folder.0, "nosuch"), "").contains("no such interface"));
    for line in ["256 value", "-1 value", "value", "1", &format!("1 {}", "x".repeat(VALUE_BYTES_MAX + 1))] {
        let error = error_of(&mut program(&folder.0, "psync"), &format!("1 one\n{line}\n"));
        assert!(error.contains("PAGE below 256") && error.ends_with(&format!("{line}\n")), "{error}");
    }
    assert!(printed_pages(&folder.0, "psync").is_empty(), "the group of the wrong line is not there");
    File::options().write(true).open(folder.0.join(NAMES[LOG])).unwrap().set_len(FILE_BYTES as u64 + 1).unwrap();
    assert!(error_of(&mut program(&folder.0, "psync"), "").contains("write_ahead.log: longer than"));
}
