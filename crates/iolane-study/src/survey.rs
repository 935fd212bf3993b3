//! The survey: every path that a target can be reached by, at a few depths, arms interleaved over repeats, compared.
//! What `iolane study` does when no study is named. It says how far it is by a callback, and prints nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolane::capability::check_depth;
use iolane::{Error, IoPath, Pages, Result, Target};
use rand_core::Rng;
use serde::Serialize;

use crate::placement::Placement;
use crate::record::{self, HostRecord, TargetRecord};
use crate::run::{RunOutcome, RunPlan, run};
use crate::stats::{Estimate, estimate_median, estimate_ratio, median};
use crate::workload::{Workload, random_stream};

/// What to survey.
#[derive(Debug, Clone)]
pub struct SurveyPlan {
    /// Opened targets, a thread each.
    pub targets: Vec<Target>,
    /// The paths to take; those that cannot be had are listed with the reason.
    pub paths: Vec<IoPath>,
    /// Depths to take each of them at.
    pub depths: Vec<u32>,
    /// What to ask for; its depth is replaced.
    pub workload: Workload,
    /// Runs of each arm.
    pub repeats: usize,
    /// Length of each run.
    pub runtime: Duration,
    /// Load before each run that is not measured.
    pub warmup: Duration,
    /// Where threads run.
    pub placement: Placement,
    /// Whether the targets hold what a scratch file does.
    pub prefilled: bool,
}

/// A survey whose arms are known to be possible.
#[derive(Debug)]
pub struct Survey {
    plan: SurveyPlan,
    arms: Vec<RunPlan>,
    skipped: Vec<Skipped>,
}

/// A path that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The path.
    pub path: String,
    /// The depth, if it is that which the path does not take.
    pub depth: Option<u32>,
    /// Why.
    pub reason: String,
    /// What to do about it; empty if nothing is known to help.
    pub remedy: String,
}

/// What became of a survey that was stopped.
#[derive(Debug, Clone, Copy)]
struct Interrupted {
    /// Repeats in which every arm ran.
    whole_repeats: usize,
}

/// Where a survey is.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Runs that have ended.
    pub done: usize,
    /// Runs there are.
    pub total: usize,
    /// The path that runs now.
    pub path: &'a IoPath,
    /// Its depth.
    pub depth: u32,
}

/// What a survey found: schema `iolane.study/1`, described in `docs/schema/study.json`.
#[derive(Debug, Clone, Serialize)]
pub struct SurveyReport {
    schema: &'static str,
    name: &'static str,
    /// What was measured.
    pub targets: Vec<TargetRecord>,
    rw: String,
    block_sizes: String,
    threads: usize,
    /// Runs of each arm.
    pub repeats: usize,
    runtime_s: f64,
    warmup_s: f64,
    cpus: Option<String>,
    spoll_cpus: Option<String>,
    seed: u64,
    /// Each arm, in the order of the depths and then the best first.
    pub arms: Vec<ArmReport>,
    /// Each path that was not taken.
    pub skipped: Vec<Skipped>,
    /// The answer in a sentence.
    pub advice: String,
    /// The survey has none of its own.
    claims: [(); 0],
    host: HostRecord,
    /// What a reader should know before believing the figures.
    pub warnings: Vec<String>,
}

/// One arm of a survey.
#[derive(Debug, Clone, Serialize)]
pub struct ArmReport {
    /// The path.
    pub path: String,
    /// Requests in flight on each queue.
    pub depth: u32,
    /// I/Os per second.
    pub iops: Estimate,
    /// Each repeat's.
    pub iops_repeats: Vec<f64>,
    /// Median latency in nanoseconds, over all repeats.
    pub p50_ns: u64,
    /// 99th percentile of latency in nanoseconds, over all repeats.
    pub p99_ns: u64,
    /// 99.9th percentile of latency in nanoseconds, over all repeats.
    pub p99_9_ns: u64,
    /// Processor seconds per second, kernel threads included.
    pub cores: Option<f64>,
    /// System calls per I/O.
    pub syscalls_per_io: Option<f64>,
    /// I/Os per second as a share of the best arm's at this depth, paired by repeat; `None` for the best itself.
    pub of_best: Option<Estimate>,
    /// Requests that failed.
    pub errors: u64,
}

