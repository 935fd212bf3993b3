//! The ratio of two arms measured in different sessions, as on two machines, whose repeats are not paired.

use super::bootstrap::{interval, resampled_medians};
use super::estimate::{Estimate, TAIL};
use super::few::widened_ratio;
use super::sample::median;

/// The ratio of two medians, with the interval from resampling both sides independently; the numbers of repeats may
/// differ. Of few repeats it is at least that of Student's t (Welch). `NaN` if a side has none.
pub fn estimate_unpaired_ratio(numerators: &[f64], denominators: &[f64]) -> Estimate {
    let (low, high) = interval(resampled_medians(&[numerators, denominators], |medians| medians[0] / medians[1]), TAIL);
    let estimate = Estimate { value: median(numerators) / median(denominators), low, high };
    widened_ratio(estimate, numerators, denominators)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_repeats_on_both_sides_show_no_difference() {
        let sample = [10.0, 11.0, 12.0, 13.0, 14.0];
        let ratio = estimate_unpaired_ratio(&sample, &sample);
        assert!(ratio.value == 1.0 && ratio.low < 1.0 && ratio.high > 1.0, "{ratio:?}");
    }

    #[test]
    fn sides_without_noise_have_an_exact_ratio_for_any_numbers_of_repeats() {
        let ratio = estimate_unpaired_ratio(&[6.0; 3], &[4.0; 8]);
        assert_eq!(ratio, Estimate { value: 1.5, low: 1.5, high: 1.5 });
    }

    #[test]
    fn the_ratio_to_a_side_without_repeats_is_nan() {
        assert!(estimate_unpaired_ratio(&[], &[1.0]).value.is_nan());
        assert!(estimate_unpaired_ratio(&[1.0], &[]).value.is_nan());
    }

    /// Of 20 ways to deal six values to two sides of three, in two the sides do not overlap.
    #[test]
    fn with_three_repeats_a_side_a_tenth_of_all_deals_shows_a_difference() {
        let mut shown = 0;
        for dealt in (0u32..64).filter(|dealt| dealt.count_ones() == 3) {
            let side = |is_mine: u32| -> Vec<f64> {
                (0..6).filter(|bit| dealt >> bit & 1 == is_mine).map(|bit| 100.0 + f64::from(bit)).collect()
            };
            shown += u32::from(estimate_unpaired_ratio(&side(1), &side(0)).shows_difference());
        }
        assert_eq!(shown, 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_interval_lies_within_the_extreme_ratios_of_the_two_sides(
            a in prop::collection::vec(1f64..1e6, 5..9),
            b in prop::collection::vec(1f64..1e6, 5..9),
        ) {
            let ratio = estimate_unpaired_ratio(&a, &b);
            let ends = |side: &[f64]| side.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
            let ((a_low, a_high), (b_low, b_high)) = (ends(&a), ends(&b));
            prop_assert!(a_low / b_high <= ratio.low && ratio.low <= ratio.high && ratio.high <= a_high / b_low);
        }
    }
}
