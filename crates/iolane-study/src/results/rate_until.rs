//! The answers of a rate search: for each load the highest rate that keeps the latency within the bound, by path, the best
//! first.

use serde::{Deserialize, Serialize};

use crate::format::{count, range_beside, time, times};
use crate::plan::{Arm, LatencyBound, Metric, Percentile, Survey};
use crate::rows::{ArmResults, FLOORS_MIN, Results, Row};
use crate::search::{self, Change, HighestRate, RateSearch, Trial, has_few_requests, highest_rate, ratio};
use crate::stats::{Estimate, median};
use iolane_measure::figures::RunFigure;
use iolane_measure::latencies::new_histogram;
use iolane_measure::workload::{Arrivals, Rate};

/// A bound, and which rates keep it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateUntil {
    #[serde(with = "iolane_measure::serde_text")]
    pub bound: LatencyBound,
    /// Runs at each rate near the highest.
    #[serde(default = "default_repeats")]
    pub repeats: usize,
    /// By load, the best path of each first.
    #[serde(default)]
    pub answers: Vec<RateAnswer>,
}

/// The highest rate of one path at one depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateAnswer {
    /// The load, without rate and depth, in words.
    pub load: String,
    /// The path's name.
    pub path: String,
    /// The path in iolane's notation.
    pub notation: String,
    pub depth: u32,
    /// Requests per second; `None` if the bound was kept or missed at every rate that was tried.
    pub rate: Option<Estimate>,
    /// The highest rate that was tried, if it keeps the bound.
    pub at_least: Option<f64>,
    /// The lowest rate that was tried, if it misses the bound.
    pub below: Option<f64>,
    /// Whether it is the best of its load. No path is if a search is not complete, the machine changed, or the bound is below
    /// the floor.
    pub best: bool,
    /// Its rate over that of the best; `None` for the best, where one of them has no rate, and where no path is the best.
    pub of_best: Option<Estimate>,
    /// Whether the search made all of its runs.
    #[serde(default)]
    pub complete: bool,
    /// The highest rates before and after the machine changed; `None` if it did not, as far as the runs show.
    #[serde(default)]
    pub change: Option<Change>,
    /// The bounded percentile of all requests of the runs at the highest rate below the answer, in nanoseconds; `None` for a
    /// bound on the time after the start.
    #[serde(default)]
    pub pooled_ns: Option<f64>,
    /// Bounded requests for each read or write, such as 0.3 for the writes of a mix.
    #[serde(default)]
    pub bounded_share: f64,
    /// Runs that it comes from.
    pub runs: usize,
    /// The 99th percentile of the same schedule on `null`, in nanoseconds: the median of the runs near the highest rate.
    pub floor_p99_ns: Option<f64>,
}

fn default_repeats() -> usize {
    Survey::SEARCH_LENGTHS.repeats
}

/// Runs up to this factor from the highest rate are near it.
const NEAR: f64 = 1.5;

impl RateAnswer {
    /// `21.3 k/s`, `above 16 M/s` or `none from 10/s`.
    pub fn rate_in_words(&self) -> String {
        match (self.rate, self.at_least, self.below) {
            (Some(rate), ..) => per_s(rate.value),
            (_, Some(tried), _) => format!("above {}", per_s(tried)),
            (.., tried) => format!("below {}", per_s(tried.unwrap_or(0.0))),
        }
    }

    /// The 95 % interval of the rate; empty without one.
    pub fn interval_in_words(&self) -> String {
        let rate = self.rate.map(|rate| range_beside(&per_s(rate.value), &per_s(rate.low), &per_s(rate.high)));
        rate.unwrap_or_default()
    }

    /// Its place beside the best: `best`, `0.85x`, `~0.98x` if no difference is shown, or `-` if no path is the best.
    pub fn standing(&self) -> String {
        match self.of_best {
            _ if self.best => "best".into(),
            None => "-".into(),
            Some(ratio) => times(ratio),
        }
    }
}

/// Requests per second with a prefix.
fn per_s(rate: f64) -> String {
    match count(rate).split_once(' ') {
        Some((number, prefix)) => format!("{number} {prefix}/s"),
        None => format!("{}/s", count(rate)),
    }
}

