//! The rule `value`: the metric of one operand.

use super::evidence::ArmEvidence;
use super::finding::{Computed, Finding};
use super::operand::{OperandValues, extreme, for_extreme, label};
use super::tails::Tails;
use crate::format::quantity;
use crate::plan::{Arm, Check, Metric, Operand};
use crate::stats::{Estimate, estimate_median_at};

pub(super) fn find<'a>(
    check: &Check,
    metric: Metric,
    operand: &Operand,
    arms: &[ArmEvidence<'a>],
    tails: Tails,
) -> Finding<'a> {
    let of = match OperandValues::of(operand, metric, arms) {
        Ok(of) => of,
        Err(finding) => return *finding,
    };
    let samples: Vec<Vec<f64>> = of.arms.iter().map(|(_, values)| values.values().copied().collect()).collect();
    let estimate = |tail: f64| {
        let choices = [(of.take, samples.len())];
        let one = for_extreme(&choices, tail, |sample: &Vec<f64>, tail| estimate_median_at(sample, tail));
        extreme(of.take, &samples.iter().map(one).collect::<Vec<Estimate>>()).expect("an operand has at least one arm")
    };
    let estimates = tails.map(estimate);
    let (shown, chosen) = estimates.holds;
    let about: Vec<&Arm> = arms.iter().map(ArmEvidence::arm).collect();
    let (may_be_larger, may_be_smaller) = (of.may_be_larger(), of.may_be_smaller());
    let computed = Computed {
        estimate: Some(estimates.map(|(estimate, _)| estimate)),
        figures: format!("{} ({})", quantity(metric, shown.value), label(of.arms[chosen].0, &about)),
        repeats: samples.iter().map(Vec::len).min().unwrap_or(0),
        may_be_larger,
        may_be_smaller,
        missing: of.missing,
    };
    Finding::compare(check, computed, |value| quantity(metric, value))
}
