//! The answers of a rate search: for each load the highest rate that keeps the latency within the bound, by path, the best
//! first.

use serde::{Deserialize, Serialize};

use crate::format::{count, range_beside, time, times};
use crate::plan::{Arm, LatencyBound};
use crate::rows::{ArmResults, FLOORS_MIN, Results, Row};
use crate::search::{self, HighestRate, Trial, has_few_requests, highest_rate, ratio};
use crate::stats::{Estimate, median};
use iolane_measure::figures::RunFigure;
use iolane_measure::workload::{Arrivals, Rate};

/// A bound, and which rates keep it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateUntil {
    #[serde(with = "iolane_measure::serde_text")]
    pub bound: LatencyBound,
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
    /// Whether it is the best of its load.
    pub best: bool,
    /// Its rate over that of the best; `None` for the best, and where one of them has no rate.
    pub of_best: Option<Estimate>,
    /// Runs that it comes from.
    pub runs: usize,
    /// The 99th percentile of the same schedule on `null`, in nanoseconds: the median of the runs near the highest rate.
    pub floor_p99_ns: Option<f64>,
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

    /// Its place beside the best: `best`, `0.85x`, or `~0.98x` if no difference is shown.
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
    /// The answers of the runs of a search.
    pub fn new(bound: LatencyBound, results: &Results) -> Self {
        let mut found: Vec<(Arm, HighestRate, Vec<&Row>)> = Vec::new();
        for (base, rows) in by_arm(results) {
            let trials: Vec<Trial> = rows.iter().filter_map(|row| row.trial(bound)).collect();
            found.push((base, highest_rate(&trials, bound), rows));
        }
        // Loads in the order of their keys; the highest rate of each first.
        let merit = |highest: &HighestRate| match highest {
            HighestRate::AtLeast(rate) => (2, *rate),
            HighestRate::Found { rate, .. } => (1, rate.value),
            HighestRate::None(rate) => (0, -rate),
        };
        found.sort_by(|(a, a_rate, _), (b, b_rate, _)| {
            let ((a_class, a_value), (b_class, b_value)) = (merit(a_rate), merit(b_rate));
            a.load_key().cmp(&b.load_key()).then(b_class.cmp(&a_class)).then(b_value.total_cmp(&a_value))
        });
        let mut answers = Vec::new();
        for of_load in found.chunk_by(|a, b| a.0.load_key() == b.0.load_key()) {
            for (place, (arm, highest, rows)) in of_load.iter().enumerate() {
                let (rate, at_least, below) = match highest {
                    HighestRate::Found { rate, .. } => (Some(*rate), None, None),
                    HighestRate::AtLeast(tried) => (None, Some(*tried), None),
                    HighestRate::None(tried) => (None, None, Some(*tried)),
                };
                answers.push(RateAnswer {
                    load: load_in_words(arm),
                    path: arm.label(),
                    notation: arm.path.to_string(),
                    depth: arm.workload.depth,
                    rate,
                    at_least,
                    below,
                    best: place == 0 && below.is_none(),
                    of_best: if place == 0 { None } else { ratio(highest, &of_load[0].1) },
                    runs: rows.len(),
                    floor_p99_ns: floor_p99_ns(highest, rows),
                });
            }
        }
        Self { bound, answers }
    }

    /// What to know before trusting the answers.
    pub fn warnings(&self, runtime_s: f64) -> Vec<String> {
        let mut warnings = Vec::new();
        let near_floor = self.answers.iter().filter_map(|answer| Some((answer, answer.floor_p99_ns?)));
        let near_floor = near_floor.filter(|(_, floor_ns)| self.bound.max_ns() < FLOORS_MIN * floor_ns);
        if let Some((answer, floor_ns)) = near_floor.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            warnings.push(format!(
                "the bound of {} is close to the floor of this machine: the same schedule on null has a p99 of {} near the \
                 highest rate of {}, which is the time that threads take to wake up",
                time(self.bound.max_ns()),
                time(floor_ns),
                answer.path
            ));
        }
        let percentile = self.bound.percentile;
        let lowest = self.answers.iter().filter_map(|answer| answer.rate).map(|rate| rate.value).reduce(f64::min);
        if let Some(rate) = lowest.filter(|rate| has_few_requests(percentile, *rate, runtime_s)) {
            let requests = rate * search::runtime_s(percentile, rate, runtime_s);
            let few =
                format!("a run at {} has {} requests, few for {percentile}", per_s(rate), count(requests.round()));
            warnings.push(format!("{few}: use a longer --runtime"));
        }
        warnings
    }

    /// A sentence for each load: the best path, its rate, and the next.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |answers: &[RateAnswer]| {
            let best = &answers[0];
            let bound = self.bound.in_words();
            if !best.best {
                return format!(
                    "{}: no rate keeps {bound}; the lowest that was tried is {}.",
                    best.load,
                    per_s(best.below.unwrap_or(0.0))
                );
            }
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

/// The floor near the highest rate; `None` if no run there has one.
fn floor_p99_ns(highest: &HighestRate, rows: &[&Row]) -> Option<f64> {
    let HighestRate::Found { rate, .. } = highest else { return None };
    let is_near = |row: &&&Row| {
        let of_row = row.arm.workload.rate.map_or(0.0, Rate::per_s);
        (rate.value / NEAR..=rate.value * NEAR).contains(&of_row)
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

    /// Runs of a path whose latency reaches 5 ms at `edge`.
    fn runs(name: &str, edge: f64) -> Vec<Row> {
        let rates = [0.25, 0.5, 0.8, 0.9, 1.1, 1.3, 4.0].map(|share| edge * share);
        let of_rate =
            |rate: f64| (0..3).map(move |repeat| row(name, rate, repeat, 5.0 * rate / edge)).collect::<Vec<_>>();
        rates.into_iter().flat_map(of_rate).collect()
    }

    fn answers(rows: &[Row]) -> RateUntil {
        RateUntil::new("p99=5ms".parse().unwrap(), &Results::new(rows, Vec::new()))
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
        let never: Vec<Row> = (0..3).map(|repeat| row("one", 10.0, repeat, 7.0)).collect();
        let found = answers(&never);
        assert_eq!((found.answers[0].below, found.answers[0].best), (Some(10.0), false));
        assert_eq!(
            found.sentences(),
            ["randread 4k: no rate keeps p99 within 5 ms; the lowest that was tried is 10/s."]
        );
        let always: Vec<Row> = (0..3).map(|repeat| row("one", 9000.0, repeat, 1.0)).collect();
        let found = answers(&always);
        assert_eq!((found.answers[0].at_least, found.answers[0].best), (Some(9000.0), true));
        assert_eq!(found.answers[0].rate_in_words(), "above 9 k/s");
    }

    #[test]
    fn a_bound_close_to_the_floor_and_too_few_requests_are_noted() {
        let mut rows = runs("one", 40.0);
        assert_eq!(answers(&rows).warnings(1.0).len(), 1, "{:?}", answers(&rows).warnings(1.0));
        assert_eq!(answers(&rows).warnings(10.0), [""; 0]);
        for row in &mut rows {
            row.figures.set(RunFigure::FloorP99Ns, Ok(iolane_measure::telemetry::Sourced::new(2e6, "null")));
        }
        let warnings = answers(&rows).warnings(10.0);
        assert!(warnings.len() == 1 && warnings[0].contains("has a p99 of 2 ms"), "{warnings:?}");
    }
}
