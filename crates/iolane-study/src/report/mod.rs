//! What a study found: `study.json`, schema `iolane.study/1`, described in `docs/schema/study.json`. Made from the rows of
//! its runs, and from nothing else; the command line prints from it.

mod answer;
pub mod charts;
mod digest;
pub mod drawing;
mod figures;
#[cfg(test)]
mod fixtures;
mod load;
pub mod look;
mod page;
mod remake;
mod tables;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::claims::{self, Decision};
use crate::energy::EnergyNotes;
use crate::plan::{Arm, Lengths, Metric, Scale, Study};
use crate::record::{HostRecord, TargetRecord};
use crate::records::{ArmResults, LeftOut, Preconditioned, Results, Row};
use crate::session::{Conditions, Measured};
use crate::stats::{
    Estimate, SteadyState, WINDOW_ROUNDS, estimate_median, estimate_ratio, median, robust_variation, steady_state,
};

pub use answer::{Answer, Choice, Goal, RunnerUp, Sureness, answers, load as load_in_words, sentences};
pub(crate) use answer::{REPEATS_FOR_ADVICE, load_of};
pub use digest::digest;
pub use figures::{FigureReport, Point, Series};
pub use load::{ClaimVerdict, Document, Loaded, RECORDS_FILE, REPORT_FILE, load};
pub use page::{PAGE_FILE, compare_page, page, provenance};
pub use remake::{Remade, with_trace};
pub use tables::{CsvFile, tables};

/// The name and version of `study.json`'s form.
pub const SCHEMA: &str = "iolane.study/1";

/// What a study found.
#[derive(Debug, Clone, Serialize)]
pub struct StudyReport {
    schema: &'static str,
    /// The study's name.
    pub name: String,
    /// What it is about.
    pub title: String,
    source: String,
    published_on: String,
    /// The study's file, from which it can be run and decided again; `None` for a survey.
    study_file: Option<String>,
    /// `scaled` or `full`.
    scale: &'static str,
    /// Whether every run there should be was made.
    pub complete: bool,
    /// What was measured.
    pub targets: Vec<TargetRecord>,
    /// Runs of each arm.
    pub repeats: usize,
    /// Seconds of each.
    pub runtime_s: f64,
    warmup_s: f64,
    cpus: Option<String>,
    spoll_cpus: Option<String>,
    seed: u64,
    /// What was done to targets before writes were measured.
    pub preconditioned: Vec<Preconditioned>,
    /// What tells the joules, and what the idle machine takes.
    pub energy: EnergyNotes,
    /// Where the runs themselves are.
    pub records: RecordsFile,
    /// Each arm, those to be compared together, the best of them first.
    pub arms: Vec<ArmReport>,
    /// What was not measured, by reason.
    pub skipped: Vec<Skipped>,
    /// What the study draws.
    pub figures: Vec<FigureReport>,
    /// What to take, for each kind of load and each goal.
    pub answers: Vec<Answer>,
    /// The same in sentences, one for each kind of load.
    pub advice: Vec<String>,
    /// What was published, and whether it holds here.
    pub claims: Vec<Decision>,
    host: HostRecord,
    /// What a reader should know before believing the figures.
    pub warnings: Vec<String>,
}

/// The file of runs beside `study.json`.
#[derive(Debug, Clone, Serialize)]
pub struct RecordsFile {
    /// Its name.
    pub file: &'static str,
    /// Rows, a run each.
    pub rows: usize,
    /// CRC-32 of its bytes.
    pub crc32: u32,
}

