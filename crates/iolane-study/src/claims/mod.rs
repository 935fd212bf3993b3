//! Decides the claims of a study from what was measured: holds, does not hold, inconclusive, or not testable here, each
//! with figures that a reader can check. Reports call it. Pure functions of a study and its results: nothing here
//! measures, reads or prints. The rules stand in `docs/methodology.md`, "Deciding claims".

mod bounds;
mod crossing;
mod each;
mod evidence;
mod finding;
mod lint;
mod order;
mod ratio;
mod value;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::energy::Source;
use crate::plan::{Check, Claim, Rule, Study};
use crate::records::Results;
use crate::stats::Estimate;

pub use lint::lint;

use evidence::{Evidence, Missing};
use finding::Finding;

/// With fewer repeats than these the interval of a median says nothing.
const REPEATS_MIN: usize = 3;

/// What became of a claim, or of one check of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The whole 95 % interval is where the claim says.
    Holds,
    /// The whole interval is elsewhere.
    DoesNotHold,
    /// The interval is on both sides, or there are too few repeats for one.
    Inconclusive,
    /// Something that the claim is about was not measured.
    NotTestable,
}

impl Verdict {
    /// Every verdict there is.
    pub const ALL: [Self; 4] = [Self::Holds, Self::DoesNotHold, Self::Inconclusive, Self::NotTestable];

    /// The word for it: `holds`, `does not hold`, `inconclusive`, `not testable here`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::Inconclusive => "inconclusive",
            Self::NotTestable => "not testable here",
        }
    }

    /// How many there are of each among these, by [`name`](Self::name).
    pub fn counts<'a>(names: impl Iterator<Item = &'a str> + Clone) -> [(Self, usize); 4] {
        Self::ALL.map(|verdict| (verdict, names.clone().filter(|name| *name == verdict.name()).count()))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The claim's name.
    pub id: String,
    /// The claim, in a line.
    pub says: String,
    /// Whether it holds here.
    pub verdict: Verdict,
    /// The published figures, in a line.
    pub published: String,
    /// The same of this machine; `None` if nothing of it was measured.
    pub measured: Option<String>,
    /// Why this verdict.
    pub why: String,
    /// Why figures here may differ for another reason than the claim's failing; empty if nothing is known.
    pub differs: String,
    /// What it rests on.
    pub checks: Vec<CheckDecision>,
}

/// What became of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckDecision {
    /// What was looked at, in a line.
    pub says: String,
    /// Whether it is within its bounds.
    pub verdict: Verdict,
    /// The published figure for it.
    pub published: Option<f64>,
    /// The same of this machine, in the same unit; where there are several, the one nearest to failing.
    pub measured: Option<Estimate>,
    /// The least it may be.
    pub at_least: Option<f64>,
    /// The most it may be.
    pub at_most: Option<f64>,
    /// Why this verdict.
    pub why: String,
}

/// Decides every claim of a study, in its order.
pub fn decide(study: &Study, results: &Results) -> Vec<Decision> {
    let evidence = Evidence::of(results);
    study.claims.iter().map(|claim| decide_claim(claim, &evidence)).collect()
}

fn decide_claim(claim: &Claim, evidence: &Evidence<'_>) -> Decision {
    let findings: Vec<Finding<'_>> = claim.checks.iter().map(|check| find(check, evidence)).collect();
    let mut measured: Vec<&str> = Vec::new();
    for figures in findings.iter().filter_map(|finding| finding.figures.as_deref()) {
        if !measured.contains(&figures) {
            measured.push(figures);
        }
    }
    let verdict = verdict_of_all(&findings);
    Decision {
        id: claim.id.clone(),
        says: claim.says.clone(),
        verdict,
        published: claim.published.clone(),
        measured: (!measured.is_empty()).then(|| measured.join("; ")),
        why: why_of_all(verdict, claim, &findings),
        differs: claim.differs.clone(),
        checks: claim.checks.iter().zip(&findings).map(|(check, finding)| finding.decision(check)).collect(),
    }
}

fn find<'a>(check: &Check, evidence: &Evidence<'a>) -> Finding<'a> {
    let mut finding = find_by_rule(check, evidence);
    let sources = evidence.joules_from(check);
    if let (Some(figures), false) = (&mut finding.figures, sources.is_empty()) {
        let is_modelled = sources.iter().any(|source| Source::is_modelled(source));
        if is_modelled {
            figures.insert_str(0, "modelled: ");
        }
        let by = if is_modelled { "" } else { "by " };
        finding.why.push_str(&format!("; joules {by}{}", sources.join(" and ")));
    }
    finding
}

fn find_by_rule<'a>(check: &Check, evidence: &Evidence<'a>) -> Finding<'a> {
    match &check.rule {
        Rule::Ratio { metric, of, to, each, share } => {
            let one = |arms: &[Vec<_>]| ratio::find(check, *metric, [(of, &arms[0]), (to, &arms[1])]);
            each::find(evidence, &[of, to], (*each, *share), one)
        }
        Rule::Value { metric, of, each, share } => {
            let one = |arms: &[Vec<_>]| value::find(check, *metric, of, &arms[0]);
            each::find(evidence, &[of], (*each, *share), one)
        }
        Rule::Order { metric, of, published_order } => {
            order::find(check, *metric, &evidence.select(of), published_order)
        }
        Rule::Crossing { metric, of, to, along } => crossing::find(check, *metric, [of, to], *along, evidence),
    }
}

/// One check that fails is enough; all have to hold.
fn verdict_of_all(findings: &[Finding<'_>]) -> Verdict {
    let worst_first = [Verdict::DoesNotHold, Verdict::NotTestable, Verdict::Inconclusive];
    let is_there = |verdict: &Verdict| findings.iter().any(|finding| finding.verdict == *verdict);
    worst_first.into_iter().find(is_there).unwrap_or(Verdict::Holds)
}

/// How many checks made the verdict, and the one of them that shows it best; the others are in the checks themselves.
fn why_of_all(verdict: Verdict, claim: &Claim, findings: &[Finding<'_>]) -> String {
    if let [only] = findings {
        return only.why.clone();
    }
    let with = |verdict: Verdict| -> Vec<(&Check, &Finding<'_>)> {
        claim.checks.iter().zip(findings).filter(|(_, finding)| finding.verdict == verdict).collect()
    };
    let (deciding, count) = (with(verdict), findings.len());
    let nearest = deciding.iter().min_by(|(_, a), (_, b)| a.margin.total_cmp(&b.margin));
    let shown = nearest.map_or(String::new(), |(check, finding)| format!("{}: {}", check.says, finding.why));
    let so_far: Vec<&str> = with(Verdict::Holds).iter().map(|(check, _)| check.says.as_str()).collect();
    let so_far = match so_far.is_empty() {
        true => String::new(),
        false => format!("; what does hold so far: {}", so_far.join("; ")),
    };
    let some = match deciding.len() {
        all if all == count => format!("all {count} checks"),
        one => format!("{one} of {count} checks"),
    };
    match verdict {
        Verdict::Holds => format!("{some} hold; closest to failing: {shown}"),
        Verdict::DoesNotHold => format!("{some} failed; worst: {shown}"),
        Verdict::Inconclusive => format!("{some} not clear; worst: {shown}{so_far}"),
        Verdict::NotTestable => {
            let mut missing = Missing::default();
            deciding.iter().for_each(|(_, finding)| missing.merge(&finding.missing));
            // What is wrong with the file is said by the check itself.
            let what = if missing.is_empty() { shown } else { format!("not measured: {missing}") };
            format!("{some} not testable: {what}{so_far}")
        }
    }
}

#[cfg(test)]
mod tests;
