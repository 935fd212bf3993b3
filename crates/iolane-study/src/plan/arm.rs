//! An arm: one cell of a study. Two arms with the same factors are the same arm, so that an `Arm` can be the key of a map.

use std::fmt;

use iolane::IoPath;
use iolane_measure::workload::{Access, BlockSizes};
use serde::{Deserialize, Serialize};

use super::factor::{Factor, FactorValue};

/// A path, a workload and a placement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arm {
    /// The path's name in the study.
    pub name: String,
    #[serde(with = "iolane_measure::serde_text")]
    pub path: IoPath,
    /// The tool that measures it, such as `fio`; `None` is iolane.
    pub peer: Option<String>,
    #[serde(with = "iolane_measure::serde_text")]
    pub rw: Access,
    /// Block size in bytes.
    #[serde(with = "iolane_measure::serde_text")]
    pub bs: BlockSizes,
    /// Requests in flight on each queue.
    pub depth: u32,
    /// Threads, one queue each.
    pub threads: usize,
    /// Drives the threads are spread over.
    pub drives: usize,
    /// CPUs shared by all threads; `None` is no limit.
    pub cores: Option<usize>,
}

impl Arm {
    pub fn value(&self, factor: Factor) -> FactorValue {
        match factor {
            Factor::Path => FactorValue::Path(self.label()),
            Factor::Rw => FactorValue::Rw(self.rw),
            Factor::Bs => FactorValue::Bs(self.bs.clone()),
            Factor::Depth => FactorValue::Count(self.depth.into()),
            Factor::Threads => FactorValue::Count(self.threads as u64),
            Factor::Drives => FactorValue::Count(self.drives as u64),
            Factor::Cores => FactorValue::Cores(self.cores),
        }
    }

    /// [`FactorValue::number`] of a factor.
    pub fn number(&self, factor: Factor) -> Option<u64> {
        self.value(factor).number()
    }

    /// The value of a factor as text.
    pub fn shown(&self, factor: Factor) -> String {
        self.value(factor).to_string()
    }

    /// The path's name, with the peer's before it.
    pub fn label(&self) -> String {
        match &self.peer {
            None => self.name.clone(),
            Some(peer) => format!("{peer} {}", self.name),
        }
    }
}

#[cfg(test)]
impl Arm {
    /// An arm of the null path under that name, for tests that depend on nothing else of it.
    pub(crate) fn of_null(name: &str) -> Self {
        Self {
            name: name.into(),
            path: IoPath::new("null"),
            peer: None,
            rw: Access::RandRead,
            bs: BlockSizes::fixed(4096).unwrap(),
            depth: 1,
            threads: 1,
            drives: 1,
            cores: None,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} depth {}", self.label(), self.rw, self.bs, self.depth)?;
        if self.threads > 1 {
            write!(f, ", {} threads", self.threads)?;
        }
        if self.drives > 1 {
            write!(f, " on {} drives", self.drives)?;
        }
        match self.cores {
            Some(1) => f.write_str(", 1 core"),
            Some(cores) => write!(f, ", {cores} cores"),
            None => Ok(()),
        }
    }
}
