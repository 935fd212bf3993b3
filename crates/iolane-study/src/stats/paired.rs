//! Comparisons of arms repeat by repeat. Arms of one session are interleaved, so that a disturbance during a repeat
//! affects all its arms and cancels out.

use super::estimate::{Estimate, TAIL};
use super::median::estimate_median_at;

/// The median of the ratios of two arms by repeat, with its 95 % interval.
pub fn estimate_ratio(numerators: &[f64], denominators: &[f64]) -> Estimate {
    estimate_ratio_at(numerators, denominators, TAIL)
}

/// The median of the ratios of two arms by repeat, with an interval that the true ratio is below with at most the probability
/// `tail`, and above it likewise.
pub fn estimate_ratio_at(numerators: &[f64], denominators: &[f64], tail: f64) -> Estimate {
    let ratios: Vec<f64> = numerators.iter().zip(denominators).map(|(a, b)| a / b).collect();
    estimate_median_at(&ratios, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_of_both_arms_in_a_repeat_cancels_out_of_the_ratio() {
        let slow_machine = [1.0, 0.5, 0.8, 1.0, 0.3];
        let (a, b) = (slow_machine.map(|speed| 200.0 * speed), slow_machine.map(|speed| 100.0 * speed));
        let ratio = estimate_ratio(&a, &b);
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 2.0, 2.0));
        assert!(ratio.shows_difference());
    }
}