impl RateUntil {
    /// A search of which nothing is known yet.
    pub fn begun(bound: LatencyBound, repeats: usize) -> Self {
        Self { bound, repeats, answers: Vec::new() }
    }

    /// The answers of the runs of a search.
    #[must_use]
    pub fn of_runs(&self, results: &Results) -> Self {
        let (bound, repeats) = (self.bound, self.repeats);
        let mut found: Vec<Found<'_>> =
            by_arm(results).into_iter().map(|arm| Found::new(arm, bound, repeats)).collect();
        // Loads in the order of their keys; the highest rate of each first.
        let merit = |highest: &HighestRate| match highest {
            HighestRate::AtLeast(rate) => (2, *rate),
            HighestRate::Found { rate, .. } => (1, rate.value),
            HighestRate::None(rate) => (0, -rate),
        };
        found.sort_by(|a, b| {
            let ((a_class, a_value), (b_class, b_value)) = (merit(&a.highest), merit(&b.highest));
            a.arm.load_key().cmp(&b.arm.load_key()).then(b_class.cmp(&a_class)).then(b_value.total_cmp(&a_value))
        });
        let mut answers: Vec<RateAnswer> = Vec::new();
        for of_load in found.chunk_by(|a, b| a.arm.load_key() == b.arm.load_key()) {
            let mut of_load_answers: Vec<RateAnswer> = of_load.iter().map(Found::answer).collect();
            if self.why_none(&of_load_answers).is_none() {
                for (place, (answer, found)) in of_load_answers.iter_mut().zip(of_load).enumerate() {
                    answer.best = place == 0;
                    answer.of_best = if place == 0 { None } else { ratio(&found.highest, &of_load[0].highest) };
                }
            }
            answers.append(&mut of_load_answers);
        }
        Self { bound, repeats, answers }
    }