/// What a run costs beside its warm-up and its measurement: set-up, the two slices, tracing's end.
const OVERHEAD: Duration = Duration::from_millis(180);

impl SurveyPlan {
    /// Every path of every interface that is meant for targets of this kind.
    pub fn all_paths(target: &Target) -> Vec<IoPath> {
        iolane::interfaces()
            .filter(|interface| interface.reaches(target.kind()))
            .flat_map(|interface| interface.paths())
            .collect()
    }
}

impl Survey {
    /// Finds out which arms are possible.
    ///
    /// # Errors
    /// `Usage` for a workload that no path can be asked for, `Unavailable` if no path at all can be had.
    pub fn new(plan: SurveyPlan) -> Result<Self> {
        plan.workload.validate()?;
        // Named twice, an arm would be compared with itself.
        let plan = SurveyPlan { paths: distinct(plan.paths), depths: distinct(plan.depths), ..plan };
        let mut survey = Self { arms: Vec::new(), skipped: Vec::new(), plan };
        for path in survey.plan.paths.clone() {
            survey.add(&path);
        }
        if survey.arms.is_empty() {
            let Some(first) = survey.skipped.first() else {
                return Err(Error::usage("study", "it has no path at any depth"));
            };
            let why = format!("no path can be taken ({}: {})", first.path, first.reason);
            return Err(Error::unavailable("study", why).remedy(&first.remedy));
        }
        Ok(survey)
    }

    fn add(&mut self, path: &IoPath) {
        for depth in self.plan.depths.clone() {
            let arm = self.arm(path, depth);
            let capabilities = match arm.capabilities() {
                Ok(capabilities) => capabilities,
                // What stands in the way of a path stands in its way at every depth.
                Err(error) => return self.skip(path, None, &error),
            };
            match check_depth(path, depth, capabilities.depth_max) {
                Ok(()) => self.arms.push(arm),
                Err(error) => self.skip(path, Some(depth), &error),
            }
        }
    }

    fn skip(&mut self, path: &IoPath, depth: Option<u32>, error: &Error) {
        self.skipped.push(Skipped {
            path: path.to_string(),
            depth,
            reason: error.cause().into(),
            remedy: error.remedy_text().into(),
        });
    }

    fn arm(&self, path: &IoPath, depth: u32) -> RunPlan {
        let plan = &self.plan;
        // A submission thread's cpu is only for the paths that have one; the others would refuse it.
        let spoll_cpus = plan.placement.spoll_cpus.clone().filter(|_| path.polls_submissions());
        RunPlan {
            path: path.clone(),
            targets: plan.targets.clone(),
            workload: Workload { depth, ..plan.workload.clone() },
            threads: plan.targets.len(),
            placement: Placement { spoll_cpus, ..plan.placement.clone() },
            runtime: plan.runtime,
            warmup: plan.warmup,
            pages: Pages::Base,
            prefilled: plan.prefilled,
        }
    }

    /// Runs there will be.
    pub fn runs(&self) -> usize {
        self.arms.len() * self.plan.repeats
    }

    /// How long they will take, about.
    pub fn estimated_time(&self) -> Duration {
        (self.plan.runtime + self.plan.warmup + OVERHEAD) * self.runs() as u32
    }

    /// Chooses the length of each run so that all of them take about `budget`.
    pub fn fit_into(&mut self, budget: Duration) {
        let each = budget / (self.runs().max(1) as u32);
        let runtime = each.saturating_sub(self.plan.warmup + OVERHEAD).clamp(RUNTIME_MIN, RUNTIME_MAX);
        self.plan.runtime = runtime;
        self.arms.iter_mut().for_each(|arm| arm.runtime = runtime);
    }

