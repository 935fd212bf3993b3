//! The arms of a study by load, and the lines of charts that show them.

use std::collections::BTreeSet;

use iolane_study::plan::{Arm, IOPS};
use iolane_study::results::Loaded;
use iolane_study::rows::ArmResults;
use iolane_study::stats::Estimate;

use super::chart::{Line, Mark};
use super::id::slug;
use crate::chart_style::{self, look};

/// Charts are drawn for as many depths of a load.
const DEPTHS_MAX: usize = 4;

/// Arms that do the same work; they differ in path and depth.
pub(super) struct Load {
    pub(super) words: String,
    pub(super) arms: Vec<ArmResults>,
}

/// The arms by load in the order of the report's tables, those of a load in the order of legends.
pub(super) fn loads(loaded: &Loaded) -> Vec<Load> {
    let mut arms = loaded.results().arms;
    arms.sort_by_cached_key(|ArmResults { arm, .. }| (arm.load_key(), legend_order(arm)));
    let mut loads: Vec<Load> = Vec::new();
    for arm in arms {
        let words = arm.arm.load_in_words();
        match loads.iter_mut().find(|load| load.words == words) {
            Some(load) => load.arms.push(arm),
            None => loads.push(Load { words, arms: vec![arm] }),
        }
    }
    loads
}

impl Load {
    /// The arms at each depth; of many depths, those at the smallest and at the largest.
    pub(super) fn at_depths(&self) -> impl Iterator<Item = (u32, Vec<&ArmResults>)> {
        let depths: BTreeSet<u32> = self.arms.iter().map(|arm| arm.arm.workload.depth).collect();
        let shown: Vec<u32> = match depths.len() {
            0..=DEPTHS_MAX => depths.into_iter().collect(),
            _ => depths.first().into_iter().chain(depths.last()).copied().collect(),
        };
        shown.into_iter().map(|depth| (depth, self.arms.iter().filter(|arm| arm.arm.workload.depth == depth).collect()))
    }

    /// What it counts per second: `IOPS`, or the operations of its application.
    pub(super) fn rate_unit(&self) -> &'static str {
        self.arms.first().map_or(IOPS, |arm| arm.arm.rate_unit())
    }

    /// What it counts: `I/Os`, or the operations of its application.
    pub(super) fn things(&self) -> &'static str {
        self.rate_unit().strip_suffix("/s").unwrap_or("I/Os")
    }

    pub(super) fn id(&self, what: &str) -> String {
        format!("{what}-{}", slug(&self.words))
    }
}

/// The place of an arm among those of a legend.
pub(super) fn legend_order(arm: &Arm) -> impl Ord + use<> {
    (chart_style::rank(&arm.path, arm.peer.as_deref()), arm.name.clone(), arm.workload.depth)
}

pub(super) fn line(arm: &Arm, points: Vec<Mark>) -> Line {
    Line {
        name: arm.label(),
        path: arm.path.to_string(),
        look: look(&arm.path, arm.peer.as_deref()),
        points,
        published: Vec::new(),
    }
}

pub(super) fn estimated(x: f64, y: Estimate) -> Mark {
    Mark { x, y: y.value, low: Some(y.low), high: Some(y.high), at: String::new() }
}
