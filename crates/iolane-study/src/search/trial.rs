//! One run of a search, and the distance between the rates around its edge.

/// One run at a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Requests per second.
    pub rate: f64,
    /// The bounded percentile, in nanoseconds; infinite for a run that did not keep its rate.
    pub latency_ns: f64,
}

/// Between two rates around the edge.
pub(super) const STEP: f64 = 1.12;