    /// What each search found, from its runs.
    pub fn searched(&self, results: &Results) -> Vec<Searched> {
        let found = by_arm(results).into_iter().map(|arm| Found::new(arm, self.bound, self.repeats));
        let searched = |Found { arm, highest, complete, rows, .. }: Found<'_>| Searched {
            arm,
            highest,
            complete,
            runs: rows.len(),
        };
        found.map(searched).collect()
    }

    /// The number of searches that made all of their runs, and of all that began, with their name.
    pub(super) fn complete_searches(&self) -> (usize, usize, &'static str) {
        (self.answers.iter().filter(|answer| answer.complete).count(), self.answers.len(), "searches")
    }

    /// What to know before trusting the answers.
    pub fn warnings(&self, runtime_s: f64) -> Vec<String> {
        let mut warnings = Vec::new();
        let close = self.answers.iter().filter_map(|answer| Some((answer, self.floor_of(answer)?)));
        let close = close.filter(|(_, floor_ns)| (*floor_ns..FLOORS_MIN * floor_ns).contains(&self.bound.max_ns()));
        if let Some((answer, floor_ns)) = close.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            warnings.push(format!(
                "the bound of {} is close to the floor of this machine: the same schedule on null has a p99 of {} near the \
                 highest rate of {}, which is the time that threads take to wake up",
                time(self.bound.max_ns()),
                time(floor_ns),
                answer.path
            ));
        }
        // Where no path is named because of a change, the sentence says that already.
        let reasons: Vec<String> =
            self.answers.chunk_by(|a, b| a.load == b.load).filter_map(|answers| self.why_none(answers)).collect();
        let changed = self.answers.iter().filter_map(|answer| Some((answer, answer.change?)));
        for (answer, change) in changed.filter(|(answer, change)| !reasons.contains(&self.why_changed(answer, change)))
        {
            warnings.push(format!(
                "the machine changed while {} at depth {} was searched: {} before, {} after; the interval covers both",
                answer.path,
                answer.depth,
                per_s(change.before),
                per_s(change.after)
            ));
        }
        warnings.extend(self.pooled_warning());
        let percentile = self.bound.percentile;
        let bounded_per_s = |answer: &RateAnswer| Some(answer.rate?.value * answer.bounded_share);
        let lowest = self.answers.iter().filter_map(bounded_per_s).reduce(f64::min);
        if let Some(rate) = lowest.filter(|rate| has_few_requests(percentile, *rate, runtime_s)) {
            let requests = rate * search::runtime_s(percentile, rate, runtime_s);
            let few =
                format!("a run at {} has {} requests, few for {percentile}", per_s(rate), count(requests.round()));
            warnings.push(format!("{few}: use a longer --runtime"));
        }
        warnings
    }

    /// A drive that stalls now and then keeps the bound in the median run, and not over the requests of all runs.
    fn pooled_warning(&self) -> Option<String> {
        let pooled = self.answers.iter().filter_map(|answer| Some((answer, answer.pooled_ns?)));
        let over: Vec<String> = pooled
            .filter(|(answer, pooled_ns)| answer.complete && *pooled_ns > self.bound.max_ns())
            .map(|(answer, pooled_ns)| format!("{} ({}, depth {})", time(pooled_ns), answer.path, answer.depth))
            .collect();
        (!over.is_empty()).then(|| {
            format!(
                "just below the highest rate, {} over the requests of all runs together exceeds the bound: {}. The median run \
                 keeps it; if each stall counts, take the lower end of the interval, or search with a longer --runtime",
                self.bound.figure(),
                over.join(", ")
            )
        })
    }

    /// A sentence for each load: the best path, its rate, and the next; or why there is none.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |answers: &[RateAnswer]| {
            let best = &answers[0];
            if let Some(why) = self.why_none(answers) {
                return format!("{}: {why}.", best.load);
            }
            let bound = self.bound.in_words();
            let interval = match best.interval_in_words() {
                empty if empty.is_empty() => String::new(),
                interval => format!(" (95 %: {interval})"),
            };
            let next = match answers.get(1) {
                None => String::new(),
                Some(next) => format!(
                    "; next {} at depth {}: {}{}",
                    next.path,
                    next.depth,
                    next.rate_in_words(),
                    difference(next)
                ),
            };
            format!(
                "{}: {} at depth {} keeps {bound} up to {}{interval}{next}.",
                best.load,
                best.path,
                best.depth,
                best.rate_in_words()
            )
        };
        self.answers.chunk_by(|a, b| a.load == b.load).map(sentence).collect()
    }

    /// Why no path of a load is its best; `None` if one is. The answers are those of a load, the highest rate first.
    pub fn why_none(&self, answers: &[RateAnswer]) -> Option<String> {
        let first = answers.first()?;
        let bound = self.bound.in_words();
        if let Some(unfinished) = answers.iter().find(|answer| !answer.complete) {
            return Some(format!(
                "the search is not complete; so far {} at depth {} is at {} after {} runs",
                unfinished.path,
                unfinished.depth,
                unfinished.rate_in_words(),
                unfinished.runs
            ));
        }
        if let Some(floor_ns) = self.floor_of(first).filter(|floor_ns| *floor_ns > self.bound.max_ns()) {
            return Some(format!(
                "the threads of this machine wake up too late for {bound}: the same schedule on null, where a request \
                 completes at once, has a p99 of {}; bound the time after the start, which leaves waking up out \
                 (--rate-until service_{}={}), or search on a quieter machine",
                time(floor_ns),
                Percentile::P99,
                self.bound.max()
            ));
        }
        if let Some(tried) = first.below {
            return Some(format!("no rate keeps {bound}; the lowest that was tried is {}", per_s(tried)));
        }
        // A path that is worse than the best, before the change and after it, leaves it the best.
        let lowest = first.rate.map_or(f64::INFINITY, |rate| rate.low);
        let could_be_best = |change: &Change| change.is_large() && change.before.max(change.after) > lowest;
        let changed = answers.iter().find_map(|answer| Some((answer, answer.change.filter(could_be_best)?)));
        changed.map(|(answer, change)| self.why_changed(answer, &change))
    }

    fn why_changed(&self, answer: &RateAnswer, change: &Change) -> String {
        format!(
            "the machine changed during the search: {} at depth {} keeps {} up to {} in the runs before and {} in those \
             after; search again when nothing else runs on it",
            answer.path,
            answer.depth,
            self.bound.in_words(),
            per_s(change.before),
            per_s(change.after)
        )
    }

    /// The floor that a bound is compared with, in nanoseconds; `None` if the bound leaves waking up out, or is of a percentile
    /// below that of the floor.
    fn floor_of(&self, answer: &RateAnswer) -> Option<f64> {
        let is_comparable = self.bound.includes_wake_up() && self.bound.percentile >= Percentile::P99;
        answer.floor_p99_ns.filter(|_| is_comparable)
    }
}

