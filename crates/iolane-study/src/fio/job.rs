//! A job of a fio job file, as iolane runs it. `translate` creates it; the command line runs its plan.

use std::path::PathBuf;
use std::time::Duration;

use iolane::{IoPath, Target};
use iolane_measure::placement::Placement;
use iolane_measure::run::RunPlan;
use iolane_measure::workload::Workload;

/// One job of a file: the load, its targets and its length.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The name of its section, or the value of `name=`.
    pub name: String,
    /// The path that corresponds to fio's engine.
    pub path: IoPath,
    /// Without `size` and `bytes_max`, which [`plan`](Self::plan) adds.
    pub workload: Workload,
    /// Threads, one queue each (`numjobs`).
    pub threads: usize,
    pub place: Place,
    /// fio's `size`; `None` is all of its targets.
    pub size: Option<Size>,
    /// The bytes after which each thread ends.
    pub amount: Amount,
    /// The time limit; `None` ends the job only by its amount.
    pub runtime: Option<Duration>,
    /// Load before the measured phase (`ramp_time`).
    pub warmup: Duration,
    /// Bypass the page cache.
    pub direct: bool,
    pub placement: Placement,
    /// Whether verified writes are read back and checked after them (`do_verify`).
    pub read_back: bool,
    /// Wait for the jobs before it to end.
    pub stonewall: bool,
    /// Start that much later than the jobs beside it (`startdelay`).
    pub delay: Duration,
    /// Number of its group in the file; `stonewall` and `new_group` begin another.
    pub group: usize,
    /// The jobs that end when it ends (`exitall`, `exit_what`).
    pub ends: Option<Ends>,
    /// Differences from what fio would do, one sentence each.
    pub notes: Vec<String>,
}

/// The jobs that end together with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Those of its group, whether they run already or not.
    Group,
    /// Those that run at the same time.
    Running,
    /// All; those that come later do not run.
    All,
}

/// How much of the targets of a job is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Of all its targets together.
    Bytes(u64),
    /// Of its only target, from 1 to 100.
    Percent(u8),
}

impl Size {
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(_) => None,
        }
    }

    /// Bytes used of each of these targets; a percentage is a multiple of `block_bytes`, as in fio.
    fn of_each(self, targets: &[Target], block_bytes: u32) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes / targets.len().max(1) as u64,
            Self::Percent(percent) => {
                let smallest = targets.iter().map(Target::bytes).min().unwrap_or(0);
                let bytes = (u128::from(smallest) * u128::from(percent) / 100) as u64;
                bytes - bytes % u64::from(block_bytes)
            }
        }
    }
}

/// The targets of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Existing targets, by name (`filename`).
    Named(Vec<String>),
    /// Scratch files in `directory`, of `offset` and `size` bytes: one that all threads share, or one per thread.
    Scratch { folder: PathBuf, bytes: u64, shared: bool },
}

/// The bytes after which a thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// None; only the time limit ends it.
    Unlimited,
    Bytes(u64),
    /// The bytes used of all its targets together.
    Targets,
}

impl Job {
    /// The plan of the job on the targets opened for it, whose content is not known; for scratch files it needs no targets.
    pub fn plan(&self, targets: Vec<Target>) -> RunPlan {
        let mut workload = self.workload.clone();
        if let Place::Named(_) = self.place {
            workload.size = self.size.map(|size| size.of_each(&targets, workload.block_sizes.min()));
        }
        workload.bytes_max = match self.amount {
            Amount::Unlimited => None,
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Targets => Some(match self.place {
                Place::Named(_) => {
                    let used = |target: &Target| workload.size.unwrap_or(target.bytes().saturating_sub(workload.start));
                    targets.iter().map(used).fold(0, u64::saturating_add)
                }
                Place::Scratch { bytes, .. } => (bytes - workload.start).saturating_mul(self.threads as u64),
            }),
        };
        RunPlan {
            threads: self.threads,
            placement: self.placement.clone(),
            warmup: self.warmup,
            read_back: self.read_back,
            ..RunPlan::new(self.path.clone(), targets, workload, self.runtime.unwrap_or(RUNTIME_MAX))
        }
    }
}

/// The time limit of a job that has none: a year.
pub(super) const RUNTIME_MAX: Duration = Duration::from_secs(366 * 86_400);