    /// Runs every arm `repeats` times, in an order drawn anew for each repeat. Stopped, it reports on the repeats that are
    /// whole, or on what there is of the first.
    ///
    /// # Errors
    /// `Failed` if nothing at all was measured. An arm that fails is listed as not taken; the others go on.
    pub fn run(mut self, stop: &AtomicBool, mut progress: impl FnMut(Progress<'_>)) -> Result<SurveyReport> {
        let total = self.runs();
        let mut outcomes: Vec<Vec<RunOutcome>> = self.arms.iter().map(|_| Vec::new()).collect();
        let mut failed: Vec<Option<Error>> = self.arms.iter().map(|_| None).collect();
        let mut random = random_stream(self.plan.workload.seed, u32::MAX >> 26);
        let mut done = 0;
        'repeats: for _ in 0..self.plan.repeats {
            for arm in shuffled(self.arms.len(), &mut random) {
                let plan = &self.arms[arm];
                progress(Progress { done, total, path: &plan.path, depth: plan.workload.depth });
                done += 1;
                if failed[arm].is_some() {
                    continue;
                }
                match run(plan, stop) {
                    Err(error) => failed[arm] = Some(error),
                    Ok(outcome) if outcome.interrupted => break 'repeats,
                    Ok(outcome) => outcomes[arm].push(outcome),
                }
            }
        }
        for (arm, error) in failed.iter().enumerate() {
            if let Some(error) = error {
                let plan = self.arms[arm].clone();
                outcomes[arm].clear();
                self.skip(&plan.path, Some(plan.workload.depth), error);
            }
        }
        let unfailed = failed.iter().zip(&outcomes).filter(|(failed, _)| failed.is_none());
        let interrupted = stop
            .load(Ordering::Relaxed)
            .then(|| Interrupted { whole_repeats: unfailed.map(|(_, outcomes)| outcomes.len()).min().unwrap_or(0) });
        for arm in (0..self.arms.len()).filter(|arm| outcomes[*arm].is_empty() && failed[*arm].is_none()) {
            let plan = self.arms[arm].clone();
            let error = Error::failed("study", "it was interrupted before a run of this ended");
            self.skip(&plan.path, Some(plan.workload.depth), &error);
        }
        self.report(&outcomes, interrupted)
    }

    fn report(self, outcomes: &[Vec<RunOutcome>], interrupted: Option<Interrupted>) -> Result<SurveyReport> {
        let measured: Vec<(&RunPlan, &[RunOutcome])> = self
            .arms
            .iter()
            .zip(outcomes)
            .filter(|(_, outcomes)| !outcomes.is_empty())
            .map(|(arm, outcomes)| (arm, &outcomes[..]))
            .collect();
        // Ratios are paired by repeat, so all arms are cut to the repeats that every one of them has.
        let whole = measured.iter().map(|(_, outcomes)| outcomes.len()).min();
        let Some(whole) = whole else {
            if interrupted.is_some() {
                return Err(Error::failed("study", "it was interrupted before a run ended"));
            }
            let first = self.skipped.last().map(|skipped| format!(" ({}: {})", skipped.path, skipped.reason));
            return Err(Error::failed("study", format!("nothing was measured{}", first.unwrap_or_default())));
        };
        let measured: Vec<_> = measured.into_iter().map(|(arm, outcomes)| (arm, &outcomes[..whole])).collect();
        let mut arms: Vec<ArmReport> = measured.iter().map(|(arm, outcomes)| ArmReport::new(arm, outcomes)).collect();
        for depth in &self.plan.depths {
            compare(arms.iter_mut().filter(|arm| arm.depth == *depth).collect());
        }
        arms.sort_by(|a, b| a.depth.cmp(&b.depth).then(b.iops.value.total_cmp(&a.iops.value)));
        let plan = &self.plan;
        let host = HostRecord::gather(plan.targets.first());
        let mut warnings = Vec::new();
        if let Some(Interrupted { whole_repeats }) = interrupted {
            warnings.push(format!("interrupted: {whole_repeats} of {} repeats are whole", plan.repeats));
        }
        warnings.extend(merge_warnings(measured.iter().map(|(arm, outcomes)| {
            let record = record::RunRecord::new(arm, outcomes, host.clone());
            let name = format!("{} at depth {}", arm.path, arm.workload.depth);
            (name, record.map(|record| record.warnings).unwrap_or_default())
        })));
        Ok(SurveyReport {
            schema: "iolane.study/1",
            name: "survey",
            targets: plan.targets.iter().map(TargetRecord::new).collect(),
            rw: plan.workload.access.to_string(),
            block_sizes: plan.workload.block_sizes.to_string(),
            threads: plan.targets.len(),
            repeats: whole,
            runtime_s: plan.runtime.as_secs_f64(),
            warmup_s: plan.warmup.as_secs_f64(),
            cpus: plan.placement.cpus.as_ref().map(ToString::to_string),
            spoll_cpus: plan.placement.spoll_cpus.as_ref().map(ToString::to_string),
            seed: plan.workload.seed,
            advice: advice(&arms),
            arms,
            skipped: self.skipped,
            claims: [],
            host,
            warnings,
        })
    }
}