/// What the search of an arm found.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// The arm, without a rate.
    pub arm: Arm,
    pub highest: HighestRate,
    /// Whether the search made all of its runs.
    pub complete: bool,
    pub runs: usize,
}

/// The search of an arm.
struct Found<'a> {
    arm: Arm,
    rows: Vec<&'a Row>,
    bound: LatencyBound,
    highest: HighestRate,
    complete: bool,
    bounded_share: f64,
}

impl<'a> Found<'a> {
    fn new((arm, mut rows): (Arm, Vec<&'a Row>), bound: LatencyBound, repeats: usize) -> Self {
        rows.sort_by(|a, b| a.started_unix_s.total_cmp(&b.started_unix_s));
        let trials: Vec<Trial> = rows.iter().filter_map(|row| row.trial(bound)).collect();
        Self {
            bound,
            highest: highest_rate(&trials, bound),
            complete: RateSearch::is_complete(&trials, bound, repeats),
            bounded_share: bound.share_of_requests(&arm.workload),
            arm,
            rows,
        }
    }

    /// The bounded percentile over all requests of the runs at the highest rate that was tried up to this one.
    fn pooled_ns(&self, rate: f64) -> Option<f64> {
        let Metric::LatencyNs(requests, percentile) = self.bound.metric() else { return None };
        let of_row = |row: &Row| row.arm.workload.rate.map_or(0.0, Rate::per_s);
        let nearest = self.rows.iter().map(|row| of_row(row)).filter(|tried| *tried <= rate).reduce(f64::max)?;
        let mut pooled = new_histogram();
        for row in self.rows.iter().filter(|row| of_row(row) == nearest) {
            // All histograms have the same bounds, so adding cannot fail.
            let _ = pooled.add(row.latency_of(requests).as_ref());
        }
        (!pooled.is_empty()).then(|| pooled.value_at_quantile(percentile.share()) as f64)
    }

    /// Its answer, which is not the best yet.
    fn answer(&self) -> RateAnswer {
        let (rate, at_least, below, change) = match &self.highest {
            HighestRate::Found { rate, change, .. } => (Some(*rate), None, None, *change),
            HighestRate::AtLeast(tried) => (None, Some(*tried), None, None),
            HighestRate::None(tried) => (None, None, Some(*tried), None),
        };
        RateAnswer {
            load: load_in_words(&self.arm),
            path: self.arm.label(),
            notation: self.arm.path.to_string(),
            depth: self.arm.workload.depth,
            rate,
            at_least,
            below,
            best: false,
            of_best: None,
            complete: self.complete,
            change,
            pooled_ns: rate.and_then(|rate| self.pooled_ns(rate.value)),
            bounded_share: self.bounded_share,
            runs: self.rows.len(),
            floor_p99_ns: rate.map(|rate| rate.value).or(below).and_then(|near| floor_p99_ns(near, &self.rows)),
        }
    }
}

fn difference(next: &RateAnswer) -> &'static str {
    match next.of_best {
        Some(ratio) if !ratio.shows_difference() => ", no significant difference",
        _ => "",
    }
}

/// The load of a search in words.
pub fn load_in_words(arm: &Arm) -> String {
    let words = arm.without_rate().load_in_words();
    match arm.workload.arrivals {
        Arrivals::Even => words,
        arrivals => format!("{words}, {arrivals} arrivals"),
    }
}

/// The runs of each arm, whatever their rate.
fn by_arm(results: &Results) -> Vec<(Arm, Vec<&Row>)> {
    let mut arms: Vec<(Arm, Vec<&Row>)> = Vec::new();
    for ArmResults { arm, rows } in &results.arms {
        let base = arm.without_rate();
        match arms.iter_mut().find(|(known, _)| *known == base) {
            Some((_, known)) => known.extend(rows),
            None => arms.push((base, rows.iter().collect())),
        }
    }
    arms
}

