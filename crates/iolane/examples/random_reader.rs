//! Reads random 4 KiB blocks of a file or block device for one second, and prints their number and rate.
//! Start here: a target, a pool of buffers, a queue, and the loop of submit and reap that every program has.
//! Run: cargo run --release --example random_reader -- TARGET [PATH]      PATH: io_uring, libaio, psync, ...

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use iolane::{IoPath, Pages, Pool, QueueConfig, Request, Target, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCK_BYTES: u64 = 4096;
const DEPTH: u32 = 32;

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().ok_or("usage: random_reader TARGET [PATH]")?;
    let path: IoPath = arguments.next().unwrap_or("io_uring".into()).to_string_lossy().parse()?;

    // Opened for reading and past the page cache (O_DIRECT), so that it is the device that answers.
    let target = Target::open(name)?;
    let blocks = target.bytes() / BLOCK_BYTES;
    if blocks == 0 {
        return Err(format!("{} has less than one block of {BLOCK_BYTES} bytes", target.name()).into());
    }
    // Some paths take fewer requests at once: psync, which blocks, takes one.
    let depth = probe(&path, &target)?.depth_max.min(DEPTH);
    let pool = Pool::new(depth as usize, BLOCK_BYTES as usize, Pages::Base)?;
    let mut queue = open_queue(&path, &target, &QueueConfig::new(depth).pool(&pool))?;

    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut requests, mut completions, mut reads) = (Vec::new(), Vec::new(), 0u64);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        // A request owns its buffer while it is in flight, so a free buffer is a request that can be made.
        while let Some(buffer) = pool.take() {
            requests.push(Request::read(0, random.next_u64() % blocks * BLOCK_BYTES, buffer));
        }
        queue.submit(&mut requests);
        queue.reap(1, &mut completions)?; // hands over what was submitted, and waits for one completion or more
        for completion in completions.drain(..) {
            completion.result?;
            reads += 1; // and the completion's buffer, dropped here, goes back to the pool
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{path} on {}: {reads} reads in {seconds:.2} s, {:.0} a second", target.name(), reads as f64 / seconds);
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("random_reader: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
