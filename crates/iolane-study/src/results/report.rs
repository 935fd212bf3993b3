//! `study.json` as one type: written after a study, and read back to compare, draw or reanalyse. One function computes
//! everything derived from rows, for a new study and for a reanalysis.

use std::collections::HashMap;

use iolane::{Error, Result};
use serde::{Deserialize, Serialize};

use super::advice::{Answer, answers, sentences};
use super::arms::{ArmReport, arm_reports};
use super::figures::FigureReport;
use super::notes::{better_without, few_requests, given_up_later, merge_warnings, not_steady, too_few, unsteady};
use super::rate_until::RateUntil;
use super::skipped::{Skipped, skipped};
use crate::claims::{self, Decision, Looks};
use crate::energy::EnergyNotes;
use crate::format;
use crate::plan::{Arm, Lengths, Scale, Study};
use crate::rows::{LeftOut, Preconditioned, Results, Row, WarningKind};
use crate::run_record::{HostRecord, TargetRecord};
use crate::session::{Conditions, Measured};

/// The name of the file of runs in a study's folder.
pub const RECORDS_FILE: &str = "records.parquet";

/// The name of the results file in a study's folder.
pub const REPORT_FILE: &str = "study.json";

/// The schema of `study.json`.
pub const SCHEMA: &str = "iolane.study/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyReport {
    pub schema: String,
    pub name: String,
    /// The study's title.
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub published_on: String,
    /// The study's TOML source, from which it can be run and decided again; `None` for a survey.
    #[serde(default)]
    pub study_file: Option<String>,
    #[serde(default = "scaled")]
    pub scale: Scale,
    /// Whether every planned run was made.
    pub complete: bool,
    #[serde(default)]
    pub targets: Vec<TargetRecord>,
    /// Repeats of each arm. Claims and figures may include further repeats of some.
    pub repeats: usize,
    /// When claims were decided: after the repeats of all arms, and after further ones of arms that could decide a claim.
    #[serde(default)]
    pub looks: Looks,
    /// Seconds of each run.
    pub runtime_s: f64,
    #[serde(default)]
    pub warmup_s: f64,
    #[serde(default)]
    pub cpus: Option<String>,
    #[serde(default, alias = "spoll_cpus")]
    pub sqpoll_cpus: Option<String>,
    #[serde(default)]
    pub seed: u64,
    /// How targets were preconditioned before writes were measured.
    #[serde(default)]
    pub preconditioned: Vec<Preconditioned>,
    /// The source of the joules, and the idle power.
    #[serde(default)]
    pub energy: EnergyNotes,
    /// The file of the runs.
    pub records: RecordsFile,
    /// Of a rate search, the bound and the highest rates that keep it.
    #[serde(default)]
    pub rate_until: Option<RateUntil>,
    /// Every arm, grouped by load, the best of each group first.
    #[serde(default)]
    pub arms: Vec<ArmReport>,
    /// Arms that were not measured, grouped by reason.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    #[serde(default)]
    pub figures: Vec<FigureReport>,
    /// The recommended path for each load and each goal.
    #[serde(default)]
    pub answers: Vec<Answer>,
    /// The advice as sentences, one per load.
    #[serde(default)]
    pub advice: Vec<String>,
    /// The verdict of each published claim on this machine.
    #[serde(default)]
    pub claims: Vec<Decision>,
    #[serde(default)]
    pub host: HostRecord,
    /// What to know before trusting the figures.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The file of runs next to `study.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordsFile {
    #[serde(default)]
    pub file: String,
    /// Rows; each is one run.
    #[serde(default)]
    pub rows: usize,
    /// CRC-32 of its contents.
    pub crc32: u32,
}

/// The set-up of a study, apart from its measurements.
#[derive(Debug)]
pub struct Asked {
    pub study: Study,
    /// The machine, the targets and the settings.
    pub conditions: Conditions,
}

