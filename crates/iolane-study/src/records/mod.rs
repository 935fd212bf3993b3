//! What a study measured: a row for each run, and rows gathered into arms. Everything a study shows or decides is made
//! from these, and from nothing else.

mod histogram;
pub mod journal;
pub mod parquet;

use std::collections::{BTreeMap, HashMap, HashSet};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::plan::{Arm, Metric};

/// Processor time of one thread of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Its name: `iolane-0` is the first of the run's own, `iou-sqp` a submission thread of the kernel.
    pub name: String,
    /// Processor seconds.
    pub cpu_s: f64,
}

/// What [`Row::sources`] says before the reason of a figure that could not be had.
pub const UNAVAILABLE: &str = "unavailable: ";

/// One run of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The arm.
    pub arm: Arm,
    /// What was read and written, names separated by commas.
    pub targets: String,
    /// The cpus its threads were pinned to, as a list; the scheduler's choice if `None`.
    pub cpus: Option<String>,
    /// The cpus its submission threads were pinned to.
    pub spoll_cpus: Option<String>,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Which attempt at this repeat, from 0.
    pub attempt: u32,
    /// Why the run is worth nothing; it is kept, and used in no figure.
    pub worthless: Option<String>,
    /// When it began, in seconds since 1970.
    pub started_unix_s: f64,
    /// Seconds from the first request's start to the last one's end.
    pub elapsed_s: f64,
    /// Reads and writes that ended well.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Mean latency in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Latencies in nanoseconds; empty where a peer tells none.
    #[serde(with = "histogram")]
    pub latency: Histogram<u64>,
    /// Times to hand a batch over, in nanoseconds, from a slice before the measured phase.
    #[serde(with = "histogram")]
    pub submit: Histogram<u64>,
    /// Processor seconds in user space.
    pub user_s: Option<f64>,
    /// Processor seconds in the kernel.
    pub system_s: Option<f64>,
    /// Processor seconds of kernel threads that worked for it.
    pub kernel_threads_s: Option<f64>,
    /// Processor seconds of each thread that worked for it.
    pub threads: Vec<ThreadUse>,
    /// Seconds that all processors spent in interrupts meanwhile, whoever they were for.
    pub interrupt_s: Option<f64>,
    /// Interrupts that the targets' devices raised.
    pub device_interrupts: Option<u64>,
    /// Context switches.
    pub context_switches: Option<u64>,
    /// System calls per I/O.
    pub syscalls_per_io: Option<f64>,
    /// Processor cycles.
    pub cycles: Option<u64>,
    /// Instructions that were retired.
    pub instructions: Option<u64>,
    /// References to the last level of cache.
    pub cache_references: Option<u64>,
    /// Those of them that missed.
    pub cache_misses: Option<u64>,
    /// Mean clock of the processors that worked, in hertz.
    pub frequency_hz: Option<f64>,
    /// How often a core was slowed down for heat.
    pub throttled: Option<u64>,
    /// The most memory it had, in bytes.
    pub memory_bytes: Option<u64>,
    /// NUMA nodes of the processors its threads may use, as a list.
    pub numa_nodes: Option<String>,
    /// Joules that the meter's part of the machine took.
    pub joules: Option<f64>,
    /// Joules that it takes in the same time when nothing runs.
    pub idle_joules: Option<f64>,
    /// I/Os per second of each tenth of a second.
    pub rates: Vec<f64>,
    /// By the name of a figure: where it is from, or `unavailable: why; what to do`.
    pub sources: BTreeMap<String, String>,
    /// What a reader should know before believing it; also why a figure could not be had.
    pub warnings: Vec<String>,
}

