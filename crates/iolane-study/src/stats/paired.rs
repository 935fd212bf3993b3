//! Comparisons of arms repeat by repeat. Arms of one session are interleaved, so that a disturbance during a repeat
//! affects all its arms and cancels out.

use super::estimate::Estimate;
use super::median::estimate_median;

/// The median of the ratios of two arms by repeat, with its interval.
pub fn estimate_ratio(numerators: &[f64], denominators: &[f64]) -> Estimate {
    let ratios: Vec<f64> = numerators.iter().zip(denominators).map(|(a, b)| a / b).collect();
    estimate_median(&ratios)
}

/// The largest value of several arms in each repeat, for as many repeats as the shortest arm has. Among arms that differ
/// only by noise it lies above the median of each arm.
pub fn largest_by_repeat(arms: &[Vec<f64>]) -> Vec<f64> {
    fold_by_repeat(arms, f64::max)
}

/// The smallest value of several arms in each repeat, for as many repeats as the shortest arm has. Among arms that differ
/// only by noise it lies below the median of each arm.
pub fn smallest_by_repeat(arms: &[Vec<f64>]) -> Vec<f64> {
    fold_by_repeat(arms, f64::min)
}

/// `choose` must prefer any number to `NaN`, the initial value, as `f64::max` and `f64::min` do.
fn fold_by_repeat(arms: &[Vec<f64>], choose: fn(f64, f64) -> f64) -> Vec<f64> {
    let repeats = arms.iter().map(Vec::len).min().unwrap_or(0);
    (0..repeats).map(|repeat| arms.iter().map(|arm| arm[repeat]).fold(f64::NAN, choose)).collect()
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

    #[test]
    fn the_largest_and_the_smallest_are_taken_in_each_repeat_that_all_arms_have() {
        let arms = [vec![1.0, 5.0, 3.0], vec![2.0, 4.0, 9.0], vec![0.0, 4.5]];
        assert_eq!(largest_by_repeat(&arms), [2.0, 5.0]);
        assert_eq!(smallest_by_repeat(&arms), [0.0, 4.0]);
        assert!(largest_by_repeat(&[]).is_empty());
    }
}
