//! Statistics of repeated runs: medians with intervals, ratios paired by repeat or apart, rank correlation, crossings, steady state
//! and noise. Surveys, records and claims call it. Pure functions, deterministic by seed: a report made twice from one
//! record says the same. It never prints, and never drops a repeat.

mod bootstrap;
mod crossing;
mod median;
mod noise;
mod paired;
mod rank;
mod steady;
mod unpaired;

use serde::{Deserialize, Serialize};

pub use crossing::{Crossing, crossing};
pub use median::{estimate_median, median};
pub use noise::{robust_variation, variation};
pub use paired::{estimate_ratio, largest_by_repeat, smallest_by_repeat};
pub use rank::{estimate_rank_correlation, kendall_tau_b, spearman_rho};
pub use steady::{SteadyState, WINDOW_ROUNDS, first_steady_round, steady_state};
pub use unpaired::estimate_unpaired_ratio;

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// What was estimated, from the repeats as they were measured.
    pub value: f64,
    /// Lower end of the 95 % bootstrap interval.
    pub low: f64,
    /// Upper end of the 95 % bootstrap interval.
    pub high: f64,
}

impl Estimate {
    /// For a ratio: whether the interval leaves 1.0 out. If it does not, no difference was shown.
    pub fn shows_difference(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_holds_one_shows_no_difference() {
        assert!(Estimate { value: 1.2, low: 1.1, high: 1.3 }.shows_difference());
        assert!(Estimate { value: 0.8, low: 0.7, high: 0.9 }.shows_difference());
        assert!(!Estimate { value: 1.1, low: 0.9, high: 1.3 }.shows_difference());
    }

    #[test]
    fn an_estimate_reads_back_as_it_was_written() {
        let estimate = Estimate { value: 0.1 + 0.2, low: 1e-9, high: 1e300 };
        let text = serde_json::to_string(&estimate).unwrap();
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), estimate);
    }
}
