//! The published claims with their verdicts.

use iolane_study::claims::{Decision, Verdict};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClaimTable {
    pub(super) rows: Vec<(Decision, VerdictBadge)>,
    /// How many claims have each verdict, without those that none has.
    pub(super) counts: Vec<(VerdictBadge, usize)>,
}

/// A verdict with a sign for readers who do not see colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VerdictBadge {
    pub(super) words: &'static str,
    /// Of the style sheet.
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
}

impl VerdictBadge {
    fn of(verdict: Verdict) -> Self {
        let (class, sign) = match verdict {
            Verdict::Holds => ("holds", "✓"),
            Verdict::HoldsBySimulation | Verdict::HoldsByModel => ("holds by-model", "✓"),
            Verdict::DoesNotHold => ("fails", "✗"),
            Verdict::DoesNotHoldBySimulation | Verdict::DoesNotHoldByModel => ("fails by-model", "✗"),
            Verdict::Inconclusive => ("unclear", "?"),
            Verdict::NotTestable => ("untested", "–"),
        };
        Self { words: verdict.name(), class, sign }
    }
}

impl ClaimTable {
    pub(super) fn new(claims: &[Decision]) -> Self {
        let counts = Verdict::counts(claims.iter().map(|claim| claim.verdict)).into_iter();
        Self {
            rows: claims.iter().map(|claim| (claim.clone(), VerdictBadge::of(claim.verdict))).collect(),
            counts: counts
                .filter(|(_, count)| *count > 0)
                .map(|(verdict, count)| (VerdictBadge::of(verdict), count))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_counted_by_verdict_with_a_sign_for_each() {
        let claim = |verdict| Decision {
            id: "S1".into(),
            says: String::new(),
            verdict,
            published: String::new(),
            measured: None,
            why: String::new(),
            differs: String::new(),
            checks: Vec::new(),
        };
        let claims = ClaimTable::new(&[Verdict::Holds, Verdict::Inconclusive, Verdict::Holds].map(claim));
        let counts: Vec<(&str, usize)> = claims.counts.iter().map(|(verdict, count)| (verdict.sign, *count)).collect();
        assert_eq!(counts, [("✓", 2), ("?", 1)]);
    }
}
