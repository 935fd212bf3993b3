//! The document of a run: schema `iolane.run/1`, as DESIGN gives it and `docs/schema/run.json` describes it.
//! Made from what `run` measured; a figure that could not be had is null, and its source says why.

mod telemetry;

use serde::Serialize;

use crate::energy::Source;
use crate::records::UNAVAILABLE;
use crate::run::{RunOutcome, RunPlan};
use crate::stats::{Estimate, estimate_median, median};
use crate::telemetry::{DeviceHost, FAST_CLOCKS, Host, Reading, Unavailable};

pub use telemetry::TelemetryRecord;

/// One run of one arm, or of its repeats.
#[derive(Debug, Clone, Serialize)]
pub struct RunRecord {
    schema: &'static str,
    /// The name of the job, if it was one of a job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The path, in its one notation.
    pub path: String,
    /// The first target.
    pub target: TargetRecord,
    /// All targets, if there are more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetRecord>,
    /// What was asked for.
    pub workload: WorkloadRecord,
    /// What was measured.
    pub result: ResultRecord,
    /// What it cost, each figure with its source or why it could not be had.
    pub telemetry: TelemetryRecord,
    /// How the path showed that it did what its name says.
    pub proof: ProofRecord,
    /// The machine.
    pub host: HostRecord,
    /// What a reader should know before believing the figures.
    pub warnings: Vec<String>,
}

/// The machine, and the device behind the first target.
#[derive(Debug, Clone, Serialize)]
pub struct HostRecord {
    #[serde(flatten)]
    host: Host,
    device: Option<DeviceHost>,
}

impl HostRecord {
    /// Reads what the machine tells of itself and of the target's device.
    pub fn gather(target: Option<&iolane::Target>) -> Self {
        Self { host: Host::gather(), device: target.and_then(DeviceHost::gather) }
    }
}

/// A target in a record.
#[derive(Debug, Clone, Serialize)]
pub struct TargetRecord {
    kind: &'static str,
    name: String,
    bytes: u64,
    block_bytes: u32,
    direct: bool,
}

/// A workload in a record.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadRecord {
    rw: &'static str,
    /// The block size in bytes; the largest if there are several.
    block_bytes: u32,
    block_sizes: String,
    offsets: String,
    read_percent: u8,
    depth: u32,
    batch: Option<u32>,
    threads: usize,
    cpus: Option<String>,
    spoll_cpus: Option<String>,
    rate: Option<f64>,
    think_us: Option<u64>,
    fsync_every: Option<u32>,
    verify: bool,
    size_bytes: Option<u64>,
    bytes_max: Option<u64>,
    runtime_s: f64,
    warmup_s: f64,
    repeats: usize,
    seed: u64,
}

/// The figures of a record.
#[derive(Debug, Clone, Serialize)]
pub struct ResultRecord {
    /// Reads and writes that ended well, over all repeats.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Reads and writes that moved less than was asked for.
    pub short: u64,
    /// With --verify: reads that were compared with what had been written, and found to be it.
    pub verified: Option<u64>,
    /// fsync requests.
    pub syncs: u64,
    /// With a rate: requests that were due and never began.
    pub late: u64,
    /// I/Os per second; the median of the repeats.
    pub iops: f64,
    /// Its 95 % interval, with two repeats or more.
    pub iops_interval: Option<[f64; 2]>,
    /// The repeats' own.
    pub iops_repeats: Vec<f64>,
    /// Bytes per second; the median of the repeats.
    pub bytes_per_s: f64,
    /// Seconds measured, over all repeats.
    pub elapsed_s: f64,
    /// From a request's start to its completion.
    pub latency_ns: LatencyRecord,
    /// How long handing a batch over took.
    pub submit_ns: SubmitRecord,
    /// Processor time.
    pub cpu: CpuRecord,
    /// The engine's own count, or the kernel's where the path cannot count its own.
    pub syscalls_per_io: Option<f64>,
    /// Voluntary and not, kernel threads left out.
    pub context_switches_per_io: Option<f64>,
    /// Joules, over all repeats; `None` if no meter could tell them.
    pub energy: Option<EnergyRecord>,
}

/// Energy, over all repeats.
#[derive(Debug, Clone, Serialize)]
pub struct EnergyRecord {
    /// Joules of all that the meter sees.
    pub joules: f64,
    /// Watts.
    pub watts: f64,
    /// I/Os per joule.
    pub ios_per_joule: f64,
    /// Who tells the joules, of what, and whether they are worked out.
    #[serde(flatten)]
    pub source: Source,
}

/// Latencies in nanoseconds; null if nothing ended well.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyRecord {
    min: Option<u64>,
    mean: Option<f64>,
    /// The median.
    pub p50: Option<u64>,
    p90: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p99_9: Option<u64>,
    p99_99: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
}

