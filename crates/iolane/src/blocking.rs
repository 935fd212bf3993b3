//! Byte ranges of a target, one call at a time.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::chunks::ignores_chunks;
use crate::{
    Buffer, Choices, Completion, Error, IoPath, Operations, Pages, PathMemory, Pool, Queue, QueueConfig, Request,
    Result, Target, TargetKind, first_of, open_movable_queue, probe_for,
};

/// Most requests of a call in flight.
const DEPTH: u32 = 16;
/// Most bytes of a request.
const REQUEST_BYTES: u64 = 64 << 10;

/// Reads and writes byte ranges by any path, as `read_exact_at` and `write_all_at` of
/// [`FileExt`](std::os::unix::fs::FileExt) do: any offset and length, from memory of any alignment, also where the target takes only whole
/// blocks (O_DIRECT). A call has as many requests in flight as it needs, and returns when all of them have ended.
///
/// For programs whose own interface blocks, such as the storage backend of a database. Threads share one: each call takes a queue that no
/// other call has, or opens one. So there are as many queues as there were calls at one time, each with up to 1 MiB of memory, which paths with
/// `fixedbufs` lock. Where memory, locked memory or descriptors do not suffice for one more, a call waits for one of those that are there.
/// They stay open, and with them the file and its locks, until the `Blocking` is dropped; no thread keeps any.
/// Data is copied once, between the caller's memory and the queue's. The example `redb_backend` is a backend of a database on it.
///
/// ```
/// use iolane::{Blocking, Target, paths_of};
/// # use iolane::guard::WritePermit;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let name = std::env::temp_dir().join(format!("iolane-doc-blocking-{}", std::process::id()));
/// # std::fs::write(&name, vec![0; 1 << 16])?;
/// # let target = Target::options().direct(false).write(WritePermit::request(&name)?).open(&name)?;
/// # std::fs::remove_file(&name)?;
/// let file = Blocking::open_first(&paths_of("io_uring,libaio,psync")?, &target)?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| file.write_all_at(b"any length at any offset", 4090)).join().unwrap()
/// })?;
/// file.sync_data()?;
/// let mut read = [0; 6];
/// file.read_exact_at(&mut read, 4108)?;
/// assert_eq!(&read, b"offset");
/// # Ok(())
/// # }
/// ```
pub struct Blocking {
    target: Target,
    path: IoPath,
    passed_over: Vec<Error>,
    sizes: Sizes,
    /// What the queues of `auto` have learnt, one from the other.
    memory: PathMemory,
    lanes: Mutex<Lanes>,
    /// A lane is idle, or there is one less.
    changed: Condvar,
    /// Held alone by a write that covers a block in part, from when it reads the block until it has written it, and by other writes
    /// together: none comes in between. Every `Blocking` of this process on the same file or device has the same one.
    writing: Arc<RwLock<()>>,
}

/// The lock of writes to a target: one for each file or device, however often it was opened.
fn writing_to(target: &Target) -> Arc<RwLock<()>> {
    /// By the device, and the number of the file on it; none of a device itself.
    type File = ((u32, u32), Option<u64>);
    static LOCKS: Mutex<BTreeMap<File, Weak<RwLock<()>>>> = Mutex::new(BTreeMap::new());
    let number = target.fd().and_then(|fd| rustix::fs::fstat(fd).ok()).map(|file| file.st_ino);
    let file = target.device().map(|device| (device, number.filter(|_| target.kind() == TargetKind::File)));
    // A simulated one has neither.
    let Some(file) = file else { return Arc::default() };
    let mut locks = lock(&LOCKS);
    locks.retain(|_, writing| writing.strong_count() > 0);
    let writing = locks.get(&file).and_then(Weak::upgrade).unwrap_or_default();
    locks.insert(file, Arc::downgrade(&writing));
    writing
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocking")
            .field("path", &self.path)
            .field("target", &self.target.name())
            .finish_non_exhaustive()
    }
}

