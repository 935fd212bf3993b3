//! What a rule found of one check: the verdict, the figure, and the sentence that says why.

use super::bounds::{self, Interval};
use super::evidence::Missing;
use super::{CheckDecision, REPEATS_MIN, Verdict};
use crate::plan::Check;
use crate::quantity::{number, range};
use crate::stats::Estimate;

/// What was found.
#[derive(Debug, Clone)]
pub(super) struct Finding<'a> {
    pub(super) verdict: Verdict,
    pub(super) measured: Option<Estimate>,
    pub(super) why: String,
    /// What it was worked out from: `12.9 k IOPS (iou+k) against 168 k IOPS (iou)`.
    pub(super) figures: Option<String>,
    /// How far from failing it is, in parts of the bound; infinite if nothing was measured.
    pub(super) margin: f64,
    /// What would have been needed and is not there.
    pub(super) missing: Missing<'a>,
}

/// Something measured, before it is judged.
pub(super) struct Measured<'a> {
    /// The figure with its interval; `None` if none can be worked out, though there are values.
    pub(super) estimate: Option<Estimate>,
    /// What it was worked out from.
    pub(super) figures: String,
    /// On how many repeats it rests.
    pub(super) repeats: usize,
    /// Whether what is missing could make it larger.
    pub(super) may_be_larger: bool,
    /// Whether what is missing could make it smaller.
    pub(super) may_be_smaller: bool,
    /// What is missing.
    pub(super) missing: Missing<'a>,
}

impl<'a> Finding<'a> {
    /// Not testable, for a reason that is not an arm's.
    pub(super) fn not_testable(why: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::NotTestable,
            measured: None,
            why: why.into(),
            figures: None,
            margin: f64::INFINITY,
            missing: Missing::default(),
        }
    }

    /// Not testable, because nothing of it is there.
    pub(super) fn missing(missing: Missing<'a>) -> Self {
        Self { why: format!("not measured: {missing}"), missing, ..Self::not_testable("") }
    }

    /// Inconclusive, because no repeat has all values that are needed.
    pub(super) fn nothing_common() -> Self {
        Self {
            verdict: Verdict::Inconclusive,
            ..Self::not_testable("no repeat is common to all arms that it is about")
        }
    }

    /// A figure beside its bounds. It decides only what would be so whatever the missing arms had given.
    pub(super) fn judge(check: &Check, measured: Measured<'a>, show: impl Fn(f64) -> String) -> Self {
        let Measured { estimate, figures, repeats, missing, .. } = measured;
        let found = |verdict: Verdict, why: String| Self {
            verdict,
            measured: estimate,
            why,
            figures: Some(figures.clone()),
            margin: estimate.map_or(f64::INFINITY, |estimate| bounds::margin(check, estimate)),
            missing: missing.clone(),
        };
        let Some(estimate) = estimate else {
            return found(Verdict::Inconclusive, format!("no figure can be worked out of {figures}"));
        };
        let figure = in_words(check, estimate, &show);
        if repeats < REPEATS_MIN {
            let plural = if repeats == 1 { "" } else { "s" };
            let why = format!("{figure}, from {repeats} repeat{plural}: it takes {REPEATS_MIN} to decide");
            return found(Verdict::Inconclusive, why);
        }
        let certain = Interval {
            low: if measured.may_be_smaller { f64::NEG_INFINITY } else { estimate.low },
            high: if measured.may_be_larger { f64::INFINITY } else { estimate.high },
        };
        let is_open = measured.may_be_smaller || measured.may_be_larger;
        match bounds::verdict(check, certain) {
            Verdict::Inconclusive if is_open => {
                found(Verdict::NotTestable, format!("{figure}, without {missing}, which could change that"))
            }
            verdict if is_open => found(verdict, format!("{figure}, without {missing}, which could not change that")),
            verdict if missing.is_empty() => found(verdict, figure),
            verdict => found(verdict, format!("{figure}, without {missing}")),
        }
    }

    /// What a reader is told of the check.
    pub(super) fn decision(&self, check: &Check) -> CheckDecision {
        CheckDecision {
            says: check.says.clone(),
            verdict: self.verdict,
            published: check.published,
            measured: self.measured,
            at_least: check.at_least,
            at_most: check.at_most,
            why: self.why.clone(),
        }
    }
}

/// `0.076x (95 %: 0.071x to 0.08x) where at most 0.5x was asked; published 0.08x`.
fn in_words(check: &Check, estimate: Estimate, show: &impl Fn(f64) -> String) -> String {
    let Estimate { value, low, high } = estimate;
    let published = check.published.map_or(String::new(), |published| format!("; published {}", show(published)));
    let asked = bounds::asked(check, show);
    let interval = range(&show(low), &show(high));
    format!("{} (95 %: {interval}) where {asked} was asked{published}", show(value))
}

/// A ratio as it is written.
pub(super) fn times(ratio: f64) -> String {
    format!("{}x", number(ratio))
}
