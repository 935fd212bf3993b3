//! The rule `value`: a metric itself.

use super::Finding;
use super::evidence::{Candidate, Standing};
use super::finding::Measured;
use crate::plan::{Check, Metric, Operand};
use crate::quantity::quantity;
use crate::stats::estimate_median;

/// The metric of an operand with its arms.
pub(super) fn find<'a>(check: &Check, metric: Metric, of: &Operand, arms: &[Candidate<'a>]) -> Finding<'a> {
    let of = match Standing::of(of, metric, arms, arms) {
        Ok(of) => of,
        Err(finding) => return finding,
    };
    let sample: Vec<f64> = of.values.values().copied().collect();
    if sample.is_empty() {
        return Finding::nothing_common();
    }
    let estimate = estimate_median(&sample);
    let (may_be_larger, may_be_smaller) = (of.may_be_larger(), of.may_be_smaller());
    let measured = Measured {
        estimate: Some(estimate),
        figures: format!("{} ({})", quantity(metric, estimate.value), of.label),
        repeats: sample.len(),
        may_be_larger,
        may_be_smaller,
        missing: of.missing,
    };
    Finding::judge(check, measured, |value| quantity(metric, value))
}