fn scaled() -> Scale {
    Scale::Scaled
}

impl RecordsFile {
    /// A file of `rows` runs with this CRC-32.
    pub fn new(rows: usize, crc32: u32) -> Self {
        Self { file: RECORDS_FILE.into(), rows, crc32 }
    }
}

impl StudyReport {
    /// The report of a session; `records` is the file that holds the rows.
    pub fn new(asked: &Asked, measured: &Measured, records: RecordsFile) -> Self {
        let Asked { study, conditions } = asked;
        let Conditions { lengths: Lengths { repeats, warmup, .. }, scale, targets, .. } = conditions;
        let whole = measured.whole_repeats;
        let mut report = Self {
            schema: SCHEMA.into(),
            name: study.name.clone(),
            title: study.title.clone(),
            source: study.source.clone(),
            published_on: study.published_on.clone(),
            study_file: Some(study.text.clone()).filter(|text| !text.is_empty()),
            scale: *scale,
            complete: !measured.interrupted,
            targets: targets.iter().map(TargetRecord::new).collect(),
            repeats: whole.max(1),
            looks: measured.looks.clone(),
            runtime_s: measured.runtime.as_secs_f64(),
            warmup_s: warmup.as_secs_f64(),
            cpus: None,
            sqpoll_cpus: None,
            seed: study.workload.seed,
            preconditioned: measured.preconditioned.clone(),
            energy: measured.energy.clone(),
            records,
            skipped: skipped(&measured.left_out),
            figures: Vec::new(),
            rate_until: study.rate_until.map(|bound| RateUntil::begun(bound, *repeats)),
            advice: Vec::new(),
            answers: Vec::new(),
            claims: Vec::new(),
            arms: Vec::new(),
            host: HostRecord::gather(targets.first()),
            warnings: Vec::new(),
        };
        report.analyze(Some(study), &measured.rows, measured.left_out.clone());
        let (done, all, parts) = match &report.rate_until {
            Some(rate_until) => rate_until.complete_searches(),
            None => (whole, *repeats, "repeats"),
        };
        if measured.interrupted {
            let why = if report.rate_until.is_some() { "" } else { "interrupted: " };
            let note = format!("{why}{done} of {all} {parts} are complete; the same command continues");
            report.warnings.insert(0, note);
        } else if done < all {
            report.warnings.insert(0, format!("the time allowed {done} of {all} {parts}"));
        }
        report
    }

    /// Computes everything derived from rows: arms, figures, advice, claims and warnings. Without a study, as in the
    /// reanalysis of a survey, figures and claims stay as they are.
    pub(super) fn analyze(&mut self, study: Option<&Study>, rows: &[Row], left_out: Vec<LeftOut>) {
        let whole: Vec<Row> = rows.iter().filter(|row| (row.repeat as usize) < self.repeats).cloned().collect();
        let mut results = Results::new(&whole, left_out);
        let mut modelled = None;
        if let Some(study) = study {
            in_order_of(study, self.scale, &mut results);
            // Repeats of an interrupted study may lack arms at random; those of later looks lack them by design.
            let counted = if self.complete { rows } else { &whole };
            let further = self.further_results(study, counted, results.left_out.clone());
            self.figures = study.figures.iter().map(|figure| FigureReport::new(figure, &further)).collect();
            self.claims = claims::decide(study, &further, &self.looks);
            // A guest without KVM would take minutes: the lab does it outside.
            modelled = further.lab.is_none().then(|| self.decide_by_model(study, &further, rows)).flatten();
        }
        self.cpus = common(placed(&whole), |row| row.cpus.as_ref());
        let with_thread = placed(&whole).filter(|row| row.arm.path.polls_submissions());
        self.sqpoll_cpus = common(with_thread, |row| row.sqpoll_cpus.as_ref());
        self.arms = arm_reports(&results, rows);
        self.warnings = self.preconditioned.iter().filter_map(not_steady).collect();
        self.warnings.extend(modelled);
        self.warnings.extend(given_up_later(rows, &results, self.repeats));
        match &mut self.rate_until {
            Some(rate_until) => {
                *rate_until = rate_until.of_runs(&results);
                self.advice = rate_until.sentences();
                self.warnings.extend(rate_until.warnings(self.runtime_s));
                // Rates that are too high are part of a search, and the floor matters only near its answer.
                let of_any_search = [WarningKind::LateRequests, WarningKind::NearFloor];
                self.warnings.extend(merge_warnings(&results, &of_any_search));
            }
            None => {
                self.answers = answers(&results);
                self.advice = sentences(&self.answers);
                self.warnings.splice(0..0, too_few(self.repeats));
                self.warnings.extend(better_without(&self.arms));
                self.warnings.extend(unsteady(&self.arms));
                self.warnings.extend(few_requests(&results));
                self.warnings.extend(merge_warnings(&results, &[]));
            }
        }
    }

