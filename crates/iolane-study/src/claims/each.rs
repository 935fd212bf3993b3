//! A rule worked out for each value of a factor apart, and how many of them it must hold at.

use super::evidence::{Candidate, Evidence, Missing};
use super::{Finding, Verdict};
use crate::plan::{Arm, Factor, Operand};
use crate::quantity::place;

/// What `one` finds of all arms of the operands; with a factor, what it finds at each value that all of them have, and
/// whether it holds at a large enough share of these (all if none is given).
pub(super) fn find<'a>(
    evidence: &Evidence<'a>,
    operands: &[&Operand],
    (each, share): (Option<Factor>, Option<f64>),
    one: impl Fn(&[Vec<Candidate<'a>>]) -> Finding<'a>,
) -> Finding<'a> {
    let arms: Vec<Vec<Candidate<'a>>> = operands.iter().map(|operand| evidence.select(&operand.select)).collect();
    let Some(factor) = each else { return one(&arms) };
    let at_value = |value: &String| {
        let here: Vec<Vec<Candidate<'a>>> = arms.iter().map(|arms| with_value(arms, factor, value)).collect();
        (place(factor, value), one(&here))
    };
    let selected: Vec<Vec<&Arm>> = arms.iter().map(|arms| arms.iter().map(Candidate::arm).collect()).collect();
    let found: Vec<(String, Finding<'a>)> = common_values(factor, &selected).iter().map(at_value).collect();
    if found.is_empty() {
        return Finding::not_testable("the study as it was run has no such arms to compare");
    }
    together(&found, share.unwrap_or(1.0))
}

/// Those of the arms that have this value of a factor.
pub(super) fn with_value<'a>(arms: &[Candidate<'a>], factor: Factor, shown: &str) -> Vec<Candidate<'a>> {
    arms.iter().filter(|candidate| candidate.arm().shown(factor) == shown).copied().collect()
}

/// The values of a factor that all lists of arms have, numbers ascending, others in the order of the first.
pub(super) fn common_values(factor: Factor, lists: &[Vec<&Arm>]) -> Vec<String> {
    let mut values: Vec<(Option<u64>, String)> = Vec::new();
    for arm in lists.first().into_iter().flatten() {
        let value = (arm.number(factor), arm.shown(factor));
        let is_common = lists.iter().all(|arms| arms.iter().any(|arm| arm.shown(factor) == value.1));
        if is_common && !values.contains(&value) {
            values.push(value);
        }
    }
    // Stable: what has no number keeps its order.
    values.sort_by_key(|(number, _)| *number);
    values.into_iter().map(|(_, shown)| shown).collect()
}

/// One finding of several, which are not none. What was not tested and what was not clear count for neither side.
fn together<'a>(found: &[(String, Finding<'a>)], share: f64) -> Finding<'a> {
    let places = |verdict: Verdict| -> Vec<&str> {
        found.iter().filter(|(_, finding)| finding.verdict == verdict).map(|(place, _)| place.as_str()).collect()
    };
    let [holds, fails, unclear, untested] =
        [Verdict::Holds, Verdict::DoesNotHold, Verdict::Inconclusive, Verdict::NotTestable].map(places);
    let total = found.len();
    let verdict = match () {
        () if is_share(holds.len(), share, total) => Verdict::Holds,
        () if !is_share(total - fails.len(), share, total) => Verdict::DoesNotHold,
        () if !untested.is_empty() => Verdict::NotTestable,
        () => Verdict::Inconclusive,
    };
    let mut missing = Missing::default();
    found.iter().for_each(|(_, finding)| missing.merge(&finding.missing));
    // Where it fails, one that fails is shown, and not one whose interval reaches further.
    let shown = |finding: &Finding<'_>| match verdict {
        Verdict::DoesNotHold => finding.verdict == verdict,
        _ => finding.measured.is_some(),
    };
    let measured = found.iter().filter(|(_, finding)| shown(finding));
    let Some((place, nearest)) = measured.min_by(|(_, a), (_, b)| a.margin.total_cmp(&b.margin)) else {
        let why = if missing.is_empty() { found[0].1.why.clone() } else { format!("not measured: {missing}") };
        return Finding { verdict, why, missing, ..found[0].1.clone() };
    };
    let mut why = match holds.len() {
        0 => format!("holds at none of {total}"),
        all if all == total => format!("holds at all {total}"),
        some => format!("holds at {some} of {total}"),
    };
    for (list, what) in [(&fails, "fails"), (&unclear, "not clear"), (&untested, "not tested")] {
        // What is so everywhere needs no list.
        match list.len() {
            0 => {}
            all if all == total => why.push_str(&format!(", {what} at any")),
            _ => why.push_str(&format!(", {what} {}", list.join(", "))),
        }
    }
    let how = if fails.is_empty() { "closest to failing" } else { "worst" };
    why.push_str(&format!("; {how} {place}: {}", nearest.why));
    if !missing.is_empty() && nearest.missing.is_empty() {
        why.push_str(&format!("; not measured: {missing}"));
    }
    let figures = nearest.figures.as_ref().map(|figures| format!("{place} {figures}"));
    Finding { verdict, why, figures, missing, ..nearest.clone() }
}

/// Whether so many of all are the share or more.
fn is_share(count: usize, share: f64, total: usize) -> bool {
    // 0.9 of 10 is 9, whatever the last bit of the product.
    count as f64 + 1e-9 >= share * total as f64
}
