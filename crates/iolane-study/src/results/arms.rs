//! Summarises each arm of a study for its results, with its ratio to the best arm of the same load.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::format::times;
use crate::plan::{Arm, Metric, Requests};
use crate::rows::{ArmResults, Results, Row};
use crate::stats::{
    Estimate, SteadyState, TAIL, WINDOW_ROUNDS, estimate_median, estimate_ratio_at, median, robust_variation,
    steady_state,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    #[serde(flatten)]
    pub arm: Arm,
    /// I/Os per second, the median of the repeats.
    pub iops: Estimate,
    /// I/Os per second of each repeat.
    pub iops_repeats: Vec<f64>,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean latency in nanoseconds, the median of the repeats.
    pub mean_ns: Option<f64>,
    /// Median latency in nanoseconds, over all repeats; `None` where a peer does not report it.
    pub p50_ns: Option<u64>,
    /// 99th percentile of latency in nanoseconds.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile of latency in nanoseconds.
    pub p99_9_ns: Option<u64>,
    /// The 99th percentile of the reads; `None` if there are none, or a peer does not tell them apart.
    #[serde(default)]
    pub read_p99_ns: Option<u64>,
    /// The same of the writes.
    #[serde(default)]
    pub write_p99_ns: Option<u64>,
    /// Median time of fsync and fdatasync; `None` without them.
    #[serde(default)]
    pub sync_p50_ns: Option<u64>,
    /// Its 99th percentile.
    #[serde(default)]
    pub sync_p99_ns: Option<u64>,
    /// Median time from the start of a write until it is durable; `None` if no write is made durable.
    #[serde(default)]
    pub commit_p50_ns: Option<u64>,
    /// Its 99th percentile.
    #[serde(default)]
    pub commit_p99_ns: Option<u64>,
    /// Median time to submit a batch, in nanoseconds.
    pub submit_p50_ns: Option<f64>,
    /// CPU seconds per second, kernel threads included.
    pub cores_used: Option<f64>,
    /// System calls per I/O.
    pub syscalls_per_io: Option<f64>,
    /// Mean power of everything the meter covers.
    pub watts: Option<Estimate>,
    /// Mean power above idle.
    pub watts_above_idle: Option<Estimate>,
    /// I/Os per joule of everything the meter covers.
    pub ios_per_joule: Option<Estimate>,
    /// I/Os per joule above idle.
    pub ios_per_joule_above_idle: Option<Estimate>,
    /// CPU seconds per million I/Os: the substitute for energy when there is no meter.
    pub cpu_s_per_million_ios: Option<Estimate>,
    /// Spread of the repeats as a share of their median (1.4826 times the median absolute deviation).
    pub noise: Option<f64>,
    /// Whether the repeats are in a steady state (SNIA PTS); `None` with fewer than five.
    pub steady: Option<SteadyState>,
    /// The metric that ranks it among arms of the same load and depth: IOPS, or p99 at a rate.
    pub ranked_by: Metric,
    /// Whether it is iolane's own best arm of its load and depth.
    pub best: bool,
    /// How good it is beside the best arm, paired by repeat: 0.5 for half its IOPS, or at a rate for twice its p99. The 95 % of its
    /// interval are of all pairs of arms of the load and depth together. `None` for the best arm, and where the metric is
    /// unavailable.
    pub of_best: Option<Estimate>,
    /// Whether it reached its rate; `None` without a rate.
    pub keeps_rate: Option<bool>,
    /// Rejected runs that were repeated.
    pub rejected_runs: usize,
}

/// Every arm, grouped by load and depth, the best of each group first; those that miss their rate last.
pub fn arm_reports(results: &Results, rows: &[Row]) -> Vec<ArmReport> {
    let mut rejected: HashMap<&Arm, usize> = HashMap::new();
    for row in rows.iter().filter(|row| row.rejected.is_some()) {
        *rejected.entry(&row.arm).or_default() += 1;
    }
    let mut arms: Vec<&ArmResults> = results.arms.iter().collect();
    arms.sort_by_cached_key(|arm| (arm.arm.load_key(), arm.arm.workload.depth));
    let mut reports = Vec::new();
    for same_load in arms.chunk_by(|a, b| a.arm.competes_with(&b.arm)) {
        let mut ranked: Vec<Ranked<'_>> = same_load.iter().map(|arm| Ranked::new(arm)).collect();
        ranked.sort_by(Ranked::best_first);
        // Peers are compared with iolane's best arm too.
        let best = ranked.iter().position(|ranked| ranked.arm.arm.peer.is_none());
        // The best was chosen among all: one of several that are equal, in the repeats that favour it.
        let tail = TAIL / pairs(ranked.len());
        for (place, Ranked { arm, keeps_rate, merit }) in ranked.iter().enumerate() {
            let of_best = best
                .filter(|best| *best != place)
                .and_then(|best| Some(estimate_ratio_at(merit.as_ref()?, ranked[best].merit.as_ref()?, tail)));
            reports.push(ArmReport {
                best: best == Some(place),
                of_best,
                keeps_rate: *keeps_rate,
                ..ArmReport::new(arm, rejected.get(&arm.arm).copied().unwrap_or(0))
            });
        }
    }
    reports
}

