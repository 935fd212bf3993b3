//! An arm: one cell of a study. Two arms with the same factors are the same arm, so that an `Arm` can be the key of a map.

use std::fmt;

use iolane::IoPath;
use iolane_application::Application;
use iolane_measure::workload::Workload;
use serde::{Deserialize, Serialize};

use super::factor::{Factor, FactorValue};
use super::metric::Metric;

/// What arms of requests count per second.
pub const IOPS: &str = "IOPS";

/// A path, a workload and a placement.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arm {
    /// The path's name in the study.
    pub name: String,
    #[serde(with = "iolane_measure::serde_text")]
    pub path: IoPath,
    /// The tool that measures it, such as `fio`, or the program without iolane that runs the application; `None` is iolane.
    pub peer: Option<String>,
    /// What does the load; `None` is the engine, which draws requests from the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
    /// All of what it asks of a target.
    #[serde(flatten)]
    pub workload: Workload,
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
            Factor::Application => FactorValue::Application(self.application),
            Factor::Rw => FactorValue::Rw(self.workload.access),
            Factor::ReadPercent => FactorValue::Count(self.workload.read_percent().into()),
            Factor::Bs => FactorValue::Bs(self.workload.block_sizes.clone()),
            Factor::Offsets => FactorValue::Offsets(self.workload.offsets),
            Factor::Depth => FactorValue::Count(self.workload.depth.into()),
            Factor::Rate => FactorValue::Rate(self.workload.rate),
            Factor::BatchSubmit => FactorValue::OptionalCount(self.workload.batch_submit.map(u64::from)),
            Factor::BatchComplete => FactorValue::OptionalCount(self.workload.batch_complete.map(u64::from)),
            Factor::BatchCompleteMax => FactorValue::OptionalCount(self.workload.batch_complete_max.map(u64::from)),
            Factor::FsyncEvery => FactorValue::OptionalCount(self.workload.fsync_every.map(u64::from)),
            Factor::FdatasyncEvery => FactorValue::OptionalCount(self.workload.fdatasync_every.map(u64::from)),
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

    /// Its load without the depth: `randread 4k, 2 threads`, or the name of its application.
    pub fn load_in_words(&self) -> String {
        self.requests_in_words() + &self.placement_in_words()
    }

    /// The same without threads, drives and cores.
    pub fn requests_in_words(&self) -> String {
        match (self.application, self.workload.rate) {
            (None, _) => self.workload.load_in_words(),
            // The application says what it requests.
            (Some(application), None) => application.name().to_owned(),
            (Some(application), Some(rate)) => format!("{application}, rate {rate}/s"),
        }
    }

    /// What it does per second: `IOPS`, or the operations of its application.
    pub fn rate_unit(&self) -> &'static str {
        self.application.map_or(IOPS, Application::rate_unit)
    }

    /// Threads, drives and cores, where there is more than one or a limit: `, 2 threads on 2 drives, 1 core`.
    fn placement_in_words(&self) -> String {
        let threads = if self.threads > 1 { format!(", {} threads", self.threads) } else { String::new() };
        let drives = if self.drives > 1 { format!(" on {} drives", self.drives) } else { String::new() };
        let cores = match self.cores {
            Some(1) => ", 1 core".to_owned(),
            Some(cores) => format!(", {cores} cores"),
            None => String::new(),
        };
        threads + &drives + &cores
    }

    /// A key that is equal for arms with the same load: everything but the path, who runs it, and the depth. It sorts by
    /// access, by block size, by placement, then by rate.
    pub fn load_key(&self) -> impl Ord + Clone + use<> {
        // Names every field, so that the compiler demands a decision for each new one.
        let Self { name: _, path: _, peer: _, application, workload, threads, drives, cores } = self;
        let others = Workload { depth: 0, ..workload.clone() }.fields().map(|(_, value)| value);
        // The bits of positive numbers have the order of the numbers.
        let rate = workload.rate.map(|rate| rate.per_s().to_bits());
        (*application, workload.access.name(), workload.block_sizes.max(), *threads, *drives, *cores, rate, others)
    }

    /// Whether they do the same work, each by its own path: the same load at the same depth.
    pub fn competes_with(&self, other: &Self) -> bool {
        self.load_key() == other.load_key() && self.workload.depth == other.workload.depth
    }

    /// The metric that ranks it among arms of the same load: at a rate all have the same IOPS, and the tail decides.
    pub fn ranked_by(&self) -> Metric {
        if self.workload.rate.is_some() { Metric::P99 } else { Metric::Iops }
    }

    /// The same arm without its rate: rate searches of one arm differ in nothing else.
    #[must_use]
    pub fn without_rate(&self) -> Self {
        Self { workload: Workload { rate: None, ..self.workload.clone() }, ..self.clone() }
    }

    /// Its threads and the submission threads of their queues.
    pub fn threads_in_all(&self) -> usize {
        self.threads + self.path.submission_threads(self.threads)
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
            application: None,
            workload: Workload::default(),
            threads: 1,
            drives: 1,
            cores: None,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (load, depth) = (self.requests_in_words(), self.workload.depth);
        // `randrw 70/30 16k depth 4, rate 2k/s`: the depth stands before what follows a comma.
        match load.split_once(',') {
            Some((load, pace)) => write!(f, "{} {load} depth {depth},{pace}", self.label())?,
            None => write!(f, "{} {load} depth {depth}", self.label())?,
        }
        f.write_str(&self.placement_in_words())
    }
}
