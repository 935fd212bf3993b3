//! The survey: the study that runs when none is named. It covers every path that reaches a target, at a few depths.

use std::time::Duration;

use iolane::{IoPath, Target};

use super::group::{Cores, Drives, Group, NamedPath};
use super::scale::PerScale;
use super::study::{Lengths, Study};
use iolane_measure::workload::Workload;

#[derive(Debug, Clone)]
pub struct Survey {
    /// Empty for all paths that are meant for one of the targets.
    pub paths: Vec<IoPath>,
    pub depths: Vec<u32>,
    /// Its depth is replaced.
    pub workload: Workload,
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

    /// The survey of these targets, one thread each.
    pub fn study(self, targets: &[Target]) -> Study {
        let paths = if self.paths.is_empty() { all_paths(targets) } else { self.paths };
        let mut named: Vec<NamedPath> = Vec::new();
        for path in paths {
            // A path that is named twice would be compared with itself.
            if named.iter().all(|known| known.path != path) {
                named.push(NamedPath { name: path.to_string(), path });
            }
        }
        let drives = drives(targets, &named);
        Study {
            name: "survey".into(),
            title: "Every available path".into(),
            source: String::new(),
            published_on: String::new(),
            lengths: PerScale::same(Self::LENGTHS),
            groups: vec![Group {
                paths: named,
                access: PerScale::same(vec![self.workload.access]),
                block_sizes: PerScale::same(vec![self.workload.block_sizes.clone()]),
                depths: PerScale::same(self.depths),
                threads: PerScale::same(vec![drives]),
                drives: PerScale::same(vec![Drives::PerThread]),
                cores: PerScale::same(vec![Cores::All]),
            }],
            workload: self.workload,
            figures: Vec::new(),
            claims: Vec::new(),
            text: String::new(),
        }
    }
}

/// Every path of every interface that reaches the kind of one of the targets.
pub fn all_paths(targets: &[Target]) -> Vec<IoPath> {
    iolane::interfaces()
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
