//! Runs one check over all pairs of path and target: opens the targets, calls `probe`, counts, and names the pairs that fail
//! or hang. Tests take turns, so that what one of them counts (descriptors, threads) is its own.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use iolane::{Capabilities, ErrorKind, IoError, IoErrorKind, IoPath, Pages, Pool, Queue, QueueConfig, Target};

use crate::content;
use crate::drive;
use crate::fixtures::StoppableDevice;
use crate::paths;
use crate::places::{self, Place};
use crate::report::{self, Skip};

/// Longest time one check may take on one pair before it counts as hanging.
const HANG: Duration = Duration::from_secs(100);

/// The turn of one test, and the places it runs on.
pub(crate) struct Bench {
    places: Vec<Place>,
    _turn: MutexGuard<'static, ()>,
}

/// The number of repetitions: fewer with `IOLANE_CONFORMANCE_BRIEF=1`, for an emulated machine.
pub(crate) fn times(usual: usize, brief: usize) -> usize {
    let is_brief = std::env::var("IOLANE_CONFORMANCE_BRIEF").is_ok_and(|text| text == "1");
    if is_brief { brief } else { usual }
}

/// Waits until no other test runs.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bench {
    pub(crate) fn everywhere() -> Self {
        let turn = turn();
        Self { places: places::everywhere(), _turn: turn }
    }

    /// All pairs available here; each of the others prints a SKIPPED line.
    pub(crate) fn pairs(&self) -> Vec<Pair<'_>> {
        self.places.iter().flat_map(pairs_on).collect()
    }

    /// All pairs on targets that keep data: not `null`, which moves none, has no end, and checks neither alignment nor access.
    pub(crate) fn pairs_that_move_data(&self) -> Vec<Pair<'_>> {
        self.pairs().into_iter().filter(Pair::moves_data).collect()
    }
}

/// A path and a target on which it is available.
pub(crate) struct Pair<'a> {
    pub(crate) path: IoPath,
    pub(crate) place: &'a Place,
    /// Open for reading and writing; all pairs of a place have the same.
    pub(crate) target: Target,
    pub(crate) capabilities: Capabilities,
}

/// The pairs of one place.
pub(crate) fn pairs_on(place: &Place) -> Vec<Pair<'_>> {
    let target = match place.open() {
        Ok(target) => target,
        Err(error) => {
            report::skipped_everywhere(&place.label, &Skip::from(&error));
            return Vec::new();
        }
    };
    paths::all().into_iter().filter_map(|path| pair(place, &target, path)).collect()
}

fn pair<'a>(place: &'a Place, target: &Target, path: IoPath) -> Option<Pair<'a>> {
    let name = path.to_string();
    let belong_together = paths::belongs_to(&path, target.kind());
    match iolane::probe(&path, target) {
        Ok(capabilities) if belong_together => Some(Pair { path, place, target: target.clone(), capabilities }),
        Ok(_) => panic!("{name} on {}: only the interface that the target belongs to reaches it", place.label),
        Err(error) => {
            let explained = !error.cause().is_empty() && !error.remedy_text().is_empty();
            let refused = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Exhausted);
            assert!(explained && refused, "{name} on {}: a refusal without cause or remedy: {error}", place.label);
            if belong_together {
                report::skipped(&name, &place.column, &place.column, &Skip::from(&error));
            }
            None
        }
    }
}

impl Pair<'_> {
    /// Whether what was written can be read back.
    pub(crate) fn moves_data(&self) -> bool {
        self.place.keeps_data()
    }

    /// The size of a request: the one wanted, or the largest power of two below it that the path carries here.
    pub(crate) fn request_bytes(&self, wanted: usize) -> usize {
        match self.capabilities.request_bytes_max {
            Some(most) if most < wanted as u64 => 1 << most.ilog2(),
            _ => wanted,
        }
    }

    /// The unit of offsets and lengths in bytes.
    pub(crate) fn block_bytes(&self) -> usize {
        self.target.block_bytes() as usize
    }

    /// Whether the calling thread carries requests out itself and is blocked meanwhile.
    pub(crate) fn is_blocking(&self) -> bool {
        paths::interface_of(&self.path).is_blocking()
    }

    /// The depths out of `wanted` that the path takes.
    pub(crate) fn depths(&self, wanted: &[u32]) -> Vec<u32> {
        wanted.iter().copied().filter(|depth| *depth <= self.capabilities.depth_max).collect()
    }

    /// The largest of these depths.
    pub(crate) fn depth(&self, wanted: u32) -> u32 {
        wanted.min(self.capabilities.depth_max)
    }

    /// Opens a queue with the pool registered.
    pub(crate) fn queue(&self, depth: u32, pool: &Pool) -> Result<Box<dyn Queue>> {
        self.queue_on(&self.target, &QueueConfig::new(depth).pool(pool))
    }

    /// Opens a queue of this path on a target of the test's own.
    pub(crate) fn queue_on(&self, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        self.queue_of(&self.path, target, config)
    }

    /// Opens a queue of this path with other options.
    pub(crate) fn queue_of(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        match iolane::open_queue(path, target, config) {
            Err(error) if error.kind() == ErrorKind::Exhausted => Err(Skip::from(&error).into()),
            opened => Ok(opened?),
        }
    }

    /// Checks that a misaligned request was refused; a skip where the file system carries it out.
    pub(crate) fn refused_as_misaligned(&self, what: &str, result: Result<u32, IoError>) -> Result<()> {
        const BTRFS: i64 = 0x9123_683e;
        let file_system = self.target.fd().and_then(|fd| rustix::fs::fstatfs(fd).ok());
        match result {
            Err(error) if error.kind() == IoErrorKind::Invalid => Ok(()),
            Ok(_) if file_system.is_some_and(|found| found.f_type == BTRFS) => {
                Err(Skip::new("btrfs of this kernel carries misaligned requests out through the page cache", "").into())
            }
            result => Err(anyhow::anyhow!("{what} is misaligned: {result:?}")),
        }
    }

    /// Writes to the pair's target by other means than its path.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        drive::put(self.place, &self.target, offset, bytes)
    }

    /// Reads from the pair's target by other means than its path.
    pub(crate) fn get(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        drive::get(self.place, &self.target, offset, bytes)
    }
}

