//! Where one curve falls below another: the depth, block size or number of threads at which a path stops being faster. A
//! crossing is reported only if the repeats agree on it.

use std::mem::discriminant;

use serde::{Deserialize, Serialize};

use super::bootstrap::{common_repeats, interval, resample_medians};
use super::estimate::Estimate;
use super::few::at_least_students;
use super::median::estimate_median_at;
use super::sample::median;

/// The relation of curve a to curve b along a factor. Ratios are a over b; a ratio of exactly 1 is on neither side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Crossing {
    /// The ratio starts above 1 and ends below it.
    At {
        /// Where it first falls through 1; the interval is of the resamples that cross.
        x: Estimate,
        /// The share of resamples that cross.
        share_of_resamples: f64,
    },
    /// The ratio is never below 1, and above it at least once.
    AlwaysAbove,
    /// The ratio is never above 1, and below it at least once.
    AlwaysBelow,
    /// The repeats do not agree on one of these, or agree on another shape: b starts ahead and a ends ahead, the curve that
    /// starts ahead falls behind and recovers, or the two are equal everywhere.
    Unclear,
}

/// The ratio of two curves as x grows, and that of its resamples.
pub struct RatioCurve<'a> {
    x: &'a [f64],
    /// By x, the ratio in each repeat.
    ratios: Vec<Vec<f64>>,
    measured: Shape,
    resampled: Vec<Shape>,
}

impl<'a> RatioCurve<'a> {
    /// The median ratio of `a` to `b`, paired by repeat: `a[i]` and `b[i]` hold the repeats at `x[i]`. Between two values of x it is
    /// interpolated linearly in log-log coordinates.
    ///
    /// `None` for fewer than two values of x, values of x that are not positive and ascending, numbers of repeats that differ or are
    /// 0, and ratios that are not positive and finite.
    pub fn new(x: &'a [f64], a: &[Vec<f64>], b: &[Vec<f64>]) -> Option<Self> {
        let ratios = paired_ratios(x, a, b)?;
        let medians: Vec<f64> = ratios.iter().map(|repeats| median(repeats)).collect();
        let measured = Shape::of(x, &medians);
        let resampled = resample_medians(&ratios, |medians| Shape::of(x, medians));
        Some(Self { x, ratios, measured, resampled })
    }

    /// Where the ratio falls below 1.
    ///
    /// The curve of median ratios has one of four shapes: above, below, crossing (it starts above and ends below) or other; so
    /// has the curve of each resample of the repeats (one draw for all x). The measured shape is the answer if all but twice the
    /// share `tail` of the resamples share it, and the ratios before and after the crossing, or everywhere, are above or below 1 with
    /// that probability of being wrong; otherwise the answer is [`Crossing::Unclear`]. The true crossing is below the interval with
    /// at most the probability `tail`, and above it likewise. A curve that oscillates around 1 crosses where it first falls below,
    /// and the interval reflects the oscillation. Curves that converge, for example at the limit of the drive, end above in some
    /// resamples and below in others, and are unclear. With five repeats and a tail of 2.5 %, one repeat on the wrong side at an end
    /// of the curve is enough: it is the median of 5.8 % of the resamples.
    pub fn crossing(&self, tail: f64) -> Crossing {
        let Self { x, ratios, measured, resampled } = self;
        let alike = resampled.iter().filter(|shape| discriminant(*shape) == discriminant(measured)).count();
        let share_of_resamples = alike as f64 / resampled.len() as f64;
        if share_of_resamples < 1.0 - 2.0 * tail {
            return Crossing::Unclear;
        }
        let intervals: Vec<Estimate> = ratios.iter().map(|repeats| estimate_median_at(repeats, tail)).collect();
        match *measured {
            Shape::Above if intervals.iter().all(|ratio| ratio.low >= 1.0) => Crossing::AlwaysAbove,
            Shape::Below if intervals.iter().all(|ratio| ratio.high <= 1.0) => Crossing::AlwaysBelow,
            Shape::Falls { at } if has_sides(x, &intervals, at) => {
                Crossing::At { x: self.place(at, tail), share_of_resamples }
            }
            _ => Crossing::Unclear,
        }
    }