impl Row {
    /// A row in which nothing was measured.
    pub fn new(arm: Arm, repeat: u32) -> Self {
        Self {
            arm,
            targets: String::new(),
            cpus: None,
            spoll_cpus: None,
            repeat,
            attempt: 0,
            worthless: None,
            started_unix_s: 0.0,
            elapsed_s: 0.0,
            ios: 0,
            errors: 0,
            bytes: 0,
            mean_ns: None,
            latency: crate::latencies::new_histogram(),
            submit: crate::latencies::new_histogram(),
            user_s: None,
            system_s: None,
            kernel_threads_s: None,
            threads: Vec::new(),
            interrupt_s: None,
            device_interrupts: None,
            context_switches: None,
            syscalls_per_io: None,
            cycles: None,
            instructions: None,
            cache_references: None,
            cache_misses: None,
            frequency_hz: None,
            throttled: None,
            memory_bytes: None,
            numa_nodes: None,
            joules: None,
            idle_joules: None,
            rates: Vec::new(),
            sources: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// A metric of this run; `None` if it could not be had.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let per_s = |count: f64| (self.elapsed_s > 0.0).then(|| count / self.elapsed_s);
        let per_io = |count: f64| (self.ios > 0).then(|| count / self.ios as f64);
        let per_joule = |joules: f64| (joules > 0.0).then(|| self.ios as f64 / joules);
        let quantile =
            |times: &Histogram<u64>, at: f64| (!times.is_empty()).then(|| times.value_at_quantile(at) as f64);
        match metric {
            Metric::Iops => per_s(self.ios as f64),
            Metric::BytesPerS => per_s(self.bytes as f64),
            Metric::MeanNs => self.mean_ns,
            Metric::P50Ns => quantile(&self.latency, 0.5),
            Metric::P99Ns => quantile(&self.latency, 0.99),
            Metric::SubmitP50Ns => quantile(&self.submit, 0.5),
            Metric::SyscallsPerIo => self.syscalls_per_io,
            Metric::ContextSwitchesPerIo => per_io(self.context_switches? as f64),
            Metric::InterruptsPerIo => per_io(self.device_interrupts? as f64),
            Metric::Cores => per_s(self.cpu_s()?),
            Metric::CpuSPerMillionIos => per_io(self.cpu_s()? * 1e6),
            Metric::CacheMissRate => match (self.cache_misses?, self.cache_references?) {
                (_, 0) => None,
                (misses, references) => Some(misses as f64 / references as f64),
            },
            Metric::CyclesPerIo => per_io(self.cycles? as f64),
            Metric::InstructionsPerIo => per_io(self.instructions? as f64),
            Metric::IosPerJoule => per_joule(self.joules?),
            Metric::IosPerJouleAboveIdle => per_joule(self.joules? - self.idle_joules?),
            Metric::Watts => per_s(self.joules?),
            Metric::WattsAboveIdle => per_s(self.joules? - self.idle_joules?),
        }
    }

    /// Who told its joules; `None` if it has none.
    pub fn joules_from(&self) -> Option<&str> {
        self.joules.and(self.sources.get("joules")).map(String::as_str)
    }

    /// Processor seconds of the run, kernel threads included where they can be had.
    fn cpu_s(&self) -> Option<f64> {
        Some(self.user_s? + self.system_s? + self.kernel_threads_s.unwrap_or(0.0))
    }
}

/// The runs of an arm that are worth something, one a repeat, in the order of the repeats.
#[derive(Debug, Clone)]
pub struct ArmResults {
    /// The arm.
    pub arm: Arm,
    /// Its runs; at least one.
    pub rows: Vec<Row>,
}

impl ArmResults {
    /// A metric of each repeat; `None` if one of them could not have it.
    pub fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.rows.iter().map(|row| row.metric(metric)).collect()
    }

    /// All repeats' latencies together, in nanoseconds.
    pub fn latency(&self) -> Histogram<u64> {
        let mut all = crate::latencies::new_histogram();
        for row in &self.rows {
            // It has the same bounds, so that all fits.
            let _ = all.add(&row.latency);
        }
        all
    }
}

/// An arm that was not run, or of which no run is worth anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The arm.
    pub arm: Arm,
    /// Why.
    pub reason: String,
    /// What to do about it; empty if nothing is known to help.
    pub remedy: String,
    /// Whether it was run, and no run was worth anything.
    pub failed: bool,
}

/// What was done to a target before its writes were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preconditioned {
    /// The target.
    pub target: String,
    /// How often it was written whole, in sequence; parts of it count as such. A scratch file was when it was made.
    pub passes: f64,
    /// I/Os per second of each round of random writes.
    pub rounds: Vec<f64>,
    /// The round in which the steady state was reached, from 1; `None` if it was not.
    pub steady_round: Option<usize>,
}

/// What a study has to show for itself.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The arms that were measured.
    pub arms: Vec<ArmResults>,
    /// Those that were not.
    pub left_out: Vec<LeftOut>,
}

/// How often a run that is worth nothing is made again. An arm of which one is worth nothing even then is given up.
pub(crate) const RETRIES: u32 = 2;

/// Whether an arm is given up for this run, after so many attempts at its repeat.
pub(crate) fn gives_up(row: &Row, attempts: u32) -> bool {
    row.worthless.is_some() && attempts > RETRIES
}

/// The arms that were given up, by name: what they have measured in other repeats is in no figure.
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
    /// What rows and arms that were left out come to: by arm, in the order of the first repeat's rows' arms. Arms that were
    /// given up are in it no more than those that were left out.
    pub fn new(rows: &[Row], left_out: Vec<LeftOut>) -> Self {
        let mut arms: Vec<ArmResults> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        let mut without = given_up(rows);
        without.extend(left_out.iter().map(|left_out| left_out.arm.to_string()));
        for row in rows.iter().filter(|row| row.worthless.is_none()) {
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
        Self { arms, left_out }
    }
}
