//! Summarises each arm of a study for its results, with its ratio to the best arm of the same load.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::advice::load_of;
use crate::plan::{Arm, Metric};
use crate::rows::{ArmResults, Results, Row};
use crate::stats::{
    Estimate, SteadyState, WINDOW_ROUNDS, estimate_median, estimate_ratio, median, robust_variation, steady_state,
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
    /// I/Os per second as a share of the best arm of the same load, paired by repeat; `None` for the best arm.
    pub of_best: Option<Estimate>,
    /// Rejected runs that were repeated.
    pub rejected_runs: usize,
}

/// Every arm, grouped by load, the best of each group first.
pub fn arm_reports(results: &Results, rows: &[Row]) -> Vec<ArmReport> {
    let mut rejected: HashMap<&Arm, usize> = HashMap::new();
    for row in rows.iter().filter(|row| row.rejected.is_some()) {
        *rejected.entry(&row.arm).or_default() += 1;
    }
    let report = |arm: &ArmResults| ArmReport::new(arm, rejected.get(&arm.arm).copied().unwrap_or(0));
    let mut arms: Vec<ArmReport> = results.arms.iter().map(report).collect();
    arms.sort_by_cached_key(|arm| (load_of(&arm.arm), arm.arm.depth));
    for same_load in arms.chunk_by_mut(|a, b| does_the_same(&a.arm, &b.arm)) {
        same_load.sort_by(|a, b| b.iops.value.total_cmp(&a.iops.value));
        // Peers are compared with iolane's best arm too.
        let Some(best) = same_load.iter().position(|arm| arm.arm.peer.is_none()) else { continue };
        let iops_repeats = same_load[best].iops_repeats.clone();
        for (_, arm) in same_load.iter_mut().enumerate().filter(|(index, _)| *index != best) {
            arm.of_best = Some(estimate_ratio(&arm.iops_repeats, &iops_repeats));
        }
    }
    arms
}

fn does_the_same(a: &Arm, b: &Arm) -> bool {
    load_of(a) == load_of(b) && a.depth == b.depth
}

impl ArmReport {
    fn new(results: &ArmResults, rejected_runs: usize) -> Self {
        let values = |metric| results.values(metric);
        let middle = |metric| values(metric).map(|values| median(&values));
        let estimate = |metric| values(metric).map(|values| estimate_median(&values));
        let iops_repeats = values(Metric::Iops).unwrap_or_default();
        let latency = results.latency();
        let quantile = |at: f64| (!latency.is_empty()).then(|| latency.value_at_quantile(at));
        let window: Option<&[f64; WINDOW_ROUNDS]> = iops_repeats.last_chunk();
        Self {
            arm: results.arm.clone(),
            iops: estimate_median(&iops_repeats),
            bytes_per_s: middle(Metric::BytesPerS).unwrap_or(0.0),
            mean_ns: middle(Metric::MeanNs),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p99_9_ns: quantile(0.999),
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
            of_best: None,
            rejected_runs,
            iops_repeats,
        }
    }
}
