//! What a running process asks of its drives, seen from outside: its requests, their sizes, how many are in flight, and the
//! interface that it uses. Read from /proc and /sys only; the process is neither stopped nor traced, and nothing is written.
//!
//! The kernel counts requests by drive and bytes by process. Sizes, flushes and requests in flight are those of all
//! processes on the drive; the share of its bytes that is the process's tells how much that matters.

mod drive;
mod interface;
mod process;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolane::{Error, Result};
use serde::Serialize;

use self::drive::Watched;
use self::process::{Counts, OpenFiles};

pub use self::drive::{InFlight, Requests};
pub use self::interface::InterfaceInUse;

/// The time between two looks at the requests in flight.
const TICK: Duration = Duration::from_millis(1);
/// Looks at the requests in flight for each look at the rings, which the process's calls wait for.
const TICKS_A_LOOK_AT_RINGS: u32 = 50;

/// What a process did while it was watched.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observed {
    pub pid: u32,
    /// Its name, as in proc_pid_comm(5).
    pub program: String,
    /// How long it was watched, in seconds.
    pub seconds: f64,
    /// Threads that read or wrote.
    pub threads: usize,
    /// Processor time of all its threads, in seconds per second.
    pub cores: f64,
    /// Bytes per second that it asked for with system calls, the page cache included; requests of io_uring are not counted.
    pub called_bytes_per_s: f64,
    /// Bytes per second that were read from drives for it, as the kernel accounts it.
    pub read_bytes_per_s: f64,
    /// Bytes per second that were or will be written to drives for it.
    pub written_bytes_per_s: f64,
    pub interface: InterfaceInUse,
    /// Block devices on which it has files open, the one with the most bytes first.
    pub drives: Vec<DriveInUse>,
}

/// A block device on which a process has files open.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriveInUse {
    /// The device's name, such as `nvme0n1p2`.
    pub name: String,
    /// The process's open files on it.
    pub files: usize,
    /// Those of them that bypass the page cache (O_DIRECT).
    pub direct_files: usize,
    /// Requests of all processes.
    pub reads: Requests,
    pub writes: Requests,
    /// Flushes of its cache, per second; `None` where the kernel does not count them (before Linux 5.5).
    pub flushes_per_s: Option<f64>,
    pub in_flight: InFlight,
}

impl DriveInUse {
    /// Bytes read and written per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.reads.bytes_per_s() + self.writes.bytes_per_s()
    }

    /// Reads and writes per second.
    pub fn requests_per_s(&self) -> f64 {
        self.reads.per_s + self.writes.per_s
    }
}

impl Observed {
    /// Bytes per second to and from drives.
    pub fn stored_bytes_per_s(&self) -> f64 {
        self.read_bytes_per_s + self.written_bytes_per_s
    }

    /// The share of the drives' bytes that the kernel accounts to the process, at most 1; `None` if there were no bytes.
    pub fn share_of_bytes(&self) -> Option<f64> {
        let all: f64 = self.drives.iter().map(DriveInUse::bytes_per_s).sum();
        (all > 0.0).then(|| (self.stored_bytes_per_s() / all).min(1.0))
    }
}

/// Watches a process for some time; until `stop` is set, if that is earlier.
///
/// # Errors
/// Usage if there is no such process. `Unavailable` if the kernel does not let this user look at it, it has no file open on
/// a block device, or the devices do not count. `Failed` if it ends meanwhile.
pub fn observe(pid: u32, time: Duration, stop: &AtomicBool) -> Result<Observed> {
    observe_in(Path::new("/proc"), Path::new("/sys"), pid, time, stop)
}

fn observe_in(proc: &Path, sys: &Path, pid: u32, time: Duration, stop: &AtomicBool) -> Result<Observed> {
    let folder = proc.join(pid.to_string());
    let what = || format!("process {pid}");
    if !folder.is_dir() {
        return Err(Error::usage(what(), "there is no such process").remedy("find its number: pgrep -a NAME"));
    }
    let open = OpenFiles::of(&folder).map_err(|error| process::explain(&what(), &error))?;
    let mut watched: Vec<Watched> = Vec::new();
    for on in open.on_devices(&folder, sys) {
        watched.push(Watched::start(sys, on)?);
    }
    if watched.is_empty() {
        return Err(Error::unavailable(what(), "it has no file open on a block device")
            .remedy("watch it while it works, or the process of its group that has the files: ls -l /proc/PID/fd"));
    }
    let before = Counts::of(&folder).map_err(|error| process::explain(&what(), &error))?;
    let mut interface = open.interface(&folder);
    let began = Instant::now();
    for tick in 0_u32.. {
        if began.elapsed() >= time || stop.load(Ordering::Relaxed) {
            break;
        }
        watched.iter_mut().for_each(Watched::look);
        if tick % TICKS_A_LOOK_AT_RINGS == 0 {
            interface.look();
        }
        std::thread::sleep(TICK);
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = Counts::of(&folder).map_err(|_| {
        Error::failed(what(), format!("it ended within {seconds:.1} s"))
            .remedy("watch it for a shorter time: --watch 1s")
    })?;
    let mut drives: Vec<DriveInUse> = Vec::new();
    for watched in watched {
        drives.push(watched.end(seconds)?);
    }
    drives.sort_by(|a, b| b.bytes_per_s().total_cmp(&a.bytes_per_s()));
    let per_s = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
    Ok(Observed {
        pid,
        program: process::program(&folder),
        seconds,
        threads: before.threads_with_io(&after),
        cores: (after.processor_s - before.processor_s).max(0.0) / seconds,
        called_bytes_per_s: per_s(after.called_bytes, before.called_bytes),
        read_bytes_per_s: per_s(after.read_bytes, before.read_bytes),
        written_bytes_per_s: per_s(after.written_bytes, before.written_bytes),
        interface: interface.seen(),
        drives,
    })
}

#[cfg(test)]
mod tests;