/// Submission latencies in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct SubmitRecord {
    /// The median.
    pub p50: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
}

/// Processor time in seconds, over all repeats.
#[derive(Debug, Clone, Serialize)]
pub struct CpuRecord {
    user_s: Option<f64>,
    system_s: Option<f64>,
    kernel_threads_s: Option<f64>,
    /// Processor seconds per second, kernel threads included.
    pub cores: Option<f64>,
}

/// The proof of a path.
#[derive(Debug, Clone, Serialize)]
pub struct ProofRecord {
    /// Whether completions were polled for.
    polled: bool,
    /// What the kernel's tracepoint counted in the proof's slice.
    syscalls_seen: Option<u64>,
    /// What the engine counted meanwhile.
    syscalls_counted: Option<u64>,
    /// I/Os of the slice.
    ios: u64,
}

/// The engine's count and the kernel's may differ by this share before it is worth a warning: a signal, a fault.
const SYSCALL_DIFFERENCE_MAX: f64 = 0.01;
/// A polled path may see this many interrupts per I/O, of other users of the device, before it is worth a warning.
const POLLED_INTERRUPTS_MAX: f64 = 0.1;

impl RunRecord {
    /// The record of an arm that ran once or more, in the order it ran.
    ///
    /// `None` if it did not run at all.
    pub fn new(plan: &RunPlan, outcomes: &[RunOutcome], host: HostRecord) -> Option<Self> {
        let first = outcomes.first()?;
        let targets: Vec<TargetRecord> = plan.targets.iter().map(TargetRecord::new).collect();
        Some(Self {
            schema: "iolane.run/1",
            job: None,
            path: plan.path.to_string(),
            target: targets.first()?.clone(),
            targets: if targets.len() > 1 { targets } else { Vec::new() },
            workload: WorkloadRecord::new(plan, outcomes.len()),
            result: ResultRecord::new(plan, outcomes),
            telemetry: TelemetryRecord::new(outcomes),
            proof: ProofRecord {
                // Opening a polled ring on a target without poll queues is refused, so a run of one has polled.
                polled: plan.path.polls_completions(),
                syscalls_seen: first.trace.kernel.as_ref().ok().copied(),
                syscalls_counted: first.trace.engine,
                ios: first.trace.ios,
            },
            host,
            warnings: warnings(plan, outcomes),
        })
    }
}

impl RunRecord {
    /// Adds what a meter told of each repeat, or why it could not.
    pub fn set_energy(&mut self, joules: &[Reading<f64>], source: &Source) {
        let sum: Reading<f64> = joules.iter().map(|joules| joules.as_ref().map_err(Clone::clone)).sum();
        match sum {
            Ok(joules) if joules > 0.0 && self.result.elapsed_s > 0.0 => {
                let (ios, elapsed_s) = (self.result.ios as f64, self.result.elapsed_s);
                let (watts, ios_per_joule) = (joules / elapsed_s, ios / joules);
                self.result.energy = Some(EnergyRecord { joules, watts, ios_per_joule, source: source.clone() });
                self.telemetry.set_joules(Some(joules), source.to_string());
            }
            Ok(_) => self.set_no_energy(&Unavailable::new("nothing was measured")),
            Err(why) => self.set_no_energy(&why),
        }
    }

    /// Says why there is no energy.
    pub fn set_no_energy(&mut self, why: &Unavailable) {
        self.telemetry.set_joules(None, format!("{UNAVAILABLE}{why}"));
    }
}

impl TargetRecord {
    /// What a record says of a target.
    pub fn new(target: &iolane::Target) -> Self {
        Self {
            kind: target.kind().name(),
            name: target.name().into(),
            bytes: target.bytes(),
            block_bytes: target.block_bytes(),
            direct: target.direct(),
        }
    }
}

impl WorkloadRecord {
    fn new(plan: &RunPlan, repeats: usize) -> Self {
        let workload = &plan.workload;
        Self {
            rw: workload.access.name(),
            block_bytes: workload.block_sizes.max(),
            block_sizes: workload.block_sizes.to_string(),
            offsets: workload.offsets.to_string(),
            read_percent: workload.read_percent(),
            depth: workload.depth,
            batch: workload.batch,
            threads: plan.threads,
            cpus: plan.placement.cpus.as_ref().map(ToString::to_string),
            spoll_cpus: plan.placement.spoll_cpus.as_ref().map(ToString::to_string),
            rate: workload.rate,
            think_us: workload.think_us,
            fsync_every: workload.fsync_every,
            verify: workload.verify,
            size_bytes: workload.size,
            bytes_max: workload.bytes_max,
            runtime_s: plan.runtime.as_secs_f64(),
            warmup_s: plan.warmup.as_secs_f64(),
            repeats,
            seed: workload.seed,
        }
    }
}

