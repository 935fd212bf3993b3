//! The answer of a rate search: the rate at which its curve passes the bound. The interval comes from resampled runs. If the machine changed meanwhile, it covers the answer before the change and the one after.

use serde::{Deserialize, Serialize};

use super::change::first_after_change;
use super::curve::{Edge, RunsByRate};
use super::trial::{STEP, Trial};
use crate::plan::LatencyBound;
use crate::stats::Estimate;

/// The answer of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum HighestRate {
    /// The rate at which the curve passes the bound, in requests per second, and that of each resample of the runs. If the
    /// machine changed during the search, half of the resamples are of the runs before, half of those after.
    Found { rate: Estimate, resampled: Vec<f64>, change: Option<Change> },
    /// The bound held at every rate that was tried; the highest.
    AtLeast(f64),
    /// The bound was missed at every rate that was tried; the lowest.
    None(f64),
}

/// The answers of the runs before and after the machine changed, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub before: f64,
    pub after: f64,
}

impl Change {
    /// Answers that differ by more than this factor are those of two machines; an interval around both says nothing of either.
    const SAME_MACHINE: f64 = 1.5;

    /// Whether the change is so large that no answer describes the machine.
    pub fn is_large(self) -> bool {
        !(1.0 / Self::SAME_MACHINE..=Self::SAME_MACHINE).contains(&(self.after / self.before))
    }
}

/// The share of resamples outside of an interval, on each side. A search measures most where its runs have led it, so that
/// resampling these runs shows less spread than another search would have. With this share 95 % of the intervals hold the edge
/// in the simulations of `rates`, and 93 % where a run varies by more than two and one in seven is ten times slower.
const TAIL: f64 = 0.003;

/// The highest rate that keeps the bound.
pub fn highest_rate(trials: &[Trial], bound: LatencyBound) -> HighestRate {
    let by_rate = RunsByRate::new(trials, bound);
    let value = match by_rate.edge() {
        Edge::At(value) => value,
        Edge::Above(rate) => return HighestRate::AtLeast(rate),
        Edge::Below(rate) => return HighestRate::None(rate),
    };
    let (change, mut resampled) = match first_after_change(trials, bound) {
        None => (None, by_rate.resampled()),
        Some(first) => {
            let [before, after] = [&trials[..first], &trials[first..]].map(|trials| RunsByRate::new(trials, bound));
            let half = |part: &RunsByRate| part.resampled().into_iter().step_by(2);
            let change = Change { before: before.nearest_to_bound(), after: after.nearest_to_bound() };
            (Some(change), half(&before).chain(half(&after)).collect())
        }
    };
    let rate = estimate(value, &mut resampled);
    HighestRate::Found { rate, resampled, change }
}

/// A value with the interval of its resamples, which are sorted. Between two rates the curve is not known: the interval is a
/// step wide at least.
fn estimate(value: f64, resampled: &mut [f64]) -> Estimate {
    resampled.sort_by(f64::total_cmp);
    let at = |share: f64| resampled[((resampled.len() - 1) as f64 * share).round() as usize];
    let half_step = STEP.sqrt();
    Estimate { value, low: at(TAIL).min(value / half_step), high: at(1.0 - TAIL).max(value * half_step) }
}

/// One highest rate over another, with an interval; `None` unless both were found.
pub fn ratio(one: &HighestRate, other: &HighestRate) -> Option<Estimate> {
    let (HighestRate::Found { rate, resampled, .. }, HighestRate::Found { rate: base, resampled: base_resampled, .. }) =
        (one, other)
    else {
        return None;
    };
    // The searches are independent: each resample of one with one of the other in another order.
    let count = resampled.len().min(base_resampled.len());
    let mut ratios: Vec<f64> =
        (0..count).map(|index| resampled[index] / base_resampled[index * 7919 % count]).collect();
    Some(estimate(rate.value / base.value, &mut ratios))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(points: &[(f64, &[f64])]) -> Vec<Trial> {
        let of = |(rate, latencies_ms): &(f64, &[f64])| {
            let rate = *rate;
            latencies_ms.iter().map(move |ms| Trial { rate, latency_ns: ms * 1e6 }).collect::<Vec<_>>()
        };
        points.iter().flat_map(of).collect()
    }

    fn answer(points: &[(f64, &[f64])]) -> HighestRate {
        highest_rate(&trials(points), "p99=4ms".parse().unwrap())
    }

    #[test]
    fn the_answer_lies_between_the_rates_around_the_bound() {
        // 2 ms at 1000, 8 ms at 4000: halfway in logarithms.
        let HighestRate::Found { rate, .. } = answer(&[(1000.0, &[2.0; 3]), (4000.0, &[8.0; 3])]) else { panic!() };
        assert!((rate.value - 2000.0).abs() < 1e-6, "{rate:?}");
        assert!(rate.low < 2000.0 && rate.high > 2000.0, "{rate:?}");
    }

    #[test]
    fn one_disturbed_run_does_not_move_the_answer() {
        let calm: &[(f64, &[f64])] =
            &[(1000.0, &[1.0; 3]), (2000.0, &[2.0; 3]), (3000.0, &[3.0; 3]), (5000.0, &[9.0; 3])];
        let disturbed: &[(f64, &[f64])] =
            &[(1000.0, &[1.0; 3]), (2000.0, &[2.0, 90.0, 2.0]), (3000.0, &[3.0; 3]), (5000.0, &[9.0; 3])];
        let value = |points| match answer(points) {
            HighestRate::Found { rate, .. } => rate.value,
            other => panic!("{other:?}"),
        };
        assert!((value(calm) - value(disturbed)).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_does_not_keep_its_rate_misses_any_bound() {
        let HighestRate::Found { rate, .. } = answer(&[(1000.0, &[1.0; 3]), (2000.0, &[f64::INFINITY; 3])]) else {
            panic!()
        };
        assert!((1000.0..2000.0).contains(&rate.value), "{rate:?}");
    }

    #[test]
    fn ends_that_were_not_reached_are_named() {
        assert_eq!(answer(&[(10.0, &[1.0]), (1000.0, &[3.9])]), HighestRate::AtLeast(1000.0));
        assert_eq!(answer(&[(10.0, &[5.0]), (1000.0, &[3.9])]), HighestRate::None(10.0));
        assert_eq!(ratio(&HighestRate::None(1.0), &HighestRate::AtLeast(1.0)), None);
    }
}
