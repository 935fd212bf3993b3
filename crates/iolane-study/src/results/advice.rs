//! The advice of a study: for each load and each goal, the recommended path, its confidence, and the runner-up. The
//! page, the terminal and `study.json` show it. It is derived from the rows only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::format::{number, quantity_of};
use crate::plan::{Arm, IOPS, Metric};
use crate::rows::{ArmResults, Results};
use crate::stats::{Estimate, estimate_median, median};

use super::goal::{BETWEEN_PROCESSES, Goal};

/// The recommended path for one load and one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The load in words: `randread 4k, 2 threads`.
    pub load: String,
    pub goal: Goal,
    pub metric: Metric,
    /// What the load counts per second: `IOPS`, or the operations of an application.
    #[serde(default = "iops", skip_serializing_if = "is_iops")]
    pub rate_unit: String,
    /// The recommended path.
    pub take: Choice,
    /// The best of the other paths; `None` if there is no other.
    pub runner_up: Option<RunnerUp>,
    /// Other paths that are not shown to be worse.
    pub equals: Vec<String>,
    /// The arms of this load that do not reach their rate; `None` without a rate.
    #[serde(default)]
    pub misses_rate: Option<Vec<String>>,
    /// What measured or estimated the joules; `None` for goals other than energy.
    pub joules_from: Option<String>,
    /// Whether the joules come from a model.
    #[serde(default)]
    pub modelled: bool,
}

fn iops() -> String {
    IOPS.into()
}

fn is_iops(unit: &String) -> bool {
    unit == IOPS
}

/// A path at its best depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The path's name in the study.
    pub path: String,
    /// The path in iolane's notation, as the library and the command line take it.
    pub notation: String,
    pub depth: u32,
    /// The metric's median with its interval.
    pub value: Estimate,
    /// CPU seconds per second.
    pub cores: Option<f64>,
}

/// The second-best path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnerUp {
    #[serde(flatten)]
    pub choice: Choice,
    /// How many times better the recommended path is, paired by repeat.
    pub gain: Estimate,
    /// Whether the difference is shown: the interval excludes 1.
    pub shown: bool,
}

/// With fewer repeats than this, intervals are too narrow to be reliable.
pub const REPEATS_FOR_ADVICE: usize = 3;

/// The 99th percentile of fewer requests in a run is its slowest one: no advice rests on it.
pub(super) const REQUESTS_FOR_TAIL: u64 = 100;

/// A path below this share of the best is not called equal to it, however wide the interval: it was too noisy to
/// decide.
const CLOSE_TO_BEST: f64 = 0.9;

/// Nor is a path whose ratio to the best has an interval that reaches beyond this factor.
const CLEAR: f64 = 2.0;

/// The advice for each load, from arms with at least `REPEATS_FOR_ADVICE` repeats; empty if no arm has them.
pub fn answers(results: &Results) -> Vec<Answer> {
    ranked(results).into_iter().map(|ranked| ranked.answer).collect()
}

/// An answer with all paths that were compared for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    pub answer: Answer,
    /// All other paths, each at its best depth, the best first.
    pub others: Vec<RunnerUp>,
    /// The recommended arm.
    pub taken: Arm,
}

/// The advice for each load, with all paths.
pub fn ranked(results: &Results) -> Vec<Ranked> {
    loads(results).iter().flat_map(|arms| ranked_for(arms)).collect()
}

/// The arms of each load that advice may rest on.
pub(crate) fn loads(results: &Results) -> Vec<Vec<&ArmResults>> {
    let own = results.arms.iter().filter(|arm| arm.arm.peer.is_none());
    let mut loads: BTreeMap<_, Vec<&ArmResults>> = BTreeMap::new();
    for arm in own.filter(|arm| arm.rows.len() >= REPEATS_FOR_ADVICE) {
        loads.entry(arm.arm.load_key()).or_default().push(arm);
    }
    loads.into_values().collect()
}

/// The arms that do not reach their rate, and the others.
pub(crate) fn by_rate<'a>(arms: &[&'a ArmResults]) -> (Vec<&'a ArmResults>, Vec<&'a ArmResults>) {
    arms.iter().copied().partition(|arm| arm.keeps_rate() == Some(false))
}

