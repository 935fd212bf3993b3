//! The rule `ratio`: a metric of one operand over that of another, paired by repeat.

use super::Finding;
use super::evidence::{Candidate, Standing, at, common_repeats};
use super::finding::{Measured, times};
use crate::plan::{Check, Metric, Operand};
use crate::quantity::quantity;
use crate::stats::estimate_ratio;

/// The ratio of the first of two operands, with its arms, to the second.
pub(super) fn find<'a>(check: &Check, metric: Metric, sides: [(&Operand, &Vec<Candidate<'a>>); 2]) -> Finding<'a> {
    let about = [sides[0].1.as_slice(), sides[1].1].concat();
    let [of, to] = sides.map(|(operand, arms)| Standing::of(operand, metric, arms, &about));
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
    let shown = |side: &Standing<'_>| format!("{} ({})", quantity(metric, side.median(&repeats)), side.label);
    let mut missing = of.missing.clone();
    missing.merge(&to.missing);
    let measured = Measured {
        // What is divided by 0 in one repeat has no median either.
        estimate: below.iter().all(|value| *value != 0.0).then(|| estimate_ratio(&above, &below)),
        figures: format!("{} against {}", shown(&of), shown(&to)),
        repeats: repeats.len(),
        may_be_larger: of.may_be_larger() || to.may_be_smaller(),
        may_be_smaller: of.may_be_smaller() || to.may_be_larger(),
        missing,
    };
    Finding::judge(check, measured, times)
}
