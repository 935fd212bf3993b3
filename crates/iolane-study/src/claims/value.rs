//! The rule `value`: the metric of one operand.

use super::evidence::ArmEvidence;
use super::finding::{Computed, Finding};
use super::operand::OperandValues;
use crate::format::quantity;
use crate::plan::{Check, Metric, Operand};
use crate::stats::estimate_median;

pub(super) fn find<'a>(check: &Check, metric: Metric, of: &Operand, arms: &[ArmEvidence<'a>]) -> Finding<'a> {
    let of = match OperandValues::of(of, metric, arms, arms) {
        Ok(of) => of,
        Err(finding) => return finding,
    };
    let sample: Vec<f64> = of.values.values().copied().collect();
    if sample.is_empty() {
        return Finding::nothing_common();
    }
    let estimate = estimate_median(&sample);
    let (may_be_larger, may_be_smaller) = (of.may_be_larger(), of.may_be_smaller());
    let computed = Computed {
        estimate: Some(estimate),
        figures: format!("{} ({})", quantity(metric, estimate.value), of.label),
        repeats: sample.len(),
        may_be_larger,
        may_be_smaller,
        missing: of.missing,
    };
    Finding::compare(check, computed, |value| quantity(metric, value))
}