/// I/Os per second of one run.
pub fn iops(outcome: &RunOutcome) -> f64 {
    per_second(outcome.tally.ios, outcome)
}

fn per_second(count: u64, outcome: &RunOutcome) -> f64 {
    if outcome.tally.elapsed_ns() == 0 { 0.0 } else { count as f64 * 1e9 / outcome.tally.elapsed_ns() as f64 }
}

/// Processor seconds per second of one run, kernel threads included; `None` where they cannot be counted.
pub fn cores(outcome: &RunOutcome) -> Option<f64> {
    let cpu = outcome.telemetry.cpu.as_ref().ok()?;
    let kernel_threads_s = cpu.kernel_threads_s.as_ref().ok().copied().unwrap_or(0.0);
    (outcome.wall_s > 0.0).then(|| (cpu.user_s + cpu.system_s + kernel_threads_s) / outcome.wall_s)
}

/// System calls per I/O of one run: the engine's count over the measured phase, or the kernel's over the proof's slice
/// where the path cannot count its own. `None` if neither can be had.
pub fn syscalls_per_io(outcome: &RunOutcome) -> Option<f64> {
    let per_io = |count: u64, ios: u64| (ios > 0).then(|| count as f64 / ios as f64);
    match (outcome.tally.syscalls, &outcome.trace.kernel) {
        (Some(counted), _) => per_io(counted, outcome.tally.ios),
        (None, Ok(seen)) => per_io(*seen, outcome.trace.ios),
        (None, Err(_)) => None,
    }
}

