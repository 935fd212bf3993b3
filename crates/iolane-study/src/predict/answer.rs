//! Which path is best for a goal, and beside which others no difference is shown. Ratios are taken draw by draw: what is not known of
//! the drive is the same for both paths, and cancels out.

use iolane_model::Figure;
use serde::Serialize;

use super::figures::{Interval, PathPredicted};

/// The best path of a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The path that does best in the median of the draws; `None` if on no path a request completes.
    pub path: Option<String>,
    /// The others, the best first.
    pub others: Vec<Beside>,
}

/// A path beside the best one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// The path.
    pub path: String,
    /// How many times better the best path is, with the interval of 95 % of the draws; `None` if no request completes on this one.
    pub ratio: Option<Interval>,
    /// Whether the interval excludes 1: otherwise no difference is shown.
    pub shown: bool,
}

impl Answer {
    /// That of the paths of a load, each with its score in every draw.
    pub(super) fn of(paths: &[(PathPredicted, Vec<f64>)]) -> Self {
        let median = |scores: &[f64]| Figure::of(scores.iter().copied()).value;
        let mut ranked: Vec<&(PathPredicted, Vec<f64>)> = paths.iter().collect();
        ranked.sort_by(|(_, a), (_, b)| median(b).total_cmp(&median(a)));
        let best = ranked.first().filter(|(_, scores)| median(scores) > 0.0);
        let Some((best, of_best)) = best else { return Self { path: None, others: Vec::new() } };
        let others = ranked[1..].iter().map(|(other, scores)| Beside::new(other, of_best, scores)).collect();
        Self { path: Some(best.path.clone()), others }
    }

    /// The paths beside which no difference is shown.
    pub fn no_difference(&self) -> impl Iterator<Item = &Beside> {
        self.others.iter().filter(|other| !other.shown)
    }
}

impl Beside {
    fn new(other: &PathPredicted, best: &[f64], scores: &[f64]) -> Self {
        let ratios = best.iter().zip(scores).map(|(best, other)| if best == other { 1.0 } else { best / other });
        let ratio = Figure::of(ratios);
        // Infinite where no request of the other path completes.
        let is_known = ratio.value.is_finite() && ratio.high.is_finite();
        Self { path: other.path.clone(), ratio: is_known.then_some(ratio.into()), shown: ratio.low > 1.0 }
    }
}
