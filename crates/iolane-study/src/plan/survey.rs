//! The survey: the study that runs when none is named. It covers every path that reaches a target, at a few depths.

use std::time::Duration;

use iolane::{IoPath, Target};

use super::group::{Cores, Drives, Group, NamedPath};
use super::latency_bound::LatencyBound;
use super::scale::PerScale;
use super::study::{Lengths, Study};
use iolane_measure::workload::{Access, BlockSizes, OffsetPattern, Rate, Workload};

#[derive(Debug, Clone)]
pub struct Survey {
    /// Empty for all paths that are meant for one of the targets.
    pub paths: Vec<IoPath>,
    /// Common to all arms, but for what the lists below replace.
    pub workload: Workload,
    pub access: Vec<Access>,
    /// Empty for those of the workload, as the lists that follow.
    pub read_percents: Vec<u8>,
    pub block_sizes: Vec<BlockSizes>,
    pub offsets: Vec<OffsetPattern>,
    pub depths: Vec<u32>,
    pub rates: Vec<Rate>,
    /// Searches the highest rate that keeps this bound, instead of measuring at `rates`.
    pub rate_until: Option<LatencyBound>,
    pub batch_submits: Vec<u32>,
    pub batch_completes: Vec<u32>,
    pub fsyncs: Vec<u32>,
    pub fdatasyncs: Vec<u32>,
    /// Empty for one thread for each drive.
    pub threads: Vec<usize>,
}

/// The time budget of all runs together.
const TIME: Duration = Duration::from_secs(75);

impl Survey {
    /// The default lengths.
    pub const LENGTHS: Lengths = Lengths {
        runtime: None,
        warmup: Duration::from_millis(100),
        repeats: 5,
        time: TIME,
        runtime_max: Lengths::RUNTIME_MAX,
    };

    /// The default lengths of a rate search: each rate around the edge is measured as often as `repeats`.
    pub const SEARCH_LENGTHS: Lengths = Lengths {
        runtime: Some(Duration::from_secs(1)),
        warmup: Duration::from_millis(100),
        repeats: 3,
        time: TIME,
        runtime_max: Lengths::RUNTIME_MAX,
    };

    /// The survey of these targets, one thread each.
    pub fn study(self, targets: &[Target]) -> Study {
        let title = match self.rate_until {
            Some(bound) => format!("The highest rate with {}", bound.in_words()),
            None if self.paths.is_empty() => "Every available path".into(),
            None => "Selected paths".into(),
        };
        let paths = if self.paths.is_empty() { all_paths(targets) } else { self.paths };
        let mut named: Vec<NamedPath> = Vec::new();
        for path in paths {
            // A path that is named twice would be compared with itself.
            if named.iter().all(|known| known.path != path) {
                named.push(NamedPath { name: path.to_string(), path });
            }
        }
        let drives = drives(targets, &named);
        // The arms of a search have a rate, which each of its runs replaces.
        let rates = if self.rate_until.is_some() { vec![Rate::ANY] } else { self.rates };
        let threads = if self.threads.is_empty() { vec![drives] } else { self.threads };
        // Threads share the drives in turn; fewer threads than drives use as many drives as there are threads.
        let fewest = threads.iter().copied().min().unwrap_or(drives);
        Study {
            name: if self.rate_until.is_some() { "rate-until" } else { "survey" }.into(),
            title,
            source: String::new(),
            published_on: String::new(),
            lengths: PerScale::same(if self.rate_until.is_some() { Self::SEARCH_LENGTHS } else { Self::LENGTHS }),
            groups: vec![Group {
                applications: Vec::new(),
                paths: named,
                access: PerScale::same(self.access),
                read_percents: some(self.read_percents),
                block_sizes: PerScale::same(self.block_sizes),
                offsets: some(self.offsets),
                depths: PerScale::same(self.depths),
                rates: some(rates),
                batch_submits: some(self.batch_submits),
                batch_completes: some(self.batch_completes),
                batch_complete_maxes: None,
                fsyncs: some(self.fsyncs),
                fdatasyncs: some(self.fdatasyncs),
                threads: PerScale::same(threads),
                drives: PerScale::same(vec![Drives::Count(drives.min(fewest))]),
                cores: PerScale::same(vec![Cores::All]),
            }],
            rate_until: self.rate_until,
            workload: self.workload,
            figures: Vec::new(),
            claims: Vec::new(),
            text: String::new(),
        }
    }
}

/// The values of a factor; `None` if there are none.
fn some<T: Clone>(values: Vec<T>) -> Option<PerScale<Vec<T>>> {
    (!values.is_empty()).then(|| PerScale::same(values))
}

/// Every path of every interface that reaches the kind of one of the targets, except those that choose among the others.
pub fn all_paths(targets: &[Target]) -> Vec<IoPath> {
    iolane::interfaces()
        .filter(|interface| !interface.chooses())
        .filter(|interface| targets.iter().any(|target| interface.reaches(target.kind())))
        .flat_map(|interface| interface.paths())
        .collect()
}

/// The largest number of drives that every path can reach, so that all paths are compared on the same number.
fn drives(targets: &[Target], paths: &[NamedPath]) -> usize {
    let reached = paths.iter().filter_map(|named| {
        let count = targets.iter().filter(|target| iolane::probe(&named.path, target).is_ok()).count();
        (count > 0).then_some(count)
    });
    reached.min().unwrap_or(targets.len()).max(1)
}
