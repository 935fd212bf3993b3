//! Whether the machine stayed the same during a search. Each run lies above or below the curve through all runs; on a machine
//! that stays the same, the order of these differences is random. The sum of the differences up to each run (CUSUM; Page,
//! "Continuous Inspection Schemes", 1954) then stays small; a change of the machine makes it large at the change. How large it
//! becomes by chance is found by shuffling the differences (a permutation test).

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::curve::{RunsByRate, in_bounds};
use super::trial::Trial;
use crate::plan::LatencyBound;
use crate::stats::shuffle;

/// The chance to see a change on a machine that stays the same.
const FALSE_ALARMS: f64 = 0.005;
const SHUFFLES: usize = 2000;
const SEED: u64 = 0x1071_a0e6;

/// The fewest runs on each side of a change.
const RUNS_MIN: usize = 5;

/// A run counts as this factor from the curve at most, so that one stall is no change.
const FACTOR_MAX: f64 = 4.0;

/// The first run after the change; `None` if the runs show none. `trials` are in the order of time.
pub(super) fn first_after_change(trials: &[Trial], bound: LatencyBound) -> Option<usize> {
    if trials.len() < 2 * RUNS_MIN {
        return None;
    }
    let mut differences = differences(trials, bound);
    let (first, largest) = largest_sum(&differences);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let by_chance = (0..SHUFFLES).filter(|_| {
        shuffle(&mut differences, &mut random);
        largest_sum(&differences).1 >= largest
    });
    (((by_chance.count() + 1) as f64) < FALSE_ALARMS * SHUFFLES as f64).then_some(first)
}

/// How far each run is above the curve through all, less the mean.
fn differences(trials: &[Trial], bound: LatencyBound) -> Vec<f64> {
    let by_rate = RunsByRate::new(trials, bound);
    let curve = by_rate.curve();
    let at = |rate: f64| by_rate.rates().iter().position(|known| *known == rate).map_or(0.0, |place| curve[place]);
    let most = FACTOR_MAX.ln();
    let above: Vec<f64> =
        trials.iter().map(|trial| (in_bounds(*trial, bound) - at(trial.rate)).clamp(-most, most)).collect();
    let mean = above.iter().sum::<f64>() / above.len() as f64;
    above.into_iter().map(|one| one - mean).collect()
}

/// The run before which the sum of the differences is largest, whatever its sign, and that sum.
fn largest_sum(differences: &[f64]) -> (usize, f64) {
    let mut sum = 0.0;
    let sums = differences.iter().enumerate().map(|(index, one)| {
        sum += one;
        (index + 1, f64::abs(sum))
    });
    let between = sums.filter(|(first, _)| (RUNS_MIN..=differences.len() - RUNS_MIN).contains(first));
    between.fold((0, 0.0), |largest, one| if one.1 > largest.1 { one } else { largest })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs at three rates in turn, the later ones slower by a factor.
    fn trials(count: usize, change_at: usize, factor: f64) -> Vec<Trial> {
        let of = |index: usize| {
            let rate = [1000.0, 2000.0, 3000.0][index % 3];
            let noise = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2, 0.85][index * 5 % 7];
            let slower = if index < change_at { 1.0 } else { factor };
            Trial { rate, latency_ns: rate * 2000.0 * noise * slower }
        };
        (0..count).map(of).collect()
    }

    #[test]
    fn a_machine_that_becomes_slower_is_noticed_at_the_run_where_it_did() {
        let bound = "p99=4ms".parse().unwrap();
        assert_eq!(first_after_change(&trials(40, 17, 3.0), bound), Some(17));
        assert_eq!(first_after_change(&trials(40, 40, 1.0), bound), None);
        assert_eq!(first_after_change(&trials(9, 4, 9.0), bound), None, "too few runs");
    }

    #[test]
    fn stalls_are_no_change() {
        let mut stalled = trials(40, 40, 1.0);
        [3, 4, 21].iter().for_each(|index: &usize| stalled[*index].latency_ns = f64::INFINITY);
        assert_eq!(first_after_change(&stalled, "p99=4ms".parse().unwrap()), None);
    }
}
