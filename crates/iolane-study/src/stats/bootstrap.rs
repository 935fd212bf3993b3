//! The percentile bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap", chapter 13) of statistics of
//! medians over repeats: of ratios measured apart, rank correlations and crossings.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::sample::median_of_sorted;
use super::shuffle::index_below;

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x1071_a0e5;

/// The number of repeats; `None` unless all items have the same number, and at least one.
pub(super) fn common_repeats(items: &[Vec<f64>]) -> Option<usize> {
    let repeats = items.first()?.len();
    (repeats > 0 && items.iter().all(|item| item.len() == repeats)).then_some(repeats)
}

/// For each resample: draws repeats with replacement, takes the median of each item over the drawn repeats, and computes a
/// statistic of these medians, in the items' order. All items use the same draw, because what disturbs the machine during
/// a repeat disturbs all of them. Each item must have as many repeats as the first.
pub(super) fn resample_medians<T>(items: &[impl AsRef<[f64]>], mut statistic: impl FnMut(&[f64]) -> T) -> Vec<T> {
    let repeats = items.first().map_or(0, |item| item.as_ref().len());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut indices = vec![0; repeats];
    let mut drawn = vec![0.0; repeats];
    let mut medians = vec![0.0; items.len()];
    (0..RESAMPLES)
        .map(|_| {
            indices.fill_with(|| index_below(repeats, &mut random));
            for (median, item) in medians.iter_mut().zip(items) {
                for (value, &index) in drawn.iter_mut().zip(&indices) {
                    *value = item.as_ref()[index];
                }
                drawn.sort_by(f64::total_cmp);
                *median = median_of_sorted(&drawn);
            }
            statistic(&medians)
        })
        .collect()
}

/// For each resample: draws the repeats of each item with replacement, takes their median, and computes a statistic of these
/// medians, in the items' order. The draws of the items are independent, and each may have any number of repeats: for items
/// measured at different times, which share no disturbance.
pub fn resampled_medians<T>(items: &[impl AsRef<[f64]>], mut statistic: impl FnMut(&[f64]) -> T) -> Vec<T> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut drawn = Vec::new();
    let mut medians = vec![0.0; items.len()];
    (0..RESAMPLES)
        .map(|_| {
            for (median, item) in medians.iter_mut().zip(items) {
                let item = item.as_ref();
                drawn.clear();
                drawn.extend((0..item.len()).map(|_| item[index_below(item.len(), &mut random)]));
                drawn.sort_by(f64::total_cmp);
                *median = median_of_sorted(&drawn);
            }
            statistic(&medians)
        })
        .collect()
}

/// The values that the share `tail` of the resampled values is below, and above; there must be at least one value.
pub(super) fn interval(mut resampled: Vec<f64>, tail: f64) -> (f64, f64) {
    resampled.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| resampled[((resampled.len() - 1) as f64 * share).round() as usize];
    (at(tail), at(1.0 - tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_use_the_same_draw() {
        let items = [vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![10.0, 20.0, 30.0, 40.0, 50.0]];
        assert!(resample_medians(&items, |medians| medians[1] / medians[0]).into_iter().all(|ratio| ratio == 10.0));
    }

    #[test]
    fn unpaired_items_are_drawn_independently() {
        let items = [vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![10.0, 20.0, 30.0, 40.0, 50.0]];
        let ratios = resampled_medians(&items, |medians| medians[1] / medians[0]);
        assert!(ratios.iter().any(|ratio| *ratio < 10.0) && ratios.iter().any(|ratio| *ratio > 10.0));
    }

    #[test]
    fn the_repeats_are_common_only_if_each_item_has_as_many() {
        assert_eq!(common_repeats(&[vec![1.0, 2.0], vec![3.0, 4.0]]), Some(2));
        assert_eq!(common_repeats(&[vec![1.0, 2.0], vec![3.0]]), None);
        assert_eq!(common_repeats(&[vec![], vec![]]), None);
        assert_eq!(common_repeats(&[]), None);
    }
}