impl ResultRecord {
    fn new(plan: &RunPlan, outcomes: &[RunOutcome]) -> Self {
        let sum = |of: fn(&RunOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let rates: Vec<f64> = outcomes.iter().map(iops).collect();
        let Estimate { value, low, high } = estimate_median(&rates);
        let bytes_per_s: Vec<f64> = outcomes.iter().map(|outcome| per_second(outcome.tally.bytes, outcome)).collect();
        let mean = |values: Vec<Option<f64>>| -> Option<f64> {
            let count = values.len() as f64;
            values.into_iter().sum::<Option<f64>>().map(|sum| sum / count)
        };
        let switches = outcomes.iter().map(|outcome| {
            let switches = outcome.telemetry.cpu.as_ref().ok()?.context_switches;
            (outcome.tally.ios > 0).then(|| switches as f64 / outcome.tally.ios as f64)
        });
        Self {
            ios: sum(|outcome| outcome.tally.ios),
            errors: sum(|outcome| outcome.tally.errors),
            short: sum(|outcome| outcome.tally.short),
            verified: plan.workload.verify.then(|| sum(|outcome| outcome.tally.verified)),
            syncs: sum(|outcome| outcome.tally.syncs),
            late: sum(|outcome| outcome.tally.late),
            iops: value,
            iops_interval: (outcomes.len() > 1).then_some([low, high]),
            iops_repeats: rates,
            bytes_per_s: median(&bytes_per_s),
            elapsed_s: sum(|outcome| outcome.tally.elapsed_ns()) as f64 / 1e9,
            latency_ns: LatencyRecord::new(outcomes),
            submit_ns: SubmitRecord::new(outcomes),
            cpu: CpuRecord::new(outcomes),
            syscalls_per_io: mean(outcomes.iter().map(syscalls_per_io).collect()),
            context_switches_per_io: mean(switches.collect()),
            energy: None,
        }
    }
}

/// All runs' latencies in one histogram.
pub fn merged_latency(outcomes: &[RunOutcome]) -> hdrhistogram::Histogram<u64> {
    let mut all = crate::latencies::new_histogram();
    for outcome in outcomes {
        let _ = all.add(&outcome.tally.latency);
    }
    all
}

impl LatencyRecord {
    fn new(outcomes: &[RunOutcome]) -> Self {
        let all = merged_latency(outcomes);
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
    fn new(outcomes: &[RunOutcome]) -> Self {
        let mut all = crate::latencies::new_histogram();
        for outcome in outcomes {
            let _ = all.add(&outcome.submit);
        }
        let quantile = |quantile: f64| (!all.is_empty()).then(|| all.value_at_quantile(quantile));
        Self { p50: quantile(0.5), p99: quantile(0.99) }
    }
}

impl CpuRecord {
    fn new(outcomes: &[RunOutcome]) -> Self {
        let sum = |of: fn(&crate::telemetry::CpuUse) -> Option<f64>| -> Option<f64> {
            outcomes.iter().map(|outcome| of(outcome.telemetry.cpu.as_ref().ok()?)).sum()
        };
        let wall_s: f64 = outcomes.iter().map(|outcome| outcome.wall_s).sum();
        let busy_s: Option<f64> = outcomes.iter().map(|outcome| Some(cores(outcome)? * outcome.wall_s)).sum();
        Self {
            user_s: sum(|cpu| Some(cpu.user_s)),
            system_s: sum(|cpu| Some(cpu.system_s)),
            kernel_threads_s: sum(|cpu| cpu.kernel_threads_s.as_ref().ok().copied()),
            cores: busy_s.filter(|_| wall_s > 0.0).map(|busy_s| busy_s / wall_s),
        }
    }
}

/// What a reader should know before believing the figures, each said once however many repeats show it.
fn warnings(plan: &RunPlan, outcomes: &[RunOutcome]) -> Vec<String> {
    let mut all = Vec::new();
    for warning in outcomes.iter().flat_map(|outcome| outcome_warnings(plan, outcome)) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    all
}

pub(crate) fn outcome_warnings(plan: &RunPlan, outcome: &RunOutcome) -> Vec<String> {
    let mut warnings: Vec<String> = outcome.capabilities.note.iter().cloned().collect();
    let tally = &outcome.tally;
    if let Some(first) = &tally.first_error {
        warnings.push(format!("{} requests failed; the first: {first}", tally.errors));
    }
    if tally.short > 0 {
        warnings.push(format!("{} requests moved less than was asked for", tally.short));
    }
    // The last few before the end are always on their way.
    let late_max = plan.workload.depth as f64 + tally.ios as f64 / 100.0;
    if tally.late as f64 > late_max && !outcome.interrupted {
        warnings.push(format!(
            "the target did not keep up with the rate: {} requests that were due never began",
            tally.late
        ));
    }
    if outcome.interrupted {
        warnings.push("interrupted: the figures are of the time until then".into());
    }
    if plan.workload.rate.is_some() {
        warnings.push(
            "with a rate the engine looks for completions all the time; cores and system calls count that".into(),
        );
    }
    if plan.targets.iter().any(iolane::Target::has_unwritten_parts) && plan.workload.access.reads() {
        warnings.push(
            "parts of the file were never written, and reads of them do not reach the device: the figures are of the file \
             system's answer (write it whole first, or leave --target out)"
                .into(),
        );
    }
    warnings.extend(syscalls_warning(outcome));
    warnings.extend(polling_warning(plan, outcome));
    warnings.extend(spoll_warning(plan, outcome));
    warnings
}

/// That the two counts of system calls differ, if they do.
fn syscalls_warning(outcome: &RunOutcome) -> Option<String> {
    let trace = &outcome.trace;
    let (seen, counted) = (*trace.kernel.as_ref().ok()?, trace.engine?);
    let differs = seen.abs_diff(counted) as f64 > (trace.ios as f64 * SYSCALL_DIFFERENCE_MAX).max(16.0);
    differs.then(|| {
        let clock = slow_clock().map(|clock| format!(": reading the clock ({clock}) takes one on this machine"));
        let clock = clock.unwrap_or_default();
        format!("the kernel saw {seen} system calls where the engine counted {counted}{clock}")
    })
}

/// Where the system calls per I/O are from.
pub(crate) fn syscalls_source(outcome: &RunOutcome) -> String {
    match (outcome.tally.syscalls, &outcome.trace.kernel) {
        (Some(_), Ok(_)) => "the engine's count; the kernel's tracepoint counted a slice beside it".into(),
        (Some(_), Err(unavailable)) => format!("the engine's count; the kernel's cannot be had: {unavailable}"),
        (None, Ok(_)) => "the kernel's tracepoint, in a slice before the measurement".into(),
        (None, Err(unavailable)) => format!("{UNAVAILABLE}{unavailable}"),
    }
}

/// That a device interrupted where it should have been polled.
fn polling_warning(plan: &RunPlan, outcome: &RunOutcome) -> Option<String> {
    let interrupts = outcome.telemetry.device_interrupts.filter(|_| plan.path.polls_completions())?;
    (interrupts as f64 > outcome.tally.ios as f64 * POLLED_INTERRUPTS_MAX).then(|| {
        format!(
            "the device raised {interrupts} interrupts during {} I/Os that were polled for: others use it too, or some \
             were not polled",
            outcome.tally.ios
        )
    })
}

/// The kernel's clock source, if a program cannot read it without a system call (vdso(7)).
fn slow_clock() -> Option<String> {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok()?;
    let source = source.trim();
    (!FAST_CLOCKS.contains(&source)).then(|| source.to_owned())
}

/// A submission thread is worth its name if the path made no system calls, which it does to wake the thread.
fn spoll_warning(plan: &RunPlan, outcome: &RunOutcome) -> Option<String> {
    let per_io = syscalls_per_io(outcome)?;
    (plan.path.polls_submissions() && per_io > 0.01).then(|| {
        format!(
            "the submission thread went to sleep and was woken: {per_io:.3} system calls per I/O; set sqidle longer"
        )
    })
}
