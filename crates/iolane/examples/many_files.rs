//! A store with a file for each table: one queue reads from all of them, and files come and go meanwhile.
//! Prints what a read cost. A file may be named more than once; each is opened as a target of its own.
//! Run: cargo run --release --example many_files -- PATH READS KEEP FILE...
//!      PATH: io_uring, libaio, ...; after each KEEP reads a file is detached and opened anew (0: never)

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use iolane::{Completion, IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, TargetId, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCK_BYTES: u64 = 4096;
const DEPTH: u32 = 16;

/// A file that the queue knows by its number.
struct Table {
    name: String,
    id: TargetId,
    blocks: u64,
    in_flight: u32,
}

impl Table {
    /// The queue keeps the file open, so that nothing else has to.
    fn attach(queue: &mut dyn Queue, name: &str) -> Result<Self, Box<dyn Error>> {
        let target = Target::open(name)?;
        Self::of(queue.attach(&target)?, name, &target)
    }

    fn of(id: TargetId, name: &str, target: &Target) -> Result<Self, Box<dyn Error>> {
        match target.bytes() / BLOCK_BYTES {
            0 => Err(format!("{name} has less than one block of {BLOCK_BYTES} bytes").into()),
            blocks => Ok(Self { name: name.into(), id, blocks, in_flight: 0 }),
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, reads, keep, first, others @ ..] = &arguments[..] else {
        return Err("usage: many_files PATH READS KEEP FILE...".into());
    };
    let (path, reads, keep): (IoPath, u64, u64) = (path.parse()?, reads.parse()?, keep.parse()?);

    let target = Target::open(first)?;
    let depth = probe(&path, &target)?.depth_max.min(DEPTH);
    let pool = Pool::new(depth as usize, BLOCK_BYTES as usize, Pages::Base)?;
    // Room for all files, and for one that is opened before the one in its place is closed.
    let config = QueueConfig::new(depth).pool(&pool).targets(others.len() as u32 + 2);
    let mut queue = open_queue(&path, &target, &config)?;
    let mut tables = vec![Table::of(TargetId::FIRST, first, &target)?];
    drop(target);
    for name in others {
        tables.push(Table::attach(&mut *queue, name)?);
    }

    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut below = |most: u64| random.next_u64() % most;
    let (mut requests, mut completions) = (Vec::new(), Vec::new());
    let (mut submitted, mut done, mut replaced) = (0, 0, 0);
    let start = Instant::now();
    while done < reads {
        while submitted < reads
            && let Some(buffer) = pool.take()
        {
            // The tag says which file it is; the number is the queue's name of that file.
            let at = below(tables.len() as u64);
            let table = &mut tables[at as usize];
            table.in_flight += 1;
            requests.push(Request::read(at, below(table.blocks) * BLOCK_BYTES, buffer).on(table.id));
            submitted += 1;
        }
        queue.submit(&mut requests);
        queue.reap(1, &mut completions)?;
        for Completion { tag, result, .. } in completions.drain(..) {
            result?;
            tables[tag as usize].in_flight -= 1;
            done += 1;
            if keep > 0 && done % keep == 0 {
                replaced += u64::from(replace(&mut *queue, &mut tables[tag as usize])?);
            }
        }
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / reads as f64;
    println!("{path}: {} files, {reads} reads, {nanoseconds:.0} ns each, {replaced} replaced", tables.len());
    Ok(())
}

/// Opens the file of a table anew, as after a compaction. A file that is read at this moment stays: the queue would refuse to detach it.
fn replace(queue: &mut dyn Queue, table: &mut Table) -> Result<bool, Box<dyn Error>> {
    if table.in_flight > 0 {
        return Ok(false);
    }
    let new = Table::attach(queue, &table.name)?;
    queue.detach(std::mem::replace(table, new).id)?;
    Ok(true)
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("many_files: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
