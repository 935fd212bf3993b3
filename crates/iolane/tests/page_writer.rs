//! The example `page_writer`: a snapshot is there whole, or the one before is, whatever fails in between.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::rc::Rc;

use iolane::{Completion, Operations, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

mod example_programs;
use example_programs::{Folder, example};

#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/page_writer.rs"]
mod page_writer;
use page_writer::{DEPTH, FRAMES, PAGE_BYTES, Snapshots};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Pages of random length and content, padded with zeroes as they are stored.
fn pages(random: &mut Xoshiro256PlusPlus) -> Vec<Vec<u8>> {
    let count = random.next_u64() % 60;
    let page = |_| {
        let mut page = vec![0; PAGE_BYTES];
        let length = (random.next_u64() % PAGE_BYTES as u64) as usize;
        random.fill_bytes(&mut page[..length]);
        page
    };
    (0..count).map(page).collect()
}

fn slices(pages: &[Vec<u8>]) -> Vec<&[u8]> {
    pages.iter().map(Vec::as_slice).collect()
}

fn open_on(target: &Target, path: &str) -> Outcome<Snapshots> {
    let path = path.parse()?;
    let can = probe(&path, target)?;
    let pool = Pool::new(FRAMES, PAGE_BYTES, Pages::Base)?;
    let queue = open_queue(&path, target, &QueueConfig::new(can.depth_max.min(DEPTH)).pool(&pool))?;
    Snapshots::open(queue, pool, can.operations)
}

#[test]
fn each_snapshot_is_read_back_on_every_path_and_replaces_the_one_before() {
    let folder = Folder::new("snapshots");
    for path in folder.paths("snapshots") {
        let file = folder.0.join(format!("{path}.snapshots"));
        let options = Target::options().direct(false);
        let target = options.create(page_writer::FILE_BYTES).open(&file).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        for generation in 1..=5 {
            let pages = pages(&mut random);
            let mut snapshots = open_on(&target, path).unwrap();
            assert_eq!(snapshots.write(&slices(&pages)).unwrap(), generation);
            assert_eq!(snapshots.read().unwrap(), pages, "{path}");
            drop(snapshots);
            assert_eq!(open_on(&target, path).unwrap().read().unwrap(), pages, "{path}");
        }
    }
}

/// A queue of a simulated disk that is opened again after an error, without beginning its faults again.
#[derive(Clone)]
struct Reopened(Rc<RefCell<Box<dyn Queue>>>);

impl Reopened {
    fn open(&self) -> Outcome<Snapshots> {
        self.drain(&mut Vec::new())?;
        let can = Operations::VECTORED.with(Operations::DURABLE_WRITE);
        Snapshots::open(Box::new(self.clone()), Pool::new(FRAMES, PAGE_BYTES, Pages::Base)?, can)
    }

    fn drain(&self, completions: &mut Vec<Completion>) -> iolane::Result<()> {
        self.0.borrow_mut().drain(completions)
    }
}

impl Queue for Reopened {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        self.0.borrow_mut().submit(requests)
    }

    fn flush(&mut self) -> iolane::Result<()> {
        self.0.borrow_mut().flush()
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> iolane::Result<usize> {
        self.0.borrow_mut().reap(min, completions)
    }

    fn depth(&self) -> usize {
        self.0.borrow().depth()
    }

    fn in_flight(&self) -> usize {
        self.0.borrow().in_flight()
    }

    fn syscalls(&self) -> Option<u64> {
        None
    }
}

/// The disk fails and shortens requests at random. What is found in the end is the last snapshot that was acknowledged, or one
/// that was being written when an error was reported.
#[test]
fn a_snapshot_that_fails_leaves_the_one_before_or_is_there_whole() {
    let mut failed = 0;
    for seed in 0..500 {
        let sim = format!("sim:{},latency=1us,jitter=1us,seed={seed},error=0.02,short=0.02", page_writer::FILE_BYTES);
        let target = Target::options().write_unguarded().open(sim).unwrap();
        let queue = open_queue(&"sim".parse().unwrap(), &target, &QueueConfig::new(DEPTH)).unwrap();
        let disk = Reopened(Rc::new(RefCell::new(queue)));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut last, mut perhaps) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let pages = pages(&mut random);
            // Opening reads, which may fail and has written nothing.
            let mut snapshots = (0..1000).find_map(|_| disk.open().ok()).expect("two reads without an error");
            match snapshots.write(&slices(&pages)) {
                Ok(_) => (last, perhaps) = (pages, Vec::new()),
                Err(_) => {
                    failed += 1;
                    perhaps.push(pages);
                }
            }
            let read = || disk.open().and_then(|mut snapshots| snapshots.read());
            let found = (0..10_000).find_map(|_| read().ok()).expect("reads without an error");
            assert!(found == last || perhaps.contains(&found), "seed {seed}: {} pages", found.len());
        }
    }
    assert!((200..2800).contains(&failed), "{failed} of 3000 writes failed, which shows nothing");
}

#[test]
fn a_damaged_root_or_page_is_found() {
    let folder = Folder::new("damaged");
    let file = folder.0.join("snapshots");
    let target = Target::options().direct(false).create(page_writer::FILE_BYTES).open(&file).unwrap();
    let mut snapshots = open_on(&target, "psync").unwrap();
    for page in [&b"first"[..], b"second"] {
        snapshots.write(&[page]).unwrap();
    }
    drop(snapshots);
    let whole = fs::read(&file).unwrap();
    let with_damage = |offset: usize| {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1;
        fs::write(&file, bytes).unwrap();
        open_on(&target, "psync").unwrap().read()
    };
    // The second generation's root is the first block, and its pages begin at the third.
    for offset in 0..28 {
        assert!(with_damage(offset).unwrap()[0].starts_with(b"first"), "byte {offset} of the root");
    }
    for offset in [0, 5, PAGE_BYTES - 1] {
        assert!(with_damage(2 * PAGE_BYTES + offset).is_err(), "byte {offset} of the page");
    }
}

#[test]
fn the_program_writes_a_snapshot_of_its_input_and_refuses_what_is_none() {
    let folder = Folder::new("program");
    let run = |file: &str, input: &str| {
        let mut command: Command = example("page_writer");
        command
            .arg(folder.0.join(file))
            .arg("psync")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that refuses its file does not read.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(run("new", "a\nb\nc\n"), ["snapshot 1 has 3 pages\n", ""]);
    assert_eq!(run("new", ""), ["snapshot 2 has 0 pages\n", ""]);
    folder.file("other", &[7; 8192]);
    let [stdout, stderr] = run("other", "a\n");
    assert!(stdout.is_empty() && stderr.contains("is no file of snapshots"), "{stderr}");
    folder.file("database", &[&b"SQLite format 3\0"[..], &[0; 100]].concat());
    let [stdout, stderr] = run("database", "a\n");
    assert!(stdout.is_empty() && stderr.contains("an SQLite database"), "{stderr}");
}
