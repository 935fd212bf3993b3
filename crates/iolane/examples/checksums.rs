//! Prints the CRC-32 of each file of a folder, as many files at a time as there are requests: one queue, to which files are attached
//! when they are opened and from which they are detached when they are read. A store with thousands of files works like this.
//! Run: cargo run --release --example checksums -- FOLDER [PATH]      PATH: io_uring, io_uring,fixedfiles, libaio, ...

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iolane::{Buffer, IoPath, Pages, Pool, QueueConfig, Request, Target, TargetId, open_queue, probe};

const BLOCK_BYTES: usize = 64 << 10;
const DEPTH: u32 = 32;

/// A file that is being read, block after block.
struct Reading {
    file: PathBuf,
    id: TargetId,
    bytes: u64,
    done: u64,
    /// Of what was read so far.
    checksum: crc32fast::Hasher,
}

impl Reading {
    fn new(file: PathBuf, target: &Target, id: TargetId) -> Self {
        Self { file, id, bytes: target.bytes(), done: 0, checksum: crc32fast::Hasher::new() }
    }

    /// A file has one request at a time, so that the file's number serves as the tag.
    fn next_read(&self, number: u64, buffer: Buffer) -> Request {
        Request::read(number, self.done, buffer).on(self.id)
    }
}

/// The checksum of each file, by its name. Empty files are left out: there is nothing to read.
pub(crate) fn checksums(folder: &Path, path: &IoPath) -> Result<Vec<(PathBuf, u32)>, Box<dyn Error>> {
    let mut files: VecDeque<PathBuf> = VecDeque::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.metadata()?.len() > 0 {
            files.push_back(entry.path());
        }
    }
    // A queue is opened on the first target; the others are attached to it.
    let Some(first) = files.pop_front() else { return Ok(Vec::new()) };
    let target = open(&first)?;
    let depth = probe(path, &target)?.depth_max.min(DEPTH);
    let pool = Pool::new(depth as usize, BLOCK_BYTES, Pages::Base)?;
    let mut queue = open_queue(path, &target, &QueueConfig::new(depth).pool(&pool).targets(depth + 1))?;

    let first = Reading::new(first, &target, TargetId::FIRST);
    let mut requests = vec![first.next_read(0, pool.take().ok_or("the pool has no buffer")?)];
    let mut readings = HashMap::from([(0, first)]);
    drop(target); // the queue keeps it open
    let (mut completions, mut sums) = (Vec::new(), Vec::new());
    while !readings.is_empty() || !files.is_empty() {
        // Each free buffer is a file that can be opened.
        while !files.is_empty()
            && let Some(buffer) = pool.take()
            && let Some(file) = files.pop_front()
        {
            let target = open(&file)?;
            let reading = Reading::new(file, &target, queue.attach(&target)?);
            let number = (sums.len() + readings.len()) as u64;
            requests.push(reading.next_read(number, buffer));
            readings.insert(number, reading);
        }
        queue.submit(&mut requests);
        queue.reap(1, &mut completions)?;
        for completion in completions.drain(..) {
            let number = completion.tag;
            let reading = readings.get_mut(&number).ok_or("a completion of no file")?;
            let (read, buffer) = (completion.result?, completion.buffer.ok_or("a read without its buffer")?);
            reading.checksum.update(&buffer[..read as usize]);
            reading.done += u64::from(read);
            if read > 0 && reading.done < reading.bytes {
                requests.push(reading.next_read(number, buffer));
                continue;
            }
            queue.detach(reading.id)?; // closes the file: nothing of it is in flight
            let Reading { file, checksum, .. } = readings.remove(&number).ok_or("a file that was not open")?;
            sums.push((file, checksum.finalize()));
        }
    }
    sums.sort();
    Ok(sums)
}

/// Through the page cache, since a file may end within a block of the device.
fn open(file: &Path) -> iolane::Result<Target> {
    Target::options().direct(false).open(file)
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or("usage: checksums FOLDER [PATH]")?;
    let path: IoPath = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;
    for (file, sum) in checksums(Path::new(&folder), &path)? {
        println!("{sum:08x}  {}", file.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("checksums: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
