//! Counts of latencies by bucket, written by the thread that measures and readable by others meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

/// The longest latency a histogram holds, in nanoseconds: an hour. What takes longer counts as an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds with three significant digits; a few hundred KiB each.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are constants that HDR histograms take")
}

/// The same counts in the memory that they need, 16 KiB if there are none. It holds longer latencies as it gets them. For what is kept: a study
/// of an hour has thousands of runs, with some histograms each.
pub fn compact(histogram: &Histogram<u64>) -> Histogram<u64> {
    let mut compact = Histogram::new(3).expect("three digits are what HDR histograms take");
    match compact.add(histogram) {
        Ok(()) => compact,
        Err(_) => histogram.clone(),
    }
}

/// Counts in the buckets of an HDR histogram with three digits: 2^11 buckets from 0 ns, then 2^10 for every doubling. The
/// histogram updates totals and extremes with every value; here recording a value costs ten instructions. Only one thread
/// records and moves, so plain loads and stores are enough; clones are for readers.
#[derive(Debug, Clone)]
pub(crate) struct LatencyCounts(Arc<[AtomicU64; Self::BUCKETS]>);

impl LatencyCounts {
    const SUB_BUCKET_BITS: u32 = 10;
    const BUCKETS: usize = Self::bucket(LATENCY_NS_MAX) + 1;

    pub(crate) fn new() -> Self {
        let counts: Arc<[AtomicU64]> = (0..Self::BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self(counts.try_into().expect("the vector has BUCKETS elements"))
    }

    #[inline]
    const fn bucket(latency_ns: u64) -> usize {
        let doubling = (latency_ns | ((2 << Self::SUB_BUCKET_BITS) - 1)).ilog2() - Self::SUB_BUCKET_BITS;
        ((doubling as usize) << Self::SUB_BUCKET_BITS) + (latency_ns >> doubling) as usize
    }

    /// The lowest latency of a bucket.
    const fn latency_ns(bucket: usize) -> u64 {
        let doubling = (bucket >> Self::SUB_BUCKET_BITS).saturating_sub(1);
        ((bucket - (doubling << Self::SUB_BUCKET_BITS)) as u64) << doubling
    }

    #[inline(always)]
    pub(crate) fn record(&self, latency_ns: u64) {
        let count = self.0.get(Self::bucket(latency_ns)).unwrap_or(&self.0[Self::BUCKETS - 1]);
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Moves all counts to a histogram.
    pub(crate) fn move_to(&self, histogram: &mut Histogram<u64>) {
        for (bucket, count) in self.0.iter().enumerate() {
            let times = count.load(Ordering::Relaxed);
            if times > 0 {
                count.store(0, Ordering::Relaxed);
                histogram.saturating_record_n(Self::latency_ns(bucket), times);
            }
        }
    }

    /// The quantile `share` of several threads' latencies together, to three digits. The threads may go on counting. `None`
    /// if there are none.
    pub(crate) fn quantile_ns<'a>(all: impl Iterator<Item = &'a Self> + Clone, share: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&share), "a quantile is a share between 0 and 1: {share}");
        let times = |bucket: usize| all.clone().map(|counts| counts.0[bucket].load(Ordering::Relaxed)).sum::<u64>();
        let total: u64 = (0..Self::BUCKETS).map(times).sum();
        let wanted = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |bucket: &usize| {
            seen += times(*bucket);
            seen >= wanted
        };
        (0..Self::BUCKETS).find(reaches).map(Self::latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn latencies_fall_into_the_buckets_of_a_histogram_of_three_digits() {
        let histogram = new_histogram();
        let powers = (0..63).map(|power| 1u64 << power);
        for latency_ns in
            powers.flat_map(|power| [power - 1, power, power + power / 3]).filter(|ns| *ns < LATENCY_NS_MAX)
        {
            let bucket_ns = LatencyCounts::latency_ns(LatencyCounts::bucket(latency_ns));
            assert_eq!(bucket_ns, histogram.lowest_equivalent(latency_ns), "{latency_ns} ns");
        }
        let counts = LatencyCounts::new();
        counts.record(u64::MAX);
        counts.record(7);
        let mut histogram = new_histogram();
        counts.move_to(&mut histogram);
        counts.move_to(&mut histogram);
        assert_eq!((histogram.len(), histogram.min()), (2, 7));
        assert!(histogram.equivalent(histogram.max(), LATENCY_NS_MAX));
    }

    #[test]
    fn a_compact_histogram_has_the_same_counts_and_grows() {
        let mut histogram = new_histogram();
        for latency_ns in [1, 77, 80_000, 2_500_000, LATENCY_NS_MAX] {
            histogram.record_n(latency_ns, latency_ns % 5 + 1).unwrap();
            let compact = compact(&histogram);
            assert!(
                compact == histogram && compact.distinct_values() <= histogram.distinct_values(),
                "{latency_ns} ns"
            );
        }
        let mut grows = compact(&new_histogram());
        assert!(grows.is_empty() && grows.distinct_values() <= 2048);
        grows.add(&histogram).unwrap();
        assert_eq!(grows, histogram);
    }

    proptest! {
        #[test]
        fn a_quantile_of_several_is_that_of_their_histogram(
            latencies in prop::collection::vec(0..20_000_000_000_u64, 1..200),
            share in 0.01..1.0_f64,
        ) {
            let threads = [LatencyCounts::new(), LatencyCounts::new()];
            for (at, latency_ns) in latencies.iter().enumerate() {
                threads[at % 2].record(*latency_ns);
            }
            let seen = LatencyCounts::quantile_ns(threads.iter(), share);
            let mut histogram = new_histogram();
            threads.iter().for_each(|counts| counts.move_to(&mut histogram));
            prop_assert_eq!(seen, Some(histogram.lowest_equivalent(histogram.value_at_quantile(share))));
            prop_assert_eq!(LatencyCounts::quantile_ns(threads.iter(), share), None, "all was moved away");
        }
    }
}
