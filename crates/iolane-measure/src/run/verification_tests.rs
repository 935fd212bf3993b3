//! What blocks hold: runs with --verify whose load only writes or only reads, what is found, what is counted and what is not
//! measured; and reads that find nothing but zeroes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolane::sim::{Faults, Injected, injected, set_faults};
use iolane::{IoPath, Result, Target};

use super::{RunOutcome, RunPlan, run};
use crate::workload::{Access, Workload};

const BLOCK_BYTES: u64 = 4096;

fn plan(path: &str, target: Target, workload: Workload) -> RunPlan {
    let workload = Workload { verify: true, ..workload };
    RunPlan { watched: false, ..RunPlan::new(IoPath::new(path), vec![target], workload, Duration::from_secs(3600)) }
}

fn run_plan(plan: RunPlan) -> Result<RunOutcome> {
    run(&plan.check()?, &AtomicBool::new(false))
}

/// A plan of 10 ms on a simulated device where each request takes 100 us.
fn simulated(settings: &str, workload: Workload) -> RunPlan {
    let target = Target::options().write_unguarded().open(format!("sim:{settings},latency=100us,jitter=0")).unwrap();
    RunPlan { runtime: Duration::from_millis(10), ..plan("sim", target, workload) }
}

#[test]
fn all_blocks_that_were_written_are_read_back_and_counted() {
    let verified = |settings, workload| run_plan(simulated(settings, workload)).unwrap().tally.verified;
    let write = Workload { access: Access::Write, ..Workload::default() };
    // 500 in each of the two short phases, then 100.
    assert_eq!(verified("16m", write.clone()), 1100);
    // More writes than blocks: each block is read back once, in whatever order they are written.
    assert_eq!(verified("64k", write.clone()), 16);
    let random = Workload { access: Access::RandWrite, depth: 8, ..write };
    assert_eq!(verified("64k", random.clone()), 16);
    assert_eq!(verified("64k", Workload { block_sizes: "512-4k".parse().unwrap(), ..random }), 128);
}

#[test]
fn reading_back_is_not_measured() {
    let write = Workload { access: Access::RandWrite, depth: 4, ..Workload::default() };
    let [with, without] =
        [true, false].map(|read_back| run_plan(RunPlan { read_back, ..simulated("1m", write.clone()) }).unwrap().tally);
    assert_eq!((with.verified, without.verified), (256, 0));
    let measured = |tally: &crate::Tally| (tally.ios, tally.bytes, tally.errors, tally.window_ns);
    assert_eq!(measured(&with), measured(&without));
    assert_eq!(with.latency, without.latency);
    assert!(with.ios > 0 && with.bytes == with.ios * BLOCK_BYTES, "{} {}", with.ios, with.bytes);
}

#[test]
fn a_damaged_write_is_found_when_it_is_read_back() {
    for (damage, cause) in
        [("lost", "likely a lost write"), ("torn", "likely a torn write"), ("altered", "corrupt data")]
    {
        let write = Workload { access: Access::RandWrite, ..Workload::default() };
        let settings = format!("64k,{damage}=0.5");
        let error = run_plan(simulated(&settings, write.clone())).unwrap_err().to_string();
        assert!(error.starts_with("verify: target offset ") && error.contains(cause), "{damage}: {error}");
        let unread = run_plan(RunPlan { read_back: false, ..simulated(&settings, write) }).unwrap();
        assert_eq!(unread.tally.verified, 0);
    }
}

#[test]
fn a_misdirected_write_is_found_where_it_is_and_where_it_should_be() {
    let write = Workload { access: Access::RandWrite, ..Workload::default() };
    // The first block that is wrong has an older write, or one that belongs elsewhere, as chance has it.
    let said: Vec<String> = (0..10)
        .map(|seed| {
            run_plan(simulated(&format!("64k,seed={seed},misdirected=0.2"), write.clone())).unwrap_err().to_string()
        })
        .collect();
    for cause in ["likely a lost write", "likely a misdirected write"] {
        assert!(said.iter().any(|error| error.contains(cause)), "{cause}: {said:#?}");
    }
}

