//! Reads random blocks of two copies of the same data, and asks the other copy if an answer is late: the first answer counts, and the
//! other read is cancelled. A copy that fails is replaced by the other one. Prints latencies and how often the other copy was asked.
//! Run: cargo run --release --example hedged_reader -- COPY COPY [MICROSECONDS [PATH]]      1000 us, io_uring

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use iolane::{Buffer, Deadlines, IoPath, Pages, Pool, QueueConfig, Request, Target, TargetId, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCK_BYTES: u64 = 4096;
/// Reads at a time; each may have a request to either copy.
const READS: u32 = 16;

/// A read of one block.
struct Read {
    block: u64,
    started: Instant,
    /// The copies that were asked, and how many of them have not answered.
    asked: [bool; 2],
    waiting: usize,
    is_answered: bool,
}

impl Read {
    /// Asks a copy. The tag holds the number of the read and of the copy.
    fn ask(&mut self, number: u64, copy: usize, id: TargetId, buffer: Buffer) -> Request {
        self.asked[copy] = true;
        self.waiting += 1;
        Request::read(2 * number + copy as u64, self.block * BLOCK_BYTES, buffer).on(id)
    }
}

/// Latencies in order, and how often the other copy was asked.
pub(crate) struct Outcome {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) hedges: u64,
}

/// Makes `count` reads, and passes the block and its data on.
pub(crate) fn read(
    copies: [&Path; 2],
    late: Duration,
    path: &IoPath,
    count: u64,
    mut take: impl FnMut(u64, &[u8]),
) -> Result<Outcome, Box<dyn Error>> {
    let [first, second] = [Target::open(copies[0])?, Target::open(copies[1])?];
    let blocks = first.bytes().min(second.bytes()) / BLOCK_BYTES;
    if blocks == 0 {
        return Err(format!("the copies have less than one block of {BLOCK_BYTES} bytes").into());
    }
    let depth = probe(path, &first)?.depth_max.min(2 * READS);
    let pool = Pool::new(depth as usize, BLOCK_BYTES as usize, Pages::Base)?;
    let mut queue = open_queue(path, &first, &QueueConfig::new(depth).pool(&pool).targets(2))?;
    let ids = [TargetId::FIRST, queue.attach(&second)?];

    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut reads: HashMap<u64, Read> = HashMap::new();
    let (mut requests, mut completions, mut deadlines) = (Vec::new(), Vec::new(), Deadlines::new());
    let (mut begun, mut outcome) = (0, Outcome { latencies: Vec::new(), hedges: 0 });
    while (outcome.latencies.len() as u64) < count {
        // Half of the buffers are kept for second requests, if the path takes several.
        while begun < count
            && reads.len() < (depth as usize).div_ceil(2)
            && let Some(buffer) = pool.take()
        {
            let block = random.next_u64() % blocks;
            let mut read = Read { block, started: Instant::now(), asked: [false; 2], waiting: 0, is_answered: false };
            let copy = begun as usize % 2;
            let request = read.ask(begun, copy, ids[copy], buffer);
            deadlines.set(request.tag, read.started + late);
            requests.push(request);
            reads.insert(begun, read);
            begun += 1;
        }
        queue.submit(&mut requests);
        let overdue = deadlines.reap(&mut *queue, 1, &mut completions)?;
        for completion in completions.drain(..) {
            let (number, copy) = (completion.tag / 2, (completion.tag % 2) as usize);
            let read = reads.get_mut(&number).ok_or("a completion of no read")?;
            read.waiting -= 1;
            let buffer = completion.buffer.ok_or("a read without its buffer")?;
            let is_whole = completion.result == Ok(BLOCK_BYTES as u32);
            if is_whole && !read.is_answered {
                read.is_answered = true;
                outcome.latencies.push(read.started.elapsed());
                take(read.block, &buffer);
                // Its buffer comes back with its completion, whether it ends early or not.
                queue.cancel(2 * number + (1 - copy) as u64)?;
            } else if !read.is_answered && !read.asked[1 - copy] {
                requests.push(read.ask(number, 1 - copy, ids[1 - copy], buffer));
            } else if !read.is_answered && read.waiting == 0 {
                return Err(
                    format!("block {}: both copies failed, the last with {:?}", read.block, completion.result).into()
                );
            }
            if read.waiting == 0 {
                reads.remove(&number);
            }
        }
        for tag in overdue {
            let (number, other) = (tag / 2, 1 - (tag % 2) as usize);
            // A path that takes one request at a time has no buffer for a second.
            if let Some(read) = reads.get_mut(&number)
                && let Some(buffer) = pool.take()
            {
                requests.push(read.ask(number, other, ids[other], buffer));
                outcome.hedges += 1;
            }
        }
    }
    outcome.latencies.sort_unstable();
    Ok(outcome)
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [first, second, rest @ ..] = &arguments[..] else {
        return Err("usage: hedged_reader COPY COPY [MICROSECONDS [PATH]]".into());
    };
    let text =
        |index: usize, usual: &str| rest.get(index).map_or(usual.into(), |text| text.to_string_lossy().into_owned());
    let late = Duration::from_micros(text(0, "1000").parse()?);
    let path: IoPath = text(1, "io_uring").parse()?;
    let Outcome { latencies, hedges } = read([Path::new(first), Path::new(second)], late, &path, 20_000, |_, _| ())?;
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
    println!("{path}: {} reads, p50 {p50:.0?}, p99 {p99:.0?}, p99.9 {p999:.0?}; {hedges} were late", latencies.len());
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("hedged_reader: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
