//! Writes snapshots of pages that are scattered in memory, as the checkpoint of a buffer pool does: neighbours by one vectored write
//! each, then the sync and the root as a chain, so that a root is written only if all it stands for is durable. A file holds
//! two snapshots, so that a crash leaves one of them. Each line of the input is a page.
//! Run: cargo run --release --example page_writer -- FILE [PATH]      FILE is created if it is missing; io_uring

use std::error::Error;
use std::io;
use std::path::Path;

use iolane::guard::WritePermit;
use iolane::{
    Buffer, Buffers, Chains, Completion, IoPath, Operations, Pages, Pool, Queue, QueueConfig, Request, Target,
    open_queue, probe,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

pub(crate) const PAGE_BYTES: usize = 4096;
/// Most pages of a snapshot.
pub(crate) const PAGES_MAX: u64 = 512;
pub(crate) const FILE_BYTES: u64 = (2 + 2 * PAGES_MAX) * PAGE_BYTES as u64;
/// Pages of one write.
const BATCH: usize = 16;
pub(crate) const DEPTH: u32 = 8;
pub(crate) const FRAMES: usize = DEPTH as usize * BATCH;

/// What a root says of its snapshot: generation, number of pages, checksum of the pages.
type Root = [u64; 3];

fn decode(block: &[u8]) -> Option<Root> {
    let (fields, rest) = block.split_at_checked(24)?;
    let sum = u32::from_le_bytes(*rest.first_chunk()?);
    let (numbers, _) = fields.as_chunks::<8>();
    (crc32fast::hash(fields) == sum).then(|| [0, 1, 2].map(|field| u64::from_le_bytes(numbers[field])))
}

fn encode(block: &mut [u8], root: Root) {
    let fields = root.map(u64::to_le_bytes).concat();
    block.fill(0);
    block[..24].copy_from_slice(&fields);
    block[24..28].copy_from_slice(&crc32fast::hash(&fields).to_le_bytes());
}

/// The offset of a page of the snapshot of this generation.
fn offset_of(generation: u64, page: u64) -> u64 {
    (2 + generation % 2 * PAGES_MAX + page) * PAGE_BYTES as u64
}

pub(crate) struct Snapshots {
    queue: Chains,
    pool: Pool,
    can: Operations,
    root: Root,
}

impl Snapshots {
    /// The snapshots in a file, the latest of which is whole; an empty one if there is none.
    pub(crate) fn open(queue: Box<dyn Queue>, pool: Pool, can: Operations) -> Outcome<Self> {
        let mut snapshots = Self { queue: Chains::new(queue)?, pool, can, root: [0; 3] };
        for place in 0..2 {
            let block = snapshots.read_page(place * PAGE_BYTES as u64)?;
            snapshots.root = decode(&block).unwrap_or_default().max(snapshots.root);
        }
        Ok(snapshots)
    }

    /// Writes a snapshot, and returns its generation when it is durable. After an error the snapshot before is still there, and
    /// only opening the file again tells whether the new one is.
    pub(crate) fn write(&mut self, pages: &[&[u8]]) -> Outcome<u64> {
        assert!(pages.len() as u64 <= PAGES_MAX && pages.iter().all(|page| page.len() <= PAGE_BYTES));
        let generation = self.root[0] + 1;
        let (mut sum, mut page) = (crc32fast::Hasher::new(), 0);
        for batch in pages.chunks(if self.can.contains(Operations::VECTORED) { BATCH } else { 1 }) {
            if self.queue.room() == 0 {
                self.reap(1)?;
            }
            let mut buffers = Vec::with_capacity(batch.len());
            for content in batch {
                let mut buffer = self.frame()?;
                buffer.fill(0);
                buffer[..content.len()].copy_from_slice(content);
                sum.update(&buffer);
                buffers.push(buffer);
            }
            self.queue.submit(&mut [write(offset_of(generation, page), buffers)?].into());
            self.queue.flush()?;
            page += batch.len() as u64;
        }
        // The sync covers what has completed.
        self.reap(usize::MAX)?;
        self.root = [generation, page, sum.finalize().into()];
        let mut root = self.frame()?;
        encode(&mut root, self.root);
        let place = generation % 2 * PAGE_BYTES as u64;
        let mut chain = vec![Request::fdatasync(0)];
        match self.can.contains(Operations::DURABLE_WRITE) {
            true => chain.push(Request::durable_write(PAGE_BYTES as u64, place, root)),
            false => chain.extend([Request::write(PAGE_BYTES as u64, place, root), Request::fdatasync(0)]),
        }
        self.queue.submit_chain(&mut chain);
        self.reap(usize::MAX)?;
        Ok(generation)
    }

    /// The pages of the latest snapshot.
    pub(crate) fn read(&mut self) -> Outcome<Vec<Vec<u8>>> {
        let [generation, pages, expected] = self.root;
        let (mut read, mut sum) = (Vec::new(), crc32fast::Hasher::new());
        for page in 0..pages {
            let content = self.read_page(offset_of(generation, page))?.to_vec();
            sum.update(&content);
            read.push(content);
        }
        match u64::from(sum.finalize()) == expected || pages == 0 {
            true => Ok(read),
            false => Err(format!("snapshot {generation} is damaged").into()),
        }
    }

    fn read_page(&mut self, offset: u64) -> Outcome<Buffer> {
        let buffer = self.frame()?;
        self.queue.submit(&mut [Request::read(PAGE_BYTES as u64, offset, buffer)].into());
        self.reap(1)?.pop().and_then(|completion| completion.buffer).ok_or_else(|| "a read without its buffer".into())
    }

    fn frame(&self) -> Outcome<Buffer> {
        self.pool.take().ok_or_else(|| "more requests than there is room for".into())
    }

    /// Waits for this many requests, or for all. The tag of each is the number of bytes that it has to move.
    fn reap(&mut self, min: usize) -> Outcome<Vec<Completion>> {
        let mut completions = Vec::new();
        self.queue.reap(min.min(self.queue.in_flight()), &mut completions)?;
        match completions.iter().find(|completion| completion.result != Ok(completion.tag as u32)) {
            Some(failed) => Err(format!("{} bytes were to move: {:?}", failed.tag, failed.result).into()),
            None => Ok(completions),
        }
    }
}

fn write(offset: u64, mut buffers: Vec<Buffer>) -> Outcome<Request> {
    let bytes = (buffers.len() * PAGE_BYTES) as u64;
    Ok(match (buffers.len(), buffers.pop()) {
        (1, Some(buffer)) => Request::write(bytes, offset, buffer),
        (_, last) => Request::write_vectored(bytes, offset, Buffers::new(buffers.into_iter().chain(last).collect())?),
    })
}

fn open(file: &Path, path: &IoPath) -> Outcome<Snapshots> {
    let target = match file.try_exists()? {
        // What is there already may be a mounted image or another program's: the guard looks.
        true => Target::options().direct(false).write(WritePermit::request(file)?).open(file)?,
        false => Target::options().direct(false).create(FILE_BYTES).open(file)?,
    };
    if target.bytes() < FILE_BYTES {
        return Err(format!("{} is no file of snapshots: it has less than {FILE_BYTES} bytes", target.name()).into());
    }
    let can = probe(path, &target)?;
    let pool = Pool::new(FRAMES, PAGE_BYTES, Pages::Base)?;
    let queue = open_queue(path, &target, &QueueConfig::new(can.depth_max.min(DEPTH)).pool(&pool))?;
    Snapshots::open(queue, pool, can.operations)
}

fn run() -> Outcome<()> {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next().ok_or("usage: page_writer FILE [PATH]")?;
    let path = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;
    let mut snapshots = open(Path::new(&file), &path)?;
    let lines = io::stdin().lines().collect::<Result<Vec<_>, _>>()?;
    if lines.len() as u64 > PAGES_MAX || lines.iter().any(|line| line.len() > PAGE_BYTES) {
        return Err(format!("a snapshot has at most {PAGES_MAX} lines of {PAGE_BYTES} bytes").into());
    }
    let generation = snapshots.write(&lines.iter().map(String::as_bytes).collect::<Vec<_>>())?;
    println!("snapshot {generation} has {} pages", snapshots.read()?.len());
    Ok(())
}

fn main() {
    run().unwrap_or_else(|error| {
        eprintln!("page_writer: {error}");
        std::process::exit(1);
    });
}