/// A fault of reads, how many of them there were, and what a check says of it.
type OfReads = (fn(f64) -> Faults, fn(Injected) -> u64, &'static str);

const OF_READS: [OfReads; 2] = [
    (|share| Faults { altered_read: share, ..Faults::default() }, |had| had.altered_reads, "corrupt"),
    (|share| Faults { misdirected_read: share, ..Faults::default() }, |had| had.misdirected_reads, "misdirected"),
];

/// Runs a load on a drive whose blocks hold what an earlier run wrote, with this fault of reads, and returns how many there were and what
/// the check said.
fn with_damaged_reads(seed: u64, access: Access, share: f64, (faults, count, _): OfReads) -> (u64, String) {
    let write = simulated(&format!("64k,seed={seed}"), Workload { access: Access::Write, ..Workload::default() });
    let target = write.targets[0].clone();
    run_plan(write.clone()).unwrap();
    set_faults(&target, faults(share)).unwrap();
    let workload = Workload { access, ..write.workload.clone() };
    let said = run_plan(RunPlan { workload, ..write }).err().map(|error| error.to_string()).unwrap_or_default();
    (count(injected(&target).unwrap()), said)
}

#[test]
fn each_damaged_read_is_found_and_no_other() {
    // Rare enough that some runs have none: one reads 16 blocks back, the other a thousand.
    for (access, share) in [(Access::RandWrite, 0.05), (Access::RandRead, 0.001)] {
        for fault in OF_READS {
            let (mut sound, mut found) = (0, Vec::new());
            for seed in 1..40 {
                let (damaged, said) = with_damaged_reads(seed, access, share, fault);
                assert_eq!(said.starts_with("verify: target offset "), damaged > 0, "{access:?}, seed {seed}: {said}");
                match damaged {
                    0 => sound += 1,
                    _ => found.push(said),
                }
            }
            // A bit of a header's first fields makes the block look like another load's.
            let with_cause = found.iter().filter(|said| said.contains(fault.2)).count();
            assert!(
                sound > 3 && with_cause > 3 && with_cause + 3 > found.len(),
                "{access:?}, {sound} sound: {found:#?}"
            );
        }
    }
}

#[test]
fn damaged_reads_of_a_mix_are_found_as_they_complete() {
    for fault in OF_READS {
        for seed in 1..10 {
            let (damaged, said) = with_damaged_reads(seed, Access::RandRw, 0.1, fault);
            assert!(damaged > 0 && said.starts_with("verify: target offset "), "seed {seed}: {said}");
        }
    }
}

#[test]
fn a_run_that_is_stopped_before_it_writes_has_nothing_to_read_back() {
    let write = Workload { access: Access::Write, ..Workload::default() };
    let stop = AtomicBool::new(false);
    let checked = simulated("16m", write).check().unwrap();
    let whole = run(&checked, &stop).unwrap();
    assert_eq!((whole.unread_blocks, whole.interrupted), (0, false));
    stop.store(true, Ordering::Relaxed);
    let stopped = run(&checked, &stop).unwrap();
    assert_eq!((stopped.tally.verified, stopped.unread_blocks, stopped.interrupted), (0, 0, true));
}

/// A file of 256 blocks in a folder of its own.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    const BLOCKS: u64 = 256;

    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("iolane-{test}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let disk = Self { folder };
        fs::write(disk.file(), vec![0; (Self::BLOCKS * BLOCK_BYTES) as usize]).unwrap();
        disk
    }

    fn file(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Puts these bytes there, as no run does.
    fn overwrite(&self, offset: u64, bytes: &[u8]) {
        File::options().write(true).open(self.file()).unwrap().write_all_at(bytes, offset).unwrap();
    }

    /// Changes a byte, whatever it was: each run writes others.
    fn damage(&self, offset: u64) {
        let mut byte = [0];
        File::open(self.file()).unwrap().read_exact_at(&mut byte, offset).unwrap();
        self.overwrite(offset, &[!byte[0]]);
    }

    fn open(&self, access: Access) -> Target {
        let options = Target::options().direct(false);
        if access.writes() { options.write_unguarded() } else { options }.open(self.file()).unwrap()
    }

    /// Runs a load over the whole file.
    fn run(&self, threads: usize, workload: Workload) -> Result<RunOutcome> {
        let target = self.open(workload.access);
        let bytes_max = Some(Self::BLOCKS * BLOCK_BYTES);
        run_plan(RunPlan { threads, ..plan("psync", target, Workload { bytes_max, ..workload }) })
    }

    /// What checking all of it with this load says.
    fn verified(&self, workload: Workload) -> Result<u64, String> {
        let read = Workload { access: Access::Read, ..workload };
        self.run(1, read).map(|outcome| outcome.tally.verified).map_err(|error| error.to_string())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn threads_read_back_all_blocks_of_a_target_once_together() {
    let disk = Disk::new("threads-read-back");
    let write = Workload { access: Access::Write, ..Workload::default() };
    assert_eq!(disk.run(3, write).unwrap().tally.verified, Disk::BLOCKS);
}

#[test]
fn what_an_earlier_run_wrote_is_verified_by_a_run_that_only_reads() {
    let disk = Disk::new("earlier-run");
    let load = |seed| Workload { access: Access::Write, seed, ..Workload::default() };
    disk.run(1, load(7)).unwrap();
    assert_eq!(disk.verified(load(7)), Ok(Disk::BLOCKS));
    let random = Workload { access: Access::RandRead, ..load(7) };
    assert_eq!(disk.run(2, random).unwrap().tally.verified, 2 * Disk::BLOCKS);
    // A mix continues what an earlier run wrote, and leaves content of the same seed.
    disk.run(1, Workload { access: Access::RandRw, ..load(7) }).unwrap();
    assert_eq!(disk.verified(load(7)), Ok(Disk::BLOCKS));
    assert_eq!(disk.verified(Workload { block_sizes: "512".parse().unwrap(), ..load(7) }), Ok(8 * Disk::BLOCKS));
}

#[test]
fn what_an_earlier_run_did_not_write_is_a_mismatch() {
    let disk = Disk::new("no-earlier-run");
    let load = |seed| Workload { access: Access::Write, seed, ..Workload::default() };
    let refused = |workload, parts: &[&str]| {
        let error = disk.verified(workload).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(load(7), &["target offset ", "iolane never wrote here, or with another --seed or --bs"]);
    disk.run(1, load(7)).unwrap();
    refused(load(8), &["seed differs: expected 8, found 7", "likely iolane wrote here with another --seed"]);
    disk.damage(9 * BLOCK_BYTES + 1000);
    refused(load(7), &["target offset 37376: checksum differs", "torn or corrupt data"]);
    disk.run(1, load(7)).unwrap();
    disk.overwrite(9 * BLOCK_BYTES, &[0; BLOCK_BYTES as usize]);
    refused(load(7), &["target offset 36864: likely iolane never wrote here"]);
}

#[test]
fn reads_that_find_only_zeroes_are_told_from_others_and_from_writes() {
    let disk = Disk::new("only-zeroes");
    let finds_only_zeroes = |access: Access| {
        let target = disk.open(access);
        let data = if access.writes() { "compress:100".parse().unwrap() } else { Workload::default().data };
        let load = Workload { access, data, bytes_max: Some(16 * BLOCK_BYTES), ..Workload::default() };
        let plan = plan("psync", target, load.clone());
        run_plan(RunPlan { workload: load, threads: 2, ..plan }).unwrap().tally.only_zeroes
    };
    assert!(finds_only_zeroes(Access::Read));
    // The zeroes that it writes were not read.
    assert!(!finds_only_zeroes(Access::Write));
    disk.overwrite(0, &vec![7; (Disk::BLOCKS * BLOCK_BYTES) as usize]);
    assert!(!finds_only_zeroes(Access::Read));
}
