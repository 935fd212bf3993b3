//! Byte ranges of a target, one call at a time.

use std::io;
use std::ops::Range;

use crate::{Buffer, Completion, IoPath, Pages, Pool, Queue, QueueConfig, Request, Result, Target, open_queue, probe};

/// Most requests of a call in flight.
const DEPTH: u32 = 16;
/// Most bytes of a request.
const REQUEST_BYTES: u64 = 64 << 10;

/// Reads and writes byte ranges by any path, as `read_exact_at` and `write_all_at` of
/// [`FileExt`](std::os::unix::fs::FileExt) do: any offset and length, also where the target takes only whole blocks (O_DIRECT). A call
/// has as many requests in flight as it needs, and returns when all of them have ended.
///
/// For programs whose own interface blocks, such as the storage backend of a database. Each thread opens one of its own. The
/// example `redb_backend` is a backend on it.
///
/// ```
/// use iolane::{Blocking, Target};
/// # use iolane::guard::WritePermit;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let name = std::env::temp_dir().join(format!("iolane-doc-blocking-{}", std::process::id()));
/// # std::fs::write(&name, vec![0; 1 << 16])?;
/// # let target = Target::options().direct(false).write(WritePermit::request(&name)?).open(&name)?;
/// # std::fs::remove_file(&name)?;
/// let mut file = Blocking::open(&"io_uring".parse()?, &target).or_else(|_| Blocking::open(&"psync".parse()?, &target))?;
/// file.write_all_at(b"any length at any offset", 4090)?;
/// file.sync_data()?;
/// let mut read = [0; 6];
/// file.read_exact_at(&mut read, 4108)?;
/// assert_eq!(&read, b"offset");
/// # Ok(())
/// # }
/// ```
pub struct Blocking {
    queue: Box<dyn Queue>,
    pool: Pool,
    /// What the target reads and writes at least.
    block_bytes: u64,
    request_bytes: u64,
    completions: Vec<Completion>,
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { block_bytes, request_bytes, .. } = self;
        f.debug_struct("Blocking").field("block_bytes", block_bytes).field("request_bytes", request_bytes).finish()
    }
}

impl Blocking {
    /// Opens a queue on the target, with memory of up to 1 MiB.
    ///
    /// # Errors
    /// As [`open_queue`] and [`Pool::new`].
    pub fn open(path: &IoPath, target: &Target) -> Result<Self> {
        let able = probe(path, target)?;
        let block_bytes = u64::from(target.block_bytes());
        let request_bytes = able.request_bytes_max.unwrap_or(u64::MAX).min(REQUEST_BYTES) / block_bytes * block_bytes;
        let depth = able.depth_max.min(DEPTH);
        let pool = Pool::new(depth as usize, request_bytes as usize, Pages::Base)?;
        let queue = open_queue(path, target, &QueueConfig::new(depth).pool(&pool))?;
        Ok(Self { queue, pool, block_bytes, request_bytes, completions: Vec::new() })
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the target ends before. Otherwise the error of the first request that failed, or of the queue, which then serves
    /// no further call.
    pub fn read_exact_at(&mut self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match self.read_to_end(out, offset)? == out.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes all of `data` from `offset` on. It is durable after the next [`sync_data`](Self::sync_data). A block of which it covers only a
    /// part is read first: two threads that write to one block exclude each other by a lock of their own. A file that ends within the last block
    /// grows to the end of that block.
    ///
    /// # Errors
    /// The error of the first request that failed, after which any part of the range may have been written; or of the queue, which then
    /// serves no further call.
    pub fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        let written = offset..offset + data.len() as u64;
        let blocks = self.blocks_of(&written);
        let block = self.block_bytes as usize;
        let (starts_within, ends_within) = (written.start > blocks.start, written.end < blocks.end);
        let mut edges = [starts_within, ends_within].map(|is_part| vec![0; if is_part { block } else { 0 }]);
        self.read_to_end(&mut edges[0], blocks.start)?;
        self.read_to_end(&mut edges[1], blocks.end - self.block_bytes.min(blocks.end))?;
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

    /// Makes durable what has been written, as fdatasync(2) does.
    ///
    /// # Errors
    /// The error of the sync, or of the queue.
    pub fn sync_data(&mut self) -> io::Result<()> {
        self.require_idle()?;
        self.queue.turn(&mut vec![Request::fdatasync(0)], 1, &mut self.completions)?;
        let completion = self.completions.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(completion.result.map(|_| ())?)
    }

    /// Returns how many bytes there were.
    fn read_to_end(&mut self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let wanted = offset..offset + out.len() as u64;
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

    /// Requests of an earlier call are in flight only if the queue has failed.
    fn require_idle(&self) -> io::Result<()> {
        match self.queue.in_flight() {
            0 => Ok(()),
            _ => Err(io::Error::other("the queue has failed in an earlier call; open another one")),
        }
    }

    fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        match range.is_empty() {
            true => range.start..range.start,
            false => range.start / self.block_bytes * self.block_bytes..range.end.next_multiple_of(self.block_bytes),
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
        self.require_idle()?;
        let mut next = blocks.start;
        let mut end = blocks.end;
        let mut rests: Vec<Range<u64>> = Vec::new();
        let mut requests = Vec::new();
        let mut outcome = Ok(());
        loop {
            while outcome.is_ok() && (next < blocks.end || !rests.is_empty()) {
                let Some(mut buffer) = self.pool.take() else { break };
                let part = rests.pop().unwrap_or(next..blocks.end.min(next + self.request_bytes));
                next = next.max(part.end);
                buffer.set_len((part.end - part.start) as usize)?;
                requests.push(request(part, buffer));
            }
            if requests.is_empty() && self.queue.in_flight() == 0 {
                return outcome.map(|()| end);
            }
            let reaped = self.queue.turn(&mut requests, 1, &mut self.completions);
            for Completion { tag: at, result, buffer, .. } in self.completions.drain(..) {
                match (result, buffer) {
                    (Ok(moved), Some(buffer)) => {
                        done(at, &buffer[..moved as usize]);
                        let moved = u64::from(moved);
                        let rest = at + moved / self.block_bytes * self.block_bytes..at + buffer.len() as u64;
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
