//! Rank correlation: whether the measured order agrees with the published one, independent of unit and machine.

use super::bootstrap::{common_repeats, interval, resample_medians};
use super::estimate::Estimate;
use super::median::estimate_median_at;
use super::paired::estimate_ratio_at;
use super::sample::median;

/// The correlation of two items is either 1 or -1.
const ITEMS_MIN: usize = 3;

/// Kendall's tau-b (Kendall, "The treatment of ties in ranking problems", 1945): the share of concordant pairs minus the
/// share of discordant pairs, adjusted for ties. From -1 to 1. `None` if the lengths differ, if a value is `NaN`, or if all
/// values of a side are equal.
///
/// Takes quadratic time, which for the few items of a published table is faster than sorting.
pub fn kendall_tau_b(a: &[f64], b: &[f64]) -> Option<f64> {
    if !can_be_ranked(a, b) {
        return None;
    }
    let (mut agreement, mut untied_a, mut untied_b) = (0_i64, 0_i64, 0_i64);
    for (item, (a_item, b_item)) in a.iter().zip(b).enumerate() {
        for (a_other, b_other) in a[..item].iter().zip(&b[..item]) {
            let (in_a, in_b) = (order(*a_item, *a_other), order(*b_item, *b_other));
            agreement += in_a * in_b;
            untied_a += in_a.abs();
            untied_b += in_b.abs();
        }
    }
    let scale = (untied_a as f64 * untied_b as f64).sqrt();
    (scale > 0.0).then(|| agreement as f64 / scale)
}

/// Spearman's rho: the linear correlation of the ranks; ties have the mean of their ranks. From -1 to 1. `None` where
/// [`kendall_tau_b`] is `None`.
pub fn spearman_rho(a: &[f64], b: &[f64]) -> Option<f64> {
    if !can_be_ranked(a, b) {
        return None;
    }
    let (ranks_a, ranks_b) = (centred_ranks(a), centred_ranks(b));
    let product = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
    let scale = (product(&ranks_a, &ranks_a) * product(&ranks_b, &ranks_b)).sqrt();
    (scale > 0.0).then(|| (product(&ranks_a, &ranks_b) / scale).clamp(-1.0, 1.0))
}

/// Agreement of the measured with the published order: Kendall's tau-b between the published values and the medians of the
/// repeats, where `measured[i]` are the repeats of the item `published[i]`. `tail` is the probability of a true value beyond each end.
///
/// Noise makes orders less alike, never more. The lower end therefore comes from resampling the repeats, with the same draw for every
/// item; a resample whose medians are all equal counts as 0. The upper end, which must not be too low, is that of an order in which
/// only those pairs of items are the wrong way round whose ratio shows it; as any pair can show it by chance, they share the tail.
///
/// `None` with fewer than three items, without repeats or with different numbers of them, with a `NaN`, or if all published
/// values or all medians are equal. The interval may exclude the value: if the medians are in exactly the published order
/// but differ by less than the noise, most resamples are below 1.
pub fn estimate_rank_correlation(published: &[f64], measured: &[Vec<f64>], tail: f64) -> Option<Estimate> {
    common_repeats(measured)?;
    if published.len() < ITEMS_MIN || measured.iter().flatten().any(|value| value.is_nan()) {
        return None;
    }
    let medians: Vec<f64> = measured.iter().map(|repeats| median(repeats)).collect();
    let value = kendall_tau_b(published, &medians)?;
    let resampled = resample_medians(measured, |medians| kendall_tau_b(published, medians).unwrap_or(0.0));
    let (low, _) = interval(resampled, tail);
    Some(Estimate { value, low, high: most_agreement(published, measured, tail).max(value) })
}

/// The correlation if all pairs agree except those that show the opposite.
fn most_agreement(published: &[f64], measured: &[Vec<f64>], tail: f64) -> f64 {
    let items = 0..published.len();
    let pairs: Vec<(usize, usize)> = items
        .clone()
        .flat_map(|below| items.clone().map(move |above| (below, above)))
        .filter(|(below, above)| published[*below] < published[*above])
        .collect();
    let tail = tail / pairs.len() as f64;
    let is_opposite = |(below, above): &&(usize, usize)| is_below(&measured[*above], &measured[*below], tail);
    1.0 - 2.0 * pairs.iter().filter(is_opposite).count() as f64 / pairs.len() as f64
}

/// Whether the repeats show that one item is below another: by their ratio, or by their difference if one is not positive.
fn is_below(item: &[f64], other: &[f64], tail: f64) -> bool {
    match item.iter().chain(other).all(|value| *value > 0.0) {
        true => estimate_ratio_at(item, other, tail).high < 1.0,
        false => {
            let differences: Vec<f64> = item.iter().zip(other).map(|(item, other)| item - other).collect();
            estimate_median_at(&differences, tail).high < 0.0
        }
    }
}

fn can_be_ranked(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && !a.iter().chain(b).any(|value| value.is_nan())
}

/// 1 above, -1 below, 0 tied. `f64::signum` has no 0, and the difference of two infinities is `NaN`.
fn order(value: f64, other: f64) -> i64 {
    i64::from(value > other) - i64::from(value < other)
}