    /// The results that claims and figures are made from, given the rows that count.
    pub(super) fn further_results(&self, study: &Study, rows: &[Row], left_out: Vec<LeftOut>) -> Results {
        let mut further = Results::of_looks(rows, left_out, self.repeats as u32);
        in_order_of(study, self.scale, &mut further);
        further.lab = self.host.host.lab;
        further
    }

    /// A one-line summary of what was measured.
    pub fn summary(&self) -> String {
        let placed = match (&self.cpus, &self.sqpoll_cpus) {
            (Some(cpus), Some(sqpoll_cpus)) => format!(" on CPU {cpus} (submission threads on {sqpoll_cpus})"),
            (Some(cpus), None) => format!(" on CPU {cpus}"),
            _ => String::new(),
        };
        let mut loads = self.arms.iter().map(|arm| arm.arm.load_in_words());
        let only = loads.next().filter(|first| loads.all(|load| load == *first));
        let of_load = only.map_or(String::new(), |load| format!(" of {load}"));
        let counted = |count: usize, thing: &str| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
        let runtime = format::time(self.runtime_s * 1e9);
        if let Some(RateUntil { bound, answers, .. }) = &self.rate_until {
            let runs = answers.iter().map(|answer| answer.runs).sum();
            let bound = bound.in_words();
            return format!(
                "{}{placed} of {runtime}, in search of the highest rate with {bound}",
                counted(runs, "run")
            );
        }
        let (arms, repeats) = (counted(self.arms.len(), "arm"), counted(self.repeats, "interleaved repeat"));
        format!("{arms}{of_load}{placed}, {repeats} of {runtime}")
    }
}

/// The rows of arms with the common placement; arms with a core limit have their own.
fn placed(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.arm.cores.is_none())
}

/// The value that all rows share, if any.
fn common<'a>(rows: impl Iterator<Item = &'a Row>, of: impl Fn(&'a Row) -> Option<&'a String>) -> Option<String> {
    let mut values = rows.map(of);
    let first = values.next()?;
    values.all(|value| value == first).then(|| first.cloned())?
}

/// Sorts arms into the order of the study's file, peers after iolane's own; they ran in random order.
fn in_order_of(study: &Study, scale: Scale, results: &mut Results) {
    let arms = study.arms(scale).unwrap_or_default();
    let places: HashMap<&Arm, usize> = arms.iter().enumerate().map(|(place, arm)| (arm, place)).collect();
    results.arms.sort_by_key(|results| {
        let own = Arm { peer: None, ..results.arm.clone() };
        (results.arm.peer.is_some(), places.get(&own).copied())
    });
}

/// A document as text, as result files store it.
///
/// # Errors
/// `Failed` for a document that cannot be expressed in JSON.
pub fn to_json(document: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(document).map_err(|error| Error::failed("JSON", error.to_string()))?;
    Ok(text + "\n")
}