/// One arm of a study.
#[derive(Debug, Clone, Serialize)]
pub struct ArmReport {
    /// The arm.
    #[serde(flatten)]
    pub arm: Arm,
    /// I/Os per second.
    pub iops: Estimate,
    /// Each repeat's.
    pub iops_repeats: Vec<f64>,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean latency in nanoseconds, the median of the repeats'.
    pub mean_ns: Option<f64>,
    /// Median latency in nanoseconds, over all repeats; `None` where a peer does not tell.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// Median time to hand a batch over, in nanoseconds.
    pub submit_p50_ns: Option<f64>,
    /// Processor seconds per second, kernel threads included.
    pub cores_used: Option<f64>,
    /// System calls per I/O.
    pub syscalls_per_io: Option<f64>,
    /// Watts of all that the meter sees.
    pub watts: Option<Estimate>,
    /// Watts beyond those of the idle machine.
    pub watts_above_idle: Option<Estimate>,
    /// I/Os per joule of all that the meter sees.
    pub ios_per_joule: Option<Estimate>,
    /// I/Os per joule beyond what the idle machine takes.
    pub ios_per_joule_above_idle: Option<Estimate>,
    /// Processor seconds per million I/Os: what stands in for energy where there is no meter.
    pub cpu_s_per_million_ios: Option<Estimate>,
    /// How far repeats lie apart, as a share of their median (1.4826 times the median absolute deviation).
    pub noise: Option<f64>,
    /// Whether the repeats are of a steady state (SNIA PTS); `None` with fewer than five.
    pub steady: Option<SteadyState>,
    /// I/Os per second as a share of the best arm's that does the same, paired by repeat; `None` for the best itself.
    pub of_best: Option<Estimate>,
    /// Runs that were worth nothing, and were made again.
    pub worthless_runs: usize,
}

/// Arms that were not measured, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The path, as the study calls it.
    pub path: String,
    /// How many arms of it.
    pub arms: usize,
    /// One of them, or what they have in common.
    pub which: String,
    /// Why.
    pub reason: String,
    /// What to do about it; empty if nothing is known to help.
    pub remedy: String,
    /// Whether it was run, and no run was worth anything.
    pub failed: bool,
}

/// What was asked for, beside what was measured.
#[derive(Debug)]
pub struct Asked {
    /// The study.
    pub study: Study,
    /// What it was run on.
    pub conditions: Conditions,
}

impl StudyReport {
    /// The report on what was measured; `records` is the file the rows are in.
    pub fn new(asked: &Asked, measured: &Measured, records: RecordsFile) -> Self {
        let Asked { study, conditions } = asked;
        let Conditions { lengths: Lengths { repeats, warmup, .. }, scale, targets, .. } = conditions;
        let whole = measured.whole_repeats;
        let kept: Vec<Row> = measured.rows.iter().filter(|row| (row.repeat as usize) < whole.max(1)).cloned().collect();
        let mut results = Results::new(&kept, measured.left_out.clone());
        in_order_of(study, *scale, &mut results);
        let arms = arm_reports(&results, &measured.rows);
        let answers = answers(&results);
        let mut warnings = Vec::new();
        if measured.interrupted {
            warnings.push(format!("interrupted: {whole} of {repeats} repeats are whole; the same command goes on"));
        }
        warnings.extend(too_few(whole.max(1)));
        warnings.extend(measured.preconditioned.iter().filter_map(not_steady));
        warnings.extend(unsteady(&arms));
        warnings.extend(few_requests(&results));
        warnings.extend(merge_warnings(&results));
        Self {
            schema: SCHEMA,
            name: study.name.clone(),
            title: study.title.clone(),
            source: study.source.clone(),
            published_on: study.published_on.clone(),
            study_file: Some(study.text.clone()).filter(|text| !text.is_empty()),
            scale: match scale {
                Scale::Scaled => "scaled",
                Scale::Full => "full",
            },
            complete: !measured.interrupted,
            targets: targets.iter().map(TargetRecord::new).collect(),
            repeats: whole.max(1),
            runtime_s: measured.runtime.as_secs_f64(),
            warmup_s: warmup.as_secs_f64(),
            cpus: common(placed(&kept), |row| row.cpus.as_ref()),
            spoll_cpus: common(placed(&kept).filter(|row| row.arm.path.polls_submissions()), |row| {
                row.spoll_cpus.as_ref()
            }),
            seed: study.workload.seed,
            preconditioned: measured.preconditioned.clone(),
            energy: measured.energy.clone(),
            records,
            skipped: skipped(&measured.left_out),
            figures: study.figures.iter().map(|figure| FigureReport::new(figure, &results)).collect(),
            advice: sentences(&answers),
            answers,
            claims: claims::decide(study, &results),
            arms,
            host: HostRecord::gather(targets.first()),
            warnings,
        }
    }

