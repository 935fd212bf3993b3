//! Decides claims: applies the rule of each check to the evidence and combines the verdicts of the checks.

use super::crossing;
use super::decision::Decision;
use super::each;
use super::evidence::{ArmEvidence, Evidence};
use super::finding::Finding;
use super::looks::Looks;
use super::missing::Missing;
use super::needs;
use super::tails::Tails;
use super::verdict::Verdict;
use super::{order, ratio, value};
use crate::plan::{Check, Claim, Rule, Study};
use crate::rows::Results;
use iolane_measure::figures::FigureValue;
use iolane_measure::telemetry::Sourced;

/// Decides every claim of a study, in its order. Each look decides on the repeats it saw, and what it decides stands.
pub fn decide(study: &Study, results: &Results, looks: &Looks) -> Vec<Decision> {
    let at_looks: Vec<(Evidence<'_>, Tails)> =
        looks.ends_with_tails().map(|(end, tails)| (Evidence::of(results, end), tails)).collect();
    let of_claim = |claim: &Claim| {
        let (last, earlier) = at_looks.split_last().expect("there is at least one look");
        let at = |(evidence, tails): &(Evidence<'_>, Tails)| decide_claim(claim, evidence, *tails);
        let decided = earlier.iter().map(at).find(|decision| decision.verdict != Verdict::Inconclusive);
        decided.unwrap_or_else(|| at(last))
    };
    study.claims.iter().map(of_claim).collect()
}

fn decide_claim(claim: &Claim, evidence: &Evidence<'_>, tails: Tails) -> Decision {
    combine(claim, &find_all(claim, evidence, tails))
}

pub(super) fn combine(claim: &Claim, findings: &[Finding<'_>]) -> Decision {
    let mut measured: Vec<&str> = Vec::new();
    for figures in findings.iter().filter_map(|finding| finding.figures.as_deref()) {
        if !measured.contains(&figures) {
            measured.push(figures);
        }
    }
    let verdict = combined_verdict(findings);
    Decision {
        id: claim.id.clone(),
        says: claim.says.clone(),
        verdict,
        published: claim.published.clone(),
        measured: (!measured.is_empty()).then(|| measured.join("; ")),
        why: combined_reason(verdict, claim, findings),
        differs: claim.differs.clone(),
        checks: claim.checks.iter().zip(findings).map(|(check, finding)| finding.decision(check)).collect(),
    }
}

/// The findings of the checks of a claim, any of which could fail it. As Holm has it: the checks that fail although the tail is shared
/// among all are out of doubt, and the others share it among themselves.
pub(super) fn find_all<'a>(claim: &Claim, evidence: &Evidence<'a>, tails: Tails) -> Vec<Finding<'a>> {
    let checks = &claim.checks;
    if let Some(reason) = evidence.lab.and_then(|lab| needs::unmet(&claim.needs, lab)) {
        return checks.iter().map(|_| Finding::not_testable(reason.clone())).collect();
    }
    let mut findings: Vec<Finding<'a>> = checks.iter().map(|check| find(check, evidence, tails)).collect();
    let could_fail = |finding: &Finding<'_>| finding.figures.is_some() && finding.verdict != Verdict::NotTestable;
    let mut doubtful: Vec<usize> = (0..checks.len()).filter(|at| could_fail(&findings[*at])).collect();
    let mut shared = tails;
    while shared != tails.any_of(doubtful.len()) {
        shared = tails.any_of(doubtful.len());
        doubtful.iter().for_each(|at| findings[*at] = find(&checks[*at], evidence, shared));
        doubtful.retain(|at| findings[*at].verdict.whatever_decided() != Verdict::DoesNotHold);
    }
    findings
}

fn find<'a>(check: &Check, evidence: &Evidence<'a>, tails: Tails) -> Finding<'a> {
    let mut finding = find_by_rule(check, evidence, tails);
    let sources = evidence.joules(check);
    if let (Some(figures), false) = (&mut finding.figures, sources.is_empty()) {
        let is_modelled = sources.iter().any(|joules| joules.modelled);
        if is_modelled {
            figures.insert_str(0, "modelled: ");
            finding.verdict = finding.verdict.by_model();
        }
        let origin = |joules: &&Sourced<FigureValue>| match joules.modelled {
            true => format!("modelled: {}", joules.source),
            false => format!("by {}", joules.source),
        };
        let origins: Vec<String> = sources.iter().map(origin).collect();
        finding.why.push_str(&format!("; joules {}", origins.join(" and ")));
    }
    if evidence.lab.is_some_and(|lab| lab.exact) {
        finding.verdict = finding.verdict.by_simulation();
    }
    finding
}

