//! The median of repeats with its interval: what reports show of an arm, and what claims compare with their bounds.

use super::estimate::{Estimate, TAIL};
use super::few::at_least_students;
use super::sample::median;
use statrs::distribution::{Binomial, DiscreteCDF};

/// The median of a sample and its 95 % interval. Of an empty sample it is `NaN`; of one repeat the interval is that value.
pub fn estimate_median(sample: &[f64]) -> Estimate {
    estimate_median_at(sample, TAIL)
}

/// The median of a sample, with an interval that the true median is below with at most the probability `tail`, and above it
/// likewise.
///
/// The ends are order statistics: of the distribution of the repeats nothing is assumed but that they are independent (Conover,
/// "Practical Nonparametric Statistics", section 3.2), and between two of them the end is interpolated (Hettmansperger and
/// Sheather, "Confidence intervals based on interpolated order statistics", 1986). Few repeats have no order statistic so far out:
/// below six for 95 %. Then the interval is their range and at least that of Student's t.
pub fn estimate_median_at(sample: &[f64], tail: f64) -> Estimate {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let value = median(&sorted);
    let [Some(first), Some(last)] = [sorted.first(), sorted.last()] else {
        return Estimate { value, low: value, high: value };
    };
    match order_statistics(&sorted, tail) {
        Some((low, high)) => Estimate { value, low, high },
        None => at_least_students(Estimate { value, low: *first, high: *last }, sample, tail),
    }
}

/// The two ends, each at its distance from the smallest and the largest value. `None` if the median is beyond the extremes with a
/// larger probability than `tail`.
fn order_statistics(sorted: &[f64], tail: f64) -> Option<(f64, f64)> {
    let count = sorted.len();
    let halves = Binomial::new(0.5, count as u64).ok()?;
    // The median is below the value of a rank (from 0) if at most `rank` of the repeats are below the median.
    let beyond = |rank: usize| halves.cdf(rank as u64);
    let rank = (0..count / 2).take_while(|rank| beyond(*rank) <= tail).last()?;
    let inner = (rank + 1).min(count - 1 - rank);
    let way = ((tail - beyond(rank)) / (beyond(rank + 1) - beyond(rank))).clamp(0.0, 1.0);
    let (outside, inside) = ((rank + 1) as f64, (count - rank - 1) as f64);
    let share = inside * way / (outside + (inside - outside) * way);
    let between = |from: f64, to: f64| from + share * (to - from);
    Some((between(sorted[rank], sorted[inner]), between(sorted[count - 1 - rank], sorted[count - 1 - inner])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_estimate_of_an_empty_sample_is_nan_and_of_one_value_that_value() {
        assert!(estimate_median(&[]).value.is_nan());
        assert_eq!(estimate_median(&[3.0]), Estimate { value: 3.0, low: 3.0, high: 3.0 });
    }

    /// Of six repeats all lie on one side of the median with probability 1/64 each: less than 2.5 %. The second from each end does
    /// with 7/64. 2.5 % are a tenth of the way, and 0.3636 of the distance (5 x 0.1 / (1 + 4 x 0.1)).
    #[test]
    fn the_end_lies_between_two_repeats_as_the_probability_between_theirs() {
        let estimate = estimate_median(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let inward = 5.0 * 0.1 / (1.0 + 4.0 * 0.1);
        assert_eq!(estimate.value, 3.5);
        assert!((estimate.low - (1.0 + inward)).abs() < 1e-9 && (estimate.high - (6.0 - inward)).abs() < 1e-9);
    }

    #[test]
    fn a_smaller_tail_makes_the_interval_wider_for_any_number_of_repeats() {
        for count in 2..40 {
            let sample: Vec<f64> = (0..count).map(|repeat| 100.0 + f64::from(repeat * 11 % 41)).collect();
            let widths: Vec<f64> = [0.1, 0.025, 0.01, 0.001, 0.0001]
                .map(|tail| estimate_median_at(&sample, tail))
                .iter()
                .map(|estimate| estimate.high - estimate.low)
                .collect();
            assert!(widths.is_sorted() && widths[0] < widths[4], "{count}: {widths:?}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_lies_around_the_median_and_of_enough_repeats_within_the_sample(
            sample in prop::collection::vec(0.1f64..1e9, 1..30),
        ) {
            let estimate = estimate_median(&sample);
            prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
            let (least, most) = sample.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            prop_assert!(sample.len() < 6 || (least <= estimate.low && estimate.high <= most));
        }
    }
}
