//! Runs a peer to its end, a stop or its time limit, and parses what it printed.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use iolane::{Error, Result};
use iolane_measure::process::{self, End, Limits};
use iolane_measure::telemetry::Reading;

use super::calls::CallsOfPeer;
use super::find::Installed;
use super::peer::{Load, Peer, PeerMeasurement};

/// Time allowed in addition to warm-up and runtime: SPDK maps memory and initializes drives first.
const GRACE: Duration = Duration::from_secs(60);
/// From the request to end until it is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of a run of a peer.
#[derive(Debug)]
pub struct PeerRun {
    /// As it printed it.
    pub measured: PeerMeasurement,
    /// System calls per I/O, counted by the kernel in a slice of the run.
    pub calls_per_io: Reading<f64>,
}

/// Runs a peer until it ends, `stop` is set, or it takes a minute longer than its load.
///
/// It runs in its own process group, of which no process remains when this returns.
///
/// # Errors
/// `Usage` for a load that the peer [cannot](Peer::cannot) run; `Unavailable` for a target that it opens for writing without a
/// permit; `Failed`, with the last lines it printed, if it fails, is
/// stopped, or prints unexpected output.
pub fn run(peer: &dyn Peer, installed: &Installed, load: &Load<'_>, stop: &AtomicBool) -> Result<PeerRun> {
    let limits = Limits { time: load.runtime + load.warmup + GRACE, patience: PATIENCE };
    run_within(&limits, peer, installed, load, stop)
}

pub(super) fn run_within(
    limits: &Limits,
    peer: &dyn Peer,
    installed: &Installed,
    load: &Load<'_>,
    stop: &AtomicBool,
) -> Result<PeerRun> {
    let what = format!("peer {} on {}", peer.name(), load.path);
    if let Some(cause) = impossible(load).or_else(|| peer.cannot(load)) {
        return Err(Error::usage(what, cause));
    }
    check_permits(peer, load)?;
    let folder = Folder::create()?;
    let mut command = peer.command(&installed.program, load, &folder.0)?;
    let mut calls = CallsOfPeer::open(load);
    let finished = process::capture_watched(&mut command, limits, stop, &mut |peer| calls.watch(peer))?;
    let failed = |cause: String| Err(Error::failed(&what, format!("{cause}{}", finished.complaints())));
    match finished.end {
        End::Stopped => failed("stopped before it ended".into()),
        End::Overdue => failed(format!("still running after {} s", limits.time.as_secs())),
        End::Verbose => failed("it printed far more output than a result".into()),
        End::Itself if !finished.succeeded() => failed(format!("it failed ({})", finished.status)),
        End::Itself => {
            let measured = peer.parse(&finished.stdout, load)?;
            Ok(PeerRun { measured, calls_per_io: calls.per_io() })
        }
    }
}

/// Checks that each target may be written, if the peer opens it for writing.
///
/// # Errors
/// `Unavailable` for a target that may only be read.
pub fn check_permits(peer: &dyn Peer, load: &Load<'_>) -> Result<()> {
    let writes = load.access.writes();
    if !writes && !peer.opens_for_writing_to_read(load.path.interface()) {
        return Ok(());
    }
    let Some(target) = load.targets.iter().find(|target| !target.writable) else { return Ok(()) };
    let why = if writes { "writes" } else { "opens targets for writing even if it only reads" };
    Err(Error::unavailable(
        format!("peer {} on {}", peer.name(), target.shown),
        format!("it {why}, and writing to the target is not allowed"),
    )
    .remedy(format!("add --allow-writes {}", target.shown)))
}

/// Why no peer can run a load.
fn impossible(load: &Load<'_>) -> Option<String> {
    let nothing = [
        ("threads", load.threads == 0),
        ("targets", load.targets.is_empty()),
        ("requests in flight", load.depth == 0),
        ("bytes per block", load.block_bytes == 0),
        ("seconds of runtime", load.runtime.is_zero()),
    ];
    if let Some((name, _)) = nothing.iter().find(|(_, is_nothing)| *is_nothing) {
        return Some(format!("the load has 0 {name}"));
    }
    (load.threads < load.targets.len()).then(|| format!("{} targets need at least as many threads", load.targets.len()))
}

/// A folder for the files of one run, accessible only to its owner, removed on drop.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn create() -> Result<Self> {
        const TRIES: u32 = 1000;
        static MADE: AtomicU64 = AtomicU64::new(0);
        for attempt in 1.. {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("iolane-peer-{}-{number}", std::process::id()));
            // An existing folder is never used: another user may have planted it, or a killed process of the same number left it.
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < TRIES => {}
                Err(error) => return Err(Error::system(format!("folder {}", path.display()), error)),
                Ok(()) => return Ok(Self(path)),
            }
        }
        unreachable!("the last try returns")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is harmless, and `drop` cannot report it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
