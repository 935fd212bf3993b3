//! Two files of blocks on one queue, for the example `write_ahead`: requests of both are in flight together, and each file is waited for
//! and synced by itself. Knows nothing of records.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use iolane::{Buffer, Completion, IoPath, Operation, Pages, Pool, Queue, QueueConfig, Request, Target, TargetId};
use iolane::{open_queue, probe};

pub(crate) const BLOCK_BYTES: usize = 4096;
/// Blocks of each file, and buffers of the pool.
pub(crate) const BLOCKS: u64 = 256;
pub(crate) const DATA: usize = 0;
pub(crate) const LOG: usize = 1;
pub(crate) const NAMES: [&str; 2] = ["write_ahead.data", "write_ahead.log"];

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

pub(crate) struct Files {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) targets: [TargetId; 2],
    pub(crate) pool: Pool,
    /// Requests that the queue has had no room for.
    pub(crate) waiting: Vec<Request>,
    /// How many requests of each file wait or are in flight.
    pub(crate) unfinished: [usize; 2],
}

impl Files {
    /// Creates what is missing.
    pub(crate) fn open(folder: &Path, path: &IoPath, depth: u32) -> Outcome<Self> {
        let [data, log] = [open_file(folder, DATA)?, open_file(folder, LOG)?];
        File::open(folder)?.sync_all()?; // the files' names
        let pool = Pool::new(BLOCKS as usize, BLOCK_BYTES, Pages::Base)?;
        let depth = probe(path, &data)?.depth_max.min(depth);
        let mut queue = open_queue(path, &data, &QueueConfig::new(depth).pool(&pool).targets(2))?;
        let targets = [TargetId::FIRST, queue.attach(&log)?];
        Ok(Self { queue, targets, pool, waiting: Vec::new(), unfinished: [0; 2] })
    }

    /// Begins to write what `fill` leaves in a buffer.
    pub(crate) fn write(&mut self, file: usize, block: u64, fill: impl FnOnce(&mut [u8])) -> Outcome<()> {
        let mut buffer = self.pool.take().ok_or("the pool is too small")?;
        fill(&mut buffer);
        self.begin(file, block, Operation::Write(buffer));
        Ok(())
    }

    pub(crate) fn begin(&mut self, file: usize, block: u64, operation: Operation) {
        self.unfinished[file] += 1;
        let request = Request::new(block * 2 + file as u64, block * BLOCK_BYTES as u64, operation);
        self.waiting.push(request.on(self.targets[file]));
    }

    /// Hands over what was begun, as far as there is room, and waits for nothing.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        self.queue.submit(&mut self.waiting);
        Ok(self.queue.flush()?)
    }

    /// Waits until nothing of this file is in flight, and returns its buffers by block. The other file's requests go on.
    pub(crate) fn wait(&mut self, file: usize) -> Outcome<Vec<Buffer>> {
        let (mut buffers, mut completions) = (BTreeMap::new(), Vec::new());
        while self.unfinished[file] > 0 {
            self.queue.submit(&mut self.waiting);
            self.queue.reap(1, &mut completions)?;
            for Completion { tag, result, buffer, .. } in completions.drain(..) {
                let (of, bytes) = (tag as usize % 2, buffer.as_ref().map_or(0, |buffer| buffer.len()));
                self.unfinished[of] -= 1;
                // A short transfer is an error, too: the files have their length, so that only a disk which is full or broken moves a part
                // of a block. No error is tried again: after a failed sync, one that succeeds proves nothing (fsync(2)).
                if result != Ok(bytes as u32) {
                    let what = if bytes == 0 { "sync".into() } else { format!("block {}", tag / 2) };
                    let why = result.map_or_else(|error| error.to_string(), |moved| format!("only {moved} bytes"));
                    return Err(format!("{}, {what}: {why}", NAMES[of]).into());
                }
                buffers.extend(buffer.filter(|_| of == file).map(|buffer| (tag, buffer)));
            }
        }
        Ok(buffers.into_values().collect())
    }

    /// Waits for the writes of a file, then makes them durable: a sync covers what has completed when it is submitted. Returns the buffers.
    pub(crate) fn sync(&mut self, file: usize) -> Outcome<Vec<Buffer>> {
        let written = self.wait(file)?;
        self.begin(file, 0, Operation::Fdatasync);
        self.wait(file)?;
        Ok(written)
    }

    /// All blocks of a file.
    pub(crate) fn read(&mut self, file: usize) -> Outcome<Vec<Buffer>> {
        self.wait(file)?;
        for block in 0..BLOCKS {
            let buffer = self.pool.take().ok_or("the pool is too small")?;
            self.begin(file, block, Operation::Read(buffer));
        }
        self.wait(file)
    }
}

/// For one program at a time. A request in flight holds the file and so its lock: nothing that a killed program left lands later.
fn open_file(folder: &Path, file: usize) -> Outcome<Target> {
    let (name, bytes) = (folder.join(NAMES[file]), BLOCKS * BLOCK_BYTES as u64);
    let named = |error: std::io::Error| format!("{}: {error}", name.display());
    let opened = File::options().read(true).write(true).create(true).truncate(false).open(&name).map_err(named)?;
    opened.lock().map_err(named)?;
    if opened.metadata()?.len() > bytes {
        return Err(format!("{}: longer than {bytes} bytes, and not of this program", name.display()).into());
    }
    opened.set_len(bytes).map_err(named)?; // durable with the first sync
    Ok(Target::from_file(opened, name.to_string_lossy())?)
}