/// The floor near a rate; `None` if no run there has one.
fn floor_p99_ns(rate: f64, rows: &[&Row]) -> Option<f64> {
    let is_near = |row: &&&Row| {
        let of_row = row.arm.workload.rate.map_or(0.0, Rate::per_s);
        (rate / NEAR..=rate * NEAR).contains(&of_row)
    };
    let floors = rows.iter().filter(is_near).filter_map(|row| row.figures.number(RunFigure::FloorP99Ns));
    let floors: Vec<f64> = floors.collect();
    (!floors.is_empty()).then(|| median(&floors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_measure::workload::Workload;

    /// A run at a rate whose requests all took as long.
    fn row(name: &str, rate: f64, repeat: u32, latency_ms: f64) -> Row {
        let base = Arm::of_null(name);
        let workload = Workload { rate: Some(Rate::new(rate).unwrap()), ..base.workload.clone() };
        let mut row = Row::new(Arm { workload, ..base }, repeat);
        row.latency.record_n((latency_ms * 1e6) as u64, rate as u64).unwrap();
        (row.ios, row.elapsed_s) = (rate as u64, 1.0);
        row
    }

    /// The runs of a search on a machine with this latency, in milliseconds, at each rate and run.
    fn searched(name: &str, latency_ms: impl Fn(f64, usize) -> f64) -> Vec<Row> {
        let mut search = RateSearch::new(bound(), 3);
        let mut rows: Vec<Row> = Vec::new();
        while let Some(rate) = search.next_rate() {
            let mut row = row(name, rate, search.trials_at(rate) as u32, latency_ms(rate, rows.len()));
            row.started_unix_s = rows.len() as f64;
            search.note(row.trial(bound()).unwrap());
            rows.push(row);
        }
        rows
    }

    /// Runs of a path whose latency reaches 5 ms at `edge`.
    fn runs(name: &str, edge: f64) -> Vec<Row> {
        searched(name, |rate, _| 5.0 * rate / edge)
    }

    fn bound() -> LatencyBound {
        "p99=5ms".parse().unwrap()
    }

    fn answers(rows: &[Row]) -> RateUntil {
        RateUntil::begun(bound(), 3).of_runs(&Results::new(rows, Vec::new()))
    }

    #[test]
    fn the_best_path_comes_first_with_its_rate_and_the_next_beside_it() {
        let rows = [runs("slow", 2000.0), runs("fast", 4000.0)].concat();
        let found = answers(&rows);
        let names: Vec<&str> = found.answers.iter().map(|answer| answer.path.as_str()).collect();
        assert_eq!(names, ["fast", "slow"]);
        let [fast, slow] = &found.answers[..] else { panic!() };
        let rate = fast.rate.unwrap();
        assert!((rate.value / 4000.0 - 1.0).abs() < 0.02 && rate.low < 4000.0 && 4000.0 < rate.high, "{rate:?}");
        assert!(fast.best && !slow.best && fast.of_best.is_none());
        let ratio = slow.of_best.unwrap();
        assert!((ratio.value - 0.5).abs() < 0.02 && ratio.shows_difference(), "{ratio:?}");
        let sentence = found.sentences().concat();
        assert!(sentence.starts_with("randread 4k: fast at depth 1 keeps p99 within 5 ms up to 4"), "{sentence}");
        assert!(sentence.contains("; next slow at depth 1: 2") && !sentence.contains("no significant"), "{sentence}");
    }

    #[test]
    fn a_run_that_did_not_keep_its_rate_misses_the_bound_however_fast_it_was() {
        let mut rows = runs("one", 4000.0);
        rows.iter_mut().filter(|row| row.arm.workload.rate.unwrap().per_s() > 3000.0).for_each(|row| {
            row.ios /= 2;
            row.latency.reset();
            row.latency.record_n(1000, row.ios).unwrap();
        });
        let rate = answers(&rows).answers[0].rate.unwrap();
        assert!((2000.0..=3200.0).contains(&rate.value), "{rate:?}");
    }

    #[test]
    fn a_bound_that_no_rate_keeps_or_every_rate_keeps_is_said_so() {
        let found = answers(&searched("one", |_, _| 7.0));
        assert_eq!((found.answers[0].below, found.answers[0].best), (Some(10.0), false));
        assert_eq!(
            found.sentences(),
            ["randread 4k: no rate keeps p99 within 5 ms; the lowest that was tried is 10/s."]
        );
        let found = answers(&searched("one", |_, _| 1.0));
        assert_eq!((found.answers[0].at_least, found.answers[0].best), (Some(16e6), true));
        assert_eq!(found.answers[0].rate_in_words(), "above 16 M/s");
    }

    #[test]
    fn a_search_that_is_not_complete_names_no_best_path() {
        let whole = [runs("one", 4000.0), runs("other", 2000.0)].concat();
        assert!(answers(&whole).answers[0].best);
        let cut = answers(&whole[..whole.len() - 1]);
        assert!(cut.answers.iter().all(|answer| !answer.best && answer.of_best.is_none() && answer.standing() == "-"));
        let sentence = cut.sentences().concat();
        assert!(sentence.contains("the search is not complete; so far other at depth 1 is at 2"), "{sentence}");
    }

    #[test]
    fn a_machine_that_changed_has_no_best_path_and_both_answers_are_said() {
        let changed = searched("one", |rate, run| if run < 20 { 5.0 * rate / 20_000.0 } else { 5.0 * rate / 4000.0 });
        let found = answers(&[changed.clone(), runs("other", 2000.0)].concat());
        let change = found.answers[0].change.unwrap();
        assert!((change.before / 20_000.0 - 1.0).abs() < 0.1 && change.after < 6000.0, "{change:?}");
        let interval = found.answers[0].rate.unwrap();
        assert!(interval.low <= change.after && change.before <= interval.high * 1.05, "{interval:?}");
        assert!(found.answers.iter().all(|answer| !answer.best), "{:?}", found.answers);
        let sentence = found.sentences().concat();
        assert!(sentence.contains("the machine changed during the search: one at depth 1"), "{sentence}");
        assert_eq!(found.warnings(10.0), [""; 0], "the sentence says it");
        // It does not matter where both answers are below that of another path.
        let found = answers(&[changed, runs("other", 200_000.0)].concat());
        assert!(found.answers[0].best && found.answers[0].path == "other", "{:?}", found.answers);
        let warnings = found.warnings(10.0);
        assert!(warnings.len() == 1 && warnings[0].contains("while one at depth 1 was searched"), "{warnings:?}");
    }

    #[test]
    fn a_bound_below_the_floor_names_no_best_path_and_one_close_to_it_is_noted() {
        let with_floor = |floor_ns: f64| {
            let mut rows = runs("one", 4000.0);
            for row in &mut rows {
                row.figures.set(RunFigure::FloorP99Ns, Ok(iolane_measure::telemetry::Sourced::new(floor_ns, "null")));
            }
            answers(&rows)
        };
        let far = with_floor(1e6);
        assert!(far.answers[0].best && far.warnings(10.0).is_empty(), "{:?}", far.warnings(10.0));
        let close = with_floor(2e6);
        let warnings = close.warnings(10.0);
        assert!(close.answers[0].best, "{:?}", close.answers);
        assert!(warnings.len() == 1 && warnings[0].contains("has a p99 of 2 ms"), "{warnings:?}");
        let below = with_floor(12e6);
        assert!(!below.answers[0].best && below.warnings(10.0).is_empty(), "{:?}", below.warnings(10.0));
        let sentence = below.sentences().concat();
        assert!(sentence.contains("wake up too late for p99 within 5 ms"), "{sentence}");
        assert!(sentence.contains("a p99 of 12 ms") && sentence.contains("service_p99=5ms"), "{sentence}");
    }

    #[test]
    fn stalls_that_the_median_run_does_not_have_are_noted() {
        // One run in three has stalls.
        let mut rows = searched("one", |rate, _| 5.0 * rate / 4000.0);
        for row in rows.iter_mut().filter(|row| row.repeat % 3 == 1) {
            row.latency.record_n(900_000_000, row.ios / 10).unwrap();
        }
        let found = answers(&rows);
        let warnings = found.warnings(1.0).join("\n");
        assert!(
            warnings.contains("p99 over the requests of all runs together exceeds the bound: 900 ms (one"),
            "{warnings}"
        );
        assert!(answers(&runs("one", 4000.0)).warnings(1.0).is_empty());
    }

    #[test]
    fn runs_with_few_requests_for_the_percentile_are_noted() {
        let rows = runs("one", 40.0);
        assert_eq!(answers(&rows).warnings(1.0).len(), 1, "{:?}", answers(&rows).warnings(1.0));
        assert_eq!(answers(&rows).warnings(10.0), [""; 0]);
    }
}