impl Blocking {
    /// Opens one on this path.
    ///
    /// # Errors
    /// As [`probe`](crate::probe) and [`open_movable_queue`]; `Unavailable` if the path cannot read, or, on a target that may be written, cannot write or
    /// sync, and if it refuses requests across a border of the device's chunks.
    pub fn open(path: &IoPath, target: &Target) -> Result<Self> {
        Self::open_with_memory(path, target, &PathMemory::new())
    }

    /// Opens one whose queues, on the path `auto`, begin with what a memory has, and add to it. Those of [`open`](Self::open) have one of their
    /// own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_memory(path: &IoPath, target: &Target, memory: &PathMemory) -> Result<Self> {
        let needed = match target.writable() {
            true => Operations::READ.with(Operations::WRITE).with(Operations::FDATASYNC),
            false => Operations::READ,
        };
        let able = probe_for(path, needed, target)?;
        ignores_chunks(path, target, &able)?;
        let block_bytes = u64::from(target.block_bytes());
        let request_bytes = able.request_bytes_max.unwrap_or(u64::MAX).min(REQUEST_BYTES) / block_bytes * block_bytes;
        let sizes = Sizes { block_bytes, request_bytes, depth: able.depth_max.min(DEPTH) };
        // What does not open fails here, and not in the first call.
        let first = Lane::open(path, target, sizes, memory)?;
        Ok(Self {
            target: target.clone(),
            path: path.clone(),
            passed_over: Vec::new(),
            sizes,
            memory: memory.clone(),
            lanes: Mutex::new(Lanes { idle: vec![first], open: 1 }),
            changed: Condvar::new(),
            writing: writing_to(target),
        })
    }

    /// Opens one on the first path of a list that works here. Later calls stay on it.
    ///
    /// # Errors
    /// `Usage` for an empty list; if none works, the errors of all.
    pub fn open_first(paths: &[IoPath], target: &Target) -> Result<Self> {
        let (_, opened, passed_over) = first_of(paths, |path| Self::open(path, target))?;
        Ok(Self { passed_over, ..opened })
    }

    /// Its path.
    pub fn path(&self) -> &IoPath {
        &self.path
    }

    /// Why [`open_first`](Self::open_first) passed over the paths before it, for the program's log.
    pub fn passed_over(&self) -> &[Error] {
        &self.passed_over
    }

    /// Which paths its queues took, on the path `auto`: for each queue that no call has at the moment. Empty on any other path.
    pub fn choices(&self) -> Vec<Choices> {
        lock(&self.lanes).idle.iter().filter_map(|lane| lane.queue.choices()).collect()
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the target ends before. Otherwise the error of the first request that failed, or of the queue; the next call
    /// works again, if the target does.
    pub fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match self.with_lane(|lane| lane.read_to_end(out, offset))? == out.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes all of `data` from `offset` on. It is durable after the next [`sync_data`](Self::sync_data). A block of which it covers only a
    /// part is read first; meanwhile no other call writes to the target, by this or another `Blocking` of this process on the file or device.
    /// Writes by queues of your own and by other processes are not held back: they must not write to the same block. A file that ends within the last block
    /// grows to the end of that block, by zeroes; one whose size always is a multiple of [`Target::block_bytes`] does not.
    ///
    /// # Errors
    /// `PermissionDenied` on a target that was opened for reading. Otherwise as [`read_exact_at`](Self::read_exact_at), after which any part
    /// of the range may have been written.
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if !self.target.writable() {
            let cause = format!("target {}: it was opened for reading", self.target.name());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, cause));
        }
        let written = offset..offset.checked_add(data.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let is_whole = written.start.is_multiple_of(self.sizes.block_bytes)
            && (written.end.is_multiple_of(self.sizes.block_bytes) || written.is_empty());
        let write = || self.with_lane(|lane| lane.write(data, written));
        // It guards no data, which a panic could leave half changed.
        if is_whole {
            let _together = self.writing.read().unwrap_or_else(PoisonError::into_inner);
            return write();
        }
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        write()
    }

    /// Makes durable what was written by all calls that had returned before this one began, of any thread, as fdatasync(2) does; and a
    /// size that was set by another descriptor of the file (ftruncate(2)).
    ///
    /// # Errors
    /// The error of the sync, or of the queue.
    pub fn sync_data(&self) -> io::Result<()> {
        self.with_lane(Lane::sync)
    }

    /// Makes a call with a queue of its own.
    fn with_lane<T>(&self, call: impl FnOnce(&mut Lane) -> io::Result<T>) -> io::Result<T> {
        let mut lane = Borrowed { lane: Some(self.take()?), of: self };
        lane.lane.as_mut().map_or_else(|| Err(io::ErrorKind::NotConnected.into()), call)
    }

    /// A lane for one call: an idle one, a new one, or, where memory or descriptors have run out, the next that is idle.
    fn take(&self) -> Result<Lane> {
        let mut lanes = lock(&self.lanes);
        loop {
            if let Some(lane) = lanes.idle.pop() {
                return Ok(lane);
            }
            lanes.open += 1;
            drop(lanes);
            let opened = Lane::open(&self.path, &self.target, self.sizes, &self.memory);
            lanes = lock(&self.lanes);
            let error = match opened {
                Ok(lane) => return Ok(lane),
                Err(error) => error,
            };
            lanes.open -= 1;
            if lanes.open == 0 {
                self.changed.notify_all();
                return Err(error);
            }
            if lanes.idle.is_empty() {
                lanes = self.changed.wait(lanes).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The queues of a [`Blocking`].
struct Lanes {
    /// Those that no call has.
    idle: Vec<Lane>,
    /// All of them, and those that are being opened.
    open: usize,
}

/// A lane in a call, which gives it back, or closes it if it failed.
struct Borrowed<'a> {
    lane: Option<Lane>,
    of: &'a Blocking,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let usable = self.lane.take().filter(|lane| !lane.has_failed && lane.queue.in_flight() == 0);
        let mut lanes = lock(&self.of.lanes);
        match usable {
            Some(lane) => lanes.idle.push(lane),
            None => lanes.open -= 1,
        }
        drop(lanes);
        self.of.changed.notify_one();
    }
}

/// Nothing that these locks guard is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy)]
struct Sizes {
    /// What the target reads and writes at least.
    block_bytes: u64,
    request_bytes: u64,
    depth: u32,
}

/// A queue, with memory for all its requests.
struct Lane {
    queue: Box<dyn Queue + Send>,
    pool: Pool,
    sizes: Sizes,
    completions: Vec<Completion>,
    /// The queue itself has failed; requests may be in flight.
    has_failed: bool,
}

impl Lane {
    fn open(path: &IoPath, target: &Target, sizes: Sizes, memory: &PathMemory) -> Result<Self> {
        let pool = Pool::new(sizes.depth as usize, sizes.request_bytes as usize, Pages::Base)?;
        let queue = open_movable_queue(path, target, &QueueConfig::new(sizes.depth).pool(&pool).memory(memory))?;
        Ok(Self { queue, pool, sizes, completions: Vec::new(), has_failed: false })
    }

    fn write(&mut self, data: &[u8], written: Range<u64>) -> io::Result<()> {
        let blocks = self.blocks_of(&written);
        let block_bytes = self.sizes.block_bytes;
        let block = block_bytes as usize;
        let (starts_within, ends_within) = (written.start > blocks.start, written.end < blocks.end);
        let mut edges = [starts_within, ends_within].map(|is_part| vec![0; if is_part { block } else { 0 }]);
        self.read_to_end(&mut edges[0], blocks.start)?;
        self.read_to_end(&mut edges[1], blocks.end - block_bytes.min(blocks.end))?;
        let fill = |part: Range<u64>, mut buffer: Buffer| {
            if starts_within && part.start == blocks.start {
                buffer[..block].copy_from_slice(&edges[0]);
            }
            if ends_within && part.end == blocks.end {
                let from = buffer.len() - block;
                buffer[from..].copy_from_slice(&edges[1]);
            }
            let covered = part.start.max(written.start)..part.end.min(written.end);
            buffer[within(&covered, part.start)].copy_from_slice(&data[within(&covered, written.start)]);
            Request::write(part.start, part.start, buffer)
        };
        match self.transfer(blocks.clone(), fill, |_, _| ())? == blocks.end {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.turn(&mut vec![Request::fdatasync(0)])?;
        let completion = self.completions.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(completion.result.map(|_| ())?)
    }

    /// Submits requests, and waits for a completion.
    fn turn(&mut self, requests: &mut Vec<Request>) -> Result<usize> {
        let reaped = self.queue.turn(requests, 1, &mut self.completions);
        self.has_failed |= reaped.is_err();
        reaped
    }

    /// Returns how many bytes there were.
    fn read_to_end(&mut self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let wanted = offset..offset.saturating_add(out.len() as u64);
        let end = self.transfer(
            self.blocks_of(&wanted),
            |part, buffer| Request::read(part.start, part.start, buffer),
            |at, moved| {
                let useful = at.max(wanted.start)..(at + moved.len() as u64).min(wanted.end);
                if !useful.is_empty() {
                    out[within(&useful, wanted.start)].copy_from_slice(&moved[within(&useful, at)]);
                }
            },
        )?;
        Ok((end.clamp(wanted.start, wanted.end) - offset) as usize)
    }

    fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        let block_bytes = self.sizes.block_bytes;
        match range.is_empty() {
            true => range.start..range.start,
            false => {
                range.start / block_bytes * block_bytes..range.end.div_ceil(block_bytes).saturating_mul(block_bytes)
            }
        }
    }

    /// Moves whole blocks, in as many requests as it takes; `done` gets what each of them moved, and where. Returns up to where all was
    /// moved: the end, or that of the target.
    fn transfer(
        &mut self,
        blocks: Range<u64>,
        request: impl Fn(Range<u64>, Buffer) -> Request,
        mut done: impl FnMut(u64, &[u8]),
    ) -> io::Result<u64> {
        let mut next = blocks.start;
        let mut end = blocks.end;
        let mut rests: Vec<Range<u64>> = Vec::new();
        let mut requests = Vec::new();
        let mut outcome = Ok(());
        loop {
            while outcome.is_ok() && (next < blocks.end || !rests.is_empty()) {
                let Some(mut buffer) = self.pool.take() else { break };
                let part = rests.pop().unwrap_or(next..blocks.end.min(next.saturating_add(self.sizes.request_bytes)));
                next = next.max(part.end);
                buffer.set_len((part.end - part.start) as usize)?;
                requests.push(request(part, buffer));
            }
            if requests.is_empty() && self.queue.in_flight() == 0 {
                return outcome.map(|()| end);
            }
            let reaped = self.turn(&mut requests);
            for Completion { tag: at, result, buffer, .. } in self.completions.drain(..) {
                match (result, buffer) {
                    (Ok(moved), Some(buffer)) => {
                        done(at, &buffer[..moved as usize]);
                        let moved = u64::from(moved);
                        let rest =
                            at + moved / self.sizes.block_bytes * self.sizes.block_bytes..at + buffer.len() as u64;
                        if rest.start == at {
                            // Less than a block: there the target ends.
                            end = end.min(at + moved);
                        } else if !rest.is_empty() {
                            rests.push(rest);
                        }
                    }
                    (Ok(_), None) => {}
                    (Err(error), _) => outcome = outcome.and(Err(error.into())),
                }
            }
            reaped?;
        }
    }
}

/// A range as positions from `start` on.
fn within(range: &Range<u64>, start: u64) -> Range<usize> {
    (range.start - start) as usize..(range.end - start) as usize
}
