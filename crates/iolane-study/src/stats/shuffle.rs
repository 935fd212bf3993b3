//! Random order.

use rand_core::Rng;

/// Puts items into a random order; each order is equally likely (Fisher and Yates).
pub fn shuffle<T>(items: &mut [T], random: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, index_below(last + 1, random));
    }
}

/// A random index below `count`, which is above 0.
pub(super) fn index_below(count: usize, random: &mut impl Rng) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_measure::workload::random_stream;

    #[test]
    fn every_order_comes_about_as_often_as_every_other() {
        let mut random = random_stream(1, 0);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [1, 2, 3];
            shuffle(&mut items, &mut random);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
