//! Does a log need a drive of its own? Commits beside a scan, on one simulated drive and on two. Time is virtual, so that the answer takes
//! none, and the same seed gives the same figures on every machine.
//! Run: cargo run --release --example simulated_drives -- [PROFILE] [SEED]      PROFILE: p3600, optane, pm9a3, hynix

use std::error::Error;
use std::process::ExitCode;

use iolane::{Pages, Pool, QueueConfig, Request, Target, open_queue, sim};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const COMMITS: usize = 2_000;
const SCAN_DEPTH: usize = 32;
const SCAN_BYTES: usize = 128 << 10;
const LOG_BYTES: usize = 4096;
/// The tag of the commit in flight; the others read.
const COMMIT: u64 = 0;

/// Microseconds of each commit, ascending, and bytes per second of the scan.
fn run(world: &str, log_on: &str, data_on: &str, profile: &str, seed: u64) -> Result<(Vec<u64>, f64), Box<dyn Error>> {
    let open = |bytes: &str, drive: &str| {
        let name = format!("sim:{bytes},world={world},drive={drive},profile={profile},seed={seed}");
        Target::options().write_unguarded().open(name)
    };
    let (log, data) = (open("16m", log_on)?, open("1g", data_on)?);
    let clock = sim::clock(&log).ok_or("the target is not simulated")?;
    let pools = [Pool::new(1, LOG_BYTES, Pages::Base)?, Pool::new(SCAN_DEPTH, SCAN_BYTES, Pages::Base)?];
    let config = QueueConfig::new(1 + SCAN_DEPTH as u32).targets(2);
    let mut queue = open_queue(&"sim".parse()?, &log, &config)?;
    let data_id = queue.attach(&data)?;

    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut requests, mut completions) = (Vec::new(), Vec::new());
    let (mut commits, mut scanned, mut begun_ns) = (Vec::with_capacity(COMMITS), 0, 0);
    while commits.len() < COMMITS {
        if let Some(buffer) = pools[0].take() {
            begun_ns = clock.now_ns();
            let offset = commits.len() % 4096 * LOG_BYTES;
            requests.push(Request::durable_write(COMMIT, offset as u64, buffer));
        }
        while let Some(buffer) = pools[1].take() {
            let offset = random.next_u64() % (data.bytes() / SCAN_BYTES as u64) * SCAN_BYTES as u64;
            requests.push(Request::read(1, offset, buffer).on(data_id));
        }
        queue.submit(&mut requests);
        queue.reap(1, &mut completions)?;
        for completion in completions.drain(..) {
            let bytes = completion.result?;
            match completion.tag {
                COMMIT => commits.push((clock.now_ns() - begun_ns) / 1_000),
                _ => scanned += u64::from(bytes),
            }
        }
    }
    commits.sort_unstable();
    Ok((commits, scanned as f64 * 1e9 / clock.now_ns() as f64))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let profile = arguments.first().map_or("p3600", String::as_str);
    let Ok(seed) = arguments.get(1).map_or(Ok(1), |seed| seed.parse()) else {
        eprintln!("simulated_drives: the seed is not a whole number");
        return ExitCode::FAILURE;
    };
    for (what, log_on, data_on) in [("on one drive", "a", "a"), ("on two drives", "a", "b")] {
        match run(what, log_on, data_on, profile, seed) {
            Ok((commits, scan)) => {
                let percentile = |share: f64| commits[(share * (commits.len() - 1) as f64) as usize];
                let (p50, p99) = (percentile(0.5), percentile(0.99));
                println!(
                    "log and data {what:<13}  commit p50 {p50:>5} us, p99 {p99:>5} us; scan {:.2} GB/s",
                    scan / 1e9
                );
            }
            Err(error) => {
                eprintln!("simulated_drives: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
