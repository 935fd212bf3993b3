//! Power cuts: what the examples `write_ahead` and `page_writer` acknowledged is there after one, whichever path wrote it. In a guest the
//! first test writes to a drive whose writes and flushes QEMU records; on the host the second replays the record up to many places,
//! with any part of what the drive's cache held, and recovers it. `cargo xtask campaign cuts` and `cargo xtask guests` run both.
//!
//! * `IOLANE_CUTS_DEVICE`: the drive, which is overwritten from its first byte on.
//! * `IOLANE_CUTS_PATHS`: the paths on `/dev/nvmeXn1`; all by default.
//! * `IOLANE_CUTS_LOGS`: the records, by spaces.
//! * `IOLANE_CUTS`, `IOLANE_CUTS_SEED`: the number of cuts of each run, and the seed of what is written and of the cuts.

use std::path::Path;

mod check;
mod log;
#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../../examples/page_writer.rs"]
mod page_writer;
mod record;
mod workload;
#[allow(dead_code, reason = "its main and what that alone uses")]
#[path = "../../examples/write_ahead.rs"]
mod write_ahead;

/// A number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is no number")))
}

#[test]
fn what_the_examples_commit_is_recorded() {
    let Ok(device) = std::env::var("IOLANE_CUTS_DEVICE") else {
        return println!("SKIPPED recording for power cuts: IOLANE_CUTS_DEVICE names no drive");
    };
    record::record(&device, number("IOLANE_CUTS_SEED", 1)).unwrap_or_else(|error| panic!("{error:#}"));
}

#[test]
fn what_was_acknowledged_is_there_after_each_power_cut_and_nothing_in_part() {
    let Ok(logs) = std::env::var("IOLANE_CUTS_LOGS") else {
        return println!("SKIPPED power cuts: IOLANE_CUTS_LOGS names no record");
    };
    let folder = std::env::temp_dir().join(format!("iolane-cuts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (cuts, seed) = (number("IOLANE_CUTS", 50), number("IOLANE_CUTS_SEED", 1));
    let check = |log: &str| check::check(Path::new(log), cuts as usize, seed, &folder);
    let found: anyhow::Result<Vec<_>> = logs.split_whitespace().map(check).collect();
    let _ = std::fs::remove_dir_all(&folder);
    let found = found.unwrap_or_else(|error| panic!("{error:#}"));
    let failures: Vec<&String> = found.iter().flat_map(|found| &found.failures).collect();
    failures.iter().take(20).for_each(|failure| println!("LOST {failure}"));
    println!("{} cuts, {} failed", found.iter().map(|found| found.cuts).sum::<usize>(), failures.len());
    assert!(failures.is_empty(), "{} cuts lost what was acknowledged, or left a part", failures.len());
}
