//! Histograms as pairs of a value in nanoseconds and its count: mergeable, and readable by any program.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The pairs of a histogram, in ascending order of value.
pub(super) fn pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// The histogram of these pairs, or why they are invalid.
pub(super) fn from_pairs(pairs: impl IntoIterator<Item = (u64, u64)>) -> Result<Histogram<u64>, String> {
    let mut histogram = iolane_measure::latencies::new_histogram();
    for (value, count) in pairs {
        histogram.record_n(value, count).map_err(|error| format!("{value} ns: {error}"))?;
    }
    Ok(iolane_measure::latencies::compact(&histogram))
}

/// Without counts.
pub(super) fn empty() -> Histogram<u64> {
    iolane_measure::latencies::compact(&iolane_measure::latencies::new_histogram())
}

pub(super) fn serialize<S: Serializer>(histogram: &Histogram<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    pairs(histogram).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram<u64>, D::Error> {
    from_pairs(Vec::deserialize(deserializer)?).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_or_read_back_takes_the_memory_that_its_latencies_need() {
        let short = from_pairs([(77, 3), (100_000, 1)]).unwrap();
        assert_eq!(pairs(&short), [(77, 3), (100_031, 1)]);
        // 2^11 counts up to 2 us, and 2^10 for each doubling.
        assert!(empty().distinct_values() <= 2048 && short.distinct_values() <= 2048 + 6 * 1024);
    }
}