/// The number of pairs among this many arms, at least 1.
fn pairs(arms: usize) -> f64 {
    (arms * arms.saturating_sub(1) / 2).max(1) as f64
}

/// An arm with what ranks it.
struct Ranked<'a> {
    arm: &'a ArmResults,
    keeps_rate: Option<bool>,
    /// More is better, in each repeat: IOPS, or the inverse of p99. `None` if unavailable.
    merit: Option<Vec<f64>>,
}

impl<'a> Ranked<'a> {
    fn new(arm: &'a ArmResults) -> Self {
        let metric = arm.arm.ranked_by();
        let merit = |value: f64| if metric.is_latency() { 1.0 / value.max(1.0) } else { value };
        let merit = arm.values(metric).map(|values| values.into_iter().map(merit).collect());
        Self { arm, keeps_rate: arm.keeps_rate(), merit }
    }

    fn best_first(&self, other: &Self) -> std::cmp::Ordering {
        let misses = |ranked: &Self| ranked.keeps_rate == Some(false);
        let merit = |ranked: &Self| ranked.merit.as_deref().map_or(f64::NEG_INFINITY, median);
        misses(self).cmp(&misses(other)).then(merit(other).total_cmp(&merit(self)))
    }
}

impl ArmReport {
    /// Whether it has syncs, and commits that are no single writes.
    pub fn has_syncs(&self) -> bool {
        self.sync_p99_ns.is_some()
    }

    /// Its place beside the best arm: `best`, `0.85x`, `~0.98x` if no difference is shown, `misses rate`, or `-` with one repeat.
    pub fn standing(&self) -> String {
        match (self.keeps_rate, self.of_best) {
            (Some(false), _) => "misses rate".into(),
            // One repeat has no interval, so that nothing is shown.
            _ if self.iops_repeats.len() < 2 => "-".into(),
            _ if self.best => "best".into(),
            (_, None) => "unavailable".into(),
            (_, Some(ratio)) => times(ratio),
        }
    }

    fn new(results: &ArmResults, rejected_runs: usize) -> Self {
        let values = |metric| results.values(metric);
        let middle = |metric| values(metric).map(|values| median(&values));
        let estimate = |metric| values(metric).map(|values| estimate_median(&values));
        let iops_repeats = values(Metric::Iops).unwrap_or_default();
        let latency = results.latency();
        let quantile = |at: f64| (!latency.is_empty()).then(|| latency.value_at_quantile(at));
        let quantile_of = |requests, at| Some(results.latency_of(requests)?.value_at_quantile(at));
        let window: Option<&[f64; WINDOW_ROUNDS]> = iops_repeats.last_chunk();
        Self {
            arm: results.arm.clone(),
            iops: estimate_median(&iops_repeats),
            bytes_per_s: middle(Metric::BytesPerS).unwrap_or(0.0),
            mean_ns: middle(Metric::MeanNs),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p99_9_ns: quantile(0.999),
            read_p99_ns: quantile_of(Requests::Reads, 0.99),
            write_p99_ns: quantile_of(Requests::Writes, 0.99),
            sync_p50_ns: quantile_of(Requests::Syncs, 0.5),
            sync_p99_ns: quantile_of(Requests::Syncs, 0.99),
            commit_p50_ns: quantile_of(Requests::Commits, 0.5),
            commit_p99_ns: quantile_of(Requests::Commits, 0.99),
            submit_p50_ns: middle(Metric::SubmitP50Ns),
            cores_used: middle(Metric::Cores),
            syscalls_per_io: middle(Metric::SyscallsPerIo),
            watts: estimate(Metric::Watts),
            watts_above_idle: estimate(Metric::WattsAboveIdle),
            ios_per_joule: estimate(Metric::IosPerJoule),
            ios_per_joule_above_idle: estimate(Metric::IosPerJouleAboveIdle),
            cpu_s_per_million_ios: estimate(Metric::CpuSPerMillionIos),
            noise: robust_variation(&iops_repeats),
            steady: window.map(steady_state),
            ranked_by: results.arm.ranked_by(),
            best: false,
            of_best: None,
            keeps_rate: None,
            rejected_runs,
            iops_repeats,
        }
    }
}

#[cfg(test)]
mod tests {
    use iolane_measure::workload::random_stream;

    use super::*;
    use crate::stats::disturbance;
    use iolane_measure::workload::Access;

    /// Three runs of an arm with this p99 in each, in nanoseconds.
    fn rows(name: &str, rate: Option<&str>, iops: u64, p99_ns: [u64; 3]) -> Vec<Row> {
        let mut arm = Arm::of_null(name);
        arm.workload.rate = rate.map(|rate| rate.parse().unwrap());
        let row = |(repeat, p99_ns): (usize, u64)| {
            let mut row = Row { ios: iops, elapsed_s: 1.0, ..Row::new(arm.clone(), repeat as u32) };
            row.latency.record(p99_ns).unwrap();
            row
        };
        p99_ns.into_iter().enumerate().map(row).collect()
    }

