//! The median of a sample. Every estimate uses it; it knows nothing of intervals.

/// The median of a sample; the mean of the middle two if their number is even. `NaN` for an empty sample.
pub fn median(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

pub(super) fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// A factor around 1, log-normal with this deviation (the sum of twelve uniform numbers is nearly normal).
#[cfg(test)]
pub(crate) fn disturbance(random: &mut impl rand_core::Rng, deviation: f64) -> f64 {
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (deviation * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