    /// What was measured, in a line.
    pub fn summary(&self) -> String {
        let placed = match (&self.cpus, &self.spoll_cpus) {
            (Some(cpus), Some(spoll_cpus)) => format!(" on cpu {cpus} (submission threads on {spoll_cpus})"),
            (Some(cpus), None) => format!(" on cpu {cpus}"),
            _ => String::new(),
        };
        let mut loads = self.arms.iter().map(|arm| load_in_words(&arm.arm));
        let only = loads.next().filter(|first| loads.all(|load| load == *first));
        let of_load = only.map_or(String::new(), |load| format!(" of {load}"));
        let arms = self.arms.len();
        format!("{arms} arms{of_load}{placed}, {} interleaved repeats of {:.2} s", self.repeats, self.runtime_s)
    }
}

/// The rows of arms that are placed as all are: those with a limit of cores have their own.
fn placed(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.arm.cores.is_none())
}

/// What all rows agree on.
fn common<'a>(rows: impl Iterator<Item = &'a Row>, of: impl Fn(&'a Row) -> Option<&'a String>) -> Option<String> {
    let mut values = rows.map(of);
    let first = values.next()?;
    values.all(|value| value == first).then(|| first.cloned())?
}

/// Puts arms in the order of the study's file, those of peers behind iolane's own; they ran in an order of chance.
fn in_order_of(study: &Study, scale: Scale, results: &mut Results) {
    let arms = study.arms(scale).unwrap_or_default();
    let places: HashMap<String, usize> = arms.iter().enumerate().map(|(place, arm)| (arm.to_string(), place)).collect();
    results.arms.sort_by_key(|results| {
        let own = Arm { peer: None, ..results.arm.clone() };
        (results.arm.peer.is_some(), places.get(&own.to_string()).copied())
    });
}

fn arm_reports(results: &Results, rows: &[Row]) -> Vec<ArmReport> {
    let mut worthless: HashMap<String, usize> = HashMap::new();
    for row in rows.iter().filter(|row| row.worthless.is_some()) {
        *worthless.entry(row.arm.to_string()).or_default() += 1;
    }
    let report = |arm: &ArmResults| ArmReport::new(arm, worthless.get(&arm.arm.to_string()).copied().unwrap_or(0));
    let mut arms: Vec<ArmReport> = results.arms.iter().map(report).collect();
    arms.sort_by_cached_key(|arm| (load_of(&arm.arm), arm.arm.depth));
    for same_load in arms.chunk_by_mut(|a, b| does_the_same(&a.arm, &b.arm)) {
        same_load.sort_by(|a, b| b.iops.value.total_cmp(&a.iops.value));
        // Peers are set beside the best of iolane's own too.
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
    fn new(results: &ArmResults, worthless_runs: usize) -> Self {
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
            worthless_runs,
            iops_repeats,
        }
    }
}

/// Arms that were left out, those of one path for one reason together.
pub fn skipped(left_out: &[LeftOut]) -> Vec<Skipped> {
    let mut all: Vec<Skipped> = Vec::new();
    for LeftOut { arm, reason, remedy, failed } in left_out {
        let path = arm.label();
        match all.iter_mut().find(|known| known.path == path && known.reason == *reason) {
            Some(known) => known.arms += 1,
            None => all.push(Skipped {
                path,
                arms: 1,
                which: arm.to_string(),
                reason: reason.clone(),
                remedy: remedy.clone(),
                failed: *failed,
            }),
        }
    }
    all
}

/// From so many repeats on, the range of them holds the median in nearly 95 % of cases, which is all that an interval says.
const REPEATS_ENOUGH: usize = 5;

