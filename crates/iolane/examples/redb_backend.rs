//! A database on iolane: a `StorageBackend` of redb that reads and writes its file by any path. Threads share the backend, and each
//! has a queue of its own. `cargo xtask redb` runs redb's own tests on it.
//! Run: cargo run --release --example redb_backend -- FILE [PATH]      FILE is created.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use iolane::{Buffer, Completion, IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue, probe};
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition};

const FRAME_BYTES: u64 = 64 << 10;
const DEPTH: u32 = 16;

/// A database's file, and how to reach it.
#[derive(Debug)]
pub(crate) struct IolaneBackend {
    file: File,
    target: Target,
    path: IoPath,
    /// Most requests that a thread has in flight.
    depth: u32,
    /// A write that covers a block in part reads it first, and no other write comes between. Threads know the backend by it.
    part_of_a_block: Arc<Mutex<()>>,
}

/// The queue of one thread on one backend.
struct Lane {
    backend: Weak<Mutex<()>>,
    queue: Box<dyn Queue>,
    pool: Pool,
    completions: Vec<Completion>,
}

thread_local! {
    static LANES: RefCell<Vec<Lane>> = const { RefCell::new(Vec::new()) };
}

impl IolaneBackend {
    pub(crate) fn new(file: File, path: IoPath) -> io::Result<Self> {
        let target = Target::from_file(file.try_clone()?, "the database")?;
        let depth = probe(&path, &target)?.depth_max.min(DEPTH);
        Ok(Self { file, target, path, depth, part_of_a_block: Arc::default() })
    }

    /// Moves the blocks that hold `range`, in as many requests as it takes; `done` gets what each of them moved, and where.
    fn transfer(
        &self,
        range: Range<u64>,
        request: impl Fn(u64, Buffer) -> Request,
        done: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        LANES.with_borrow_mut(|lanes| {
            let is_ours = |lane: &Lane| std::ptr::eq(lane.backend.as_ptr(), Arc::as_ptr(&self.part_of_a_block));
            let index = lanes.iter().position(is_ours).map_or_else(
                || {
                    lanes.retain(|lane| lane.backend.strong_count() > 0);
                    lanes.push(Lane::open(self)?);
                    Ok(lanes.len() - 1)
                },
                io::Result::Ok,
            )?;
            let block = u64::from(self.target.block_bytes());
            let blocks = range.start / block * block..range.end.next_multiple_of(block);
            let outcome = lanes[index].transfer(blocks, range.end, request, done);
            if outcome.is_err() {
                // Its requests may still be in flight; dropping the queue waits for them.
                lanes.swap_remove(index);
            }
            outcome
        })
    }

    /// Writes whole blocks.
    fn write_blocks(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let filled = |at: u64, mut buffer: Buffer| {
            let from = (at - offset) as usize;
            let bytes = buffer.len();
            buffer.copy_from_slice(&data[from..from + bytes]);
            Request::write(at, at, buffer)
        };
        self.transfer(offset..offset + data.len() as u64, filled, |_, _| ())
    }
}

impl Lane {
    fn open(backend: &IolaneBackend) -> io::Result<Self> {
        let pool = Pool::new(backend.depth as usize, FRAME_BYTES as usize, Pages::Base)?;
        let queue = open_queue(&backend.path, &backend.target, &QueueConfig::new(backend.depth).pool(&pool))?;
        let backend = Arc::downgrade(&backend.part_of_a_block);
        Ok(Self { backend, queue, pool, completions: Vec::new() })
    }

    /// `needed_to` is the end of what has to be moved: the last block of a file may be shorter than the others.
    fn transfer(
        &mut self,
        range: Range<u64>,
        needed_to: u64,
        request: impl Fn(u64, Buffer) -> Request,
        mut done: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        let mut next = range.start;
        let mut rests: Vec<Range<u64>> = Vec::new();
        let mut requests = Vec::new();
        let mut outcome = Ok(());
        loop {
            while outcome.is_ok() && (next < range.end || !rests.is_empty()) {
                let Some(mut buffer) = self.pool.take() else { break };
                let part = rests.pop().unwrap_or(next..range.end.min(next + FRAME_BYTES));
                next = next.max(part.end);
                buffer.set_len((part.end - part.start) as usize)?;
                requests.push(request(part.start, buffer));
            }
            if requests.is_empty() && self.queue.in_flight() == 0 {
                return outcome;
            }
            let reaped = self.queue.turn(&mut requests, 1, &mut self.completions);
            for completion in self.completions.drain(..) {
                let (at, Some(buffer)) = (completion.tag, completion.buffer) else { continue };
                match completion.result {
                    Ok(moved) => {
                        done(at, &buffer[..moved as usize]);
                        let rest = at + u64::from(moved)..at + buffer.len() as u64;
                        match moved {
                            _ if rest.is_empty() || rest.start >= needed_to => {}
                            0 => outcome = Err(io::ErrorKind::UnexpectedEof.into()),
                            _ => rests.push(rest),
                        }
                    }
                    Err(error) => outcome = Err(error.into()),
                }
            }
            reaped?;
        }
    }
}

impl StorageBackend for IolaneBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let wanted = offset..offset + out.len() as u64;
        self.transfer(
            wanted.clone(),
            |at, buffer| Request::read(at, at, buffer),
            |at, moved| {
                let (from, to) = (at.max(wanted.start), wanted.end.min(at + moved.len() as u64));
                if from < to {
                    let piece = &moved[(from - at) as usize..(to - at) as usize];
                    out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
                }
            },
        )
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Every write has completed by now, and a sync covers the file, whichever queue wrote (fdatasync(2)).
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let block = u64::from(self.target.block_bytes());
        if (offset | data.len() as u64).is_multiple_of(block) {
            return self.write_blocks(offset, data);
        }
        let _alone = self.part_of_a_block.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, end) = (offset / block * block, offset + data.len() as u64);
        let mut blocks = vec![0; (end.next_multiple_of(block) - first) as usize];
        let there = self.len()?.saturating_sub(first).min(blocks.len() as u64);
        self.read(first, &mut blocks[..there as usize])?;
        blocks[(offset - first) as usize..][..data.len()].copy_from_slice(data);
        self.write_blocks(first, &blocks)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const NUMBERS: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: redb_backend FILE [PATH]")?;
    let path: IoPath = arguments.next().as_deref().unwrap_or("io_uring").parse()?;
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    let database = Database::builder().create_with_backend(IolaneBackend::new(file, path.clone())?)?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(NUMBERS)?;
        (0..1000).try_for_each(|number| table.insert(number, number * number).map(|_| ()))?;
    }
    transaction.commit()?;
    let read = database.begin_read()?.open_table(NUMBERS)?.get(31)?.map(|value| value.value());
    println!("{name} by {path}: 1000 numbers committed, the square of 31 is {}", read.unwrap_or(0));
    Ok(())
}
