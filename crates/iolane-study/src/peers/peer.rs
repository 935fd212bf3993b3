//! What a peer is given, what it returns, and the trait that one file per tool implements.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hdrhistogram::Histogram;
use iolane::units::CpuList;
use iolane::{IoPath, Result, Target, TargetKind};
use iolane_measure::workload::Access;

/// The load of one of iolane's arms, as far as other tools can express it.
#[derive(Debug, Clone)]
pub struct Load<'a> {
    pub path: &'a IoPath,
    /// Random offsets are uniform.
    pub access: Access,
    /// Percentage of reads in a mixed access.
    pub read_percent: u8,
    pub block_bytes: u32,
    /// Requests in flight on each queue.
    pub depth: u32,
    /// Limits on batches, as in a workload. SPDK's programs submit one request for each completion, whatever these are.
    pub batch_submit: Option<u32>,
    pub batch_complete: Option<u32>,
    pub batch_complete_max: Option<u32>,
    /// Threads, one queue each; thread `i` uses target `i` modulo the number of targets.
    pub threads: usize,
    pub targets: &'a [LoadTarget],
    /// CPUs of the threads, in turn; `None` leaves them to the scheduler.
    pub cpus: Option<&'a CpuList>,
    /// CPUs of the kernel's submission threads, in turn; `None` leaves them to the scheduler.
    pub sqpoll_cpus: Option<&'a CpuList>,
    /// The measured phase.
    pub runtime: Duration,
    /// Load before the measured phase.
    pub warmup: Duration,
    /// Seed of random choices, for peers that accept one.
    pub seed: u64,
    /// Bypass the page cache.
    pub direct: bool,
    /// Bytes used of each target, from its start; `None` is all of it.
    pub size: Option<u64>,
}

/// A target as another process is to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadTarget {
    /// What a peer opens. Of a file or device it leads to this process's open descriptor (`/proc/PID/fd/3`, proc_pid_fd(5)):
    /// the target's own name may lead elsewhere by now.
    pub name: String,
    /// Its name in messages.
    pub shown: String,
    /// The kernel's name of a block device: `nvme0n1`.
    pub kernel_name: Option<String>,
    pub kind: TargetKind,
    /// Whether a permit to write to it is held.
    pub writable: bool,
}

impl LoadTarget {
    pub fn of(target: &Target) -> Self {
        let opened = target.fd().map(|fd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
        let number = target.device().filter(|_| target.kind() == TargetKind::Block);
        let entry =
            number.and_then(|(major, minor)| std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok());
        Self {
            name: opened.unwrap_or_else(|| target.name().to_owned()),
            shown: target.name().to_owned(),
            kernel_name: entry.and_then(|entry| Some(entry.file_name()?.to_str()?.to_owned())),
            kind: target.kind(),
            writable: target.writable(),
        }
    }
}

/// What a peer reports, in iolane's units. Each parser documents where its tool counts differently from iolane.
#[derive(Debug, Clone)]
pub struct PeerMeasurement {
    /// Reads and writes that completed without error.
    pub ios: u64,
    /// Failed requests, of peers that continue after an error; the others report no figures then.
    pub errors: u64,
    /// Bytes transferred by `ios`.
    pub bytes: u64,
    /// Length of the measured phase in seconds.
    pub elapsed_s: f64,
    /// As the peer computes it.
    pub iops: f64,
    pub bytes_per_s: f64,
    /// Shortest latency in nanoseconds.
    pub min_ns: f64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Longest latency in nanoseconds.
    pub max_ns: f64,
    /// Latencies in nanoseconds, of peers that print buckets: each I/O has the middle value of its bucket.
    pub latency: Option<Histogram<u64>>,
    /// User CPU time of all its threads in seconds, of peers that report it.
    pub user_s: Option<f64>,
    /// System CPU time in seconds, without kernel threads.
    pub system_s: Option<f64>,
}

/// Another measuring tool.
pub trait Peer: Sync {
    /// The program's name on PATH.
    fn name(&self) -> &'static str;

    /// How to install it.
    fn remedy(&self) -> &'static str;

    /// The argument that prints its version; `None` if it has none.
    fn version_argument(&self) -> Option<&'static str>;

    /// Whether it allocates its memory in huge pages.
    fn needs_huge_pages(&self) -> bool {
        false
    }

    /// Whether it opens targets for writing to read them by paths of this interface.
    fn opens_for_writing_to_read(&self, _interface: &str) -> bool {
        false
    }

    /// Why it cannot run this load; `None` if it can.
    fn cannot(&self, load: &Load<'_>) -> Option<String>;

    /// Where it differs from the load although it can run it, one line each.
    fn differences(&self, load: &Load<'_>) -> Vec<String>;

    /// The command that runs the load. `folder` is for files it needs, and is removed after the run.
    ///
    /// # Errors
    /// If such a file cannot be written.
    fn command(&self, program: &Path, load: &Load<'_>, folder: &Path) -> Result<Command>;

    /// Parses its stdout.
    ///
    /// # Errors
    /// `Failed` with the first line that is not as expected. Truncated output is an error, never a partial result.
    fn parse(&self, output: &str, load: &Load<'_>) -> Result<PeerMeasurement>;
}
