//! Peers: other measuring tools that the user has installed, run on the same target so that a study can set their figures
//! beside iolane's. One file per tool and one line in [`PEERS`]; a study calls [`find`], [`Peer::cannot`] and [`run`].
//! Nothing here decides whether a target may be written: who calls has asked the guard, for a peer asks no one.

mod bdevperf;
mod fio;
pub(crate) mod process;
mod spdk;
mod spdk_nvme_perf;

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use iolane::units::CpuList;
use iolane::{Error, IoPath, Result};

use crate::workload::Access;
use process::{End, Limits};

/// Every peer there is. The order is that of help texts.
pub static PEERS: &[&dyn Peer] = &[&fio::Fio, &spdk_nvme_perf::SpdkNvmePerf, &bdevperf::Bdevperf];

/// What a peer is to do: an arm of iolane's own, as far as other tools have a word for it.
#[derive(Debug, Clone)]
pub struct Load<'a> {
    /// The path to take.
    pub path: &'a IoPath,
    /// Reads, writes or both, in sequence or at random offsets, each as likely as any other.
    pub access: Access,
    /// Percentage of reads where both occur.
    pub read_percent: u8,
    /// Size of every block.
    pub block_bytes: u32,
    /// Requests in flight on each queue.
    pub depth: u32,
    /// Threads, a queue each; thread `i` uses target `i` modulo their number.
    pub threads: usize,
    /// Targets by names that another process can open: of an unnamed file not `/proc/self/fd/3` but `/proc/PID/fd/3`.
    pub targets: &'a [String],
    /// Where threads run, in turn; the scheduler's choice if `None`.
    pub cpus: Option<&'a CpuList>,
    /// Where submission threads run, in turn; the scheduler's choice if `None`.
    pub spoll_cpus: Option<&'a CpuList>,
    /// Length of the measured phase.
    pub runtime: Duration,
    /// Load before it that is not measured.
    pub warmup: Duration,
    /// Decides the random choices of peers that can be told.
    pub seed: u64,
    /// Whether the page cache is passed by.
    pub direct: bool,
    /// Bytes of each target that are used, from its start; all of it if `None`.
    pub size: Option<u64>,
}

/// What a peer says it measured, in iolane's units. Each parser says where its tool counts otherwise than iolane.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Reads and writes that ended without an error.
    pub ios: u64,
    /// Requests that failed, of peers that go on after one; the others give no figures then.
    pub errors: u64,
    /// Bytes that `ios` moved.
    pub bytes: u64,
    /// Length of the measured phase in seconds.
    pub elapsed_s: f64,
    /// Requests per second, as the peer reckons it.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Shortest latency in nanoseconds.
    pub min_ns: f64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Longest latency in nanoseconds.
    pub max_ns: f64,
    /// Latencies in nanoseconds, of peers that print buckets: each I/O counts as the middle of its bucket.
    pub latency: Option<Histogram<u64>>,
    /// Processor time in user mode of all its threads, in seconds, of peers that tell.
    pub user_s: Option<f64>,
    /// The same in the kernel, without the kernel's own threads.
    pub system_s: Option<f64>,
}

/// Another measuring tool.
pub trait Peer: Sync {
    /// The program's name on PATH.
    fn name(&self) -> &'static str;

    /// How to get it, in a few words.
    fn remedy(&self) -> &'static str;

    /// The argument that makes it print its version and end; `None` if it has none.
    fn version_argument(&self) -> Option<&'static str>;

