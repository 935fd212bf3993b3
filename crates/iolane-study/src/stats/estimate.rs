//! A value with its interval: the result of every estimate in `stats`.

use serde::{Deserialize, Serialize};

/// The probability with which the true value may lie beyond one end of a 95 % interval.
pub const TAIL: f64 = 0.025;

/// A value with its interval, of 95 % by default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Computed from the measured repeats.
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// For a ratio: whether the interval excludes 1.0. Otherwise no difference is shown.
    pub fn shows_difference(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// With an interval that extends by at least this share of the value to each side.
    #[must_use]
    pub(crate) fn at_least_as_wide_as(self, share: f64) -> Self {
        let width = share * self.value.abs();
        Self { low: self.low.min(self.value - width), high: self.high.max(self.value + width), ..self }
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
    fn an_interval_is_widened_to_a_share_of_the_value_and_never_narrowed() {
        let estimate = Estimate { value: 200.0, low: 199.9, high: 230.0 };
        assert_eq!(estimate.at_least_as_wide_as(0.01), Estimate { low: 198.0, ..estimate });
        assert_eq!(estimate.at_least_as_wide_as(0.0), estimate);
    }

    #[test]
    fn an_estimate_reads_back_as_it_was_written() {
        let estimate = Estimate { value: 0.1 + 0.2, low: 1e-9, high: 1e300 };
        let text = serde_json::to_string(&estimate).unwrap();
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), estimate);
    }
}
