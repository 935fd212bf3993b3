//! The monotone curve nearest to a series of values (isotonic regression by pooling adjacent violators; Barlow and others,
//! "Statistical Inference under Order Restrictions", chapter 1).

/// The values that do not fall and are nearest to these by weighted least squares. Both slices have the same length.
pub fn isotonic(values: &[f64], weights: &[f64]) -> Vec<f64> {
    assert_eq!(values.len(), weights.len(), "each value has a weight");
    // Blocks of neighbours that share a value: the value, its weight, its length.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut block = (*value, *weight, 1);
        while let Some((before, before_weight, length)) = blocks.pop_if(|(before, ..)| *before > block.0) {
            let total = before_weight + block.1;
            block = ((before * before_weight + block.0 * block.1) / total, total, length + block.2);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(value, _, length)| std::iter::repeat_n(value, length)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_in_the_wrong_order_share_their_mean() {
        assert_eq!(isotonic(&[1.0, 3.0, 2.0, 4.0], &[1.0; 4]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(isotonic(&[3.0, 1.0], &[3.0, 1.0]), [2.5, 2.5]);
        assert_eq!(isotonic(&[], &[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn the_curve_does_not_fall_keeps_the_mean_and_leaves_a_monotone_series_alone(
            mut values in prop::collection::vec(-100.0..100.0_f64, 1..30),
        ) {
            let weights = vec![1.0; values.len()];
            let curve = isotonic(&values, &weights);
            prop_assert!(curve.is_sorted());
            let sum = |values: &[f64]| values.iter().sum::<f64>();
            prop_assert!((sum(&curve) - sum(&values)).abs() < 1e-6);
            values.sort_by(f64::total_cmp);
            prop_assert_eq!(isotonic(&values, &weights), values);
        }
    }
}