    fn standings(rows: &[Row]) -> Vec<(String, String)> {
        let reports = arm_reports(&Results::new(rows, Vec::new()), rows);
        reports.iter().map(|report| (report.arm.name.clone(), report.standing())).collect()
    }

    fn names_and_standings(rows: &[Vec<Row>]) -> String {
        let standings = standings(&rows.concat());
        standings.iter().map(|(name, standing)| format!("{name} {standing}, ")).collect()
    }

    #[test]
    fn without_a_rate_arms_are_ranked_by_iops() {
        let rows = [rows("few", None, 50, [1; 3]), rows("many", None, 100, [9; 3])];
        assert_eq!(names_and_standings(&rows), "many best, few 0.5x, ");
    }

    #[test]
    fn at_a_rate_arms_are_ranked_by_p99_and_those_that_miss_it_come_last() {
        let rows = [
            rows("late", Some("100"), 90, [1; 3]),
            rows("slow", Some("100"), 100, [2000; 3]),
            rows("fast", Some("100"), 99, [1000; 3]),
            rows("like", Some("100"), 100, [900, 1100, 1000]),
        ];
        assert_eq!(names_and_standings(&rows), "fast best, like ~1x, slow 0.5x, late misses rate, ");
    }

    #[test]
    fn an_arm_without_latencies_has_no_place_at_a_rate() {
        let mut silent = rows("silent", Some("100"), 100, [1; 3]);
        silent.iter_mut().for_each(|row| row.latency.reset());
        let rows = [silent, rows("fast", Some("100"), 100, [1000; 3])];
        assert_eq!(names_and_standings(&rows), "fast best, silent unavailable, ");
    }

    #[test]
    fn of_equal_arms_hardly_one_is_shown_to_differ_from_the_best() {
        const CASES: u32 = 300;
        for (arms, repeats) in [(16, 5), (16, 9), (4, 5)] {
            let shown = |case: &u32| {
                let mut random = random_stream(u64::from(*case), arms);
                let row = |(arm, repeat)| Row {
                    ios: (1e6 * disturbance(&mut random, 0.1)) as u64,
                    elapsed_s: 1.0,
                    ..Row::new(Arm::of_null(&format!("arm {arm}")), repeat)
                };
                let runs = (0..arms).flat_map(|arm| (0..repeats).map(move |repeat| (arm, repeat)));
                let rows: Vec<Row> = runs.map(row).collect();
                let reports = arm_reports(&Results::new(&rows, Vec::new()), &rows);
                reports.iter().any(|report| report.of_best.is_some_and(|ratio| ratio.shows_difference()))
            };
            let wrong = (0..CASES).filter(shown).count();
            assert!(wrong * 100 <= 6 * CASES as usize, "{arms} arms, {repeats} repeats: {wrong} of {CASES}");
        }
    }

    #[test]
    fn one_repeat_has_no_standing() {
        let rows = [rows("a", None, 100, [1; 3]), rows("b", None, 50, [1; 3])].concat();
        let first: Vec<Row> = rows.into_iter().filter(|row| row.repeat == 0).collect();
        assert_eq!(names_and_standings(&[first]), "a -, b -, ");
    }

    #[test]
    fn a_load_of_one_kind_has_the_latency_of_that_kind() {
        let p99s = |access| {
            let mut rows = rows("a", None, 100, [5000; 3]);
            rows.iter_mut().for_each(|row| row.arm.workload.access = access);
            let report = arm_reports(&Results::new(&rows, Vec::new()), &rows).remove(0);
            [report.read_p99_ns, report.write_p99_ns, report.sync_p99_ns].map(|p99_ns| p99_ns.is_some())
        };
        assert_eq!(p99s(Access::RandRead), [true, false, false]);
        assert_eq!(p99s(Access::Write), [false, true, false]);
    }

    #[test]
    fn a_commit_is_what_a_sync_completes_and_without_syncs_a_durable_write() {
        let commits = |durable, fdatasync_every| {
            let mut rows = rows("a", None, 100, [5000; 3]);
            for row in &mut rows {
                let load = &mut row.arm.workload;
                (load.access, load.durable, load.fdatasync_every) = (Access::Write, durable, fdatasync_every);
                if fdatasync_every.is_some() {
                    row.commits.record(9000).unwrap();
                }
            }
            arm_reports(&Results::new(&rows, Vec::new()), &rows).remove(0).commit_p99_ns.map(|ns| ns / 1000)
        };
        assert_eq!([commits(false, None), commits(true, None)], [None, Some(5)]);
        assert_eq!([commits(false, Some(1)), commits(true, Some(1))], [Some(9), Some(9)]);
    }

    #[test]
    fn rates_are_in_their_order_as_numbers() {
        let rows = [rows("a", Some("1k"), 1000, [1; 3]), rows("a", Some("500"), 500, [1; 3])].concat();
        let reports = arm_reports(&Results::new(&rows, Vec::new()), &rows);
        let rates: Vec<f64> = reports.iter().filter_map(|report| Some(report.arm.workload.rate?.per_s())).collect();
        assert_eq!(rates, [500.0, 1000.0]);
    }
}
