//! Steady state of a drive, as the SNIA Solid State Storage Performance Test Specification Enterprise defines it (section
//! 2.1, definitions). Preconditioning calls it and decides whether to continue.

use serde::{Deserialize, Serialize};

/// Rounds in the specification's measurement window.
pub const WINDOW_ROUNDS: usize = 5;

/// Bound on the range (largest minus smallest value) within the window, as a share of the mean.
const RANGE_SHARE_MAX: f64 = 0.20;
/// Bound on the change of the least-squares line across the window, as a share of the mean.
const SLOPE_SHARE_MAX: f64 = 0.10;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Whether both shares are within the specification's bounds: 20 % for the range, 10 % for the slope.
    pub reached: bool,
    /// Largest minus smallest value, as a share of the mean.
    pub range_share: f64,
    /// Absolute change of the least-squares line from the first round to the last, as a share of the mean.
    pub slope_share: f64,
}

/// Evaluates one window. If the mean is not above 0 it is not steady, and the shares are meaningless.
pub fn steady_state(window: &[f64; WINDOW_ROUNDS]) -> SteadyState {
    let mean = window.iter().sum::<f64>() / WINDOW_ROUNDS as f64;
    let (least, most) = window.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), y| (a.min(*y), b.max(*y)));
    let range_share = (most - least) / mean;
    let slope_share = line_excursion(window).abs() / mean;
    let reached = mean > 0.0 && range_share <= RANGE_SHARE_MAX && slope_share <= SLOPE_SHARE_MAX;
    SteadyState { reached, range_share, slope_share }
}

/// The number of rounds until steady state was first reached: the last round of the first steady window, counted from 1.
/// `None` if no window is steady, or if there are fewer rounds than one window.
pub fn first_steady_round(rounds: &[f64]) -> Option<usize> {
    let first = rounds.array_windows().position(|window| steady_state(window).reached)?;
    Some(first + WINDOW_ROUNDS)
}

/// The change of the least-squares line from the first round of the window to the last; negative if it falls.
fn line_excursion(window: &[f64; WINDOW_ROUNDS]) -> f64 {
    let last = (WINDOW_ROUNDS - 1) as f64;
    let from_middle = |round: usize| round as f64 - last / 2.0;
    let covariance: f64 = window.iter().enumerate().map(|(round, y)| from_middle(round) * y).sum();
    let spread: f64 = (0..WINDOW_ROUNDS).map(|round| from_middle(round).powi(2)).sum();
    covariance / spread * last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_level_series_is_steady_after_the_first_window() {
        assert_eq!(first_steady_round(&[100.0; 9]), Some(5));
        assert_eq!(first_steady_round(&[100.0; 4]), None);
    }

    #[test]
    fn a_drive_that_slows_down_is_steady_once_the_fall_has_left_the_window() {
        // The windows of rounds 1 to 5 and 2 to 6 range over more than 20 % of their mean; that of rounds 3 to 7 does not.
        assert_eq!(first_steady_round(&[300.0, 200.0, 102.0, 100.0, 99.0, 101.0, 100.0, 100.0]), Some(7));
    }

    #[test]
    fn a_steady_fall_within_the_range_is_refused_for_its_slope() {
        let state = steady_state(&[107.0, 103.5, 100.0, 96.5, 93.0]);
        assert!((state.range_share - 0.14).abs() < 1e-12 && (state.slope_share - 0.14).abs() < 1e-12);
        assert!(!state.reached);
    }

    #[test]
    fn the_range_is_refused_even_with_no_slope() {
        let state = steady_state(&[100.0, 80.0, 110.0, 80.0, 100.0]);
        assert_eq!(state.slope_share, 0.0);
        assert!(state.range_share > 0.2 && !state.reached);
    }

    /// The specification says "no more than": the bounds themselves pass. The sums here are exact.
    #[test]
    fn the_bounds_themselves_are_steady() {
        let at_range = steady_state(&[320.0, 352.0, 288.0, 320.0, 320.0]);
        assert_eq!((at_range.range_share, at_range.reached), (0.2, true));
        let at_slope = steady_state(&[336.0, 328.0, 320.0, 312.0, 304.0]);
        assert_eq!((at_slope.slope_share, at_slope.reached), (0.1, true));
    }

    #[test]
    fn a_window_without_a_positive_mean_is_not_steady() {
        assert!(!steady_state(&[0.0; 5]).reached);
        assert!(!steady_state(&[-1.0; 5]).reached);
        assert!(!steady_state(&[1.0, 1.0, f64::NAN, 1.0, 1.0]).reached);
    }

    proptest! {
        #[test]
        fn time_turned_around_is_as_steady(window in prop::array::uniform5(1f64..1e6)) {
            let (mut turned, state) = (window, steady_state(&window));
            turned.reverse();
            let turned = steady_state(&turned);
            prop_assert!((state.slope_share - turned.slope_share).abs() < 1e-9);
            prop_assert!((state.range_share - turned.range_share).abs() < 1e-9);
        }

        #[test]
        fn the_first_steady_round_ends_a_steady_window_and_no_earlier_one_is(rounds in prop::collection::vec(80f64..130.0, 0..20)) {
            let steady: Vec<bool> = rounds.array_windows().map(|window| steady_state(window).reached).collect();
            let expected = steady.iter().position(|reached| *reached).map(|first| first + WINDOW_ROUNDS);
            prop_assert_eq!(first_steady_round(&rounds), expected);
        }
    }
}
