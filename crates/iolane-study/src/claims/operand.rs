//! The values of an operand: of the arms it selects, the values of the one that `take` chooses in each repeat.

use super::evidence::{ArmEvidence, ByRepeat, at, common_repeats};
use super::finding::Finding;
use super::missing::Missing;
use crate::format::place;
use crate::plan::{Arm, Factor, Metric, Operand, Take};
use crate::stats::{largest_by_repeat, median, smallest_by_repeat};

#[derive(Debug)]
pub(super) struct OperandValues<'a> {
    pub(super) values: ByRepeat,
    /// The arm they come from: `iou+k at depth 128`; `mostly iou+k at depth 128` where repeats come from several arms.
    pub(super) label: String,
    /// Selected arms without a value, any of which might have been chosen.
    pub(super) missing: Missing<'a>,
    take: Take,
}

impl<'a> OperandValues<'a> {
    /// The values of an operand with these arms. The label distinguishes the chosen arm among `about`, all arms of the
    /// figure.
    ///
    /// # Errors
    /// A finding that the check is not testable: no arm was measured, or the study file selects none or too many.
    pub(super) fn of(
        operand: &Operand,
        metric: Metric,
        arms: &[ArmEvidence<'a>],
        about: &[ArmEvidence<'a>],
    ) -> Result<Self, Finding<'a>> {
        if arms.is_empty() {
            return Err(Finding::not_testable("the study has no such arm at this scale"));
        }
        if operand.take == Take::Only && arms.len() > 1 {
            let names: Vec<String> = arms.iter().map(|arm| arm.arm().to_string()).collect();
            let why =
                format!("the study file selects {} arms where `take` expects one: {}", arms.len(), names.join("; "));
            return Err(Finding::not_testable(why));
        }
        let mut missing = Missing::default();
        let mut measured = Vec::new();
        for arm in arms {
            match arm.values(metric) {
                Ok(values) => measured.push((arm.arm(), values)),
                Err(reason) => missing.add(reason, arm.arm()),
            }
        }
        if measured.is_empty() {
            return Err(Finding::missing(missing));
        }
        let (values, chosen, is_always) = choose(operand.take, &measured);
        let about: Vec<&Arm> = about.iter().map(ArmEvidence::arm).collect();
        let mostly = if is_always { "" } else { "mostly " };
        let label = format!("{mostly}{}", label(chosen, &about));
        Ok(Self { values, label, missing, take: operand.take })
    }

    /// Whether a missing arm could have made the values larger.
    pub(super) fn may_be_larger(&self) -> bool {
        self.take == Take::Largest && !self.missing.is_empty()
    }

    /// Whether a missing arm could have made the values smaller.
    pub(super) fn may_be_smaller(&self) -> bool {
        self.take == Take::Smallest && !self.missing.is_empty()
    }

    /// The median of these repeats.
    pub(super) fn median(&self, repeats: &[u32]) -> f64 {
        median(&at(&self.values, repeats))
    }
}

/// The chosen values, the arm that most of them come from, and whether all do. Only repeats that every arm has are used:
/// in the others the choice would be among fewer arms.
fn choose<'a>(take: Take, measured: &[(&'a Arm, ByRepeat)]) -> (ByRepeat, &'a Arm, bool) {
    let repeats = common_repeats(measured.iter().map(|(_, values)| values));
    let arms: Vec<Vec<f64>> = measured.iter().map(|(_, values)| at(values, &repeats)).collect();
    let taken = match take {
        Take::Smallest => smallest_by_repeat(&arms),
        Take::Only | Take::Largest => largest_by_repeat(&arms),
    };
    let matches = |arm: &[f64]| arm.iter().zip(&taken).filter(|(value, taken)| value == taken).count();
    // Of several equally likely arms the first, so that the label does not depend on noise.
    let best = (0..arms.len()).rev().max_by_key(|index| matches(&arms[*index])).unwrap_or(0);
    let is_always = matches(&arms[best]) == repeats.len();
    (repeats.into_iter().zip(taken).collect(), measured[best].0, is_always)
}

/// The path's name, and the factors in which the arm differs from any of the others.
fn label(arm: &Arm, among: &[&Arm]) -> String {
    let mut words = vec![arm.name.clone()];
    for factor in Factor::ALL.into_iter().filter(|factor| *factor != Factor::Path) {
        let value = arm.value(factor);
        if among.iter().any(|other| other.value(factor) != value) {
            words.push(place(factor, &value.to_string()));
        }
    }
    words.join(" ")
}
