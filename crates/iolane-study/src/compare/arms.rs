//! The arms of a comparison: each arm of any folder with its figures there, and their ratios to the first folder.

use serde::Serialize;

use crate::plan::{Arm, Metric};
use crate::results::REPEATS_FOR_ADVICE;
use crate::rows::ArmResults;
use crate::stats::{Estimate, estimate_unpaired_ratio, median};
use iolane_measure::workload::Workload;

#[derive(Debug, Clone, Serialize)]
pub struct ArmComparison {
    #[serde(flatten)]
    pub arm: Arm,
    /// The arm's figures by folder; `None` where it was not measured.
    pub folders: Vec<Option<Cell>>,
}

/// An arm in one folder. Ratios are relative to the first folder; `None` in the first, and where it lacks the arm.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// I/Os per second, the median of the repeats; of a rate search the highest rate, 0 if no rate keeps the bound.
    pub iops: f64,
    /// 99th percentile of latency in nanoseconds, the median of the repeats; `None` where a peer does not report it.
    pub p99_ns: Option<f64>,
    /// IOPS relative to the first folder.
    pub iops_ratio: Option<Ratio>,
    /// 99th percentile relative to the first folder.
    pub p99_ratio: Option<Ratio>,
    /// The change that the IOPS show.
    pub change: Option<Change>,
}

/// A ratio to the first folder's figure, between the medians of the repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio, with its 95 % interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The repeats of the side that has fewer of them.
    pub repeats: usize,
    /// Whether a difference is shown: the interval excludes 1, and both sides have at least three repeats.
    #[serde(rename = "significant")]
    pub shown: bool,
}

/// The change that a ratio of IOPS shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Change {
    /// The whole 95 % interval is above 1.
    #[serde(rename = "faster")]
    Faster,
    /// The whole interval is below 1.
    #[serde(rename = "slower")]
    Slower,
    /// The interval includes 1, or there are too few repeats for an interval.
    #[serde(rename = "no significant difference")]
    NoDifferenceShown,
}

/// Whether two arms are the same one.
pub(super) type IsSame = fn(&Arm, &Arm) -> bool;

/// Ignores the seed: its draws are another sample of the same load.
pub(super) fn is_one_arm(a: &Arm, b: &Arm) -> bool {
    *a == Arm { workload: Workload { seed: a.workload.seed, ..b.workload.clone() }, ..b.clone() }
}

/// Ignores the name, too: each study names its paths.
pub(super) fn does_the_same(a: &Arm, b: &Arm) -> bool {
    is_one_arm(a, &Arm { name: a.name.clone(), ..b.clone() })
}

/// The arms of all folders, without duplicates, from what each folder has of them. `cell` gets what a folder has of an arm, and
/// for every folder but the first what the first has.
pub(super) fn across<T>(
    folders: &[Vec<T>],
    is_same: IsSame,
    arm_of: impl Fn(&T) -> &Arm,
    cell: impl Fn(&T, Option<&T>) -> Cell,
) -> Vec<ArmComparison> {
    let mut all: Vec<&Arm> = Vec::new();
    for arm in folders.iter().flatten().map(&arm_of) {
        if !all.iter().any(|known| is_same(known, arm)) {
            all.push(arm);
        }
    }
    all.sort_by_cached_key(|arm| (arm.load_key(), arm.workload.depth, arm.label()));
    let compared = |arm: &Arm| {
        let found: Vec<Option<&T>> =
            folders.iter().map(|folder| folder.iter().find(|one| is_same(arm, arm_of(one)))).collect();
        let first = |index: usize| found[0].filter(|_| index > 0);
        let cells = found.iter().enumerate().map(|(index, found)| found.map(|found| cell(found, first(index))));
        ArmComparison { arm: arm.clone(), folders: cells.collect() }
    };
    all.into_iter().map(compared).collect()
}

impl Cell {
    pub(super) fn new(results: &ArmResults, first: Option<&ArmResults>) -> Self {
        let middle = |metric| results.values(metric).map(|values| median(&values));
        let to_first = |metric| Ratio::new(&results.values(metric)?, &first?.values(metric)?);
        let iops_ratio = to_first(Metric::Iops);
        Self {
            iops: middle(Metric::Iops).unwrap_or(0.0),
            p99_ns: middle(Metric::P99),
            p99_ratio: to_first(Metric::P99),
            change: iops_ratio.map(Change::of),
            iops_ratio,
        }
    }
}

impl Ratio {
    /// Whether there are too few repeats to show a difference, whatever the interval is.
    pub fn is_of_few(self) -> bool {
        self.repeats < REPEATS_FOR_ADVICE
    }

    /// `None` without repeats, or where a repeat lacks the figure or has 0.
    fn new(here: &[f64], first: &[f64]) -> Option<Self> {
        let repeats = here.len().min(first.len());
        if repeats == 0 || !here.iter().chain(first).all(|value| *value > 0.0) {
            return None;
        }
        let estimate = estimate_unpaired_ratio(here, first);
        Some(Self { estimate, repeats, shown: repeats >= REPEATS_FOR_ADVICE && estimate.shows_difference() })
    }
}

impl Change {
    pub(super) fn of(ratio: Ratio) -> Self {
        match ratio.shown {
            false => Self::NoDifferenceShown,
            true if ratio.estimate.value > 1.0 => Self::Faster,
            true => Self::Slower,
        }
    }
}
