//! The median of repeats with its interval: what reports show of an arm.

use super::bootstrap::{interval, resample_medians};
use super::estimate::Estimate;
use super::few::widened;
use super::sample::median;

/// The median of a sample and its 95 % percentile-bootstrap interval (Efron and Tibshirani, "An Introduction to the
/// Bootstrap", chapter 13); of few repeats, at least that of Student's t. With one repeat the interval is that value.
pub fn estimate_median(sample: &[f64]) -> Estimate {
    let (low, high) = interval(resample_medians(&[sample], |medians| medians[0]));
    widened(Estimate { value: median(sample), low, high }, sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::REPEATS_ENOUGH;
    use proptest::prelude::*;

    #[test]
    fn the_estimate_of_an_empty_sample_is_nan() {
        assert!(estimate_median(&[]).value.is_nan());
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

    proptest! {
        #[test]
        fn the_interval_lies_within_the_sample_and_around_the_median(sample in prop::collection::vec(0.1f64..1e9, REPEATS_ENOUGH..12)) {
            let estimate = estimate_median(&sample);
            let (least, most) = sample.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            prop_assert!(least <= estimate.low && estimate.low <= estimate.value);
            prop_assert!(estimate.value <= estimate.high && estimate.high <= most);
        }
    }
}
