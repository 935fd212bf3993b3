//! Checks the selections of claims and figures against the arms of the study, before anything is measured: a selection
//! that is empty, or has several arms where one is required. The command line calls it when it reads a study.

use iolane::{Error, Result};

use super::values::common_values;
use crate::plan::{Arm, Check, Factor, FactorValue, Operand, Rule, Scale, Selection, Study, Take};

/// What [`lint`] found, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lint {
    /// Checks that no measurement can decide, and figures without arms.
    pub errors: Vec<String>,
    /// Checks that one of the two scales cannot decide because it has not all of their arms.
    pub notes: Vec<String>,
}

/// Checks every claim and figure of a study at both scales. Finds nothing if [`Study::arms`] fails at one of them.
pub fn lint(study: &Study) -> Lint {
    let mut lint = Lint::default();
    let [Ok(scaled), Ok(full)] = Scale::ALL.map(|scale| study.arms(scale).map(|arms| (scale, arms))) else {
        return lint;
    };
    let scales = [scaled, full];
    for figure in &study.figures {
        if scales.iter().all(|(_, arms)| selected(&figure.select, arms).is_empty()) {
            lint.errors.push(format!("figure {}: `where` selects no arm at either scale", figure.id));
        }
    }
    for claim in &study.claims {
        let notes_before = lint.notes.len();
        for check in &claim.checks {
            let [scaled, full] = scales.each_ref().map(|(_, arms)| of_check(check, arms));
            let is_undecidable =
                scaled.as_ref().is_some_and(Fault::is_missing) && full.as_ref().is_some_and(Fault::is_missing);
            let mut texts: Vec<String> = Vec::new();
            for ((scale, _), fault) in scales.iter().zip([scaled, full]) {
                let Some(fault) = fault else { continue };
                let what = format!("claim {}: check `{}`: {}", claim.id, check.says, fault.text());
                if fault.is_missing() && !is_undecidable {
                    lint.notes.push(format!("{what} at scale `{}`", scale.name()));
                } else if !texts.contains(&what) {
                    texts.push(what);
                }
            }
            lint.errors.append(&mut texts);
        }
        // A claim about a larger machine: one note instead of one for each check.
        let notes = lint.notes.split_off(notes_before);
        let mut places = scales.iter().map(|(scale, _)| format!(" at scale `{}`", scale.name()));
        let is_of_all = |place: &String| notes.len() > 1 && notes.iter().all(|note| note.ends_with(place.as_str()));
        match places.find(is_of_all).filter(|_| notes.len() == claim.checks.len()) {
            Some(place) => lint.notes.push(format!("claim {}: none of its checks has arms{place}", claim.id)),
            None => lint.notes.extend(notes),
        }
    }
    lint
}

/// # Errors
/// `Usage` with the errors that [`lint`] finds; `file` is the study's name in the message.
pub fn require_testable(study: &Study, file: &str) -> Result<()> {
    let errors = lint(study).errors;
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::usage(file, errors.join("; ")).remedy("docs/studies.md describes `where` and `take`")),
    }
}

/// What is wrong with a check at one scale.
enum Fault {
    /// The scale has not all arms of the check.
    Missing(String),
    /// More arms could not mend it.
    Ambiguous(String),
}

impl Fault {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }

    fn text(&self) -> &str {
        match self {
            Self::Missing(text) | Self::Ambiguous(text) => text,
        }
    }
}

fn of_check(check: &Check, arms: &[Arm]) -> Option<Fault> {
    match &check.rule {
        Rule::Ratio { of, to, each, .. } => of_operands(&[of, to], *each, arms),
        Rule::Value { of, each, .. } => of_operands(&[of], *each, arms),
        Rule::Crossing { of, to, along, .. } => of_crossing([of, to], *along, arms),
        Rule::Order { of, published_order, .. } => {
            if published_order.len() < 3 {
                return Some(Fault::Ambiguous("an order needs three or more paths".into()));
            }
            published_order.iter().find_map(|published| of_path(of, &published.path, arms))
        }
    }
}

fn of_crossing(operands: [&Operand; 2], along: Factor, arms: &[Arm]) -> Option<Fault> {
    let lists = operands.map(|operand| selected(&operand.select, arms));
    if lists.iter().flatten().any(|arm| arm.number(along).is_none()) {
        return Some(Fault::Ambiguous("a crossing needs a factor whose values are numbers".into()));
    }
    if let Some(fault) = of_operands(&operands, Some(along), arms) {
        return Some(fault);
    }
    let has_range = common_values(along, &lists).len() >= 2;
    (!has_range).then(|| Fault::Missing("a crossing needs two or more values to lie between".into()))
}

fn of_path(select: &Selection, name: &str, arms: &[Arm]) -> Option<Fault> {
    match selected(select, arms).into_iter().filter(|arm| arm.name == name).count() {
        1 => None,
        0 => Some(Fault::Missing(format!("`of` selects no arm of {name}"))),
        count => Some(Fault::Ambiguous(format!("`of` selects {count} arms of {name} where an order needs one"))),
    }
}

fn of_operands(operands: &[&Operand], each: Option<Factor>, arms: &[Arm]) -> Option<Fault> {
    let lists: Vec<Vec<&Arm>> = operands.iter().map(|operand| selected(&operand.select, arms)).collect();
    if let Some(empty) = lists.iter().position(Vec::is_empty) {
        return Some(Fault::Missing(format!("`{}` selects no arm", ["of", "to"][empty])));
    }
    let take_fault = |lists: &[Vec<&Arm>]| {
        operands.iter().zip(lists).zip(["of", "to"]).find_map(|((operand, arms), key)| of_take(operand.take, key, arms))
    };
    let Some(factor) = each else { return take_fault(&lists) };
    let values = common_values(factor, &lists);
    if values.is_empty() {
        return Some(Fault::Missing("`of` and `to` have no value of the factor in common".into()));
    }
    values.iter().find_map(|value| {
        let lists: Vec<Vec<&Arm>> = lists.iter().map(|arms| with_value(arms, factor, value)).collect();
        take_fault(&lists)
    })
}

fn with_value<'a>(arms: &[&'a Arm], factor: Factor, value: &FactorValue) -> Vec<&'a Arm> {
    arms.iter().copied().filter(|arm| arm.value(factor) == *value).collect()
}

fn of_take(take: Take, key: &str, arms: &[&Arm]) -> Option<Fault> {
    const NAMES_MAX: usize = 3;
    if take != Take::Only || arms.len() <= 1 {
        return None;
    }
    let names: Vec<String> = arms.iter().take(NAMES_MAX).map(|arm| arm.to_string()).collect();
    let more = if arms.len() > NAMES_MAX { "; ..." } else { "" };
    let count = arms.len();
    Some(Fault::Ambiguous(format!(
        "`{key}` selects {count} arms ({}{more}): narrow `where` to one, or set `take` to \"largest\" or \"smallest\"",
        names.join("; ")
    )))
}

fn selected<'a>(select: &Selection, arms: &'a [Arm]) -> Vec<&'a Arm> {
    select.of(arms, |arm| arm)
}
