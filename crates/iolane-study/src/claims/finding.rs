//! The result of one check: the verdict, the figure, and the sentence that gives the reason. Every rule returns one.

use super::bounds::{self, Interval};
use super::decision::CheckDecision;
use super::evidence::ArmEvidence;
use super::missing::Missing;
use super::tails::At;
use super::verdict::{REPEATS_MIN, Verdict};
use crate::format::{number, range};
use crate::plan::{Arm, Check};
use crate::stats::Estimate;

#[derive(Debug, Clone)]
pub(super) struct Finding<'a> {
    pub(super) verdict: Verdict,
    pub(super) measured: Option<Estimate>,
    pub(super) why: String,
    /// The values it was computed from: `12.9 k IOPS (iou+k) against 168 k IOPS (iou)`.
    pub(super) figures: Option<String>,
    /// Distance from failing as a share of the bound; infinite if nothing was measured.
    pub(super) margin: f64,
    /// Arms the check needs that have no value.
    pub(super) missing: Missing<'a>,
    /// Of an inconclusive check, the arms of which more repeats could decide it.
    pub(super) open: Vec<&'a Arm>,
}

/// A computed figure that is not yet compared with the bounds.
pub(super) struct Computed<'a> {
    /// `None` if the values have no such figure, as a ratio to 0.
    pub(super) estimate: Option<At<Estimate>>,
    /// The values it was computed from.
    pub(super) figures: String,
    /// The number of repeats used.
    pub(super) repeats: usize,
    /// Whether the missing arms could have made it larger.
    pub(super) may_be_larger: bool,
    /// Whether the missing arms could have made it smaller.
    pub(super) may_be_smaller: bool,
    pub(super) missing: Missing<'a>,
}

impl<'a> Finding<'a> {
    /// Not testable for a reason other than missing arms.
    pub(super) fn not_testable(why: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::NotTestable,
            measured: None,
            why: why.into(),
            figures: None,
            margin: f64::INFINITY,
            missing: Missing::default(),
            open: Vec::new(),
        }
    }

    /// Not testable because of missing arms.
    pub(super) fn missing(missing: Missing<'a>) -> Self {
        Self { why: format!("not measured: {missing}"), missing, ..Self::not_testable("") }
    }

    /// Inconclusive because no repeat has all required values.
    pub(super) fn nothing_common() -> Self {
        Self { verdict: Verdict::Inconclusive, ..Self::not_testable("no repeat is common to all arms of the check") }
    }

    /// Compares a figure with the bounds. Where arms are missing, the verdict stands only if no value of theirs could
    /// have changed it.
    pub(super) fn compare(check: &Check, computed: Computed<'a>, show: impl Fn(f64) -> String) -> Self {
        let Computed { estimate, figures, repeats, missing, may_be_larger, may_be_smaller } = computed;
        let found = |verdict: Verdict, why: String| Self {
            verdict,
            measured: estimate.map(|estimate| estimate.holds),
            why,
            figures: Some(figures.clone()),
            margin: estimate.map_or(f64::INFINITY, |estimate| bounds::margin(check, estimate.holds)),
            missing: missing.clone(),
            open: Vec::new(),
        };
        let Some(estimate) = estimate else {
            return found(Verdict::Inconclusive, format!("the figure is not defined for {figures}"));
        };
        let figure = in_words(check, estimate.holds, &show);
        if repeats < REPEATS_MIN {
            let plural = if repeats == 1 { "" } else { "s" };
            let why = format!("{figure}, from {repeats} repeat{plural}; a verdict needs {REPEATS_MIN}");
            return found(Verdict::Inconclusive, why);
        }
        let certain = estimate.map(|Estimate { low, high, .. }| Interval {
            low: if may_be_smaller { f64::NEG_INFINITY } else { low },
            high: if may_be_larger { f64::INFINITY } else { high },
        });
        let is_open = may_be_smaller || may_be_larger;
        let is_outside = bounds::is_outside(check, estimate.holds.into()) && !bounds::is_outside(check, certain.fails);
        let figure = match is_outside && !is_open {
            true => format!(
                "{figure}; {} where each of several comparisons could fail the claim",
                interval_in_words(estimate.fails, &show)
            ),
            false => figure,
        };
        match bounds::verdict(check, certain) {
            Verdict::Inconclusive if is_open => {
                found(Verdict::NotTestable, format!("{figure}, without {missing}, which could change the verdict"))
            }
            verdict if is_open => {
                found(verdict, format!("{figure}, without {missing}, which could not change the verdict"))
            }
            verdict if missing.is_empty() => found(verdict, figure),
            verdict => found(verdict, format!("{figure}, without {missing}")),
        }
    }

    /// The finding of a comparison of these arms.
    #[must_use]
    pub(super) fn of_arms(mut self, arms: impl IntoIterator<Item = ArmEvidence<'a>>) -> Self {
        if self.verdict == Verdict::Inconclusive {
            self.open = arms.into_iter().map(|evidence| evidence.arm()).collect();
        }
        self
    }

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

/// `0.076x (95 %: 0.071x to 0.08x), required at most 0.5x; published 0.08x`.
fn in_words(check: &Check, estimate: Estimate, show: &impl Fn(f64) -> String) -> String {
    let published = check.published.map_or(String::new(), |published| format!("; published {}", show(published)));
    let required = bounds::in_words(check, show);
    let interval = interval_in_words(estimate, show);
    format!("{} (95 %: {interval}), required {required}{published}", show(estimate.value))
}

fn interval_in_words(estimate: Estimate, show: &impl Fn(f64) -> String) -> String {
    range(&show(estimate.low), &show(estimate.high))
}

pub(super) fn times(ratio: f64) -> String {
    format!("{}x", number(ratio))
}