pub(super) fn find_by_rule<'a>(check: &Check, evidence: &Evidence<'a>, tails: Tails) -> Finding<'a> {
    match &check.rule {
        Rule::Ratio { metric, of, to, each, share } => {
            let one = |arms: &[Vec<ArmEvidence<'a>>], tails| {
                let finding = ratio::find(check, *metric, [(of, &arms[0]), (to, &arms[1])], tails);
                finding.of_arms(arms.iter().flatten().copied())
            };
            each::find(evidence, &[of, to], (*each, *share), tails, one)
        }
        Rule::Value { metric, of, each, share } => {
            let one = |arms: &[Vec<ArmEvidence<'a>>], tails| {
                value::find(check, *metric, of, &arms[0], tails).of_arms(arms[0].iter().copied())
            };
            each::find(evidence, &[of], (*each, *share), tails, one)
        }
        Rule::Order { metric, of, published_order } => {
            let arms = evidence.select(of);
            order::find(check, *metric, &arms, published_order, tails).of_arms(arms)
        }
        Rule::Crossing { metric, of, to, along } => {
            let arms = [of, to].into_iter().flat_map(|operand| evidence.select(&operand.select));
            crossing::find(check, *metric, [of, to], *along, evidence, tails).of_arms(arms)
        }
    }
}

/// One failed check decides; a claim holds only if all its checks do.
fn combined_verdict(findings: &[Finding<'_>]) -> Verdict {
    let worst_first = [
        Verdict::DoesNotHold,
        Verdict::DoesNotHoldBySimulation,
        Verdict::DoesNotHoldByModel,
        Verdict::NotTestable,
        Verdict::Inconclusive,
        Verdict::HoldsByModel,
        Verdict::HoldsBySimulation,
    ];
    let occurs = |verdict: &Verdict| findings.iter().any(|finding| finding.verdict == *verdict);
    worst_first.into_iter().find(occurs).unwrap_or(Verdict::Holds)
}

/// How many checks led to the verdict, and the clearest of them; the report lists the others.
fn combined_reason(verdict: Verdict, claim: &Claim, findings: &[Finding<'_>]) -> String {
    if let [only] = findings {
        return only.why.clone();
    }
    let with = |verdict: Verdict| -> Vec<(&Check, &Finding<'_>)> {
        let has = |finding: &Finding<'_>| finding.verdict.whatever_decided() == verdict.whatever_decided();
        claim.checks.iter().zip(findings).filter(|(_, finding)| has(finding)).collect()
    };
    let (deciding, count) = (with(verdict), findings.len());
    let nearest = deciding.iter().min_by(|(_, a), (_, b)| a.margin.total_cmp(&b.margin));
    let shown = nearest.map_or(String::new(), |(check, finding)| format!("{}: {}", check.says, finding.why));
    let holding: Vec<&str> = with(Verdict::Holds).iter().map(|(check, _)| check.says.as_str()).collect();
    let holding = match holding.is_empty() {
        true => String::new(),
        false => format!("; checks that hold: {}", holding.join("; ")),
    };
    let some = match deciding.len() {
        all if all == count => format!("all {count} checks"),
        one => format!("{one} of {count} checks"),
    };
    match verdict {
        Verdict::Holds | Verdict::HoldsBySimulation | Verdict::HoldsByModel => {
            format!("{some} hold; closest to failing: {shown}")
        }
        Verdict::DoesNotHold | Verdict::DoesNotHoldBySimulation | Verdict::DoesNotHoldByModel => {
            format!("{some} failed; worst: {shown}")
        }
        Verdict::Inconclusive => format!("{some} inconclusive; worst: {shown}{holding}"),
        Verdict::NotTestable => {
            let mut missing = Missing::default();
            deciding.iter().for_each(|(_, finding)| missing.merge(&finding.missing));
            // With nothing missing, the check's own reason names the fault in the study file.
            let what = if missing.is_empty() { shown } else { format!("not measured: {missing}") };
            format!("{some} not testable: {what}{holding}")
        }
    }
}
