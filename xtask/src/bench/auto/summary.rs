//! The shares of the best in all cells, in two numbers, and the goals for them.

use std::fmt;

/// The share of the best fixed path's figure that `auto` reaches at least: in the median cell, and in the worst.
const MEDIAN_MIN: f64 = 0.95;
const WORST_MIN: f64 = 0.85;

/// The median and the worst of shares of the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) worst: f64,
}

impl Summary {
    pub(super) fn of(mut shares: Vec<f64>) -> Self {
        shares.sort_by(f64::total_cmp);
        let at = |place: usize| shares.get(place).copied().unwrap_or(f64::NAN);
        Self { median: at(shares.len() / 2), worst: at(0) }
    }

    pub(super) fn is_reached(self) -> bool {
        self.median >= MEDIAN_MIN && self.worst >= WORST_MIN
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} of the best in the median cell, {:.3} in the worst", self.median, self.worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_of_the_median_cell_and_of_the_worst() {
        assert!(Summary::of(vec![0.99, 0.95, 0.86]).is_reached());
        assert!(!Summary::of(vec![0.99, 0.94, 0.90]).is_reached());
        assert!(!Summary::of(vec![0.99, 0.99, 0.84]).is_reached());
        assert!(!Summary::of(Vec::new()).is_reached());
    }
}
