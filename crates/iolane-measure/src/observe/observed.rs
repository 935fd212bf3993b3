//! What a process was seen to do: its calls, its bytes, and the requests of the drives on which it has files open.

use iolane::IoPath;
use serde::Serialize;

use super::interface::InterfaceInUse;

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

/// Requests of one kind. Those of a device are as it got them: after the kernel has merged and split what programs asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Requests {
    pub per_s: f64,
    /// Mean size; 0 if there was none.
    pub mean_bytes: f64,
}

impl Requests {
    pub(super) fn new(per_s: f64, bytes_per_s: f64) -> Self {
        Self { per_s, mean_bytes: if per_s > 0.0 { bytes_per_s / per_s } else { 0.0 } }
    }

    pub fn bytes_per_s(&self) -> f64 {
        self.per_s * self.mean_bytes
    }
}

/// How many requests a device had at once, from looks every millisecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct InFlight {
    /// Looks at the device.
    pub looks: usize,
    /// The share of the looks that found a request.
    pub busy: f64,
    /// Percentiles of those looks.
    pub p50: u32,
    pub p95: u32,
    pub max: u32,
}

impl InFlight {
    pub(super) fn of(mut looks: Vec<u32>) -> Self {
        looks.sort_unstable();
        let busy = &looks[looks.partition_point(|requests| *requests == 0)..];
        let at = |share: f64| busy.get((busy.len().saturating_sub(1) as f64 * share).round() as usize);
        Self {
            looks: looks.len(),
            busy: busy.len() as f64 / looks.len().max(1) as f64,
            p50: at(0.5).copied().unwrap_or(0),
            p95: at(0.95).copied().unwrap_or(0),
            max: busy.last().copied().unwrap_or(0),
        }
    }
}
