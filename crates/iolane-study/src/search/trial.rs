//! One run of a search: what it measured and how long it is; and the distance between the rates around an edge.

use crate::plan::Percentile;

/// One run at a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Requests per second.
    pub rate: f64,
    /// The bounded percentile, in nanoseconds; infinite for a run that did not keep its rate.
    pub latency_ns: f64,
}

/// A run should have this many requests that are slower than the percentile.
const SLOWER: f64 = 3.0;
/// A run at a low rate is longer, by this factor at most.
const LONGER_MAX: f64 = 5.0;

/// How long a run is, in seconds, where one with many bounded requests per second takes `shortest_s`.
pub fn runtime_s(percentile: Percentile, requests_per_s: f64, shortest_s: f64) -> f64 {
    let wanted_s = SLOWER / ((1.0 - percentile.share()) * requests_per_s);
    wanted_s.clamp(shortest_s, LONGER_MAX * shortest_s)
}

/// Whether such a run is too short for its percentile.
pub fn has_few_requests(percentile: Percentile, requests_per_s: f64, shortest_s: f64) -> bool {
    let runtime_s = runtime_s(percentile, requests_per_s, shortest_s);
    requests_per_s * runtime_s * (1.0 - percentile.share()) < 0.99 * SLOWER
}

/// Between two rates around the edge.
pub(super) const STEP: f64 = 1.12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_at_a_low_rate_is_longer_up_to_five_times() {
        let length_s = |rate| (runtime_s(Percentile::P99, rate, 1.0) * 1e6).round() / 1e6;
        // A p99 needs 300 requests.
        assert_eq!((length_s(1e6), length_s(300.0), length_s(100.0), length_s(10.0)), (1.0, 1.0, 3.0, 5.0));
        assert!(has_few_requests(Percentile::P99, 50.0, 1.0) && !has_few_requests(Percentile::P99, 60.0, 1.0));
    }
}