impl SurveyReport {
    /// What was asked for, in a line.
    pub fn summary(&self) -> String {
        let threads = if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) };
        let placed = match (&self.cpus, &self.spoll_cpus) {
            (Some(cpus), Some(spoll_cpus)) => format!(" on cpu {cpus} (submission threads on {spoll_cpus})"),
            (Some(cpus), None) => format!(" on cpu {cpus}"),
            _ => String::new(),
        };
        let (rw, sizes) = (&self.rw, &self.block_sizes);
        format!("{rw} {sizes}, {threads}{placed}, {} interleaved repeats of {:.2} s", self.repeats, self.runtime_s)
    }
}

/// The warnings of named arms, each said once with the arms that have it.
fn merge_warnings(arms: impl ExactSizeIterator<Item = (String, Vec<String>)>) -> Vec<String> {
    let count = arms.len();
    let mut merged: Vec<(String, Vec<String>)> = Vec::new();
    for (arm, warnings) in arms {
        for warning in warnings {
            match merged.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, arms)) => arms.push(arm.clone()),
                None => merged.push((warning, vec![arm.clone()])),
            }
        }
    }
    let say = |(warning, arms): (String, Vec<String>)| match arms.len() {
        all if all == count && all > 1 => format!("every arm: {warning}"),
        _ => format!("{}: {warning}", arms.join(", ")),
    };
    merged.into_iter().map(say).collect()
}

/// The values without those that were there before, in their order.
fn distinct<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// A run shorter than this says little; longer ones say no more in a survey.
const RUNTIME_MIN: Duration = Duration::from_millis(200);
const RUNTIME_MAX: Duration = Duration::from_secs(2);

