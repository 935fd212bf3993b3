//! The record of a run: schema `iolane.run/1`, described in `docs/schema/run.json`. Made from rows; a figure that is
//! unavailable is null, and its telemetry gives the reason.

mod choices;
mod context;
mod result;
mod telemetry;
mod workload;

use iolane_measure::meters::Source;
use iolane_measure::run::{RunOutcome, RunPlan};
use iolane_measure::telemetry::{Reading, Unavailable};
use serde::Serialize;

use crate::plan::Arm;
use crate::rows::{ArmResults, Row, Warning};

pub use choices::{ChangeRecord, ChoicesRecord, UnusableRecord};
pub use context::{HostRecord, TargetRecord};
pub use result::{CpuRecord, EnergyRecord, LatencyRecord, ResultRecord, SubmitRecord};
pub use telemetry::TelemetryRecord;
pub use workload::WorkloadRecord;

/// An arm that ran once or several times.
#[derive(Debug, Clone, Serialize)]
pub struct RunRecord {
    schema: &'static str,
    /// The job's name, for a run of a job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The path in iolane's notation.
    pub path: String,
    /// Of a path that chooses, the paths that it took in the measured phases, the most used first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths_taken: Vec<PathShare>,
    /// What each queue of such a path chose since it was opened, and why: those of each thread of each run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<ChoicesRecord>,
    /// The first target.
    pub target: TargetRecord,
    /// All targets, if there are more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetRecord>,
    pub workload: WorkloadRecord,
    pub result: ResultRecord,
    /// The costs of the run: each figure with its source, or why it is unavailable.
    pub telemetry: TelemetryRecord,
    /// How the path was shown to do what its name promises.
    pub proof: ProofRecord,
    pub host: HostRecord,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
}

/// A path that was taken.
#[derive(Debug, Clone, Serialize)]
pub struct PathShare {
    /// In iolane's notation.
    pub path: String,
    /// Requests that completed on it.
    pub ios: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct ProofRecord {
    /// Whether completions were polled.
    polled: bool,
    /// System calls that the kernel's tracepoint counted in the proof's slice.
    syscalls_seen: Option<u64>,
    /// System calls that the engine counted in the same slice.
    syscalls_counted: Option<u64>,
    /// I/Os in the slice.
    ios: u64,
}

impl RunRecord {
    /// The record of an arm's repeats, in the order they ran; `None` if there are none.
    pub fn new(plan: &RunPlan, outcomes: &[RunOutcome], host: HostRecord) -> Option<Self> {
        let first = outcomes.first()?;
        let targets: Vec<TargetRecord> = plan.targets.iter().map(TargetRecord::new).collect();
        let results = results(plan, outcomes);
        Some(Self {
            schema: "iolane.run/1",
            job: None,
            path: plan.path.to_string(),
            paths_taken: paths_taken(outcomes),
            choices: outcomes.iter().flat_map(|outcome| &outcome.tally.choices).map(ChoicesRecord::new).collect(),
            target: targets.first()?.clone(),
            targets: if targets.len() > 1 { targets } else { Vec::new() },
            workload: WorkloadRecord::new(plan, outcomes.len()),
            result: ResultRecord::new(plan, outcomes, &results),
            telemetry: TelemetryRecord::new(outcomes, &results),
            proof: ProofRecord {
                // A polled ring on a target without poll queues is refused when it is opened, so a run on one has
                // polled.
                polled: iolane::polls_completions(&plan.path),
                syscalls_seen: first.syscall_proof.kernel.as_ref().ok().copied(),
                syscalls_counted: first.syscall_proof.engine,
                ios: first.syscall_proof.ios,
            },
            host,
            warnings: warnings(&results),
        })
    }
}

/// The paths that were taken in all runs, the most used first.
fn paths_taken(outcomes: &[RunOutcome]) -> Vec<PathShare> {
    let mut taken: Vec<PathShare> = Vec::new();
    for (path, ios) in outcomes.iter().flat_map(|outcome| &outcome.tally.paths) {
        let path = path.to_string();
        match taken.iter_mut().find(|share| share.path == path) {
            Some(share) => share.ios += ios,
            None => taken.push(PathShare { path, ios: *ios }),
        }
    }
    taken.sort_by_key(|share| std::cmp::Reverse(share.ios));
    taken
}

/// Makes rows of one arm from its runs.
fn results(plan: &RunPlan, outcomes: &[RunOutcome]) -> ArmResults {
    let arm = Arm {
        application: None,
        name: plan.path.to_string(),
        path: plan.path.clone(),
        peer: None,
        workload: plan.workload.clone(),
        threads: plan.threads,
        drives: plan.targets.len(),
        cores: None,
    };
    let row = |(repeat, outcome)| Row::planned(arm.clone(), repeat, plan).measured(plan, outcome);
    let rows = (0..).zip(outcomes).map(row).collect();
    ArmResults { arm, rows }
}

/// The warnings of all runs, without duplicates.
fn warnings(results: &ArmResults) -> Vec<String> {
    let mut all: Vec<&Warning> = Vec::new();
    for warning in results.rows.iter().flat_map(|row| &row.warnings) {
        if !all.iter().any(|known| known.is_like(warning)) {
            all.push(warning);
        }
    }
    all.into_iter().map(|warning| warning.text.clone()).collect()
}

impl RunRecord {
    /// Names what disturbed the runs, if anything did.
    pub(crate) fn note_disturbance(&mut self, why: Option<String>) {
        self.warnings.extend(why.map(|why| Warning::disturbed(&why).text));
    }

    /// Adds the joules of each repeat, or why they are unavailable.
    pub fn set_energy(&mut self, joules: &[Reading<f64>], source: &Source) {
        let sum: Reading<f64> = joules.iter().map(|joules| joules.as_ref().map_err(Clone::clone)).sum();
        match sum {
            Ok(joules) if joules > 0.0 && self.result.elapsed_s > 0.0 => {
                let (ios, elapsed_s) = (self.result.ios as f64, self.result.elapsed_s);
                let (watts, ios_per_joule) = (joules / elapsed_s, ios / joules);
                self.result.energy = Some(EnergyRecord { joules, watts, ios_per_joule, source: source.clone() });
                self.telemetry.set_joules(Ok(source.of(joules)));
            }
            Ok(_) => self.set_no_energy(&Unavailable::new("nothing was measured")),
            Err(why) => self.set_no_energy(&why),
        }
    }

    /// Records why there is no energy.
    pub fn set_no_energy(&mut self, why: &Unavailable) {
        self.telemetry.set_joules(Err(why.clone()));
    }
}