/// The goals that the arms of a load decide.
pub(crate) fn goals_of(arms: &[&ArmResults]) -> Vec<Goal> {
    let has_rate = arms.iter().any(|arm| arm.arm.workload.rate.is_some());
    // Without syncs a commit is a write.
    let has_syncs = arms.iter().any(|arm| arm.arm.workload.sync_every().is_some());
    let keeping = by_rate(arms).1;
    let has_joules = !candidates(Goal::Energy, if has_rate { &keeping } else { arms }).is_empty();
    let cheapest = if has_joules { Goal::Energy } else { Goal::Processor };
    let goals = match (has_rate, keeping.is_empty()) {
        (false, _) => [Some(Goal::Latency), has_syncs.then_some(Goal::Commits), Some(Goal::Throughput), Some(cheapest)],
        (true, false) => [Some(Goal::Latency), has_syncs.then_some(Goal::Commits), Some(cheapest), None],
        (true, true) => [Some(Goal::Throughput), None, None, None],
    };
    goals.into_iter().flatten().collect()
}

/// The advice for the arms of one load. At a rate, only arms that reach it are recommended; all of them have the same
/// throughput. If no arm does, the one that comes nearest to it is named.
fn ranked_for(arms: &[&ArmResults]) -> Vec<Ranked> {
    let (missing, keeping) = by_rate(arms);
    let has_rate = arms.iter().any(|arm| arm.arm.workload.rate.is_some());
    let compared = if keeping.is_empty() { arms } else { &keeping };
    let answers = goals_of(arms).into_iter().map(|goal| answer(goal, compared));
    let misses_rate = has_rate
        .then(|| missing.iter().map(|arm| format!("{} depth {}", arm.arm.name, arm.arm.workload.depth)).collect());
    let with_misses = |ranked: Ranked| {
        let answer = Answer { misses_rate: misses_rate.clone(), ..ranked.answer };
        Ranked { answer, ..ranked }
    };
    answers.flatten().map(with_misses).collect()
}

/// The advice as sentences, one per load, or the reason why there is none.
pub fn sentences(answers: &[Answer]) -> Vec<String> {
    if answers.is_empty() {
        return vec![format!(
            "No advice: with fewer than {REPEATS_FOR_ADVICE} repeats a difference cannot be distinguished from chance."
        )];
    }
    let sentence = |answers: &[Answer]| {
        let parts = answers.iter().map(Answer::words).chain(answers[0].rate_in_words());
        format!("{}: {}.", answers[0].load, parts.collect::<Vec<_>>().join("; "))
    };
    answers.chunk_by(|a, b| a.load == b.load).map(sentence).collect()
}

/// An arm with the metric's value in each repeat.
pub(crate) type Candidate<'a> = (&'a ArmResults, Vec<f64>);

/// The arms of a load that are compared for a goal, with the values that decide.
pub(crate) fn candidates<'a>(goal: Goal, arms: &[&'a ArmResults]) -> Vec<Candidate<'a>> {
    let least_depth = arms.iter().map(|arm| arm.arm.workload.depth).min();
    // Without a rate, a larger depth lengthens the queue and with it every latency.
    let is_asked = |arm: &&ArmResults| {
        !goal.is_latency() || arm.arm.workload.rate.is_some() || Some(arm.arm.workload.depth) == least_depth
    };
    let asked = arms.iter().copied().filter(is_asked);
    let has_tail = |arm: &&ArmResults| !goal.is_latency() || fewest_requests(goal.metric(), arm) >= REQUESTS_FOR_TAIL;
    asked.filter(has_tail).filter_map(|arm| Some((arm, arm.values(goal.metric())?))).collect()
}

fn answer(goal: Goal, arms: &[&ArmResults]) -> Option<Ranked> {
    let mut paths = best_of_each_path(goal, candidates(goal, arms));
    let equals = take_the_cheaper(goal, &mut paths);
    let (take, values) = paths.first()?;
    let beside = |(arm, others): &Candidate<'_>| {
        let gain = goal.gain(values, others);
        RunnerUp { choice: choice(arm, others), gain, shown: gain.shows_difference() }
    };
    let others: Vec<RunnerUp> = paths[1..].iter().map(beside).collect();
    let joules = take.rows[0].joules().filter(|_| goal == Goal::Energy);
    let answer = Answer {
        load: take.arm.load_in_words(),
        goal,
        metric: goal.metric(),
        rate_unit: take.arm.rate_unit().into(),
        take: choice(take, values),
        runner_up: others.first().cloned(),
        equals,
        misses_rate: None,
        joules_from: joules.map(|joules| joules.source.clone()),
        modelled: joules.is_some_and(|joules| joules.modelled),
    };
    Some(Ranked { answer, others, taken: take.arm.clone() })
}

