//! Noise: how much the repeats of one arm differ, as a share of their value. All repeats count; none is an outlier.

use super::sample::median;

/// Scales the median absolute deviation of normal noise to its standard deviation: one over the normal distribution's 75 %
/// point (Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", 1993).
const NORMAL_CONSISTENCY: f64 = 1.4826;

/// The coefficient of variation: the sample's standard deviation (over one less than the repeats) divided by its mean.
/// `None` with fewer than two repeats, or if the mean is not above 0.
pub fn variation(sample: &[f64]) -> Option<f64> {
    let count = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / count;
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    (sample.len() >= 2 && mean > 0.0).then(|| (squares / (count - 1.0)).sqrt() / mean)
}

/// The robust coefficient of variation: 1.4826 times the median absolute deviation from the median, divided by the
/// median. It stays bounded while fewer than half of the repeats are disturbed. `None` with fewer than two repeats, or if
/// the median is not above 0.
pub fn robust_variation(sample: &[f64]) -> Option<f64> {
    let middle = median(sample);
    let deviations: Vec<f64> = sample.iter().map(|value| (value - middle).abs()).collect();
    (sample.len() >= 2 && middle > 0.0).then(|| NORMAL_CONSISTENCY * median(&deviations) / middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_disturbed_repeat_moves_the_plain_variation_and_hardly_the_robust_one() {
        let disturbed = [99.0, 100.0, 101.0, 100.5, 10.0];
        assert!(variation(&disturbed).unwrap() > 0.4);
        assert!(robust_variation(&disturbed).unwrap() < 0.02);
    }

    #[test]
    fn one_repeat_shows_no_noise_and_nothing_measured_has_no_share() {
        for sample in [&[][..], &[5.0], &[0.0, 0.0], &[-1.0, -2.0], &[f64::NAN, f64::NAN]] {
            assert_eq!((variation(sample), robust_variation(sample)), (None, None), "{sample:?}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_a_share_so_the_unit_does_not_matter(sample in prop::collection::vec(1f64..1e6, 2..20)) {
            let in_other_unit: Vec<f64> = sample.iter().map(|value| value * 1024.0).collect();
            // A power of two changes no digit.
            prop_assert_eq!(variation(&sample), variation(&in_other_unit));
            prop_assert_eq!(robust_variation(&sample), robust_variation(&in_other_unit));
        }
    }
}
