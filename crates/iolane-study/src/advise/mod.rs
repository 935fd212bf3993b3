//! What results recommend, for people and scripts: each recommendation with all paths beside it and its settings in the words of
//! other programs, the check of a path in use, and the load of a process that was watched. `iolane advise` prints it; `results` computes the recommendations.

mod check;
mod host_settings;
mod in_use;
mod limit;
mod observed;
mod settings;

use iolane::IoPath;
use iolane_measure::workload::Workload;
use serde::Serialize;

use crate::results::{Answer, Goal, Loaded, Ranked, RunnerUp, Skipped, Sureness, ranked};
use crate::rows::Results;
use crate::run_record::TargetRecord;

pub use check::{Beside, Check, CheckedLoad};
pub use host_settings::{Cost, HostSetting};
pub use in_use::InUse;
pub use limit::{Limit, LimitedBy};
pub use observed::{OBSERVED_SCHEMA, ObservedDocument, ObservedLoad};
pub use settings::{Place, Setting, settings};

/// The schema of the document.
pub const SCHEMA: &str = "iolane.advice/1";

/// The advice of a folder of results: schema `iolane.advice/1`, described in `docs/schema/advice.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advised {
    pub schema: &'static str,
    /// The folder of the results.
    pub folder: String,
    /// The study's name.
    pub study: String,
    pub targets: Vec<TargetRecord>,
    pub kernel: String,
    pub repeats: usize,
    /// Seconds of each run.
    pub runtime_s: f64,
    pub advice: Vec<Advice>,
    /// What was not measured, with remedies: it might be better.
    pub not_measured: Vec<Skipped>,
    /// Settings of the measured device that would make the recommended paths cheaper.
    pub host_settings: Vec<HostSetting>,
    /// The process whose load was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ObservedDocument>,
    /// Of a path in use.
    pub check: Option<Check>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
}

/// A recommendation for one load and one goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    #[serde(flatten)]
    pub answer: Answer,
    pub sureness: Sureness,
    /// What limits the throughput; `None` for other goals, and where it is not visible.
    pub limit: Option<Limit>,
    /// All other paths, the best first.
    pub others: Vec<RunnerUp>,
    /// The recommended path in the words of other programs.
    pub settings: Vec<Setting>,
}

impl Advised {
    /// The advice for these goals; for all of them if none is named.
    pub fn new(loaded: &Loaded, goals: &[Goal]) -> Self {
        let document = &loaded.document;
        let place = Place {
            is_direct: document.targets.iter().all(|target| target.direct),
            kernel: document.host.host.kernel_release.clone(),
        };
        let is_asked = |ranked: &Ranked| goals.is_empty() || goals.contains(&ranked.answer.goal);
        let results = loaded.results();
        let ranked: Vec<Ranked> = ranked(&results).into_iter().filter(is_asked).collect();
        let recommended: Vec<(&IoPath, &Workload)> =
            ranked.iter().map(|ranked| (&ranked.taken.path, &ranked.taken.workload)).collect();
        let host_settings = host_settings::host_settings(&document.host, &recommended);
        Self {
            schema: SCHEMA,
            folder: loaded.folder.display().to_string(),
            study: document.name.clone(),
            targets: document.targets.clone(),
            kernel: document.host.host.kernel_release.clone(),
            repeats: document.repeats,
            runtime_s: document.runtime_s,
            host_settings,
            advice: ranked.into_iter().map(|ranked| Advice::new(ranked, &place, &results)).collect(),
            not_measured: document.skipped.clone(),
            process: None,
            check: None,
            warnings: loaded.warnings(),
        }
    }
}

impl Advice {
    fn new(ranked: Ranked, place: &Place, results: &Results) -> Self {
        let Ranked { answer, others, taken } = ranked;
        let sureness = answer.sureness();
        let limit = if answer.goal == Goal::Throughput { limit::limit(&taken, results) } else { None };
        Self { sureness, limit, settings: settings(&taken, place), others, answer }
    }
}