/// The fewest requests that a latency of a run of the arm rests on.
fn fewest_requests(metric: Metric, arm: &ArmResults) -> u64 {
    let Metric::LatencyNs(requests, _) = metric else { return u64::MAX };
    arm.rows.iter().map(|row| row.latency_of(requests).len()).min().unwrap_or(0)
}

/// The best arm of each path, the best path first.
pub(crate) fn best_of_each_path(goal: Goal, mut arms: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let is_ascending = goal.is_latency() || goal == Goal::Processor;
    arms.sort_by(|(_, a), (_, b)| {
        let order = median(a).total_cmp(&median(b));
        if is_ascending { order } else { order.reverse() }
    });
    let mut best: Vec<Candidate<'_>> = Vec::new();
    for arm in arms {
        if best.iter().all(|(known, _)| known.arm.name != arm.0.arm.name) {
            best.push(arm);
        }
    }
    best
}

/// Of the best choice and those not shown to be worse, moves the one that needs the least CPU time to the front.
/// Returns the names of the others.
fn take_the_cheaper(goal: Goal, paths: &mut Vec<Candidate<'_>>) -> Vec<String> {
    let Some((_, best)) = paths.first() else { return Vec::new() };
    let is_equal = |(_, values): &&Candidate<'_>| {
        let share = goal.gain(values, best);
        let is_clear = share.low >= 1.0 / CLEAR && share.high <= CLEAR;
        !share.shows_difference() && share.value >= CLOSE_TO_BEST && is_clear
    };
    let equals: Vec<&ArmResults> =
        paths.iter().enumerate().filter(|(at, path)| *at == 0 || is_equal(path)).map(|(_, (arm, _))| *arm).collect();
    // Of the work itself: a path that does less in the same time uses fewer cores.
    let cost = |arm: &ArmResults| arm.values(Metric::CpuSPerMillionIos).map_or(f64::INFINITY, |values| median(&values));
    let take = equals.iter().fold(equals[0], |take, arm| if cost(arm) < 0.9 * cost(take) { arm } else { take });
    let others = equals.iter().filter(|arm| arm.arm.name != take.arm.name).map(|arm| arm.arm.name.clone()).collect();
    let at = paths.iter().position(|(arm, _)| arm.arm == take.arm).unwrap_or(0);
    let taken = paths.remove(at);
    paths.insert(0, taken);
    others
}

fn cores(arm: &ArmResults) -> Option<f64> {
    arm.values(Metric::Cores).map(|values| median(&values))
}

fn choice(arm: &ArmResults, values: &[f64]) -> Choice {
    let Arm { name, path, workload, .. } = &arm.arm;
    let (value, cores) = (estimate_median(values).at_least_as_wide_as(BETWEEN_PROCESSES), cores(arm));
    Choice { path: name.clone(), notation: path.to_string(), depth: workload.depth, value, cores }
}

/// Confidence in an answer, compared with the runner-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// No other path was measured.
    Alone,
    /// It is better, and the difference is shown.
    Shown,
    /// No difference is shown, and the values are close.
    Alike,
    /// The values differ, but are too noisy to exclude chance.
    Noisy,
}

impl Answer {
    /// `for latency take psync (median p99 85.2 us, depth 1), 1.32x better than libaio (1.28x to 1.36x)`.
    fn words(&self) -> String {
        let sure = self.sureness_in_words();
        let sure = if self.sureness() == Sureness::Alone { String::new() } else { format!(", {sure}") };
        let Choice { path, notation, depth, .. } = &self.take;
        let notation = if notation == path { String::new() } else { format!("{notation}; ") };
        format!("{} take {path} ({notation}{}, depth {depth}){sure}", self.goal.words(), self.value_in_words())
    }

