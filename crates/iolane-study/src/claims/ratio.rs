//! The rule `ratio`: a metric of one operand over that of another, paired by repeat.

use super::evidence::{ArmEvidence, at, common_repeats};
use super::finding::{Computed, Finding, times};
use super::operand::OperandValues;
use crate::format::quantity;
use crate::plan::{Check, Metric, Operand};
use crate::stats::estimate_ratio;

pub(super) fn find<'a>(check: &Check, metric: Metric, sides: [(&Operand, &Vec<ArmEvidence<'a>>); 2]) -> Finding<'a> {
    let about = [sides[0].1.as_slice(), sides[1].1].concat();
    let [of, to] = sides.map(|(operand, arms)| OperandValues::of(operand, metric, arms, &about));
    let (of, to) = match (of, to) {
        (Ok(of), Ok(to)) => (of, to),
        (Err(of), Err(to)) if !of.missing.is_empty() && !to.missing.is_empty() => {
            let mut missing = of.missing;
            missing.merge(&to.missing);
            return Finding::missing(missing);
        }
        (Err(finding), _) | (_, Err(finding)) => return finding,
    };
    let repeats = common_repeats([&of.values, &to.values]);
    if repeats.is_empty() {
        return Finding::nothing_common();
    }
    let (above, below) = (at(&of.values, &repeats), at(&to.values, &repeats));
    let shown = |side: &OperandValues<'_>| format!("{} ({})", quantity(metric, side.median(&repeats)), side.label);
    let mut missing = of.missing.clone();
    missing.merge(&to.missing);
    let computed = Computed {
        // A ratio to 0 in one repeat leaves no median.
        estimate: below.iter().all(|value| *value != 0.0).then(|| estimate_ratio(&above, &below)),
        figures: format!("{} against {}", shown(&of), shown(&to)),
        repeats: repeats.len(),
        may_be_larger: of.may_be_larger() || to.may_be_smaller(),
        may_be_smaller: of.may_be_smaller() || to.may_be_larger(),
        missing,
    };
    Finding::compare(check, computed, times)
}
