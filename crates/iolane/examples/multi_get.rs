//! Looks up many keys at once in a sorted file, as the MultiGet of an LSM tree does. An index in memory names the block of each key;
//! the blocks of a batch are read at the same time, past the page cache. `iolane study application` measures such a program on every
//! path, and beside std::fs, tokio and compio.
//! Run: cargo run --release --example multi_get -- FILE [PATH]      FILE is created if it is not there.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use iolane::{IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCK_BYTES: usize = 16 << 10;
const RECORD_BYTES: usize = 128;
const RECORDS: u64 = (BLOCK_BYTES / RECORD_BYTES) as u64;
/// 256 MiB of blocks.
const BLOCKS: u64 = 16 << 10;
/// Keys that are looked up together.
const BATCHES: [usize; 3] = [1, 8, 64];
const BATCH_MAX: usize = 64;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads blocks, as many at once as fit on the queue.
struct Reader {
    queue: Box<dyn Queue>,
    pool: Pool,
    depth: usize,
}

impl Reader {
    /// Hands each block over with its number, in the order in which they come.
    fn read(&mut self, blocks: impl Iterator<Item = u64>, mut seen: impl FnMut(u64, &[u8])) -> Result<()> {
        let (mut requests, mut completions) = (Vec::new(), Vec::new());
        let mut blocks = blocks.peekable();
        while blocks.peek().is_some() || self.queue.in_flight() > 0 {
            while self.queue.in_flight() + requests.len() < self.depth
                && let Some(block) = blocks.next()
            {
                let buffer = self.pool.take().ok_or("a buffer is missing")?;
                requests.push(Request::read(block, block * BLOCK_BYTES as u64, buffer));
            }
            self.queue.turn(&mut requests, 1, &mut completions)?;
            for completion in completions.drain(..) {
                let read = completion.result? as usize;
                let buffer = completion.buffer.filter(|_| read == BLOCK_BYTES).ok_or("the file is cut off")?;
                seen(completion.tag, &buffer);
            }
        }
        Ok(())
    }
}

/// The values of keys, each found in the block that the index names.
fn multi_get(index: &[u64], keys: &[u64], reader: &mut Reader) -> Result<Vec<Option<u64>>> {
    let mut wanted: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, key) in keys.iter().enumerate() {
        let block = index.partition_point(|first| first <= key).saturating_sub(1);
        wanted.entry(block as u64).or_default().push(place);
    }
    let mut values = vec![None; keys.len()];
    reader.read(wanted.keys().copied(), |block, bytes| {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        for place in &wanted[&block] {
            let records: Vec<usize> = (0..BLOCK_BYTES).step_by(RECORD_BYTES).collect();
            let found = records.binary_search_by_key(&keys[*place], |at| word(*at));
            values[*place] = found.ok().map(|record| word(records[record] + 8));
        }
    })?;
    Ok(values)
}

/// Writes even keys, each with its square, and returns the first key of each block.
fn make(name: &str) -> Result<Vec<u64>> {
    if !std::fs::exists(name)? {
        let mut file = BufWriter::new(File::create_new(name)?);
        for number in 0..BLOCKS * RECORDS {
            let key = 2 * number;
            file.write_all(&[key.to_le_bytes(), key.wrapping_mul(key).to_le_bytes()].concat())?;
            file.write_all(&[0; RECORD_BYTES - 16])?;
        }
        file.into_inner()?.sync_all()?;
    }
    Ok((0..BLOCKS).map(|block| 2 * block * RECORDS).collect())
}

fn open(name: &str, path: &IoPath) -> Result<Reader> {
    let target = Target::open(name)?;
    let pool = Pool::new(BATCH_MAX, BLOCK_BYTES, Pages::Base)?;
    let depth = probe(path, &target)?.depth_max.min(BATCH_MAX as u32);
    let queue = open_queue(path, &target, &QueueConfig::new(depth).pool(&pool))?;
    Ok(Reader { queue, pool, depth: depth as usize })
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: multi_get FILE [PATH]")?;
    let path: IoPath = arguments.next().as_deref().unwrap_or("io_uring").parse()?;
    let index = make(&name)?;
    let mut reader = open(&name, &path)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for batch in BATCHES {
        let (mut latencies, begin) = (Vec::new(), Instant::now());
        while begin.elapsed() < Duration::from_secs(1) {
            let keys: Vec<u64> = (0..batch).map(|_| random.next_u64() % (2 * BLOCKS * RECORDS)).collect();
            let before = Instant::now();
            let values = multi_get(&index, &keys, &mut reader)?;
            latencies.push(before.elapsed());
            let expected = keys.iter().map(|key| (key % 2 == 0).then_some(key.wrapping_mul(*key)));
            if !values.into_iter().eq(expected) {
                return Err("a value is not that of its key".into());
            }
        }
        let rate = (batch * latencies.len()) as f64 / begin.elapsed().as_secs_f64();
        latencies.sort_unstable();
        let p99 = latencies[latencies.len() * 99 / 100].as_secs_f64() * 1e6;
        println!("{path}: {batch} keys at once: {rate:.0} keys/s, p99 of a batch {p99:.0} us");
    }
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("multi_get: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
