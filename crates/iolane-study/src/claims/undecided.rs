//! The arms of which more repeats could decide a claim. Sessions spend the rest of their time on them.

use super::decide::{decide, find_all};
use super::evidence::Evidence;
use super::looks::Looks;
use super::verdict::Verdict;
use crate::plan::{Arm, Study};
use crate::rows::Results;

/// The arms of comparisons that are inconclusive at the last look and keep a claim from being decided.
pub fn undecided<'a>(study: &Study, results: &'a Results, looks: &Looks) -> Vec<&'a Arm> {
    let mut arms: Vec<&Arm> = Vec::new();
    let Some((end, tails)) = looks.ends_with_tails().last() else { return arms };
    let evidence = Evidence::of(results, end);
    let decisions = decide(study, results, looks);
    let claims = study.claims.iter().zip(&decisions);
    for (claim, _) in claims.filter(|(_, decision)| decision.verdict == Verdict::Inconclusive) {
        let findings = find_all(claim, &evidence, tails);
        for arm in findings.into_iter().flat_map(|finding| finding.open) {
            if !arms.contains(&arm) {
                arms.push(arm);
            }
        }
    }
    arms
}