/// The numbers below `count` in an order of chance (Fisher and Yates).
fn shuffled(count: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = ((u128::from(random.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        order.swap(last, other);
    }
    order
}

impl ArmReport {
    fn new(arm: &RunPlan, outcomes: &[RunOutcome]) -> Self {
        let iops_repeats: Vec<f64> = outcomes.iter().map(record::iops).collect();
        let latency = record::merged_latency(outcomes);
        let median_of = |of: fn(&RunOutcome) -> Option<f64>| {
            let values: Option<Vec<f64>> = outcomes.iter().map(of).collect();
            values.map(|values| median(&values))
        };
        Self {
            path: arm.path.to_string(),
            depth: arm.workload.depth,
            iops: estimate_median(&iops_repeats),
            p50_ns: latency.value_at_quantile(0.5),
            p99_ns: latency.value_at_quantile(0.99),
            p99_9_ns: latency.value_at_quantile(0.999),
            cores: median_of(record::cores),
            syscalls_per_io: median_of(record::syscalls_per_io),
            of_best: None,
            errors: outcomes.iter().map(|outcome| outcome.tally.errors).sum(),
            iops_repeats,
        }
    }
}

/// Sets each arm beside the best of them.
fn compare(mut arms: Vec<&mut ArmReport>) {
    let best = arms.iter().max_by(|a, b| a.iops.value.total_cmp(&b.iops.value));
    let Some((path, best)) = best.map(|best| (best.path.clone(), best.iops_repeats.clone())) else { return };
    for arm in arms.iter_mut().filter(|arm| arm.path != path) {
        arm.of_best = Some(estimate_ratio(&arm.iops_repeats, &best));
    }
}

/// One sentence: the best path at the smallest depth and at the largest, and those not shown to differ from it.
fn advice(arms: &[ArmReport]) -> String {
    let mut depths: Vec<u32> = arms.iter().map(|arm| arm.depth).collect();
    depths.dedup();
    let ends = match depths[..] {
        [] => return String::new(),
        [only] => vec![only],
        [first, .., last] => vec![first, last],
    };
    if arms.iter().any(|arm| arm.iops_repeats.len() < REPEATS_FOR_ADVICE) {
        return format!(
            "No advice: with fewer than {REPEATS_FOR_ADVICE} repeats chance cannot be told from difference."
        );
    }
    let parts: Vec<String> = ends.iter().filter_map(|depth| advice_at(*depth, arms)).collect();
    let sentence = format!("{}.", parts.join("; "));
    sentence.replacen('b', "B", 1)
}

/// Intervals of fewer repeats than this are too narrow to be believed.
const REPEATS_FOR_ADVICE: usize = 3;

/// An arm below this share of the best is not called its equal, however wide the interval: it was too noisy to tell.
const CLOSE_TO_BEST: f64 = 0.9;

fn advice_at(depth: u32, arms: &[ArmReport]) -> Option<String> {
    let at_depth: Vec<&ArmReport> = arms.iter().filter(|arm| arm.depth == depth).collect();
    let best = at_depth.iter().find(|arm| arm.of_best.is_none())?;
    let (equal, worse): (Vec<&ArmReport>, Vec<&ArmReport>) = at_depth
        .iter()
        .filter(|arm| arm.of_best.is_some())
        .partition(|arm| arm.of_best.is_some_and(|ratio| !ratio.shows_difference()));
    let is_close = |arm: &&ArmReport| arm.of_best.is_some_and(|ratio| ratio.value >= CLOSE_TO_BEST);
    let (equal, unclear): (Vec<&ArmReport>, Vec<&ArmReport>) = equal.into_iter().partition(is_close);
    // Of those that are not shown to differ, the one that costs least is the one to take.
    let cores = |arm: &ArmReport| arm.cores.unwrap_or(f64::INFINITY);
    let take = equal.iter().fold(best, |take, arm| if cores(arm) < 0.9 * cores(take) { arm } else { take });
    let mut text = format!("by IOPS at depth {depth} take {}", take.path);
    if take.path != best.path {
        text.push_str(&format!(
            " (no difference shown to {}, with {:.2} instead of {:.2} cores)",
            best.path,
            cores(take),
            cores(best)
        ));
    } else if !equal.is_empty() {
        let names: Vec<&str> = equal.iter().map(|arm| arm.path.as_str()).collect();
        text.push_str(&format!(" (no difference shown to {})", names.join(", ")));
    }
    if let Some(ratio) = worse.last().and_then(|arm| arm.of_best.map(|ratio| (arm, ratio))) {
        text.push_str(&format!(", {:.1}x {}", 1.0 / ratio.1.value, ratio.0.path));
    }
    if !unclear.is_empty() {
        let shown = |arm: &&ArmReport| {
            let (low, high) = arm.of_best.map_or((0.0, 0.0), |ratio| (ratio.low, ratio.high));
            format!("{} ({low:.2}x to {high:.2}x)", arm.path)
        };
        let names: Vec<String> = unclear.iter().map(shown).collect();
        text.push_str(&format!(", too noisy to tell from {}", names.join(", ")));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(path: &str, depth: u32, iops: [f64; 3], cores: f64) -> ArmReport {
        ArmReport {
            path: path.into(),
            depth,
            iops: estimate_median(&iops),
            iops_repeats: iops.into(),
            p50_ns: 1,
            p99_ns: 2,
            p99_9_ns: 3,
            cores: Some(cores),
            syscalls_per_io: None,
            of_best: None,
            errors: 0,
        }
    }

    fn advise(mut arms: Vec<ArmReport>) -> String {
        compare(arms.iter_mut().collect());
        advice(&arms)
    }

    #[test]
    fn the_advice_names_the_best_and_what_it_gains() {
        let text = advise(vec![arm("a", 1, [20.0, 21.0, 22.0], 1.0), arm("b", 1, [10.0, 10.5, 11.0], 1.0)]);
        assert_eq!(text, "By IOPS at depth 1 take a, 2.0x b.");
    }

    #[test]
    fn of_paths_without_a_shown_difference_the_cheaper_is_advised() {
        let text = advise(vec![arm("a", 1, [20.0, 21.0, 22.0], 2.0), arm("b", 1, [21.0, 19.0, 20.0], 1.0)]);
        assert_eq!(text, "By IOPS at depth 1 take b (no difference shown to a, with 1.00 instead of 2.00 cores).");
    }

    #[test]
    fn a_warning_of_several_arms_is_said_once() {
        let arm = |name: &str, warnings: &[&str]| (name.to_owned(), warnings.iter().map(ToString::to_string).collect());
        let merged = merge_warnings([arm("a", &["x", "y"]), arm("b", &["x"]), arm("c", &["z", "y", "x"])].into_iter());
        assert_eq!(merged, ["every arm: x", "a, c: y", "c: z"]);
        assert_eq!(merge_warnings([arm("a", &["x"])].into_iter()), ["a: x"]);
    }

    #[test]
    fn a_study_stopped_in_its_first_repeat_says_which_arms_it_did_not_reach() {
        let survey = Survey::new(SurveyPlan {
            targets: vec![Target::open("null:1m").unwrap()],
            paths: vec!["null".parse().unwrap()],
            depths: vec![1, 2, 4],
            workload: Workload::default(),
            repeats: 2,
            runtime: Duration::from_millis(1),
            warmup: Duration::ZERO,
            placement: Placement::default(),
            prefilled: false,
        });
        let stop = AtomicBool::new(false);
        let report = survey.unwrap().run(&stop, |progress| stop.store(progress.done == 1, Ordering::Relaxed)).unwrap();
        assert_eq!((report.arms.len(), report.skipped.len()), (1, 2));
        assert!(report.skipped.iter().all(|skipped| skipped.reason.contains("interrupted")), "{:?}", report.skipped);
        assert!(report.warnings.iter().any(|warning| warning == "interrupted: 0 of 2 repeats are whole"));
    }

    #[test]
    fn an_arm_far_below_the_best_is_not_called_its_equal() {
        let text = advise(vec![arm("a", 1, [20.0, 20.0, 20.0], 2.0), arm("b", 1, [2.0, 4.0, 21.0], 1.0)]);
        assert_eq!(text, "By IOPS at depth 1 take a, too noisy to tell from b (0.10x to 1.05x).");
    }

    #[test]
    fn too_few_repeats_give_no_advice() {
        let mut one = arm("a", 1, [1.0, 1.0, 1.0], 1.0);
        one.iops_repeats.truncate(1);
        assert!(advise(vec![one]).contains("No advice"));
    }

    #[test]
    fn every_arm_runs_once_in_each_order() {
        let mut random = random_stream(1, 0);
        for _ in 0..20 {
            let mut order = shuffled(7, &mut random);
            order.sort_unstable();
            assert_eq!(order, (0..7).collect::<Vec<_>>());
        }
    }
}
