//! One run of an arm: its settings, its measurements, and whether it is valid. Sessions make rows; the journal and
//! `records.parquet` store them.

use hdrhistogram::Histogram;
use iolane::Target;
use iolane_measure::figures::{FigureValue, RunFigure, RunFigures};
use iolane_measure::latencies::compact;
use iolane_measure::run::{RunOutcome, RunPlan};
use iolane_measure::telemetry::{RunTelemetry, Sourced, ThreadUse, Unavailable};
use serde::{Deserialize, Serialize};

use super::histogram;
use super::syscalls::set_syscalls;
use super::warning::{Warning, warnings};
use crate::plan::Arm;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub arm: Arm,
    /// The targets, names separated by commas.
    pub targets: String,
    /// The CPUs its threads were pinned to, as a list; `None` if they were not pinned.
    pub cpus: Option<String>,
    /// The CPUs its submission threads were pinned to.
    #[serde(alias = "spoll_cpus")]
    pub sqpoll_cpus: Option<String>,
    /// The repeat, from 0.
    pub repeat: u32,
    /// The attempt at this repeat, from 0.
    pub attempt: u32,
    /// Why the run is rejected: it keeps its row, and is excluded from every statistic.
    #[serde(alias = "worthless")]
    pub rejected: Option<String>,
    /// Start of the run, in seconds since 1970.
    pub started_unix_s: f64,
    /// Seconds from the start of the first request to the end of the last.
    pub elapsed_s: f64,
    /// Reads and writes that succeeded.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Mean latency in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Latencies in nanoseconds; empty where a peer prints none.
    #[serde(with = "histogram")]
    pub latency: Histogram<u64>,
    /// Of a mix of reads and writes, the latencies of the writes, which are among those above too; empty otherwise.
    #[serde(with = "histogram", default = "histogram::empty")]
    pub writes: Histogram<u64>,
    /// Latencies of fsync and fdatasync, which are not among those above; empty without them.
    #[serde(with = "histogram", default = "histogram::empty")]
    pub syncs: Histogram<u64>,
    /// From the start of the first write that a sync covers to the end of the sync; empty without syncs.
    #[serde(with = "histogram", default = "histogram::empty")]
    pub commits: Histogram<u64>,
    /// Time to submit a batch, in nanoseconds, from a slice before the measured phase.
    #[serde(with = "histogram")]
    pub submit: Histogram<u64>,
    /// CPU seconds of each thread that worked for the run.
    pub threads: Vec<ThreadUse>,
    /// I/Os per second in each tenth of a second.
    pub rates: Vec<f64>,
    /// The costs of the run, each figure with its source or why it is unavailable.
    pub figures: RunFigures,
    /// What to know before trusting the run.
    pub warnings: Vec<Warning>,
}

impl Row {
    /// A row without measurements.
    pub fn new(arm: Arm, repeat: u32) -> Self {
        Self {
            arm,
            targets: String::new(),
            cpus: None,
            sqpoll_cpus: None,
            repeat,
            attempt: 0,
            rejected: None,
            started_unix_s: 0.0,
            elapsed_s: 0.0,
            ios: 0,
            errors: 0,
            bytes: 0,
            mean_ns: None,
            latency: histogram::empty(),
            writes: histogram::empty(),
            syncs: histogram::empty(),
            commits: histogram::empty(),
            submit: histogram::empty(),
            threads: Vec::new(),
            rates: Vec::new(),
            figures: RunFigures::default(),
            warnings: Vec::new(),
        }
    }

    /// The energy of what the meter covers, with its source; `None` if unavailable.
    pub fn joules(&self) -> Option<&Sourced<FigureValue>> {
        self.figures.known(RunFigure::Joules)
    }

    /// A row without measurements, for a run of this plan.
    pub fn planned(arm: Arm, repeat: u32, plan: &RunPlan) -> Self {
        let names: Vec<&str> = plan.targets.iter().map(Target::name).collect();
        Self {
            targets: names.join(", "),
            cpus: plan.placement.cpus.as_ref().map(ToString::to_string),
            sqpoll_cpus: plan.placement.sqpoll_cpus.as_ref().map(ToString::to_string),
            ..Self::new(arm, repeat)
        }
    }

    /// Fills in the measurements of a run.
    #[must_use]
    pub fn measured(self, plan: &RunPlan, outcome: &RunOutcome) -> Self {
        let telemetry = match plan.keeps_real_time() {
            Ok(()) => outcome.telemetry.clone(),
            Err(why) => RunTelemetry::unavailable(&why),
        };
        let mut figures = telemetry.figures;
        set_syscalls(&mut figures, outcome);
        let batch = outcome.submissions.batch().map(|batch| Sourced::new(batch, "the engine's count in a short phase"));
        figures.set(RunFigure::SubmitBatch, batch.ok_or_else(|| Unavailable::new("nothing was submitted")));
        let tally = &outcome.tally;
        Self {
            elapsed_s: tally.elapsed_ns() as f64 / 1e9,
            ios: tally.ios,
            errors: tally.errors,
            bytes: tally.bytes,
            mean_ns: (!tally.latency.is_empty()).then(|| tally.latency.mean()),
            latency: compact(&tally.latency),
            writes: compact(&tally.writes),
            syncs: compact(&tally.syncs),
            commits: compact(&tally.commits),
            submit: compact(&outcome.submissions.per_request),
            threads: telemetry.threads,
            rates: outcome.rates.clone(),
            figures,
            warnings: warnings(plan, outcome),
            ..self
        }
    }
}