/// Twice the difference of each value's rank from the mean rank, which is an integer: the number of values below it minus
/// the number above it.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| values.iter().map(|other| order(*value, *other)).sum::<i64>() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::TAIL;
    use proptest::prelude::*;

    #[test]
    fn the_same_order_is_one_and_the_opposite_minus_one() {
        let (rising, falling) = ([1.0, 2.0, 30.0, 400.0], [9.0, 8.0, 7.0, -6.0]);
        assert_eq!((kendall_tau_b(&rising, &rising), kendall_tau_b(&rising, &falling)), (Some(1.0), Some(-1.0)));
        assert_eq!((spearman_rho(&rising, &rising), spearman_rho(&rising, &falling)), (Some(1.0), Some(-1.0)));
    }

    #[test]
    fn input_without_an_order_has_no_correlation() {
        let cases: [(&[f64], &[f64]); 5] = [
            (&[], &[]),
            (&[1.0], &[1.0]),
            (&[1.0, 2.0, 3.0], &[5.0, 5.0, 5.0]),
            (&[1.0, 2.0, 3.0], &[1.0, 2.0]),
            (&[1.0, 2.0, f64::NAN], &[1.0, 2.0, 3.0]),
        ];
        for (a, b) in cases {
            assert_eq!((kendall_tau_b(a, b), spearman_rho(a, b)), (None, None), "{a:?} {b:?}");
        }
    }

    #[test]
    fn repeats_that_always_keep_the_published_order_leave_no_doubt() {
        let measured = [vec![10.0, 11.0, 9.0], vec![20.0, 22.0, 18.0], vec![30.0, 33.0, 27.0]];
        let exact = Estimate { value: 1.0, low: 1.0, high: 1.0 };
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0, 3.0], &measured, TAIL), Some(exact));
    }

    #[test]
    fn items_within_the_noise_of_each_other_widen_the_interval() {
        let measured = [vec![10.0, 12.0, 14.0, 9.0, 15.0], vec![12.5, 11.0, 11.5, 13.0, 12.0], vec![30.0; 5]];
        let estimate = estimate_rank_correlation(&[1.0, 2.0, 3.0], &measured, TAIL).unwrap();
        assert!(estimate.low < 0.5 && estimate.high == 1.0, "{estimate:?}");
    }

    #[test]
    fn a_correlation_needs_three_items_with_the_same_number_of_repeats() {
        let item = || vec![1.0, 2.0];
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0], &[item(), vec![2.0, 3.0]], TAIL), None);
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0, 3.0], &[item(), vec![2.0, 3.0]], TAIL), None);
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0, 3.0], &[item(), item(), vec![9.0]], TAIL), None);
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0, 3.0], &[vec![], vec![], vec![]], TAIL), None);
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0, 3.0], &[item(), item(), vec![9.0, f64::NAN]], TAIL), None);
        assert_eq!(estimate_rank_correlation(&[1.0, 2.0, 3.0], &[item(), item(), item()], TAIL), None);
    }

    /// Two columns of one length; few distinct values, so that ties are common.
    fn columns() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        prop::collection::vec((-6_i8..6, -6_i8..6), 0..20)
            .prop_map(|rows| rows.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).unzip())
    }

    proptest! {
        #[test]
        fn a_correlation_lies_between_minus_one_and_one((a, b) in columns()) {
            for correlation in [kendall_tau_b(&a, &b), spearman_rho(&a, &b)].into_iter().flatten() {
                prop_assert!((-1.0..=1.0).contains(&correlation));
            }
        }

        #[test]
        fn only_the_order_counts((a, b) in columns()) {
            let stretched: Vec<f64> = b.iter().map(|value| value.exp()).collect();
            let mirrored: Vec<f64> = b.iter().map(|value| -value.powi(3)).collect();
            for correlation in [kendall_tau_b, spearman_rho] {
                prop_assert_eq!(correlation(&a, &stretched), correlation(&a, &b));
                prop_assert_eq!(correlation(&a, &mirrored), correlation(&a, &b).map(|value| -value));
                prop_assert_eq!(correlation(&b, &a), correlation(&a, &b));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn repeats_that_do_not_differ_leave_no_doubt_but_of_ties((a, b) in columns(), repeats in 1_usize..4) {
            let measured: Vec<Vec<f64>> = b.iter().map(|value| vec![*value; repeats]).collect();
            let exact = kendall_tau_b(&a, &b).filter(|_| a.len() >= ITEMS_MIN);
            let estimate = estimate_rank_correlation(&a, &measured, TAIL);
            prop_assert_eq!(estimate.map(|Estimate { value, low, .. }| (value, low)), exact.map(|value| (value, value)));
            if let Some(Estimate { value, high, .. }) = estimate {
                let is_tied = |values: &[f64]| (1..values.len()).any(|at| values[..at].contains(&values[at]));
                prop_assert!(value <= high && high <= 1.0);
                prop_assert!(is_tied(&a) || is_tied(&b) || (high - value).abs() < 1e-9, "{} {}", value, high);
            }
        }

        #[test]
        fn the_interval_is_a_range_of_correlations(
            published in prop::collection::vec(1f64..9.0, 5),
            measured in prop::collection::vec(prop::collection::vec(1f64..9.0, 4), 5),
        ) {
            let Estimate { low, high, .. } = estimate_rank_correlation(&published, &measured, TAIL).unwrap();
            prop_assert!(-1.0 <= low && low <= high && high <= 1.0);
        }
    }
}
