//! What is wrong with the checks and figures of a study: selections that no arm meets, or several where one is meant. For
//! whoever writes a study; it looks at the plan alone.

use super::each::common_values;
use crate::plan::{Arm, Check, Factor, Operand, Rule, Scale, Selection, Study, Take};

/// A line for each thing that is wrong; empty if all is right. A check has to be right at both scales, a figure may be
/// for one of them.
pub fn lint(study: &Study) -> Vec<String> {
    let (scaled, full) = match (study.arms(Scale::Scaled), study.arms(Scale::Full)) {
        (Ok(scaled), Ok(full)) => (scaled, full),
        (Err(error), _) | (_, Err(error)) => return vec![error.to_string()],
    };
    let is_empty = |select: &Selection| [&scaled, &full].iter().all(|arms| select.of(arms, |arm| arm).is_empty());
    let empty = study.figures.iter().filter(|figure| is_empty(&figure.select));
    let mut wrong: Vec<String> =
        empty.map(|figure| format!("figure {}: no arm is selected at either scale", figure.id)).collect();
    for (arms, scale) in [(&scaled, "scaled"), (&full, "full")] {
        for claim in &study.claims {
            for check in &claim.checks {
                let said = |what| format!("{scale}: claim {}: check `{}`: {what}", claim.id, check.says);
                wrong.extend(of_check(check, arms).into_iter().map(said));
            }
        }
    }
    wrong
}

fn of_check(check: &Check, arms: &[Arm]) -> Vec<String> {
    match &check.rule {
        Rule::Ratio { of, to, each, .. } => of_operands(&[of, to], *each, arms),
        Rule::Value { of, each, .. } => of_operands(&[of], *each, arms),
        Rule::Crossing { of, to, along, .. } => {
            let mut wrong = of_operands(&[of, to], Some(*along), arms);
            let selected = [of, to].map(|operand| operand.select.of(arms, |arm| arm));
            let numbers = selected.iter().flatten().all(|arm| arm.number(*along).is_some());
            if !numbers || common_values(*along, &selected).len() < 2 {
                wrong.push("a crossing needs two numbers or more to lie between".into());
            }
            wrong
        }
        Rule::Order { of, published_order, .. } => {
            let names = published_order.iter().map(|published| published.path.as_str());
            let wrong = names.filter_map(|name| of_path(of, name, arms));
            let too_few = (published_order.len() < 3).then(|| "an order needs three paths or more".into());
            wrong.chain(too_few).collect()
        }
    }
}

fn of_path(select: &Selection, name: &str, arms: &[Arm]) -> Option<String> {
    match select.of(arms, |arm| arm).into_iter().filter(|arm| arm.name == name).count() {
        1 => None,
        count => Some(format!("{count} arms of {name} are selected where one is meant")),
    }
}

fn of_operands(operands: &[&Operand], each: Option<Factor>, arms: &[Arm]) -> Vec<String> {
    let selected: Vec<Vec<&Arm>> = operands.iter().map(|operand| operand.select.of(arms, |arm| arm)).collect();
    if let Some(empty) = selected.iter().position(Vec::is_empty) {
        return vec![format!("no arm is selected by `{}`", ["of", "to"][empty])];
    }
    let Some(factor) = each else {
        return operands.iter().zip(&selected).filter_map(|(operand, arms)| of_take(operand.take, arms)).collect();
    };
    let values = common_values(factor, &selected);
    if values.is_empty() {
        return vec!["the two sides have no value in common".into()];
    }
    let here = |arms: &Vec<&Arm>, value: &String| -> Vec<Arm> {
        arms.iter().filter(|arm| arm.shown(factor) == *value).map(|arm| (*arm).clone()).collect()
    };
    let mut wrong = Vec::new();
    for value in &values {
        for (operand, arms) in operands.iter().zip(&selected) {
            let here = here(arms, value);
            wrong.extend(of_take(operand.take, &here.iter().collect::<Vec<_>>()));
        }
    }
    wrong
}

fn of_take(take: Take, arms: &[&Arm]) -> Option<String> {
    let names = || arms.iter().map(|arm| arm.to_string()).collect::<Vec<_>>().join("; ");
    (take == Take::Only && arms.len() > 1)
        .then(|| format!("{} arms are selected where one is meant: {}", arms.len(), names()))
}
