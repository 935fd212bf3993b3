//! A decided claim, as `study.json` contains it and reports show it.

use serde::{Deserialize, Serialize};

use super::verdict::Verdict;
use crate::stats::Estimate;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub id: String,
    /// The claim, in one line.
    #[serde(default)]
    pub says: String,
    pub verdict: Verdict,
    /// The published figures, in one line.
    #[serde(default)]
    pub published: String,
    /// The figures of this machine, in one line; `None` if none of them was measured.
    #[serde(default)]
    pub measured: Option<String>,
    #[serde(default)]
    pub why: String,
    /// Why figures here may differ although the claim is correct; empty if no reason is known.
    #[serde(default)]
    pub differs: String,
    #[serde(default)]
    pub checks: Vec<CheckDecision>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckDecision {
    /// What was compared, in one line.
    pub says: String,
    pub verdict: Verdict,
    pub published: Option<f64>,
    /// In the unit of `published`; of several figures the one closest to failing.
    pub measured: Option<Estimate>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub why: String,
}
