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

/// The rows with which arms were given up, one of each.
pub fn given_up(rows: &[Row]) -> Vec<&Row> {
    let mut attempts: HashMap<(String, u32), u32> = HashMap::new();
    let mut names: HashSet<String> = HashSet::new();
    let has_given_up = |row: &&Row| {
        let name = row.arm.to_string();
        let attempts = attempts.entry((name.clone(), row.repeat)).or_default();
        *attempts += 1;
        gives_up(row, *attempts) && names.insert(name)
    };
    rows.iter().filter(has_given_up).collect()
}

impl Results {
    /// Groups rows by arm, in the order of the first repeat. Excludes arms that were left out or given up.
    pub fn new(rows: &[Row], left_out: Vec<LeftOut>) -> Self {
        Self::of_looks(rows, left_out, u32::MAX)
    }

    /// The same, if every arm has the repeats before `further`, and some have more. An arm that was given up in one of those keeps the
    /// repeats before it, so that what they decided stands.
    pub fn of_looks(rows: &[Row], left_out: Vec<LeftOut>, further: u32) -> Self {
        let mut arms: Vec<ArmResults> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        let given_up = given_up(rows).into_iter();
        let first_without = |row: &Row| if row.repeat < further { 0 } else { row.repeat };
        let mut without: HashMap<String, u32> = given_up.map(|row| (row.arm.to_string(), first_without(row))).collect();
        without.extend(left_out.iter().map(|left_out| (left_out.arm.to_string(), 0)));
        for row in rows.iter().filter(|row| row.rejected.is_none()) {
            let name = row.arm.to_string();
            if without.get(&name).is_some_and(|first| row.repeat >= *first) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An arm with a valid run in each of these repeats, given up in the repeat after them.
    fn given_up_after(repeats: u32) -> Vec<Row> {
        let run = |repeat, rejected: Option<&str>| Row {
            rejected: rejected.map(str::to_owned),
            ..Row::new(Arm::of_null("arm"), repeat)
        };
        let rejected = (0..=RETRIES).map(|_| run(repeats, Some("it stalled")));
        (0..repeats).map(|repeat| run(repeat, None)).chain(rejected).collect()
    }

    #[test]
    fn an_arm_that_is_given_up_has_no_results_unless_that_was_in_a_later_look() {
        let repeats_left = |rows: &[Row]| {
            let results = Results::of_looks(rows, Vec::new(), 5);
            results.arms.first().map_or(0, |arm| arm.rows.len())
        };
        assert_eq!(repeats_left(&given_up_after(4)), 0);
        assert_eq!(repeats_left(&given_up_after(5)), 5);
        assert_eq!(repeats_left(&given_up_after(8)), 8);
        assert!(Results::new(&given_up_after(8), Vec::new()).arms.is_empty());
    }
}
