//! The factors that a study varies, and the values an arm can have of them.

use std::fmt;

use iolane_application::Application;
use iolane_measure::workload::{Access, BlockSizes, OffsetPattern, Rate};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// The path, by its name in the study.
    Path,
    /// What does the load.
    Application,
    /// Reads or writes.
    Rw,
    /// Percentage of reads.
    ReadPercent,
    /// Block size in bytes.
    Bs,
    /// Distribution of random offsets.
    Offsets,
    /// Requests in flight on each queue.
    Depth,
    /// Requests started per second.
    Rate,
    /// Most requests of one submission.
    BatchSubmit,
    /// Completions waited for before the next submission.
    BatchComplete,
    /// Most completions taken before the next submission.
    BatchCompleteMax,
    /// Writes between two fsyncs.
    FsyncEvery,
    /// Writes between two fdatasyncs.
    FdatasyncEvery,
    Threads,
    Drives,
    /// CPUs shared by all threads.
    Cores,
}

impl Factor {
    pub const ALL: [Self; 16] = [
        Self::Path,
        Self::Application,
        Self::Rw,
        Self::ReadPercent,
        Self::Bs,
        Self::Offsets,
        Self::Depth,
        Self::Rate,
        Self::BatchSubmit,
        Self::BatchComplete,
        Self::BatchCompleteMax,
        Self::FsyncEvery,
        Self::FdatasyncEvery,
        Self::Threads,
        Self::Drives,
        Self::Cores,
    ];

    /// What it is, as in `the block size`.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Application => "application",
            Self::Rw => "access",
            Self::ReadPercent => "share of reads",
            Self::Bs => "block size",
            Self::Offsets => "distribution of offsets",
            Self::Depth => "depth",
            Self::Rate => "rate",
            Self::BatchSubmit => "largest submission",
            Self::BatchComplete => "number of completions waited for",
            Self::BatchCompleteMax => "largest number of completions taken",
            Self::FsyncEvery => "number of writes between fsyncs",
            Self::FdatasyncEvery => "number of writes between fdatasyncs",
            Self::Threads => "number of threads",
            Self::Drives => "number of drives",
            Self::Cores => "number of cores",
        }
    }
}

/// The value that an arm has of a factor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FactorValue {
    /// The name of the path, with the peer's before it.
    Path(String),
    /// `None` is iolane's engine.
    Application(Option<Application>),
    Rw(Access),
    Bs(BlockSizes),
    Offsets(OffsetPattern),
    /// Requests per second; `None` is no limit.
    Rate(Option<Rate>),
    /// A depth, a percentage, or a number of threads or drives.
    Count(u64),
    /// A number that may not be given.
    OptionalCount(Option<u64>),
    /// CPUs for all threads; `None` is no limit.
    Cores(Option<usize>),
}

impl FactorValue {
    /// The position on a numeric axis; of mixed block sizes that of the largest. `None` for paths, reads and writes, and
    /// cores without a limit.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Path(_) | Self::Application(_) | Self::Rw(_) | Self::Offsets(_) => None,
            // An axis has whole numbers; a rate below 1 per second stands at 1.
            Self::Rate(rate) => rate.map(|rate| rate.per_s().round().max(1.0) as u64),
            Self::OptionalCount(count) => *count,
            Self::Bs(sizes) => Some(sizes.max().into()),
            Self::Count(count) => Some(*count),
            Self::Cores(cores) => cores.map(|cores| cores as u64),
        }
    }
}

impl fmt::Display for FactorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(label) => f.write_str(label),
            Self::Application(application) => f.write_str(application.map_or("none", Application::name)),
            Self::Rw(access) => access.fmt(f),
            Self::Bs(sizes) => sizes.fmt(f),
            Self::Offsets(offsets) => offsets.fmt(f),
            Self::Rate(Some(rate)) => rate.fmt(f),
            Self::Rate(None) => f.write_str("no limit"),
            Self::OptionalCount(Some(count)) => count.fmt(f),
            Self::OptionalCount(None) => f.write_str("none"),
            Self::Count(count) => count.fmt(f),
            Self::Cores(Some(cores)) => cores.fmt(f),
            Self::Cores(None) => f.write_str("all"),
        }
    }
}