    /// The measured value of the recommended path: `median p99 85.2 us`, `3.1 k I/Os per joule, modelled`.
    pub fn value_in_words(&self) -> String {
        let prefix = match self.goal {
            Goal::Latency => "median p99 ",
            Goal::Commits => "median p99 of commits ",
            _ => "",
        };
        let modelled = if self.modelled { ", modelled" } else { "" };
        format!("{prefix}{}{modelled}", self.shown(self.take.value.value))
    }

    /// A value of the metric with its unit.
    pub fn shown(&self, value: f64) -> String {
        quantity_of(self.metric, value, &self.rate_unit)
    }

    /// Which arms do not reach their rate: `every path keeps the rate`; `None` without a rate.
    pub fn rate_in_words(&self) -> Option<String> {
        Some(match &self.misses_rate.as_ref()?[..] {
            [] => "every path keeps the rate".into(),
            [one] => format!("{one} does not reach the rate"),
            [first, second] => format!("{first} and {second} do not reach the rate"),
            [first, others @ ..] => format!("{first} and {} more do not reach the rate", others.len()),
        })
    }

    pub fn sureness(&self) -> Sureness {
        match &self.runner_up {
            None => Sureness::Alone,
            Some(second) if second.shown && second.gain.value > 1.0 => Sureness::Shown,
            Some(second) if self.equals.contains(&second.choice.path) => Sureness::Alike,
            Some(_) => Sureness::Noisy,
        }
    }