    fn place(&self, at: f64, tail: f64) -> Estimate {
        let Self { x, ratios, resampled, .. } = self;
        let (low, high) = interval(resampled.iter().filter_map(Shape::falls_at).collect(), tail);
        // Resampled medians of few repeats are not as far out as the tail.
        let wide = at_least_students(Estimate { value: at, low, high }, &falls(x, ratios), tail);
        Estimate { low: wide.low.max(x[0]), high: wide.high.min(x[x.len() - 1]), ..wide }
    }
}

/// Whether the ratio is shown to be above 1 before the crossing, and below it after.
fn has_sides(x: &[f64], ratios: &[Estimate], at: f64) -> bool {
    let sides = || x.iter().zip(ratios);
    sides().any(|(x, ratio)| *x <= at && ratio.low > 1.0) && sides().any(|(x, ratio)| *x >= at && ratio.high < 1.0)
}

/// Where the curve of each repeat falls below 1, of those that do.
fn falls(x: &[f64], ratios: &[Vec<f64>]) -> Vec<f64> {
    let of_repeat = |repeat| ratios.iter().map(|ratios| ratios[repeat]).collect::<Vec<f64>>();
    (0..ratios[0].len()).filter_map(|repeat| first_fall(x, &of_repeat(repeat))).collect()
}

/// The ratios at each x by repeat; `None` if x, a and b do not form comparable curves.
fn paired_ratios(x: &[f64], a: &[Vec<f64>], b: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let is_factor = x.len() >= 2 && x[0] > 0.0 && x[x.len() - 1].is_finite() && x.is_sorted_by(|low, high| low < high);
    let is_paired = a.len() == x.len() && b.len() == x.len() && common_repeats(a)? == common_repeats(b)?;
    let ratio = |(a, b): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a / b).collect() };
    let ratios: Vec<Vec<f64>> = a.iter().zip(b).map(ratio).collect();
    let has_logarithms = ratios.iter().flatten().all(|ratio| *ratio > 0.0 && ratio.is_finite());
    (is_factor && is_paired && has_logarithms).then_some(ratios)
}

/// The position of a curve of ratios relative to 1.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Above,
    Below,
    Falls { at: f64 },
    Other,
}

impl Shape {
    fn of(x: &[f64], ratios: &[f64]) -> Self {
        let is_above = ratios.iter().any(|ratio| *ratio > 1.0);
        let is_below = ratios.iter().any(|ratio| *ratio < 1.0);
        match (is_above, is_below) {
            (true, false) => Self::Above,
            (false, true) => Self::Below,
            (true, true) => first_fall(x, ratios).map_or(Self::Other, |at| Self::Falls { at }),
            (false, false) => Self::Other,
        }
    }

    fn falls_at(&self) -> Option<f64> {
        if let Self::Falls { at } = self { Some(*at) } else { None }
    }
}

/// Where a curve that starts above 1 and ends below it first falls through 1; `None` for any other curve.
fn first_fall(x: &[f64], ratios: &[f64]) -> Option<f64> {
    let below = ratios.iter().position(|ratio| *ratio < 1.0)?;
    let above = ratios[..below].iter().rposition(|ratio| *ratio > 1.0)?;
    let ends_below = ratios.iter().rfind(|ratio| **ratio != 1.0).is_some_and(|last| *last < 1.0);
    // Not `below`: the ratio may be exactly 1 in between, and then crosses at the first x where it is.
    ends_below.then(|| pass(&x[above..above + 2], &ratios[above..above + 2]))
}

