//! Rows grouped by arm, the input of statistics, figures and claims, and the arms that are left out.

use std::collections::{HashMap, HashSet};

use hdrhistogram::Histogram;
use iolane_measure::host::LabMachine;
use iolane_measure::workload::{Arrivals, Workload};
use serde::{Deserialize, Serialize};

use super::row::Row;
use crate::plan::{Arm, Metric, Requests};
use crate::stats::median;

/// The valid runs of an arm, one per repeat, in the order of the repeats.
#[derive(Debug, Clone)]
pub struct ArmResults {
    pub arm: Arm,
    /// Its valid runs; at least one.
    pub rows: Vec<Row>,
}

impl ArmResults {
    /// A metric's value in each repeat; `None` if a repeat lacks it.
    pub fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.rows.iter().map(|row| row.metric(metric)).collect()
    }

    /// Whether it reached its rate: the median of the repeats is at least 98 % of it. `None` without a rate.
    pub fn keeps_rate(&self) -> Option<bool> {
        let elapsed_s = self.rows.iter().map(|row| row.elapsed_s).fold(0.0, f64::max);
        is_rate_kept(&self.arm.workload, median(&self.values(Metric::Iops)?), elapsed_s)
    }

    /// The latencies of all repeats in one histogram, in nanoseconds.
    pub fn latency(&self) -> Histogram<u64> {
        self.gathered(Requests::All)
    }

    /// The same of some of the requests; `None` if there were none of them, or a peer does not tell them apart.
    pub fn latency_of(&self, requests: Requests) -> Option<Histogram<u64>> {
        Some(self.gathered(requests)).filter(|latency| !latency.is_empty())
    }

    fn gathered(&self, requests: Requests) -> Histogram<u64> {
        let mut all = iolane_measure::latencies::new_histogram();
        for row in &self.rows {
            // All histograms have the same bounds, so adding cannot fail.
            let _ = all.add(&*row.latency_of(requests));
        }
        all
    }
}

/// Whether this many I/Os per second, the mean of `elapsed_s`, are those asked for; `None` without a rate. Of random
/// arrivals the number varies by its square root; three times that is hardly ever exceeded.
pub(super) fn is_rate_kept(workload: &Workload, iops: f64, elapsed_s: f64) -> Option<bool> {
    let rate = workload.rate?.per_s();
    let by_chance = match workload.arrivals {
        Arrivals::Even => 0.0,
        Arrivals::Poisson => 3.0 * (rate / elapsed_s.max(f64::MIN_POSITIVE)).sqrt(),
    };
    Some(iops + by_chance >= RATE_KEPT * rate)
}

/// The share of a rate that has to be reached. A short run may lack its last request.
const RATE_KEPT: f64 = 0.98;

/// An arm that was not run, or whose runs were all rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub arm: Arm,
    pub reason: String,
    /// How to fix it; empty if no remedy is known.
    pub remedy: String,
    /// Whether it was run, and every run was rejected.
    pub failed: bool,
}

/// How a target was preconditioned before its writes were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preconditioned {
    pub target: String,
    /// How often the target was fully written in sequence, fractions included. Creating a scratch file counts as one
    /// pass.
    pub passes: f64,
    /// I/Os per second of each round of random writes.
    pub rounds: Vec<f64>,
    /// The round in which the steady state was reached, from 1; `None` if it was not.
    pub steady_round: Option<usize>,
}

/// The measured arms of a study, and the arms that were left out.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub arms: Vec<ArmResults>,
    pub left_out: Vec<LeftOut>,
    /// If they were measured in a guest of the lab, what is behind it.
    pub lab: Option<LabMachine>,
}

/// How often a rejected run is repeated. An arm whose last attempt is rejected too is given up.
pub const RETRIES: u32 = 2;

/// Whether the arm is given up after this row, the last of `attempts` at its repeat.
pub fn gives_up(row: &Row, attempts: u32) -> bool {
    row.rejected.is_some() && attempts > RETRIES
}

/// The names of the arms that were given up: their valid repeats are excluded from every statistic too.
fn given_up(rows: &[Row]) -> HashSet<String> {
    let mut attempts: HashMap<(String, u32), u32> = HashMap::new();
    let has_given_up = |row: &&Row| {
        let attempts = attempts.entry((row.arm.to_string(), row.repeat)).or_default();
        *attempts += 1;
        gives_up(row, *attempts)
    };
    rows.iter().filter(has_given_up).map(|row| row.arm.to_string()).collect()
}

impl Results {
    /// Groups rows by arm, in the order of the first repeat. Excludes arms that were left out or given up.
    pub fn new(rows: &[Row], left_out: Vec<LeftOut>) -> Self {
        let mut arms: Vec<ArmResults> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        let mut without = given_up(rows);
        without.extend(left_out.iter().map(|left_out| left_out.arm.to_string()));
        for row in rows.iter().filter(|row| row.rejected.is_none()) {
            let name = row.arm.to_string();
            if without.contains(&name) {
                continue;
            }
            let at = *index.entry(name).or_insert_with(|| {
                arms.push(ArmResults { arm: row.arm.clone(), rows: Vec::new() });
                arms.len() - 1
            });
            arms[at].rows.push(row.clone());
        }
        arms.iter_mut().for_each(|arm| arm.rows.sort_by_key(|row| row.repeat));
        Self { arms, left_out, lab: None }
    }
}