/// A warning where intervals are narrower than their name: a bootstrap of so few repeats gives their range, which leaves the
/// true median out when all of them are on one side of it (twice a half to the power of their number).
fn too_few(repeats: usize) -> Option<String> {
    let holds = 100.0 * (1.0 - 0.5f64.powi(repeats as i32 - 1));
    (2..REPEATS_ENOUGH).contains(&repeats).then(|| {
        format!(
            "with {repeats} repeats an interval is their range, which holds the true median in {holds:.0} % of cases and not in \
             95; take {REPEATS_ENOUGH} or more for what matters"
        )
    })
}

/// A warning for a target that did not come to a steady state before its writes were measured, or was not written whole.
fn not_steady(target: &Preconditioned) -> Option<String> {
    let Preconditioned { target, passes, rounds, steady_round } = target;
    let mut troubles = Vec::new();
    if *passes < 0.99 {
        troubles.push(format!("{:.0} % of it was written in sequence first", passes * 100.0));
    }
    if steady_round.is_none() {
        troubles.push(format!("it was not steady after {} rounds of random writes", rounds.len()));
    }
    let hint = "--full takes the time that SNIA's specification asks for";
    (!troubles.is_empty()).then(|| format!("preconditioning of {target}: {}; {hint}", troubles.join(", and ")))
}

/// A warning for arms whose repeats went up, down or apart.
fn unsteady(arms: &[ArmReport]) -> Option<String> {
    let unsteady: Vec<&ArmReport> =
        arms.iter().filter(|arm| arm.steady.is_some_and(|steady| !steady.reached)).collect();
    let worst = unsteady.iter().max_by(|a, b| range(a).total_cmp(&range(b)))?;
    Some(format!(
        "{} of {} arms were not in a steady state over their last {WINDOW_ROUNDS} repeats (SNIA PTS: range 20 %, slope 10 %); \
         the widest, {}, by {:.0} %",
        unsteady.len(),
        arms.len(),
        worst.arm,
        range(worst) * 100.0
    ))
}

/// With fewer requests in a run than this its 99th percentile is one of the ten slowest.
const REQUESTS_FOR_P99: u64 = 1000;

/// A warning for arms whose runs have too few requests for the tail that is told of them.
fn few_requests(results: &Results) -> Option<String> {
    let fewest = |arm: &ArmResults| arm.rows.iter().map(|row| row.ios).min().unwrap_or(0);
    let few: Vec<&ArmResults> = results.arms.iter().filter(|arm| fewest(arm) < REQUESTS_FOR_P99).collect();
    let worst = few.iter().min_by_key(|arm| fewest(arm))?;
    Some(format!(
        "{} of {} arms have runs of fewer than {REQUESTS_FOR_P99} requests, so that their p99 is little more than the slowest \
         ones; the fewest, {}, has {}",
        few.len(),
        results.arms.len(),
        worst.arm,
        fewest(worst)
    ))
}

fn range(arm: &ArmReport) -> f64 {
    arm.steady.map_or(0.0, |steady| steady.range_share)
}

/// Each warning once, with the arms that have it; those that differ in their numbers alone are one.
fn merge_warnings(results: &Results) -> Vec<String> {
    let mut merged: Vec<(String, &str, Vec<String>)> = Vec::new();
    for arm in &results.arms {
        for warning in arm.rows.iter().flat_map(|row| &row.warnings) {
            let (kind, name) = (warning.replace(|c: char| c.is_ascii_digit() || c == '.', ""), arm.arm.to_string());
            match merged.iter_mut().find(|(known, ..)| *known == kind) {
                Some((.., arms)) if arms.last() == Some(&name) => {}
                Some((.., arms)) => arms.push(name),
                None => merged.push((kind, warning, vec![name])),
            }
        }
    }
    let count = results.arms.len();
    let say = |(_, warning, arms): (String, &str, Vec<String>)| match &arms[..] {
        all if all.len() == count && count > 1 => format!("every arm: {warning}"),
        [first, second, rest @ ..] if rest.len() > 1 => {
            format!("{first}; {second} and {} more arms: {warning}", rest.len())
        }
        few => format!("{}: {warning}", few.join("; ")),
    };
    merged.into_iter().map(say).collect()
}
