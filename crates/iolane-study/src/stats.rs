//! Statistics of repeated runs: medians, bootstrap intervals, and ratios between arms paired by repeat.
//! Everything is deterministic by seed, so that a report made twice from one record says the same.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The median of the repeats, or of their ratios.
    pub value: f64,
    /// Lower end of the 95 % bootstrap interval.
    pub low: f64,
    /// Upper end of the 95 % bootstrap interval.
    pub high: f64,
}

impl Estimate {
    /// For a ratio: whether the interval leaves 1.0 out. If it does not, no difference was shown.
    pub fn shows_difference(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x1071_a0e5;

/// The median of a sample; the mean of the middle two if their number is even. `NaN` for an empty sample.
pub fn median(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// The median of a sample and its 95 % percentile-bootstrap interval (Efron and Tibshirani, "An Introduction to the
/// Bootstrap", chapter 13). With few repeats the interval cannot be narrower than they allow: with one it is the value.
pub fn estimate_median(sample: &[f64]) -> Estimate {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut resample = vec![0.0; sample.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.fill_with(|| sample[((u128::from(random.next_u64()) * sample.len() as u128) >> 64) as usize]);
            resample.sort_by(f64::total_cmp);
            median_of_sorted(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
    Estimate { value: median(sample), low: at(0.025), high: at(0.975) }
}

/// The median ratio of two arms, repeat by repeat, with its interval: what disturbed the machine during a repeat
/// disturbed both, and cancels out.
pub fn estimate_ratio(numerators: &[f64], denominators: &[f64]) -> Estimate {
    let ratios: Vec<f64> = numerators.iter().zip(denominators).map(|(a, b)| a / b).collect();
    estimate_median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    /// A resample's median is the smallest of 5 values with probability 0.0579 (at least three of five draws hit it), more
    /// than 2.5 %, so both ends of the interval are extremes.
    #[test]
    fn with_five_repeats_the_interval_spans_the_sample() {
        let estimate = estimate_median(&[10.0, 11.0, 12.0, 13.0, 14.0]);
        assert_eq!((estimate.value, estimate.low, estimate.high), (12.0, 10.0, 14.0));
    }

    /// With 9, the median is the smallest with probability 0.0016 and one of the two smallest with 0.0304 (at least five of
    /// nine draws), so the 2.5 % point is the second value.
    #[test]
    fn with_nine_repeats_the_ends_are_the_second_from_each_side() {
        let sample: Vec<f64> = (1..=9).map(f64::from).collect();
        let estimate = estimate_median(&sample);
        assert_eq!((estimate.low, estimate.high), (2.0, 8.0));
    }

    #[test]
    fn a_ratio_is_paired_so_that_what_disturbs_both_cancels_out() {
        let slow_machine = [1.0, 0.5, 0.8, 1.0, 0.3];
        let (a, b) = (slow_machine.map(|speed| 200.0 * speed), slow_machine.map(|speed| 100.0 * speed));
        let ratio = estimate_ratio(&a, &b);
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 2.0, 2.0));
        assert!(ratio.shows_difference());
        assert!(!Estimate { value: 1.1, low: 0.9, high: 1.3 }.shows_difference());
    }

    proptest! {
        #[test]
        fn the_interval_lies_within_the_sample_and_around_the_median(sample in prop::collection::vec(0.1f64..1e9, 1..12)) {
            let estimate = estimate_median(&sample);
            let (least, most) = sample.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            prop_assert!(least <= estimate.low && estimate.low <= estimate.value);
            prop_assert!(estimate.value <= estimate.high && estimate.high <= most);
        }
    }
}