    /// Why it cannot do this; `None` if it can.
    fn cannot(&self, load: &Load<'_>) -> Option<String>;

    /// In what it does something else than asked, although it can do the load; a line each.
    fn differences(&self, load: &Load<'_>) -> Vec<String>;

    /// The command that runs the load. `folder` is for files that it needs, and gone afterwards.
    ///
    /// # Errors
    /// If such a file cannot be written.
    fn command(&self, program: &Path, load: &Load<'_>, folder: &Path) -> Result<Command>;

    /// Reads what it printed to stdout.
    ///
    /// # Errors
    /// `Failed` with what was expected and the first line that was not understood; nothing is guessed, and output that was
    /// cut short is an error.
    fn parse(&self, output: &str, load: &Load<'_>) -> Result<Measured>;
}

/// A peer's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Where it is.
    pub program: PathBuf,
    /// Its version as it prints it; `None` if it does not.
    pub version: Option<String>,
}

/// Looks for a peer where `IOLANE_PEER_NAME` says (`IOLANE_PEER_FIO`, `IOLANE_PEER_SPDK_NVME_PERF`), else on PATH.
///
/// # Errors
/// `Unavailable`, with how to get it.
pub fn find(peer: &dyn Peer) -> Result<Installed> {
    find_in(peer, std::env::var_os(variable(peer)), std::env::var_os("PATH"))
}

fn find_in(peer: &dyn Peer, named: Option<OsString>, path: Option<OsString>) -> Result<Installed> {
    let variable = variable(peer);
    let missing = |cause: String| {
        let remedy = format!("{}, or set {variable} to the program's path", peer.remedy());
        Error::unavailable(format!("peer {}", peer.name()), cause).remedy(remedy)
    };
    let program = match named.filter(|named| !named.is_empty()) {
        Some(named) => Some(PathBuf::from(&named))
            .filter(|program| is_program(program))
            .ok_or_else(|| missing(format!("{variable} names {}, which is no program", named.display())))?,
        None => std::env::split_paths(&path.unwrap_or_default())
            .map(|folder| folder.join(peer.name()))
            .find(|program| is_program(program))
            .ok_or_else(|| missing("it is not on PATH".into()))?,
    };
    let version = match peer.version_argument() {
        Some(argument) => version(&program, argument).map_err(|error| missing(error.to_string()))?,
        None => None,
    };
    Ok(Installed { program, version })
}

/// The environment variable that names a peer's program.
fn variable(peer: &dyn Peer) -> String {
    format!("IOLANE_PEER_{}", peer.name().to_ascii_uppercase())
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The first line of what a program prints about itself; `None` if it does not.
fn version(program: &Path, argument: &str) -> Result<Option<String>> {
    let limits = Limits { time: Duration::from_secs(10), patience: PATIENCE };
    let finished = process::capture(Command::new(program).arg(argument), &limits, &AtomicBool::new(false))?;
    let line = finished.stdout.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.filter(|_| finished.succeeded()).map(|line| shown(line, 80)))
}

/// How long a peer may take beside the time it was told to run: SPDK maps memory and starts drives first.
const GRACE: Duration = Duration::from_secs(60);
/// How long it may take to end when it is told to, before it is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Runs a peer; `stop` ends it, and so does a minute more than it should take.
///
/// It runs in a process group of its own, of which nothing is left when this returns.
///
/// # Errors
/// `Usage` for a load that the peer [cannot](Peer::cannot) do, `Failed` with the last of its complaints if it fails, is
/// stopped, or prints what is not understood.
pub fn run(peer: &dyn Peer, installed: &Installed, load: &Load<'_>, stop: &AtomicBool) -> Result<Measured> {
    let limits = Limits { time: load.runtime + load.warmup + GRACE, patience: PATIENCE };
    run_within(&limits, peer, installed, load, stop)
}

fn run_within(
    limits: &Limits,
    peer: &dyn Peer,
    installed: &Installed,
    load: &Load<'_>,
    stop: &AtomicBool,
) -> Result<Measured> {
    let what = format!("peer {} on {}", peer.name(), load.path);
    if let Some(cause) = unusual(load).or_else(|| peer.cannot(load)) {
        return Err(Error::usage(what, cause));
    }
    let folder = Folder::create()?;
    let mut command = peer.command(&installed.program, load, &folder.0)?;
    let finished = process::capture(&mut command, limits, stop)?;
    let failed = |cause: String| Err(Error::failed(&what, format!("{cause}{}", finished.complaints())));
    match finished.end {
        End::Stopped => failed("it was stopped before its end".into()),
        End::Overdue => failed(format!("it had not ended after {} s", limits.time.as_secs())),
        End::Verbose => failed("it printed far more than figures".into()),
        End::Itself if !finished.succeeded() => failed(format!("it failed ({})", finished.status)),
        End::Itself => peer.parse(&finished.stdout, load),
    }
}

/// What no peer can do.
fn unusual(load: &Load<'_>) -> Option<String> {
    let nothing = [
        ("threads", load.threads == 0),
        ("targets", load.targets.is_empty()),
        ("depth", load.depth == 0),
        ("block size", load.block_bytes == 0),
        ("runtime", load.runtime.is_zero()),
    ];
    if let Some((name, _)) = nothing.iter().find(|(_, is_nothing)| *is_nothing) {
        return Some(format!("its {name} is 0"));
    }
    (load.threads < load.targets.len()).then(|| format!("{} targets need a thread each", load.targets.len()))
}

/// A folder for one run's files, readable by its owner, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("iolane-peer-{}-{number}", std::process::id()));
        // One that is there already may be a trap laid by another user, and is an error.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Error::system(format!("folder {}", path.display()), error))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that stays, and nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// That a peer's output is not what its parser knows; `found` is the first line that is not, `None` at the end.
fn not_understood(peer: &str, expected: &str, found: Option<&str>) -> Error {
    let found = found.map_or_else(|| "the output ends".into(), |line| format!("found `{}`", shown(line, 100)));
    Error::failed(format!("output of {peer}"), format!("expected {expected}, but {found}"))
        .remedy("it may be of a version that prints otherwise")
}

/// A line of another program as it may stand in a message.
pub(crate) fn shown(line: &str, characters_max: usize) -> String {
    line.trim().chars().take(characters_max).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether the kernel has a file of that name, and it is not a target that iolane makes up or drives itself.
fn is_file_name(target: &str) -> bool {
    let scheme = target.split([':', ',']).next().unwrap_or_default();
    !["null", "sim"].contains(&scheme) && !target.starts_with("pci:")
}

/// The options of a path that no peer can be told: how queues get on with each other and with the kernel. `plain` is not
/// among them, for peers are no less plain than they are.
fn foreign_options(path: &IoPath) -> Option<String> {
    let names = path.options.names();
    let foreign = names.iter().find(|name| !["fixedbufs", "fixedfiles", "plain"].contains(&name.as_str()));
    foreign.map(|name| format!("it has no option for `{name}`"))
}

#[cfg(test)]
mod tests;
