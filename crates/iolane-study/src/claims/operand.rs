//! The arms of an operand with their values, and which of several represents the others.

use super::evidence::{ArmEvidence, ByRepeat, at};
use super::finding::Finding;
use super::missing::Missing;
use crate::format::place;
use crate::plan::{Arm, Factor, Metric, Operand, Take};
use crate::stats::{Estimate, median};

#[derive(Debug)]
pub(super) struct OperandValues<'a> {
    /// The arms that were measured, at least one; one only unless `take` chooses among them.
    pub(super) arms: Vec<(&'a Arm, ByRepeat)>,
    /// Selected arms without a value, any of which might have been chosen.
    pub(super) missing: Missing<'a>,
    pub(super) take: Take,
}

impl<'a> OperandValues<'a> {
    /// The values of an operand with these arms.
    ///
    /// # Errors
    /// A finding that the check is not testable: no arm was measured, or the study file selects none or too many.
    pub(super) fn of(operand: &Operand, metric: Metric, arms: &[ArmEvidence<'a>]) -> Result<Self, Box<Finding<'a>>> {
        if arms.is_empty() {
            return Err(Finding::not_testable("the study has no such arm at this scale").into());
        }
        if operand.take == Take::Only && arms.len() > 1 {
            let names: Vec<String> = arms.iter().map(|arm| arm.arm().to_string()).collect();
            let why =
                format!("the study file selects {} arms where `take` expects one: {}", arms.len(), names.join("; "));
            return Err(Finding::not_testable(why).into());
        }
        let mut missing = Missing::default();
        let mut measured = Vec::new();
        for arm in arms {
            match arm.values(metric) {
                Ok(values) => measured.push((arm.arm(), values)),
                Err(reason) => missing.add(reason, arm.arm()),
            }
        }
        match measured.is_empty() {
            true => Err(Finding::missing(missing).into()),
            false => Ok(Self { arms: measured, missing, take: operand.take }),
        }
    }

    /// Whether a missing arm could have made the values larger.
    pub(super) fn may_be_larger(&self) -> bool {
        self.take == Take::Largest && !self.missing.is_empty()
    }

    /// Whether a missing arm could have made the values smaller.
    pub(super) fn may_be_smaller(&self) -> bool {
        self.take == Take::Smallest && !self.missing.is_empty()
    }
}

/// The median of these repeats.
pub(super) fn median_at(values: &ByRepeat, repeats: &[u32]) -> f64 {
    median(&at(values, repeats))
}

/// The path's name, and the factors in which the arm differs from any of the others.
pub(super) fn label(arm: &Arm, among: &[&Arm]) -> String {
    let mut words = vec![arm.name.clone()];
    for factor in Factor::ALL.into_iter().filter(|factor| *factor != Factor::Path) {
        let value = arm.value(factor);
        if among.iter().any(|other| other.value(factor) != value) {
            words.push(place(factor, &value.to_string()));
        }
    }
    words.join(" ")
}

/// The figure of the candidate that `take` chooses by its value, with an interval that holds whichever of them is the true extreme;
/// and which candidate it is. `None` without candidates.
///
/// The largest of several noisy values lies above the true largest. Its interval is therefore not that of the chosen one: the largest
/// is above some value only if a candidate is, which one of many is by chance, and below it only if all are. So the lower end is the
/// largest of lower ends whose tail is shared among the candidates ([`for_extreme`]), and the upper end the largest of upper ends. For
/// the smallest it is the other way round.
pub(super) fn extreme(take: Take, candidates: &[Estimate]) -> Option<(Estimate, usize)> {
    let best = |end: fn(&Estimate) -> f64| {
        let ends = candidates.iter().map(end).enumerate();
        match take {
            Take::Smallest => ends.min_by(|(_, a), (_, b)| a.total_cmp(b)),
            // Of several equal ones the first.
            Take::Only | Take::Largest => ends.rev().max_by(|(_, a), (_, b)| a.total_cmp(b)),
        }
    };
    let (chosen, value) = best(|candidate| candidate.value)?;
    let ((_, low), (_, high)) = (best(|candidate| candidate.low)?, best(|candidate| candidate.high)?);
    Some((Estimate { value, low, high }, chosen))
}

/// An estimate of each candidate with the ends that [`extreme`] needs: `choices` are those among the candidates, each with their
/// number, and `estimate` is that of a candidate at a tail.
pub(super) fn for_extreme<C>(
    choices: &[(Take, usize)],
    tail: f64,
    estimate: impl Fn(&C, f64) -> Estimate,
) -> impl Fn(&C) -> Estimate {
    let shared =
        |by: Take| choices.iter().filter(|(take, _)| *take == by).fold(tail, |tail, (_, count)| tail / *count as f64);
    let (low, high) = (shared(Take::Largest), shared(Take::Smallest));
    move |candidate| {
        let lower = estimate(candidate, low);
        if low == high { lower } else { Estimate { high: estimate(candidate, high).high, ..lower } }
    }
}
