//! Compares an interval with the bounds of a check. Every rule ends here; nothing here knows the unit of the figures.

use super::tails::At;
use super::verdict::Verdict;
use crate::format::range;
use crate::plan::Check;
use crate::stats::Estimate;

/// The range that a figure cannot be outside of; wider than its estimate where arms are missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl From<Estimate> for Interval {
    fn from(estimate: Estimate) -> Self {
        Self { low: estimate.low, high: estimate.high }
    }
}

pub(super) fn verdict(check: &Check, interval: At<Interval>) -> Verdict {
    let (least, most) = ends(check);
    let Interval { low, high } = interval.holds;
    match () {
        () if least <= low && high <= most => Verdict::Holds,
        () if is_outside(check, interval.fails) => Verdict::DoesNotHold,
        () => Verdict::Inconclusive,
    }
}

pub(super) fn is_outside(check: &Check, Interval { low, high }: Interval) -> bool {
    let (least, most) = ends(check);
    high < least || most < low
}

/// Distance of the interval from the nearer bound as a share of that bound; negative if it reaches outside.
pub(super) fn margin(check: &Check, estimate: Estimate) -> f64 {
    let part = |distance: f64, bound: f64| if bound == 0.0 { distance } else { distance / bound.abs() };
    let above = check.at_least.map(|least| part(estimate.low - least, least));
    let below = check.at_most.map(|most| part(most - estimate.high, most));
    above.into_iter().chain(below).fold(f64::INFINITY, f64::min)
}

/// The bounds in words: `at least 2x`, `0.9x to 1.1x`.
pub(super) fn in_words(check: &Check, show: impl Fn(f64) -> String) -> String {
    match (check.at_least, check.at_most) {
        (Some(least), Some(most)) => range(&show(least), &show(most)),
        (Some(least), None) => format!("at least {}", show(least)),
        (None, Some(most)) => format!("at most {}", show(most)),
        (None, None) => "nothing".into(),
    }
}

fn ends(check: &Check) -> (f64, f64) {
    (check.at_least.unwrap_or(f64::NEG_INFINITY), check.at_most.unwrap_or(f64::INFINITY))
}
