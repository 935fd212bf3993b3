//! The results in the record of a run: every figure over all repeats, computed from their rows.

use hdrhistogram::Histogram;
use iolane_measure::figures::RunFigure;
use iolane_measure::latencies::new_histogram;
use iolane_measure::meters::Source;
use iolane_measure::run::{RunOutcome, RunPlan};
use serde::Serialize;

use crate::plan::{Metric, Requests};
use crate::rows::ArmResults;
use crate::stats::{Estimate, estimate_median, median};

#[derive(Debug, Clone, Serialize)]
pub struct ResultRecord {
    /// Reads and writes that succeeded, over all repeats.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Reads and writes that transferred fewer bytes than requested.
    pub short: u64,
    /// With --verify: reads whose data was compared with what was written, and matched, those after the measured phase
    /// included. `None` also for writes that are not read back.
    pub verified: Option<u64>,
    /// Completed fsync and fdatasync requests.
    pub syncs: u64,
    /// With a rate: requests that were due and never started.
    pub late: u64,
    /// I/Os per second; the median of the repeats.
    pub iops: f64,
    /// Its 95 % interval; `None` with one repeat.
    pub iops_interval: Option<[f64; 2]>,
    /// I/Os per second of each repeat.
    pub iops_repeats: Vec<f64>,
    /// Bytes per second; the median of the repeats.
    pub bytes_per_s: f64,
    /// Measured seconds, over all repeats.
    pub elapsed_s: f64,
    /// Latency from a request's start to its completion.
    pub latency_ns: LatencyRecord,
    /// The same of the reads; `None` if there were none.
    pub read_latency_ns: Option<LatencyRecord>,
    /// The same of the writes; `None` if there were none.
    pub write_latency_ns: Option<LatencyRecord>,
    /// With --fsync or --fdatasync, the same of the syncs, which are not among the others.
    pub sync_latency_ns: Option<LatencyRecord>,
    /// The time from the start of a write until it is durable: until its sync ended, or with --durable until it completed
    /// itself; `None` without both.
    pub commit_latency_ns: Option<LatencyRecord>,
    /// Time to submit a request: that of the call, divided by its requests.
    pub submit_ns: SubmitRecord,
    /// CPU time.
    pub cpu: CpuRecord,
    /// System calls per I/O, by the engine's count, or the kernel's where the path cannot count its own.
    pub syscalls_per_io: Option<f64>,
    /// Voluntary and involuntary switches, without those of kernel threads.
    pub context_switches_per_io: Option<f64>,
    /// Energy over all repeats; `None` if no meter measured it.
    pub energy: Option<EnergyRecord>,
}

#[derive(Debug, Clone, Serialize)]
pub struct EnergyRecord {
    /// Joules of everything the meter covers.
    pub joules: f64,
    pub watts: f64,
    pub ios_per_joule: f64,
    /// The source of the joules, what it covers, and whether they are estimated.
    #[serde(flatten)]
    pub source: Source,
}

/// Latencies in nanoseconds; null if no request succeeded.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyRecord {
    min: Option<u64>,
    mean: Option<f64>,
    pub p50: Option<u64>,
    p90: Option<u64>,
    pub p99: Option<u64>,
    pub p99_9: Option<u64>,
    p99_99: Option<u64>,
    pub max: Option<u64>,
}

/// Submission times in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct SubmitRecord {
    pub p50: Option<u64>,
    pub p99: Option<u64>,
}

/// CPU time in seconds, over all repeats.
#[derive(Debug, Clone, Serialize)]
pub struct CpuRecord {
    user_s: Option<f64>,
    system_s: Option<f64>,
    kernel_threads_s: Option<f64>,
    kernel_workers_s: Option<f64>,
    /// CPU seconds per second, kernel threads included.
    pub cores: Option<f64>,
}

impl ResultRecord {
    pub(super) fn new(plan: &RunPlan, outcomes: &[RunOutcome], results: &ArmResults) -> Self {
        let sum = |of: fn(&RunOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let values = |metric| results.values(metric);
        let mean = |metric| values(metric).map(|values| values.iter().sum::<f64>() / values.len() as f64);
        let rates = values(Metric::Iops).unwrap_or_else(|| vec![0.0; outcomes.len()]);
        let Estimate { value, low, high } = estimate_median(&rates);
        let latency_of = |requests| results.latency_of(requests).as_ref().map(LatencyRecord::new);
        Self {
            ios: sum(|outcome| outcome.tally.ios),
            errors: sum(|outcome| outcome.tally.errors),
            short: sum(|outcome| outcome.tally.short),
            verified: plan.checks_reads().then(|| sum(|outcome| outcome.tally.verified)),
            syncs: sum(|outcome| outcome.tally.syncs.len()),
            late: sum(|outcome| outcome.tally.late),
            iops: value,
            iops_interval: (outcomes.len() > 1).then_some([low, high]),
            iops_repeats: rates,
            bytes_per_s: values(Metric::BytesPerS).map_or(0.0, |values| median(&values)),
            elapsed_s: sum(|outcome| outcome.tally.elapsed_ns()) as f64 / 1e9,
            latency_ns: LatencyRecord::new(&results.latency()),
            read_latency_ns: latency_of(Requests::Reads),
            write_latency_ns: latency_of(Requests::Writes),
            sync_latency_ns: latency_of(Requests::Syncs),
            commit_latency_ns: latency_of(Requests::Commits),
            submit_ns: SubmitRecord::new(results),
            cpu: CpuRecord::new(outcomes, results),
            syscalls_per_io: mean(Metric::SyscallsPerIo),
            context_switches_per_io: mean(Metric::ContextSwitchesPerIo),
            energy: None,
        }
    }
}

impl LatencyRecord {
    fn new(all: &Histogram<u64>) -> Self {
        let some = |value: u64| (!all.is_empty()).then_some(value);
        let quantile = |quantile: f64| some(all.value_at_quantile(quantile));
        Self {
            min: some(all.min()),
            mean: (!all.is_empty()).then(|| all.mean()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: some(all.max()),
        }
    }
}

impl SubmitRecord {
    fn new(results: &ArmResults) -> Self {
        let mut all = new_histogram();
        for row in &results.rows {
            // All histograms have the same bounds, so adding cannot fail.
            let _ = all.add(&row.submit);
        }
        let quantile = |quantile: f64| (!all.is_empty()).then(|| all.value_at_quantile(quantile));
        Self { p50: quantile(0.5), p99: quantile(0.99) }
    }
}

impl CpuRecord {
    fn new(outcomes: &[RunOutcome], results: &ArmResults) -> Self {
        let sum = |figure| results.rows.iter().map(|row| row.figures.number(figure)).sum::<Option<f64>>();
        let busy_s: Option<f64> = results.rows.iter().map(|row| row.processor_s()).sum();
        let wall_s: f64 = outcomes.iter().map(|outcome| outcome.wall_s).sum();
        Self {
            user_s: sum(RunFigure::UserS),
            system_s: sum(RunFigure::SystemS),
            kernel_threads_s: sum(RunFigure::KernelThreadsS),
            kernel_workers_s: sum(RunFigure::KernelWorkersS),
            cores: busy_s.filter(|_| wall_s > 0.0).map(|busy_s| busy_s / wall_s),
        }
    }
}
