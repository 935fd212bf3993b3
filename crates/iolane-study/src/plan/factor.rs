//! The factors that a study varies, and the values an arm can have of them.

use std::fmt;

use iolane_measure::workload::{Access, BlockSizes};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// The path, by its name in the study.
    Path,
    /// Reads or writes.
    Rw,
    /// Block size in bytes.
    Bs,
    /// Requests in flight on each queue.
    Depth,
    Threads,
    Drives,
    /// CPUs shared by all threads.
    Cores,
}

/// The value that an arm has of a factor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FactorValue {
    /// The name of the path, with the peer's before it.
    Path(String),
    Rw(Access),
    Bs(BlockSizes),
    /// A depth, or a number of threads or drives.
    Count(u64),
    /// CPUs for all threads; `None` is no limit.
    Cores(Option<usize>),
}

impl FactorValue {
    /// The position on a numeric axis; of mixed block sizes that of the largest. `None` for paths, reads and writes, and
    /// cores without a limit.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Path(_) | Self::Rw(_) => None,
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
            Self::Rw(access) => access.fmt(f),
            Self::Bs(sizes) => sizes.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Cores(Some(cores)) => cores.fmt(f),
            Self::Cores(None) => f.write_str("all"),
        }
    }
}
