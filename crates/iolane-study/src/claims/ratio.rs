//! The rule `ratio`: a metric of one operand over that of another, paired by repeat.

use super::evidence::{ArmEvidence, at, common_repeats};
use super::finding::{Computed, Finding, times};
use super::operand::{OperandValues, extreme, for_extreme, label, median_at};
use super::tails::Tails;
use crate::format::quantity;
use crate::plan::{Arm, Check, Metric, Operand, Take};
use crate::stats::{Estimate, estimate_ratio_at};

pub(super) fn find<'a>(
    check: &Check,
    metric: Metric,
    sides: [(&Operand, &Vec<ArmEvidence<'a>>); 2],
    tails: Tails,
) -> Finding<'a> {
    let about: Vec<&Arm> = sides.iter().flat_map(|(_, arms)| arms.iter().map(ArmEvidence::arm)).collect();
    let [of, to] = sides.map(|(operand, arms)| OperandValues::of(operand, metric, arms));
    let (of, to) = match (of, to) {
        (Ok(of), Ok(to)) => (of, to),
        (Err(of), Err(to)) if !of.missing.is_empty() && !to.missing.is_empty() => {
            let mut missing = of.missing;
            missing.merge(&to.missing);
            return Finding::missing(missing);
        }
        (Err(finding), _) | (_, Err(finding)) => return *finding,
    };
    let pairs = Pairs::of(&of, &to);
    if pairs.repeats_min() == 0 {
        return Finding::nothing_common();
    }
    let is_defined = pairs.0.iter().flatten().all(|pair| pair.below.iter().all(|value| *value != 0.0));
    let estimates = is_defined.then(|| tails.map(|tail| pairs.estimate([of.take, to.take], tail)));
    let (above, below) = estimates.as_ref().map_or((0, 0), |estimates| estimates.holds.1);
    let shown = |(arm, values): &(&Arm, _)| {
        let median = median_at(values, &pairs.0[above][below].repeats);
        format!("{} ({})", quantity(metric, median), label(arm, &about))
    };
    let mut missing = of.missing.clone();
    missing.merge(&to.missing);
    let computed = Computed {
        // A ratio to 0 in one repeat leaves no median.
        estimate: estimates.map(|estimates| estimates.map(|(estimate, _)| estimate)),
        figures: format!("{} against {}", shown(&of.arms[above]), shown(&to.arms[below])),
        repeats: pairs.repeats_min(),
        may_be_larger: of.may_be_larger() || to.may_be_smaller(),
        may_be_smaller: of.may_be_smaller() || to.may_be_larger(),
        missing,
    };
    Finding::compare(check, computed, times)
}

/// Each arm of the numerator, with each of the denominator.
struct Pairs(Vec<Vec<Pair>>);

/// The values of two arms in their common repeats.
struct Pair {
    repeats: Vec<u32>,
    above: Vec<f64>,
    below: Vec<f64>,
}

impl Pairs {
    fn of(of: &OperandValues<'_>, to: &OperandValues<'_>) -> Self {
        let pair = |above, below| {
            let repeats = common_repeats([above, below]);
            Pair { above: at(above, &repeats), below: at(below, &repeats), repeats }
        };
        let with_each = |above| to.arms.iter().map(|(_, below)| pair(above, below)).collect();
        Self(of.arms.iter().map(|(_, above)| with_each(above)).collect())
    }

    fn repeats_min(&self) -> usize {
        self.0.iter().flatten().map(|pair| pair.repeats.len()).min().unwrap_or(0)
    }

    /// The ratio of the chosen arms, and which they are. The denominator counts the other way round: the ratio to the largest of
    /// several is the smallest of the ratios.
    fn estimate(&self, [of, to]: [Take; 2], tail: f64) -> (Estimate, (usize, usize)) {
        let to = match to {
            Take::Only => Take::Only,
            Take::Largest => Take::Smallest,
            Take::Smallest => Take::Largest,
        };
        let choices = [(of, self.0.len()), (to, self.0[0].len())];
        let ratio = for_extreme(&choices, tail, |pair: &Pair, tail| estimate_ratio_at(&pair.above, &pair.below, tail));
        let rows: Vec<(Estimate, usize)> =
            self.0.iter().filter_map(|row| extreme(to, &row.iter().map(&ratio).collect::<Vec<Estimate>>())).collect();
        let estimates: Vec<Estimate> = rows.iter().map(|(estimate, _)| *estimate).collect();
        let (estimate, above) = extreme(of, &estimates).expect("an operand has at least one arm");
        (estimate, (above, rows[above].1))
    }
}