/// Where the line between two points in log-log coordinates reaches a ratio of 1; the first is above it, the second not.
fn pass(x: &[f64], ratios: &[f64]) -> f64 {
    let share = ratios[0].ln() / (ratios[0].ln() - ratios[1].ln());
    // Rounding must not leave the interval between the two points.
    (x[0] * (x[1] / x[0]).powf(share)).clamp(x[0], x[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{TAIL, disturbance};
    use iolane_measure::workload::random_stream;
    use proptest::prelude::*;

    fn crossing(x: &[f64], a: &[Vec<f64>], b: &[Vec<f64>]) -> Crossing {
        RatioCurve::new(x, a, b).map_or(Crossing::Unclear, |curve| curve.crossing(TAIL))
    }

    const DEPTHS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];

    /// The crossing of a curve with these ratios to a level one, all repeats alike.
    fn crossing_of(ratios: [f64; 4]) -> Crossing {
        crossing(&DEPTHS, &ratios.map(|ratio| vec![ratio; 5]), &[1.0; 4].map(|one| vec![one; 5]))
    }

    fn certainly_at(depth: f64) -> Crossing {
        Crossing::At { x: Estimate { value: depth, low: depth, high: depth }, share_of_resamples: 1.0 }
    }

    #[test]
    fn a_curve_crosses_where_the_line_between_the_logarithms_does() {
        // As far above 1 at 4 as below it at 16, by logarithm: half way, by logarithm, is 8.
        let Crossing::At { x, .. } = crossing_of([3.0, 2.0, 0.5, 0.3]) else { panic!("no crossing") };
        assert!((x.value - 8.0).abs() < 1e-12);
    }

    #[test]
    fn a_curve_that_wavers_crosses_where_it_first_falls_below() {
        assert_eq!(crossing_of([2.0, 0.5, 2.0, 0.5]), crossing_of([2.0, 0.5, 0.5, 0.5]));
    }

    #[test]
    fn a_curve_that_meets_one_exactly_crosses_there() {
        assert_eq!(crossing_of([2.0, 1.0, 1.0, 0.5]), certainly_at(4.0));
        assert_eq!(crossing_of([1.0, 2.0, 1.0, 0.5]), certainly_at(16.0));
    }

    #[test]
    fn a_curve_that_touches_one_and_turns_back_does_not_cross() {
        assert_eq!(crossing_of([2.0, 1.0, 2.0, 1.0]), Crossing::AlwaysAbove);
        assert_eq!(crossing_of([0.5, 1.0, 0.9, 1.0]), Crossing::AlwaysBelow);
    }

    #[test]
    fn a_curve_that_does_not_start_above_and_end_below_does_not_cross() {
        for ratios in [[0.5, 0.9, 1.1, 2.0], [2.0, 0.5, 0.5, 2.0], [0.5, 2.0, 2.0, 0.5], [1.0, 1.0, 1.0, 1.0]] {
            assert_eq!(crossing_of(ratios), Crossing::Unclear, "{ratios:?}");
        }
    }

    #[test]
    fn a_smaller_tail_has_a_wider_interval_or_none() {
        let mut random = random_stream(7, 0);
        let level = [1.0; 4].map(|one| vec![one; 9]);
        let falling = [2.5, 1.5, 0.7, 0.4];
        let curve = falling.map(|ratio| (0..9).map(|_| ratio * disturbance(&mut random, 0.2)).collect::<Vec<f64>>());
        let curve = RatioCurve::new(&DEPTHS, &curve, &level).unwrap();
        let width = |tail: f64| match curve.crossing(tail) {
            Crossing::At { x, .. } => Some(x.high / x.low),
            _ => None,
        };
        let [once, early, shared] = [TAIL, TAIL / 10.0, TAIL / 100.0].map(width);
        assert!(once < early && (shared.is_none() || early <= shared), "{once:?} {early:?} {shared:?}");
    }

    /// Both paths come up to what the drive can do: at depth 64 the ratio is 1 but for noise.
    #[test]
    fn curves_that_meet_without_parting_again_are_unclear() {
        let level = [1.0; 4].map(|one| vec![one; 5]);
        let meets = [vec![1.3; 5], vec![1.2; 5], vec![1.1; 5], vec![1.001, 0.999, 1.002, 0.998, 0.9995]];
        assert_eq!(crossing(&DEPTHS, &meets, &level), Crossing::Unclear);
    }

    #[test]
    fn of_five_repeats_one_on_the_wrong_side_is_enough_for_doubt_and_of_nine_it_is_not() {
        let outcome = |repeats: usize| {
            let mut last = vec![0.5; repeats];
            last[0] = 1.1;
            crossing(&[1.0, 2.0], &[vec![2.0; repeats], last], &[vec![1.0; repeats], vec![1.0; repeats]])
        };
        assert_eq!(outcome(5), Crossing::Unclear);
        assert!(matches!(outcome(9), Crossing::At { share_of_resamples, .. } if share_of_resamples > 0.99));
    }

    #[test]
    fn a_disturbance_of_both_curves_in_a_repeat_does_not_move_the_crossing() {
        let machine = [1.0, 0.4, 0.9, 1.0, 0.7];
        let curve = |values: [f64; 4]| values.map(|value| machine.map(|speed| value * speed).to_vec());
        let Crossing::At { x, .. } = crossing(&DEPTHS, &curve([8.0, 8.0, 8.0, 8.0]), &curve([2.0, 4.0, 16.0, 32.0]))
        else {
            panic!("no crossing")
        };
        assert!((x.low - 8.0).abs() < 1e-9 && (x.high - 8.0).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn input_that_forms_no_curve_is_unclear() {
        let (high, low) = (vec![2.0, 2.0], vec![1.0, 1.0]);
        let (a, b) = ([high.clone(), low.clone()], [low.clone(), high.clone()]);
        assert!(matches!(crossing(&[1.0, 2.0], &a, &b), Crossing::At { .. }));
        for x in [&[][..], &[1.0], &[2.0, 1.0], &[1.0, 1.0], &[0.0, 1.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(crossing(x, &a, &b), Crossing::Unclear, "{x:?}");
        }
        for bad in [vec![1.0], vec![], vec![0.0, 1.0], vec![-1.0, 1.0], vec![f64::NAN, 1.0], vec![f64::INFINITY, 1.0]] {
            assert_eq!(crossing(&[1.0, 2.0], &[high.clone(), bad.clone()], &b), Crossing::Unclear, "{bad:?}");
        }
        assert_eq!(crossing(&[1.0, 2.0], &[vec![], vec![]], &[vec![], vec![]]), Crossing::Unclear);
    }

    proptest! {
        #[test]
        fn a_crossing_lies_between_the_two_x_where_the_side_changes(
            above in prop::collection::vec(1.0001f64..1e3, 1..5),
            below in prop::collection::vec(1e-3f64..0.9999, 1..5),
            steps in prop::collection::vec(1.0001f64..100.0, 10),
        ) {
            let ratios: Vec<f64> = above.iter().chain(&below).copied().collect();
            let x: Vec<f64> = steps.iter().scan(1.0, |x, step| { *x *= step; Some(*x) }).take(ratios.len()).collect();
            let at = first_fall(&x, &ratios).unwrap();
            prop_assert!(x[above.len() - 1] <= at && at <= x[above.len()]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_interval_of_a_crossing_lies_within_the_factor_and_in_order(
            a in prop::collection::vec(prop::collection::vec(0.5f64..2.0, 5), 4),
            b in prop::collection::vec(prop::collection::vec(0.5f64..2.0, 5), 4),
            tilt in 1.0f64..8.0,
        ) {
            let tilted: Vec<Vec<f64>> =
                DEPTHS.iter().zip(a).map(|(depth, repeats)| repeats.iter().map(|value| tilt * value / depth.sqrt()).collect()).collect();
            if let Crossing::At { x, share_of_resamples } = crossing(&DEPTHS, &tilted, &b) {
                prop_assert!(DEPTHS[0] <= x.low && x.low <= x.high && x.high <= DEPTHS[3]);
                prop_assert!(DEPTHS[0] <= x.value && x.value <= DEPTHS[3]);
                prop_assert!((0.95..=1.0).contains(&share_of_resamples));
            }
        }
    }
}
