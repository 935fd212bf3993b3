//! The survey: the study of whoever names none. Every path that a target can be reached by, at a few depths.

use std::time::Duration;

use iolane::{IoPath, Target};

use super::{Cores, Drives, Group, Lengths, NamedPath, PerScale, Study};
use crate::workload::Workload;

/// What to survey.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The paths to take; all there are for the targets if empty.
    pub paths: Vec<IoPath>,
    /// Depths to take each of them at.
    pub depths: Vec<u32>,
    /// What to ask for; its depth is replaced.
    pub workload: Workload,
}

/// What a survey takes, all runs together.
const TIME: Duration = Duration::from_secs(75);

impl Survey {
    /// The lengths of a survey whose user gives none.
    pub const LENGTHS: Lengths = Lengths {
        runtime: None,
        warmup: Duration::from_millis(100),
        repeats: 5,
        time: TIME,
        runtime_max: Lengths::RUNTIME_MAX,
    };

    /// The survey of these targets, a thread each.
    pub fn study(self, targets: &[Target]) -> Study {
        let paths = if self.paths.is_empty() { all_paths(targets) } else { self.paths };
        let mut named: Vec<NamedPath> = Vec::new();
        for path in paths {
            // Named twice, an arm would be compared with itself.
            if named.iter().all(|known| known.path != path) {
                named.push(NamedPath { name: path.to_string(), path });
            }
        }
        let drives = drives(targets, &named);
        Study {
            name: "survey".into(),
            title: "Every path there is".into(),
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

/// Every path of every interface that is meant for one of the targets.
pub fn all_paths(targets: &[Target]) -> Vec<IoPath> {
    iolane::interfaces()
        .filter(|interface| targets.iter().any(|target| interface.reaches(target.kind())))
        .flat_map(|interface| interface.paths())
        .collect()
}

/// As many drives as each of the paths can reach, so that all are compared on the same number of them.
fn drives(targets: &[Target], paths: &[NamedPath]) -> usize {
    let reached = paths.iter().filter_map(|named| {
        let count = targets.iter().filter(|target| iolane::probe(&named.path, target).is_ok()).count();
        (count > 0).then_some(count)
    });
    reached.min().unwrap_or(targets.len()).max(1)
}
