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

use iolane::{Error, IoPath, Result};
use serde::Serialize;

use self::drive::Watched;
use self::process::{Calls, Counts, OpenFiles};

pub use self::drive::{InFlight, Requests};
pub use self::interface::InterfaceInUse;

/// The time between two looks at the requests in flight.
const TICK: Duration = Duration::from_millis(1);
/// Looks at the requests in flight for each look at the process, whose calls wait for a look at its rings.
const TICKS_A_LOOK_AT_THE_PROCESS: u32 = 100;
/// A share that is nearly all of something.
const NEARLY_ALL: f64 = 0.9;

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
    /// Whether it ended while it was watched.
    pub ended: bool,
    /// Its calls of read(2) and its like, sockets and pipes included; requests of io_uring and Linux AIO are not counted.
    pub read_calls: Requests,
    /// Those of write(2) and its like.
    pub write_calls: Requests,
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
    /// Those of them whose writes are durable when they complete (O_DSYNC, O_SYNC).
    pub durable_files: usize,
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

    /// Bytes per second of its calls.
    pub fn called_bytes_per_s(&self) -> f64 {
        self.read_calls.bytes_per_s() + self.write_calls.bytes_per_s()
    }

    /// Whether calls that block carry its I/O: they move at least the bytes that reach drives.
    pub fn blocks(&self) -> bool {
        let called = self.called_bytes_per_s();
        called >= NEARLY_ALL * self.stored_bytes_per_s() && (called > 0.0 || !self.interface.is_any())
    }

    /// The path that it most likely takes. How completions are found is not visible, nor is POSIX aio, which looks like
    /// blocking calls by several threads.
    pub fn path(&self) -> IoPath {
        if self.blocks() { IoPath::new("psync") } else { self.interface.path() }
    }

    /// The same in words.
    pub fn path_in_words(&self) -> String {
        match (self.interface.is_any(), self.blocks()) {
            (false, true) => "calls that block, or POSIX aio".into(),
            (false, false) => "page faults of mapped files, likely".into(),
            (true, true) => format!("calls that block; {} is open, too", self.interface.in_words()),
            (true, false) => self.interface.in_words(),
        }
    }

    /// The share of the drives' bytes that the kernel accounts to the process, at most 1; `None` if there were no bytes.
    pub fn share_of_bytes(&self) -> Option<f64> {
        let all: f64 = self.drives.iter().map(DriveInUse::bytes_per_s).sum();
        (all > 0.0).then(|| (self.stored_bytes_per_s() / all).min(1.0))
    }
}

/// Watches a process for some time; until it ends or `stop` is set, if that is earlier.
///
/// # Errors
/// Usage if there is no such process. `Unavailable` if the kernel does not let this user look at it, it has no file open on
/// a block device, or the devices do not count.
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
    let program = process::program(&folder);
    let before = Counts::of(&folder).map_err(|error| process::explain(&what(), &error))?;
    let mut interface = open.interface(&folder);
    let began = Instant::now();
    let (mut after, mut ended) = (None, false);
    for tick in 0_u32.. {
        watched.iter_mut().for_each(Watched::look);
        let is_over = began.elapsed() >= time || stop.load(Ordering::Relaxed);
        if is_over || tick % TICKS_A_LOOK_AT_THE_PROCESS == 0 {
            interface.look();
            match Counts::of(&folder) {
                Ok(counts) => after = Some(counts),
                // What it did before stays.
                Err(_) => ended = true,
            }
        }
        if is_over || ended {
            break;
        }
        std::thread::sleep(TICK);
    }
    let after = after.ok_or_else(|| Error::failed(what(), "it ended at once"))?;
    let seconds = after.taken.duration_since(before.taken).as_secs_f64().max(TICK.as_secs_f64());
    let mut drives: Vec<DriveInUse> = Vec::new();
    for watched in watched {
        drives.push(watched.end(began.elapsed().as_secs_f64())?);
    }
    drives.sort_by(|a, b| b.bytes_per_s().total_cmp(&a.bytes_per_s()));
    let per_s = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
    let calls =
        |after: Calls, before: Calls| Requests::new(per_s(after.calls, before.calls), per_s(after.bytes, before.bytes));
    Ok(Observed {
        pid,
        program,
        seconds,
        threads: before.threads_with_io(&after),
        cores: (after.processor_s - before.processor_s).max(0.0) / seconds,
        ended,
        read_calls: calls(after.io.reads, before.io.reads),
        write_calls: calls(after.io.writes, before.io.writes),
        read_bytes_per_s: per_s(after.io.read_bytes, before.io.read_bytes),
        written_bytes_per_s: per_s(after.io.written_bytes, before.io.written_bytes),
        interface: interface.seen(),
        drives,
    })
}

#[cfg(test)]
mod tests;
