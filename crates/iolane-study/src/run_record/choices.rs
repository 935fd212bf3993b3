//! What a queue that chooses its path did, in the record of a run.

use iolane::Choices;
use serde::Serialize;

/// The choices of one queue since it was opened, the warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChoicesRecord {
    /// The last changes, at most 256, the oldest first.
    pub changes: Vec<ChangeRecord>,
    /// Paths that could not be used.
    pub unusable: Vec<UnusableRecord>,
}

/// A change to a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeRecord {
    /// Seconds after the queue was opened.
    pub after_s: f64,
    /// In iolane's notation.
    pub path: String,
    pub reason: &'static str,
}

/// A path that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusableRecord {
    /// In iolane's notation.
    pub path: String,
    pub reason: String,
}

impl ChoicesRecord {
    pub(super) fn new(choices: &Choices) -> Self {
        let change = |change: &iolane::Change| ChangeRecord {
            after_s: change.after.as_secs_f64(),
            path: change.path.to_string(),
            reason: change.reason,
        };
        let unusable = |(path, reason): &(iolane::IoPath, String)| UnusableRecord {
            path: path.to_string(),
            reason: reason.clone(),
        };
        Self {
            changes: choices.changes.iter().map(change).collect(),
            unusable: choices.unusable.iter().map(unusable).collect(),
        }
    }
}