    /// The confidence with its figures: `1.32x better than libaio (1.28x to 1.36x)`.
    pub fn sureness_in_words(&self) -> String {
        let Some(RunnerUp { choice, gain, .. }) = &self.runner_up else {
            let others_miss = self.misses_rate.as_ref().is_some_and(|missing| !missing.is_empty());
            return if others_miss { "no other path reaches the rate" } else { "the only path measured" }.into();
        };
        let [value, low, high] = [gain.value, gain.low, gain.high].map(number);
        match self.sureness() {
            Sureness::Shown => format!("{value}x better than {} ({low}x to {high}x)", choice.path),
            Sureness::Alike => {
                let others = self.equals.iter().filter(|path| **path != choice.path);
                let others: String = others.map(|path| format!(" or {path}")).collect();
                let saved = match (self.take.cores, choice.cores) {
                    (Some(own), Some(other)) if own < 0.9 * other => {
                        format!("; it uses {own:.2} cores, {} uses {other:.2}", choice.path)
                    }
                    _ => String::new(),
                };
                format!("no significant difference from {} (ratio {low}x to {high}x){others}{saved}", choice.path)
            }
            Sureness::Alone | Sureness::Noisy => {
                format!("too noisy to tell from {} ({low}x to {high}x)", choice.path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use iolane_measure::figures::RunFigure;
    use iolane_measure::telemetry::Sourced;
    use iolane_measure::workload::Access;

    use super::*;
    use crate::rows::Row;

    /// Advice for arms with these names, rates in I/Os per second, and CPU times.
    fn advise(arms: &[(&str, &[f64], f64)]) -> Vec<Answer> {
        let rows: Vec<Row> = arms.iter().flat_map(|(name, iops, cores)| rows(name, iops, *cores)).collect();
        answers(&Results::new(&rows, Vec::new()))
    }

    fn throughput(arms: &[(&str, &[f64], f64)]) -> String {
        let answers = advise(arms);
        answers.iter().find(|answer| answer.goal == Goal::Throughput).map(Answer::words).unwrap_or_default()
    }

    fn rows(name: &str, iops: &[f64], cores: f64) -> Vec<Row> {
        let arm = Arm::of_null(name);
        let row = |(repeat, iops): (usize, &f64)| {
            let mut row = Row { ios: *iops as u64, elapsed_s: 1.0, ..Row::new(arm.clone(), repeat as u32) };
            row.figures.set(RunFigure::UserS, Ok(Sourced::new(cores, "test")));
            row.figures.set(RunFigure::SystemS, Ok(Sourced::new(0.0, "test")));
            row.latency.record_n((1e9 / iops) as u64, 100).unwrap();
            row
        };
        iops.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_best_path_is_named_with_what_it_gains_on_the_runner_up() {
        let text =
            throughput(&[("a", &[20.0, 21.0, 22.0], 1.0), ("b", &[10.0, 10.0, 11.0], 1.0), ("c", &[1.0; 3], 1.0)]);
        assert_eq!(text, "for throughput take a (null; 21 IOPS, depth 1), 2x better than b (1.90x to 2.18x)");
    }

    #[test]
    fn of_paths_without_a_shown_difference_the_cheaper_is_taken() {
        let text = throughput(&[("a", &[20.0, 21.0, 22.0], 2.0), ("b", &[21.0, 19.0, 20.0], 1.0)]);
        assert_eq!(
            text,
            "for throughput take b (null; 20 IOPS, depth 1), no significant difference from a (ratio 0.77x to 1.18x); it uses 1.00 cores, a uses 2.00"
        );
    }

    #[test]
    fn a_path_far_below_the_best_is_not_called_its_equal() {
        let text = throughput(&[("a", &[20.0, 20.0, 20.0], 2.0), ("b", &[2.0, 4.0, 21.0], 1.0)]);
        assert_eq!(text, "for throughput take a (null; 20 IOPS, depth 1), too noisy to tell from b (0.18x to 72.9x)");
    }

    #[test]
    fn a_ratio_that_may_be_anything_is_no_equality_and_a_slow_path_is_not_the_cheaper_one() {
        let text = throughput(&[("a", &[20.0, 4.0, 20.0], 2.0), ("b", &[4.0, 20.0, 21.0], 0.1)]);
        assert!(text.contains("too noisy to tell from"), "{text}");
        let slow = advise(&[("fast", &[20.0, 20.1, 20.2], 1.0), ("slow", &[19.9, 20.1, 20.1], 1.2)]);
        let goal = slow.iter().find(|answer| answer.goal == Goal::Throughput).unwrap();
        assert_eq!(goal.take.path, "fast");
    }

    #[test]
    fn a_log_takes_the_path_whose_commits_have_the_shortest_tail() {
        let of = |name, commit_ns: u64| {
            let mut rows = rows(name, &[20.0, 20.1, 20.2], 1.0);
            rows.iter_mut().for_each(|row| {
                (row.arm.workload.access, row.arm.workload.fdatasync_every) = (Access::Write, Some(1));
                row.commits.record_n(commit_ns, 100).unwrap();
            });
            rows
        };
        let found = answers(&Results::new(&[of("slow", 9_000_000), of("fast", 3_000_000)].concat(), Vec::new()));
        let commits = found.iter().find(|answer| answer.goal == Goal::Commits).unwrap();
        let words = commits.words();
        assert!(
            words.starts_with("for commits take fast (null; median p99 of commits 3.00 ms, depth 1), 3"),
            "{words}"
        );
        let none = advise(&[("a", &[20.0, 21.0, 22.0], 1.0)]);
        assert!(none.iter().all(|answer| answer.goal != Goal::Commits), "{none:?}");
    }

    /// Rows of an arm that is asked for 100 I/Os per second.
    fn at_a_rate(name: &str, depth: u32, iops: f64, latency_ns: u64) -> Vec<Row> {
        let mut rows = rows(name, &[iops; 3], 1.0);
        for row in &mut rows {
            (row.arm.workload.rate, row.arm.workload.depth) = (Some("100".parse().unwrap()), depth);
            row.latency.reset();
            row.latency.record_n(latency_ns, 100).unwrap();
        }
        rows
    }

    #[test]
    fn at_a_rate_the_tail_decides_at_any_depth_among_the_paths_that_reach_it() {
        let arms =
            [at_a_rate("slow", 1, 99.0, 9_000), at_a_rate("fast", 4, 99.0, 3_000), at_a_rate("late", 1, 97.0, 1)];
        let answers = answers(&Results::new(&arms.concat(), Vec::new()));
        let goals: Vec<(Goal, &str)> = answers.iter().map(|answer| (answer.goal, answer.take.path.as_str())).collect();
        assert_eq!(goals[0], (Goal::Latency, "fast"), "{answers:#?}");
        assert!(goals.iter().all(|(goal, path)| *goal != Goal::Throughput && *path != "late"), "{goals:?}");
        let words = sentences(&answers).concat();
        assert!(words.contains("rate 100/s: for latency take fast (null; median p99 3.00 us, depth 4), 3"), "{words}");
        assert!(words.ends_with("; late depth 1 does not reach the rate."), "{words}");
    }

    #[test]
    fn where_no_path_reaches_the_rate_the_nearest_is_named() {
        let arms = [at_a_rate("a", 1, 40.0, 9), at_a_rate("b", 1, 60.0, 9)];
        let words = sentences(&answers(&Results::new(&arms.concat(), Vec::new()))).concat();
        assert!(words.contains("for throughput take b (null; 60 IOPS"), "{words}");
        assert!(words.ends_with("a depth 1 and b depth 1 do not reach the rate."), "{words}");
    }

    #[test]
    fn latency_is_chosen_with_as_little_in_flight_as_there_is_and_throughput_at_any_depth() {
        let deep = |name: &str, iops: f64| -> Vec<Row> {
            let mut rows = rows(name, &[iops; 3], 1.0);
            rows.iter_mut().for_each(|row| row.arm.workload.depth = 16);
            rows
        };
        let rows = [rows("a", &[30.0; 3], 1.0), rows("b", &[20.0; 3], 1.0), deep("a", 40.0), deep("b", 90.0)].concat();
        let answers = answers(&Results::new(&rows, Vec::new()));
        let taken: Vec<_> =
            answers.iter().map(|answer| (answer.goal, answer.take.path.as_str(), answer.take.depth)).collect();
        assert_eq!(taken, [(Goal::Latency, "a", 1), (Goal::Throughput, "b", 16), (Goal::Processor, "b", 16)]);
    }

    #[test]
    fn joules_take_the_place_of_processor_time_where_there_are_any_and_say_where_they_are_from() {
        let mut rows = [rows("a", &[30.0; 3], 1.0), rows("b", &[20.0; 3], 1.0)].concat();
        rows.iter_mut().for_each(|row| {
            row.figures.set(RunFigure::Joules, Ok(Sourced::new(10.0, "idle=5,core=5").modelled()));
        });
        let answers = answers(&Results::new(&rows, Vec::new()));
        let energy = answers.last().unwrap();
        assert_eq!(energy.goal, Goal::Energy);
        assert_eq!(
            energy.words(),
            "per joule take a (null; 3 I/Os per joule, modelled, depth 1), 1.5x better than b (1.49x to 1.51x)"
        );
    }

    #[test]
    fn an_arm_with_too_few_repeats_is_no_choice_and_keeps_the_others_from_none() {
        let text = throughput(&[("a", &[20.0, 21.0, 22.0], 1.0), ("b", &[90.0, 90.0], 1.0), ("c", &[10.0; 3], 1.0)]);
        assert!(text.starts_with("for throughput take a ") && text.contains(" better than c "), "{text}");
    }

    #[test]
    fn mixes_of_block_sizes_with_the_same_largest_are_loads_of_their_own() {
        let of = |bs: &str, iops: f64| {
            let mut rows = [rows("a", &[iops; 3], 1.0), rows("b", &[2.0 * iops; 3], 1.0)].concat();
            rows.iter_mut().for_each(|row| row.arm.workload.block_sizes = bs.parse().unwrap());
            rows
        };
        let answers = answers(&Results::new(&[of("8k", 10.0), of("4k-8k", 30.0)].concat(), Vec::new()));
        let loads: Vec<&str> = answers.iter().map(|answer| answer.load.as_str()).collect();
        assert_eq!(loads, [[answers[0].load.as_str(); 3], [answers[3].load.as_str(); 3]].concat());
        assert_ne!(loads[0], loads[3]);
    }

    #[test]
    fn a_tail_of_few_requests_is_no_reason_for_a_path() {
        let mut rows = rows("a", &[20.0, 20.1, 20.2], 1.0);
        assert!(answers(&Results::new(&rows, Vec::new())).iter().any(|answer| answer.goal == Goal::Latency));
        rows[1].latency.reset();
        rows[1].latency.record_n(1_000_000, 31).unwrap();
        let few = answers(&Results::new(&rows, Vec::new()));
        assert!(few.iter().all(|answer| answer.goal != Goal::Latency), "{few:?}");
        assert!(few.iter().any(|answer| answer.goal == Goal::Throughput));
    }

    #[test]
    fn too_few_repeats_give_no_advice() {
        let answers = advise(&[("a", &[1.0], 1.0)]);
        assert!(answers.is_empty() && sentences(&answers)[0].contains("No advice"));
    }
}
