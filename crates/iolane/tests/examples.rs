//! Runs the programs in `examples/` as their readers would, and checks what they claim: copies equal their source, a log
//! holds what it acknowledged even after a kill, and wrong use ends with one line that says so.
//! `cargo test -p iolane` builds the programs next to this test.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

use iolane::{Completion, IoPath, Operation, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

mod example_programs;
use example_programs::{Folder, example, skip};

#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/checksums.rs"]
mod checksums;
#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/copy.rs"]
mod copy;
#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/hedged_reader.rs"]
mod hedged_reader;
#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/page_store.rs"]
mod page_store;
#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../examples/verify_log.rs"]
mod verify_log;

fn random(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Xoshiro256PlusPlus::seed_from_u64(bytes as u64).fill_bytes(&mut content);
    content
}

/// What a program that succeeds prints.
#[track_caller]
fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The one line that a program which fails prints.
#[track_caller]
fn failure(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{command:?}: {text}");
    assert!(stdout.is_empty() && text.lines().count() == 1, "{command:?}: {text}");
    text
}

#[track_caller]
fn assert_same(a: &Path, b: &Path, what: &str) {
    let compared = Command::new("cmp").args([a, b]).output().unwrap();
    assert!(compared.status.success(), "{what}: {compared:?}");
}

/// A block holds its number and that of its copy.
fn numbered_blocks(blocks: u64, copy: u64) -> Vec<u8> {
    let block = |number: u64| [number.to_le_bytes(), copy.to_le_bytes()].concat().repeat(4096 / 16);
    (0..blocks).flat_map(block).collect()
}

#[test]
fn each_block_is_read_once_however_often_the_other_copy_is_asked() {
    let test = "hedged reads";
    let folder = Folder::new("hedged");
    if !folder.direct(test) {
        return;
    }
    let copies = [0, 1].map(|copy| folder.file(&format!("copy-{copy}"), &numbered_blocks(64, copy)));
    let copies = [&*copies[0], &*copies[1]];
    for path in folder.paths(test) {
        // Every answer is late, or none is.
        for late in [std::time::Duration::ZERO, std::time::Duration::from_secs(3600)] {
            let (mut taken, mut of_copy) = (0, [0u64; 2]);
            let take = |number: u64, data: &[u8]| {
                let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
                assert!((0..4096).step_by(16).all(|at| word(at) == number && word(at + 8) == word(8)), "{path}");
                of_copy[word(8) as usize] += 1;
                taken += 1;
            };
            let outcome = hedged_reader::read(copies, late, &path.parse().unwrap(), 500, take).unwrap();
            assert_eq!((outcome.latencies.len(), taken), (500, 500), "{path}");
            assert!(of_copy.iter().all(|count| *count > 0), "{path}: {of_copy:?}");
            assert!(late.is_zero() || outcome.hedges == 0, "{path}: {} of none", outcome.hedges);
        }
    }
}

#[test]
fn a_copy_that_ends_early_is_replaced_by_the_other_one() {
    let folder = Folder::new("short-copy");
    if !folder.direct("a short copy") {
        return;
    }
    let whole = folder.file("whole", &numbered_blocks(64, 0));
    let short = folder.file("short", &numbered_blocks(64, 1));
    let late = std::time::Duration::from_secs(3600);
    for path in folder.paths("a short copy") {
        fs::write(&short, numbered_blocks(64, 1)).unwrap();
        let mut is_cut = false;
        let mut taken = 0;
        let take = |_: u64, _: &[u8]| {
            taken += 1;
            if !std::mem::replace(&mut is_cut, true) {
                File::options().write(true).open(&short).unwrap().set_len(4096).unwrap();
            }
        };
        let outcome = hedged_reader::read([&whole, &short], late, &path.parse().unwrap(), 500, take).unwrap();
        assert_eq!((outcome.latencies.len(), taken), (500, 500), "{path}");
    }
}

#[test]
fn checksums_of_many_files_are_those_of_their_bytes() {
    let folder = Folder::new("checksums");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut expected = Vec::new();
    for number in 0..100 {
        // Below, at and above the size of a request, and of several.
        let bytes = [1, 511, 4096, 65_535, 65_536, 65_537, 300_000][number % 7];
        let mut content = vec![0; bytes];
        random.fill_bytes(&mut content);
        let file = folder.file(&format!("table-{number:03}"), &content);
        expected.push((file, crc32fast::hash(&content)));
    }
    folder.file("empty", b"");
    fs::create_dir(folder.0.join("folder")).unwrap();
    let mut paths = folder.paths("checksums of many files");
    if paths.contains(&"io_uring") {
        paths.push("io_uring,fixedfiles");
    }
    fs::remove_file(folder.0.join("probed")).unwrap();
    for path in paths {
        match checksums::checksums(&folder.0, &path.parse().unwrap()) {
            Ok(found) => assert_eq!(found, expected, "{path}"),
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

#[test]
fn a_copy_equals_its_source_on_every_path() {
    let folder = Folder::new("copy");
    let paths = folder.paths("a_copy_equals_its_source_on_every_path");
    for bytes in [0, 1, 511, 4096, (1 << 20) + 17, (64 << 20) + 1] {
        let source = folder.file("source", &random(bytes));
        for path in &paths {
            let destination = folder.0.join("destination");
            output(example("copy").arg(&source).arg(&destination).arg(path));
            assert_same(&source, &destination, &format!("{bytes} bytes by {path}"));
            fs::remove_file(destination).unwrap();
        }
    }
}

#[test]
fn a_copy_past_the_page_cache_ends_where_its_source_does() {
    let test = "a_copy_past_the_page_cache_ends_where_its_source_does";
    let folder = Folder::new("copy-direct");
    if !folder.direct(test) {
        return;
    }
    let paths = folder.paths(test);
    for bytes in [0, 1, 511, 4096, 4097, (128 << 10) - 1, (1 << 20) + 17] {
        let source = folder.file("source", &random(bytes));
        for path in &paths {
            let destination = folder.0.join("destination");
            output(example("copy").arg(&source).arg(&destination).args([path, "--direct"]));
            assert_same(&source, &destination, &format!("{bytes} bytes by {path} --direct"));
            fs::remove_file(destination).unwrap();
        }
    }
}

/// Moves all of a simulated device's content, which is as large as `content`.
fn simulated(settings: &str, content: &mut [u8], request: fn(u64, u64, iolane::Buffer) -> Request) -> Target {
    let target = Target::options().write_unguarded().open(format!("sim:{},{settings}", content.len())).unwrap();
    transfer(&target, content, request);
    target
}

fn transfer(target: &Target, content: &mut [u8], request: fn(u64, u64, iolane::Buffer) -> Request) {
    let pool = Pool::new(1, 512, Pages::Base).unwrap();
    let mut queue = open_queue(&IoPath::new("sim"), target, &QueueConfig::new(1)).unwrap();
    for (block, bytes) in content.chunks_mut(512).enumerate() {
        let mut buffer = pool.take().unwrap();
        buffer.set_len(512).unwrap();
        buffer.copy_from_slice(bytes);
        queue.submit(&mut vec![request(0, block as u64 * 512, buffer)]);
        let mut completions = Vec::new();
        queue.reap(1, &mut completions).unwrap();
        assert_eq!(completions[0].result, Ok(512));
        bytes.copy_from_slice(completions[0].buffer.as_deref().unwrap());
    }
}

/// No file system transfers less than asked for on demand; the simulated device does, in blocks, and out of order.
#[test]
fn a_copy_goes_on_after_short_reads_and_short_writes() {
    for seed in 0..20 {
        let mut content = random((1 << 20) + 512 * seed);
        let source = simulated(&format!("seed={seed},short=0.4"), &mut content, Request::write);
        let mut copied = vec![0; content.len()];
        let destination = simulated(&format!("seed={},short=0.4", seed + 100), &mut copied, Request::read);
        copy::copy(&source, &destination, &IoPath::new("sim")).unwrap();
        transfer(&destination, &mut copied, Request::read);
        assert!(copied == content, "seed {seed}");
    }
}

#[test]
fn a_copy_that_meets_an_error_says_where() {
    let mut content = random(1 << 20);
    let source = simulated("error=0", &mut content, Request::write);
    let destination = Target::options().write_unguarded().open("sim:1m,error=1").unwrap();
    let error = copy::copy(&source, &destination, &IoPath::new("sim")).unwrap_err().to_string();
    assert!(error.starts_with("writing sim:1m,error=1 at byte "), "{error}");
}

#[test]
fn a_page_store_takes_the_first_path_that_works_and_holds_what_was_written() {
    let test = "a_page_store_takes_the_first_path_that_works_and_holds_what_was_written";
    let folder = Folder::new("page-store");
    if !folder.direct(test) {
        return;
    }
    for path in folder.paths(test) {
        let file = folder.0.join("pages");
        let printed = output(example("page_store").arg(&file).arg(format!("nvme,{path}")));
        assert!(printed.starts_with(&format!("{path} on ")) && printed.contains(" 0 of them wrong"), "{printed}");
        let again = failure(example("page_store").arg(&file).arg(path));
        assert!(again.contains("exists"), "{again}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_page_store_goes_on_after_short_transfers_and_ends_at_an_error() {
    let run = |settings: &str| {
        let target = Target::options().write_unguarded().open(format!("sim:4m,{settings}")).unwrap();
        page_store::write_and_read(&target, &[IoPath::new("sim")]).map_err(|error| error.to_string())
    };
    for seed in 0..10 {
        assert_eq!(run(&format!("seed={seed},short=0.4")), Ok(0));
    }
    let error = run("error=0.1").unwrap_err();
    assert!(error.starts_with("page "), "{error}");
    let lost = run("lost=0.1").unwrap();
    assert!(lost > 0, "lost writes are seen");
}

#[test]
fn a_copy_never_writes_over_a_file() {
    let folder = Folder::new("copy-over");
    for content in [&b"new"[..], b""] {
        let source = folder.file("source", content);
        let destination = folder.file("destination", b"old");
        let error = failure(example("copy").arg(&source).arg(&destination).arg("psync"));
        assert!(error.contains("exists"), "{error}");
        assert_eq!(fs::read(destination).unwrap(), b"old");
    }
}

#[test]
fn a_copy_that_fails_leaves_nothing_behind() {
    let test = "a_copy_that_fails_leaves_nothing_behind";
    let folder = Folder::new("copy-full");
    let source = folder.file("source", &random(4 << 20));
    let destination = folder.0.join("destination");
    let error = failure(example("copy").arg(&source).arg(&destination).arg("nosuch"));
    assert!(error.contains("no such interface") && !destination.exists(), "{error}");
    // A file system of 1 MiB, which the copy fills. It is mounted where nobody else sees it.
    let full = folder.0.join("full");
    fs::create_dir(&full).unwrap();
    let in_a_full_file_system = |script: &str| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
            .arg(format!("mount -t tmpfs -o size=1m tmpfs \"$1\" && {script}"))
            .arg("sh")
            .args([&full, &source])
            .arg(example("copy").get_program())
            .output()
            .unwrap()
    };
    let mounted = in_a_full_file_system("true");
    if !mounted.status.success() {
        return skip(test, &String::from_utf8_lossy(&mounted.stderr).trim());
    }
    for path in folder.paths(test) {
        let script = format!("{{ \"$3\" \"$2\" \"$1/destination\" {path}; ls -A \"$1\"; }}");
        let Output { stdout, stderr, .. } = in_a_full_file_system(&script);
        let (left, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(error.starts_with("copy: writing ") && error.contains("no space"), "{path}: {error}");
        assert_eq!((&*left, error.lines().count()), ("", 1), "{path}: {error}");
    }
}

const LOG_HEADER_BYTES: usize = 8;
const RECORD_HEADER_BYTES: usize = 16;

/// Starts to append what is written to its standard input.
fn appending(log: &Path, path: &str) -> std::process::Child {
    let mut command = example("verify_log");
    command.arg("append").arg(log).arg(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Appends records, and gives back what was printed on standard output and on standard error.
#[track_caller]
fn append(log: &Path, path: &str, records: &[Vec<u8>]) -> (String, String) {
    let mut child = appending(log, path);
    let mut lines = child.stdin.take().unwrap();
    let text = records.iter().flat_map(|record| [&record[..], b"\n"].concat()).collect::<Vec<_>>();
    let writer = std::thread::spawn(move || lines.write_all(&text));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{path}: {stderr}");
    writer.join().unwrap().unwrap();
    (String::from_utf8(stdout).unwrap(), stderr)
}

fn acknowledged(line: &str) -> usize {
    line.strip_prefix("acknowledged ").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// Lines of 0 to 3 KiB that begin with their number.
fn lines(from: usize, count: usize) -> Vec<Vec<u8>> {
    (from..from + count)
        .map(|number| {
            let padding = if number.is_multiple_of(7) { 0 } else { number * 2_654_435_761 % 3000 };
            if number.is_multiple_of(11) { vec![] } else { format!("{number}:{}", "x".repeat(padding)).into_bytes() }
        })
        .collect()
}

/// The whole records of a log, read by other code than the program's.
fn records_of(log: &Path) -> Vec<Vec<u8>> {
    records_in(&fs::read(log).unwrap())
}

fn records_in(content: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &content[LOG_HEADER_BYTES..];
    let mut records = Vec::new();
    while let Some((header, behind)) = rest.split_at_checked(RECORD_HEADER_BYTES) {
        let number = |range: std::ops::Range<usize>| u32::from_le_bytes(header[range].try_into().unwrap());
        let Some(payload) = behind.get(..number(4..8) as usize) else { break };
        let whole = crc32fast::hash(&rest[4..RECORD_HEADER_BYTES + payload.len()]) == number(0..4);
        if !whole || number(8..12) as usize != records.len() + 1 {
            break;
        }
        records.push(payload.to_vec());
        rest = &behind[payload.len()..];
    }
    records
}

/// The byte at which each record begins, and the end of the log.
fn starts(records: &[Vec<u8>]) -> Vec<usize> {
    let ends = records.iter().scan(LOG_HEADER_BYTES, |end, record| {
        *end += RECORD_HEADER_BYTES + record.len();
        Some(*end)
    });
    std::iter::once(LOG_HEADER_BYTES).chain(ends).collect()
}

#[test]
fn a_log_keeps_what_is_appended_and_acknowledges_it_in_order() {
    let test = "a_log_keeps_what_is_appended_and_acknowledges_it_in_order";
    let folder = Folder::new("log");
    for path in folder.paths(test) {
        let log = folder.0.join(format!("log-{path}"));
        for round in 0..2 {
            let (printed, _) = append(&log, path, &lines(1 + 500 * round, 500));
            let numbers: Vec<usize> = printed.lines().map(acknowledged).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{path}: {numbers:?}");
            assert_eq!(numbers.last(), Some(&(500 * (round + 1))), "{path}");
            assert!(numbers.len() < 400, "{path}: {} groups of 500 records are no groups", numbers.len());
        }
        assert_eq!(records_of(&log), lines(1, 1000), "{path}");
        let verified = output(example("verify_log").arg("verify").arg(&log).arg(path));
        assert!(verified.contains("1000 records") && verified.contains("all whole"), "{path}: {verified}");
    }
}

/// A disk that loses all but what an fdatasync has made durable: what was written when it began. Requests end in any
/// order, and writes short.
struct VolatileDisk {
    random: Xoshiro256PlusPlus,
    depth: usize,
    /// With each, what was written when the disk took it.
    at_work: Vec<(Request, Vec<u8>)>,
    written: Vec<u8>,
    durable: Rc<RefCell<Vec<u8>>>,
}

impl Queue for VolatileDisk {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.depth - self.at_work.len());
        self.at_work.extend(requests.drain(..count).map(|request| (request, self.written.clone())));
        count
    }

    fn flush(&mut self) -> iolane::Result<()> {
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> iolane::Result<usize> {
        for _ in 0..min {
            let chosen = self.random.next_u64() as usize % self.at_work.len();
            let (request, written_before) = self.at_work.swap_remove(chosen);
            let moved = match &request.operation {
                Operation::Write(buffer) => {
                    let start = request.offset as usize;
                    let bytes = buffer.len().min(1 + self.random.next_u64() as usize % 3000);
                    self.written.resize(self.written.len().max(start + bytes), 0);
                    self.written[start..start + bytes].copy_from_slice(&buffer[..bytes]);
                    bytes as u32
                }
                _ => {
                    *self.durable.borrow_mut() = written_before;
                    0
                }
            };
            completions.push(request.complete(Ok(moved)));
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

#[test]
fn nothing_is_acknowledged_that_a_power_cut_could_take() {
    for (seed, depth) in [(1, 1), (2, 2), (3, 7), (4, 65), (5, 65)] {
        let written = b"iolane1\n".to_vec();
        let durable = Rc::new(RefCell::new(written.clone()));
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let disk = VolatileDisk { random, depth, at_work: vec![], written, durable: durable.clone() };
        let pool = Pool::new(64, 64 << 10, Pages::Base).unwrap();
        let begin = verify_log::Scan { records: 0, end: LOG_HEADER_BYTES as u64, tear: None };
        let mut appender = verify_log::Appender::new(Box::new(disk), pool, &begin);
        let records = lines(1, 400);
        let (mut appended, mut acknowledged) = (0, 0);
        while acknowledged < records.len() {
            while appended < records.len() && !appender.is_full() {
                appender.append(&records[appended]).unwrap();
                appended += 1;
            }
            acknowledged = appender.advance().unwrap() as usize;
            let there = records_in(&durable.borrow());
            assert!(there.len() >= acknowledged, "depth {depth}: {acknowledged} acknowledged, {} durable", there.len());
        }
        assert_eq!(records_in(&durable.borrow()), records, "depth {depth}");
    }
}

#[test]
fn reading_a_log_goes_on_after_short_reads() {
    let folder = Folder::new("log-short");
    let log = folder.0.join("log");
    let records = lines(1, 300);
    append(&log, "psync", &records);
    let mut content = fs::read(&log).unwrap();
    let end = content.len();
    content.resize(end.next_multiple_of(4096), 0);
    for seed in 0..10 {
        let target = simulated(&format!("seed={seed},short=0.5"), &mut content, Request::write);
        let scan = verify_log::scan(&target, &IoPath::new("sim")).unwrap();
        assert_eq!((scan.records, scan.end, scan.tear.is_some()), (300, end as u64, true), "seed {seed}");
    }
}

#[test]
fn verify_stops_at_the_record_that_is_cut() {
    let test = "verify_stops_at_the_record_that_is_cut";
    let folder = Folder::new("log-cut");
    let log = folder.0.join("log");
    // More than the program reads at once, so that records cross from one round to the next.
    let records = lines(1, 1500);
    append(&log, "psync", &records);
    let content = fs::read(&log).unwrap();
    let starts = starts(&records);
    assert_eq!(starts.last(), Some(&content.len()));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let paths = folder.paths(test);
    for round in 0..60 {
        let path = paths[round % paths.len()];
        let at = match round {
            0 => starts[700],
            1 => LOG_HEADER_BYTES,
            _ => LOG_HEADER_BYTES + random.next_u64() as usize % (content.len() - LOG_HEADER_BYTES),
        };
        let cut = folder.file("cut", &content[..at]);
        let mut verify = example("verify_log");
        verify.arg("verify").arg(&cut).arg(path);
        let whole = starts.partition_point(|start| *start <= at) - 1;
        if starts[whole] == at {
            assert!(output(&mut verify).contains(&format!(" {whole} records in {at} bytes, all whole")), "{at}");
        } else {
            let error = failure(&mut verify);
            let place = format!("record {} at byte {} is torn: the log ends", whole + 1, starts[whole]);
            assert!(error.contains(&place), "{path}, cut at {at}: {error}, not {place}");
        }
    }
}

#[test]
fn verify_stops_at_the_record_in_which_a_byte_is_flipped() {
    let test = "verify_stops_at_the_record_in_which_a_byte_is_flipped";
    let folder = Folder::new("log-flip");
    let log = folder.0.join("log");
    let records = lines(1, 1500);
    append(&log, "psync", &records);
    let content = fs::read(&log).unwrap();
    let starts = starts(&records);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    let paths = folder.paths(test);
    for round in 0..100 {
        let path = paths[round % paths.len()];
        // Every second time in a header, where few random places are.
        let at = match round % 2 {
            0 => LOG_HEADER_BYTES + random.next_u64() as usize % (content.len() - LOG_HEADER_BYTES),
            _ => starts[random.next_u64() as usize % records.len()] + random.next_u64() as usize % RECORD_HEADER_BYTES,
        };
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (random.next_u64() % 8);
        let flipped = folder.file("flipped", &flipped);
        let error = failure(example("verify_log").arg("verify").arg(flipped).arg(path));
        let hit = starts.partition_point(|start| *start <= at);
        let place = format!("record {hit} at byte {} is torn: ", starts[hit - 1]);
        assert!(error.contains(&place), "{path}, flipped at {at}: {error}, not {place}");
    }
}

/// SIGKILL leaves the page cache as it is, so this shows that nothing is acknowledged before it is written, and that what
/// was in flight is found and cut off. Whether fdatasync reaches the platter is for a power cut to show.
#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let test = "what_was_acknowledged_is_there_after_a_kill";
    let folder = Folder::new("log-kill");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    for path in folder.paths(test) {
        let log = folder.0.join(format!("log-{path}"));
        for round in 0..5 {
            let before = if round == 0 { vec![] } else { records_of(&log) };
            let mut child = appending(&log, path);
            let mut stdin = child.stdin.take().unwrap();
            let feeder = std::thread::spawn(move || {
                let mut fed = 0;
                while lines(1 + fed, 64).iter().all(|line| stdin.write_all(&[&line[..], b"\n"].concat()).is_ok()) {
                    fed += 64;
                }
            });
            let mut printed = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let enough = before.len() + 1 + random.next_u64() as usize % 400;
            let mut last = before.len();
            while last < enough {
                last = acknowledged(&printed.next().expect("it runs until it is killed"));
            }
            child.kill().unwrap();
            // Pipes outlive who wrote to them: what it said before it died counts too.
            last = printed.last().map_or(last, |line| acknowledged(&line));
            child.wait().unwrap();
            feeder.join().unwrap();
            // What a killed process has in flight holds the file open, and with it its lock.
            let locked = File::open(&log).unwrap();
            locked.lock().unwrap();
            let after = records_of(&log);
            assert!(after.len() >= last, "{path}: {last} acknowledged, {} there", after.len());
            assert!(after[..before.len()] == before[..], "{path}: earlier records changed");
            assert!(after[before.len()..] == lines(1, after.len() - before.len())[..], "{path}: records differ");
        }
        // Whatever the kills left, the log can be appended to and is whole then.
        let before = records_of(&log).len();
        append(&log, path, &lines(1, 3));
        let verified = output(example("verify_log").arg("verify").arg(&log).arg(path));
        assert!(verified.contains(&format!("{} records", before + 3)), "{path}: {verified}");
    }
}

#[test]
fn appending_cuts_off_a_torn_tail_and_refuses_damage() {
    let folder = Folder::new("log-torn");
    let log = folder.0.join("log");
    let records = lines(1, 200);
    append(&log, "psync", &records);
    let starts = starts(&records);
    // Record 150 was being written when the machine stopped, and 151 to 200 were behind it already.
    let mut torn = fs::read(&log).unwrap();
    torn[starts[149] + 3] ^= 1;
    fs::write(&log, &torn).unwrap();
    let (printed, said) = append(&log, "psync", &lines(150, 2));
    assert_eq!(acknowledged(printed.lines().last().unwrap()), 151);
    let tail_bytes = torn.len() - starts[149];
    assert!(said.contains(&format!("cut off {tail_bytes} bytes at byte {}", starts[149])), "{said}");
    assert_eq!(records_of(&log), lines(1, 151));

    append(&log, "psync", &lines(152, 4000));
    let mut damaged = fs::read(&log).unwrap();
    assert!(damaged.len() - starts[9] > 4 << 20, "more than can be in flight");
    damaged[starts[9] + 3] ^= 1;
    fs::write(&log, &damaged).unwrap();
    let error = failure(example("verify_log").arg("append").arg(&log).arg("psync"));
    assert!(error.contains(&format!("damaged at byte {}", starts[9])), "{error}");
    assert!(fs::read(&log).unwrap() == damaged, "a damaged log is left as it is");
}

#[test]
fn a_file_that_is_no_log_is_left_as_it_is() {
    let folder = Folder::new("log-foreign");
    for content in [&b"important"[..], b"short", &[0; 100_000]] {
        let file = folder.file("file", content);
        for command in ["append", "verify"] {
            let error = failure(example("verify_log").arg(command).arg(&file).arg("psync"));
            assert!(error.contains("is not a log"), "{error}");
        }
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[test]
fn a_record_that_is_too_long_is_refused_and_those_before_it_stay() {
    let folder = Folder::new("log-long");
    let log = folder.0.join("log");
    append(&log, "psync", &[vec![b'x'; (64 << 10) - RECORD_HEADER_BYTES]]);
    let mut child = appending(&log, "psync");
    child.stdin.take().unwrap().write_all(&[b'x'; 64 << 10]).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(!ended.status.success() && String::from_utf8_lossy(&ended.stderr).contains("record 2 has 65552 bytes"));
    assert_eq!(records_of(&log).len(), 1);
}

#[test]
fn random_reader_prints_how_many_and_how_fast() {
    let test = "random_reader_prints_how_many_and_how_fast";
    let folder = Folder::new("reader");
    let mut cases = vec![("null".into(), "null")];
    if folder.direct(test) {
        let file = folder.file("file", &random(1 << 20));
        cases.extend(folder.paths(test).into_iter().map(|path| (file.clone(), path)));
    }
    for (target, path) in cases {
        let printed = output(example("random_reader").arg(&target).arg(path));
        // "psync on /file: 1234 reads in 1.00 s, 1230 a second"
        let words: Vec<&str> = printed.rsplit_once(": ").unwrap().1.split_whitespace().collect();
        let [reads, "reads", "in", seconds, "s,", rate, "a", "second"] = words[..] else { panic!("{printed}") };
        let number = |text: &str| text.parse::<f64>().unwrap();
        assert!(printed.starts_with(&format!("{path} on {}", target.display())), "{printed}");
        assert!(number(reads) > 0.0 && number(seconds) >= 1.0, "{printed}");
        assert!((number(rate) * number(seconds) / number(reads) - 1.0).abs() < 0.05, "{printed}");
    }
}

#[test]
fn many_files_reads_a_thousand_files_and_opens_some_anew() {
    let test = "many_files_reads_a_thousand_files_and_opens_some_anew";
    let folder = Folder::new("many");
    if !folder.direct(test) {
        return;
    }
    let files: Vec<PathBuf> = (0..1000).map(|number| folder.file(&number.to_string(), &[7; 8192])).collect();
    for path in folder.paths(test) {
        let printed = output(example("many_files").args([path, "3000", "10"]).args(&files));
        let parts: Vec<&str> = printed.trim_end().split(", ").collect();
        let [files, "3000 reads", time, replaced] = parts[..] else { panic!("{printed}") };
        assert!(files == format!("{path}: 1000 files") && time.ends_with(" ns each"), "{printed}");
        // A file that is read at the moment stays.
        let replaced: u32 = replaced.strip_suffix(" replaced").unwrap().parse().unwrap();
        assert!((250..=300).contains(&replaced), "{printed}");
    }
}

#[test]
fn each_load_of_changing_load_is_read_by_auto_and_by_a_fixed_path() {
    let test = "each_load_of_changing_load_is_read_by_auto_and_by_a_fixed_path";
    let folder = Folder::new("changing");
    if !folder.direct(test) {
        return;
    }
    let printed = output(example("changing_load").arg(folder.file("file", &random(8 << 20))));
    let loads: Vec<Vec<&str>> = printed.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let sizes: Vec<&str> = loads.iter().map(|load| load[0]).collect();
    assert_eq!(sizes, ["4k", "4k", "4k", "128k", "128k", "4k", "4k", "4k"], "{printed}");
    for load in loads {
        let [_, _, _, auto, best, share, path, best_path] = load[..] else { panic!("{printed}") };
        let [auto, best, share] = [auto, best, share].map(|text| text.parse::<f64>().unwrap());
        assert!(auto > 0.0 && best > 0.0 && (share - auto / best).abs() < 0.01, "{printed}");
        assert!([path, best_path].iter().all(|path| path.parse::<IoPath>().is_ok()), "{printed}");
    }
    let small = failure(example("changing_load").arg(folder.file("small", &random(4096))));
    assert!(small.contains("has less than 8 MiB"), "{small}");
}

#[test]
fn multi_get_finds_every_key_however_the_blocks_are_read() {
    let test = "multi_get_finds_every_key_however_the_blocks_are_read";
    let folder = Folder::new("multi-get");
    if !folder.direct(test) {
        return;
    }
    let file = folder.0.join("sorted");
    for how in folder.paths(test).into_iter().chain(["auto"]) {
        // It compares each value with that of its key.
        let printed = output(example("multi_get").arg(&file).arg(how));
        let batches: Vec<&str> = printed.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(batches, ["1", "8", "64"], "{printed}");
    }
    let short = folder.file("short", &[0; 16 << 10]);
    let error = failure(example("multi_get").arg(short).arg("psync"));
    assert!(error.contains("the file is cut off") || error.contains("is not that of its key"), "{error}");
}

#[test]
fn the_event_loop_sees_ticks_and_reads() {
    let test = "the_event_loop_sees_ticks_and_reads";
    let folder = Folder::new("loop");
    let file = folder.file("file", &random(1 << 20));
    for path in folder.paths(test) {
        let mut command = example("event_loop");
        command.arg(&file).arg(path);
        if !matches!(path, "libaio" | "io_uring") {
            let error = failure(&mut command);
            assert!(error.contains("no descriptor to wait on"), "{error}");
            continue;
        }
        let printed = output(&mut command);
        let reads = printed.lines().map(|line| line.rsplit(' ').nth(1).unwrap().parse::<u64>().unwrap());
        let reads: Vec<u64> = reads.collect();
        assert!(reads.is_sorted() && reads.last() > reads.first(), "{path}: {printed}");
        assert!(printed.lines().last().unwrap().contains("tick 5"), "{path}: {printed}");
    }
}

#[test]
fn memory_of_the_caller_s_own_receives_what_is_in_the_file() {
    let test = "memory_of_the_caller_s_own_receives_what_is_in_the_file";
    let folder = Folder::new("memory");
    let paths = folder.paths(test);
    for bytes in [1, (16 << 10) + 1, 3 << 20] {
        let content = random(bytes);
        let file = folder.file("file", &content);
        let read = bytes.min(1 << 20);
        let checksum = format!("{read} bytes in {} frames", read.div_ceil(16 << 10));
        let checksum = format!("{checksum} of our own, crc32 {:08x}\n", crc32fast::hash(&content[..read]));
        for path in &paths {
            let path = match *path {
                "io_uring" => "io_uring,fixedbufs",
                // It takes one request at a time, and the example wants them all in flight.
                "psync" => continue,
                path => path,
            };
            assert_eq!(output(example("own_memory").arg(&file).arg(path)), format!("{path}: {checksum}"));
        }
    }
}

#[test]
fn simulated_drives_prints_the_same_every_time_and_a_log_gains_from_a_drive_of_its_own() {
    let printed = output(&mut example("simulated_drives"));
    assert_eq!(printed, output(&mut example("simulated_drives")));
    let p50 = |line: &str| line.split_whitespace().skip_while(|word| *word != "p50").nth(1).unwrap().parse::<u64>();
    let commits: Vec<u64> = printed.lines().map(|line| p50(line).unwrap()).collect();
    assert!(matches!(commits[..], [shared, own] if shared > 5 * own), "{printed}");
    assert_ne!(printed, output(example("simulated_drives").args(["p3600", "2"])));
    let unknown = failure(example("simulated_drives").arg("p9999"));
    assert!(unknown.contains("profile=p9999") && unknown.contains("optane"), "{unknown}");
}

#[test]
fn wrong_use_ends_with_one_line_that_says_so() {
    let folder = Folder::new("wrong");
    let file = folder.file("file", &random(8192));
    let missing = folder.0.join("missing");
    let other = folder.0.join("other");
    let (verify, null) = (PathBuf::from("verify"), PathBuf::from("null"));
    for (name, arguments) in [
        ("random_reader", vec![]),
        ("changing_load", vec![]),
        ("many_files", vec![]),
        ("multi_get", vec![]),
        ("event_loop", vec![]),
        ("own_memory", vec![]),
        ("copy", vec![]),
        ("copy", vec![&file]),
        ("verify_log", vec![]),
        ("verify_log", vec![&file, &file]),
    ] {
        let error = failure(example(name).args(arguments));
        assert!(error.starts_with(&format!("{name}: usage: {name} ")), "{error}");
    }
    for (name, arguments) in [
        ("random_reader", vec![&missing]),
        ("changing_load", vec![&missing]),
        ("event_loop", vec![&missing]),
        ("own_memory", vec![&missing]),
        ("copy", vec![&missing, &other]),
        ("verify_log", vec![&verify, &missing]),
    ] {
        let error = failure(example(name).args(arguments));
        assert!(error.contains("missing: no such file") && error.starts_with(name), "{error}");
    }
    for wrong in ["nosuch", "io_uring+sideways", "Psync", "psync,fixedbufs"] {
        for (name, arguments) in [
            ("random_reader", vec![&null]),
            ("event_loop", vec![&file]),
            ("own_memory", vec![&file]),
            ("copy", vec![&file, &other]),
        ] {
            let error = failure(example(name).args(arguments).arg(wrong));
            let tells = ["no such interface", "not a submission", "does not begin with", "no such option"];
            assert!(error.starts_with(name) && tells.iter().any(|text| error.contains(text)), "{wrong}: {error}");
        }
    }
    assert!(!other.exists());
}
