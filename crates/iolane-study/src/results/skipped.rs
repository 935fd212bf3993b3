//! What a study did not measure: skipped arms, grouped by path and reason.

use serde::{Deserialize, Serialize};

use crate::rows::LeftOut;

/// Arms of one path that were not measured, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The path's name in the study.
    pub path: String,
    /// The number of arms.
    pub arms: usize,
    /// One of the arms, or what they have in common.
    pub which: String,
    pub reason: String,
    /// How to fix it; empty if no remedy is known.
    pub remedy: String,
    /// Whether it was run, and every run was rejected.
    pub failed: bool,
}

/// Groups skipped arms by path and reason.
pub fn skipped(left_out: &[LeftOut]) -> Vec<Skipped> {
    let mut all: Vec<Skipped> = Vec::new();
    for LeftOut { arm, reason, remedy, failed } in left_out {
        let path = arm.label();
        match all.iter_mut().find(|known| known.path == path && known.reason == *reason) {
            Some(known) => known.arms += 1,
            None => all.push(Skipped {
                path,
                arms: 1,
                which: arm.to_string(),
                reason: reason.clone(),
                remedy: remedy.clone(),
                failed: *failed,
            }),
        }
    }
    all
}
