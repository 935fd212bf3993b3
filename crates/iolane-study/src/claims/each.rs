//! Applies a rule once, or separately for each value of a factor, and combines the findings by the required share.

use super::evidence::{ArmEvidence, Evidence};
use super::finding::Finding;
use super::missing::Missing;
use super::tails::Tails;
use super::values::common_values;
use super::verdict::Verdict;
use crate::format::place;
use crate::plan::{Arm, Factor, FactorValue, Operand};

/// Applies `one` to all arms of the operands; with a factor, to the arms at each value that all operands have. The check
/// then holds if it holds at the share of these values (all of them for `None`). The tails are those of the whole check.
pub(super) fn find<'a>(
    evidence: &Evidence<'a>,
    operands: &[&Operand],
    (each, share): (Option<Factor>, Option<f64>),
    tails: Tails,
    one: impl Fn(&[Vec<ArmEvidence<'a>>], Tails) -> Finding<'a>,
) -> Finding<'a> {
    let arms: Vec<Vec<ArmEvidence<'a>>> = operands.iter().map(|operand| evidence.select(&operand.select)).collect();
    let Some(factor) = each else { return one(&arms, tails) };
    let selected: Vec<Vec<&Arm>> = arms.iter().map(|arms| arms.iter().map(ArmEvidence::arm).collect()).collect();
    let values = common_values(factor, &selected);
    let required = required(share.unwrap_or(1.0), values.len());
    let at_value = |value: &FactorValue| {
        let here: Vec<Vec<ArmEvidence<'a>>> = arms.iter().map(|arms| with_value(arms, factor, value)).collect();
        (place(factor, &value.to_string()), one(&here, tails.share_of(required, values.len())))
    };
    let found: Vec<(String, Finding<'a>)> = values.iter().map(at_value).collect();
    if found.is_empty() {
        return Finding::not_testable("the study has no such arms to compare at this scale");
    }
    combine(&found, required)
}

/// The arms that have this value of a factor.
pub(super) fn with_value<'a>(arms: &[ArmEvidence<'a>], factor: Factor, value: &FactorValue) -> Vec<ArmEvidence<'a>> {
    arms.iter().filter(|arm| arm.arm().value(factor) == *value).copied().collect()
}

/// Combines one or more findings. Inconclusive and untested values count for neither side.
fn combine<'a>(found: &[(String, Finding<'a>)], required: usize) -> Finding<'a> {
    let places = |verdict: Verdict| -> Vec<&str> {
        found.iter().filter(|(_, finding)| finding.verdict == verdict).map(|(place, _)| place.as_str()).collect()
    };
    let [holds, fails, unclear, untested] =
        [Verdict::Holds, Verdict::DoesNotHold, Verdict::Inconclusive, Verdict::NotTestable].map(places);
    let total = found.len();
    let verdict = match () {
        () if holds.len() >= required => Verdict::Holds,
        () if total - fails.len() < required => Verdict::DoesNotHold,
        () if !untested.is_empty() => Verdict::NotTestable,
        () => Verdict::Inconclusive,
    };
    let mut missing = Missing::default();
    found.iter().for_each(|(_, finding)| missing.merge(&finding.missing));
    // A failed check shows a value that fails, even where the interval of an inconclusive value reaches further.
    let shown = |finding: &Finding<'_>| match verdict {
        Verdict::DoesNotHold => finding.verdict == verdict,
        _ => finding.measured.is_some(),
    };
    let measured = found.iter().filter(|(_, finding)| shown(finding));
    let Some((place, nearest)) = measured.min_by(|(_, a), (_, b)| a.margin.total_cmp(&b.margin)) else {
        let why = if missing.is_empty() { found[0].1.why.clone() } else { format!("not measured: {missing}") };
        return Finding { verdict, why, missing, ..found[0].1.clone() };
    };
    let open = match verdict {
        Verdict::Inconclusive => found.iter().flat_map(|(_, finding)| finding.open.clone()).collect(),
        _ => Vec::new(),
    };
    let mut why = match holds.len() {
        0 => format!("holds at none of {total}"),
        all if all == total => format!("holds at all {total}"),
        some => format!("holds at {some} of {total}"),
    };
    for (list, what) in [(&fails, "fails"), (&unclear, "inconclusive"), (&untested, "not tested")] {
        match list.len() {
            0 => {}
            all if all == total => why.push_str(&format!(", {what} at all {total}")),
            _ => why.push_str(&format!(", {what} {}", list.join(", "))),
        }
    }
    let how = if fails.is_empty() { "closest to failing" } else { "worst" };
    why.push_str(&format!("; {how} {place}: {}", nearest.why));
    if !missing.is_empty() && nearest.missing.is_empty() {
        why.push_str(&format!("; not measured: {missing}"));
    }
    let figures = nearest.figures.as_ref().map(|figures| format!("{place} {figures}"));
    Finding { verdict, why, figures, missing, open, ..nearest.clone() }
}

/// The least number that is this share of `total`.
fn required(share: f64, total: usize) -> usize {
    // 0.9 of 10 is 9, despite rounding of the product.
    (share * total as f64 - 1e-9).ceil() as usize
}
