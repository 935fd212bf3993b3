//! Reads with a load that changes: small blocks one at a time, then many at once, then large ones, and back; and now and then other
//! threads take every processor. `auto` follows it on one queue; beside each load stands what the best fixed path does with it.
//! Run: cargo run --release --example changing_load -- TARGET      TARGET: 8 MiB or more, only read

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolane::{IoPath, Pages, Pool, Queue, QueueConfig, Request, Target, open_queue, probe};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A load: bytes of a block, how many are read at once, and whether a thread for each processor spins beside it.
type Load = (u64, usize, bool);

const LOADS: [Load; 8] = [
    (4096, 1, false),
    (4096, 64, false),
    (4096, 64, true),
    (128 << 10, 64, false),
    (128 << 10, 1, false),
    (4096, 1, true),
    (4096, 64, false),
    (4096, 1, false),
];
const BYTES_MAX: u64 = 128 << 10;
const DEPTH_MAX: u32 = 64;

/// What `auto` is compared with.
const FIXED: [&str; 5] =
    ["psync", "libaio", "io_uring", "io_uring,fixedbufs,fixedfiles", "io_uring+iopoll,fixedbufs,fixedfiles"];

/// How long `auto` may take to follow, how long it is measured then, and how long a fixed path is.
const FOLLOW: Duration = Duration::from_millis(500);
const MEASURE: Duration = Duration::from_millis(500);
const MEASURE_FIXED: Duration = Duration::from_millis(250);

struct Reader {
    target: Target,
    pool: Pool,
    random: Xoshiro256PlusPlus,
}

impl Reader {
    /// Reads for some time, then until nothing is in flight; the number of reads in a second.
    fn read(&mut self, queue: &mut dyn Queue, load: Load, time: Duration) -> Result<f64, Box<dyn Error>> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 0..if load.2 { processors } else { 0 } {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop()
                    }
                });
            }
            let rate = self.read_beside(queue, load, time);
            is_over.store(true, Ordering::Relaxed);
            rate
        })
    }

    fn read_beside(&mut self, queue: &mut dyn Queue, load: Load, time: Duration) -> Result<f64, Box<dyn Error>> {
        let (bytes, depth, _) = load;
        let blocks = self.target.bytes() / bytes;
        let (mut requests, mut completions, mut reads) = (Vec::new(), Vec::new(), 0_u64);
        let begin = Instant::now();
        loop {
            let is_over = begin.elapsed() >= time;
            while !is_over && queue.in_flight() + requests.len() < depth {
                let Some(mut buffer) = self.pool.take() else { break };
                buffer.set_len(bytes as usize)?;
                requests.push(Request::read(0, self.random.next_u64() % blocks * bytes, buffer));
            }
            if queue.in_flight() + requests.len() == 0 {
                return Ok(reads as f64 / begin.elapsed().as_secs_f64());
            }
            queue.turn(&mut requests, 1, &mut completions)?;
            for completion in completions.drain(..) {
                completion.result?;
                reads += 1;
            }
        }
    }

    fn open(&self, path: &IoPath, depth: u32) -> iolane::Result<Box<dyn Queue>> {
        let depth_max = probe(path, &self.target)?.depth_max;
        if depth_max < depth {
            return Err(iolane::Error::unavailable(path.to_string(), "it takes fewer requests at once"));
        }
        open_queue(path, &self.target, &QueueConfig::new(depth).pool(&self.pool))
    }

    /// The fixed path with the most reads in a second; those that do not work with this load are left out.
    fn best_fixed(&mut self, load: Load) -> Result<(IoPath, f64), Box<dyn Error>> {
        let mut best: Option<(IoPath, f64)> = None;
        for path in FIXED {
            let path: IoPath = path.parse()?;
            let Ok(mut queue) = self.open(&path, load.1 as u32) else { continue };
            let warm = self.read(&mut *queue, load, MEASURE_FIXED / 5);
            let Ok(rate) = warm.and_then(|_| self.read(&mut *queue, load, MEASURE_FIXED)) else { continue };
            if best.as_ref().is_none_or(|(_, most)| rate > *most) {
                best = Some((path, rate));
            }
        }
        best.ok_or_else(|| "no fixed path works on this target".into())
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let name = std::env::args_os().nth(1).ok_or("usage: changing_load TARGET")?;
    let target = Target::open(name)?;
    if target.bytes() < BYTES_MAX * u64::from(DEPTH_MAX) {
        return Err(format!("{} has less than 8 MiB", target.name()).into());
    }
    let pool = Pool::new(DEPTH_MAX as usize, BYTES_MAX as usize, Pages::Base)?;
    let mut reader = Reader { target, pool, random: Xoshiro256PlusPlus::seed_from_u64(1) };
    let fixed: Vec<(IoPath, f64)> = LOADS.iter().map(|load| reader.best_fixed(*load)).collect::<Result<_, _>>()?;

    let mut queue = reader.open(&"auto".parse()?, DEPTH_MAX)?;
    println!("size depth others    auto/s  best/s  auto / best  path in use, best path");
    for (load, (path, best)) in LOADS.into_iter().zip(fixed) {
        reader.read(&mut *queue, load, FOLLOW)?;
        let rate = reader.read(&mut *queue, load, MEASURE)?;
        let now = queue.choices().map_or_else(String::new, |choices| choices.now.to_string());
        let (bytes, depth, others) = load;
        let (kib, others) = (bytes >> 10, if others { "spin" } else { "-" });
        println!("{kib:>3}k {depth:>5} {others:>6} {rate:>9.0} {best:>7.0} {:>12.3}  {now} {path}", rate / best);
    }
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("changing_load: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