/// A pool of base pages; running out of memory is a reason to skip.
pub(crate) fn pool(frames: usize, frame_bytes: usize) -> Result<Pool> {
    Ok(Pool::new(frames, frame_bytes, Pages::Base)?)
}

/// One pair for each path: the first place on which it is available.
pub(crate) fn one_each<'a>(pairs: Vec<Pair<'a>>) -> Vec<Pair<'a>> {
    let mut chosen: Vec<Pair<'a>> = Vec::new();
    for pair in pairs {
        if chosen.iter().all(|known| known.path != pair.path) {
            chosen.push(pair);
        }
    }
    chosen
}

/// Why a path that blocks is skipped where requests have to be in flight.
pub(crate) const NOTHING_IN_FLIGHT: &str = "it carries requests out itself, so nothing is in flight when it returns";

/// Makes the check on each path, with the device that the check stops. A path that blocks is skipped for this reason.
#[track_caller]
pub(crate) fn check_each_with_stoppable_device(
    skip_blocking: &str,
    mut check: impl FnMut(&Pair<'_>, &StoppableDevice) -> Result<()>,
) {
    let _turn = turn();
    let Some(device) = StoppableDevice::or_skipped() else { return };
    let place = Place::stoppable(&device);
    check_each(&pairs_on(&place), |pair| {
        if pair.is_blocking() {
            return Err(Skip::new(skip_blocking, "").into());
        }
        check(pair, &device)
    });
}

/// Makes the check on each pair, and panics at the end if it failed on any, with all of them.
#[track_caller]
pub(crate) fn check_each<'a>(pairs: &[Pair<'a>], mut check: impl FnMut(&Pair<'a>) -> Result<()>) {
    let caller = Location::caller();
    // Grouped by message, so that a failure of many pairs is printed once.
    let mut failures: Vec<(String, Vec<&Pair<'_>>)> = Vec::new();
    for pair in pairs {
        let (path, column, label) = (pair.path.to_string(), &pair.place.column, &pair.place.label);
        let what = format!("{path} on {label} ({caller})");
        content::begin(&what);
        let hangs = || report::failed(&path, column, &format!("not done after {} s ({caller})", HANG.as_secs()));
        let outcome = within(HANG, &what, hangs, || {
            catch_unwind(AssertUnwindSafe(|| check(pair))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                Err(anyhow::anyhow!("it panicked: {}", text.unwrap_or_default()))
            })
        });
        match outcome {
            Ok(()) => report::passed(&path, column),
            Err(error) => match error.downcast_ref::<Skip>() {
                Some(skip) => report::skipped(&path, column, label, skip),
                None => {
                    let said = format!("{error:#}");
                    report::failed(&path, column, &format!("{said} ({caller})"));
                    match failures.iter_mut().find(|(known, _)| *known == said) {
                        Some((_, pairs)) => pairs.push(pair),
                        None => failures.push((said, vec![pair])),
                    }
                }
            },
        }
    }
    let seed = drive::seed();
    let lines: Vec<_> = failures.iter().map(|(said, pairs)| format!("\n  {}: {said}", names(pairs))).collect();
    assert!(failures.is_empty(), "failed (seed {seed}):{}", lines.concat());
}

/// The paths of the pairs, those on the same target together.
fn names(pairs: &[&Pair<'_>]) -> String {
    let on_one_place = |pairs: &[&Pair<'_>]| {
        let paths: Vec<_> = pairs.iter().map(|pair| pair.path.to_string()).collect();
        format!("{} on {}", paths.join(" "), pairs[0].place.label)
    };
    let groups = pairs.chunk_by(|a, b| a.place.label == b.place.label).map(on_one_place);
    groups.collect::<Vec<_>>().join("; ")
}

/// Runs it; past the limit, reports a hang and ends the process, since a blocked thread cannot be ended by itself.
fn within<T>(limit: Duration, what: &str, hangs: impl FnOnce() + Send, run: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                hangs();
                report::say(&format!("HANGS conformance {what}: not done after {} s", limit.as_secs()));
                std::process::exit(101);
            }
        });
        let result = run();
        drop(done);
        result
    })
}
