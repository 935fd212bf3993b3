//! Plays large machines and prints what a simulated second costs: jobs, cores, events, time, memory.
//!
//! `cargo run --release -p iolane-model --example scale`

use std::time::Instant;

use iolane_model::{Length, Load, PUBLISHED, simulate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut machine = PUBLISHED[0].machine()?.best();
    println!(
        "path              jobs  cores  k IOPS   events of 0.1 s   seconds per simulated second   ns per event   MiB"
    );
    for path in ["nvme", "io_uring,plain", "io_uring+sqpoll,fixedfiles,plain"] {
        for jobs in [1, 4, 16, 20, 64] {
            machine.processor.cores = jobs;
            machine.processor.nodes = 1;
            let load = Load {
                threads: jobs,
                drives: jobs,
                depth: 128,
                batch_submit: (path != "nvme").then_some(1),
                batch_complete_max: (path != "nvme").then_some(1),
                ..Load::new(&machine, path)?
            };
            let length = Length { requests_per_thread: 0, at_least_ns: 100_000_000, at_most_ns: 100_000_000 };
            let start = Instant::now();
            let outcome = simulate(&machine, &load, length, 1)?;
            let took = start.elapsed().as_secs_f64();
            println!(
                "{:16} {jobs:5} {jobs:6} {:7.0} {:17} {:30.1} {:14.0} {:5}",
                path.split(',').next().unwrap_or(path),
                outcome.iops() / 1e3,
                outcome.events,
                took * 10.0,
                took * 1e9 / outcome.events as f64,
                resident_mib(),
            );
        }
    }
    Ok(())
}

/// The most memory that this process has had, in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
