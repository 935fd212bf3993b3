//! How a check ended. Every check gives one.

/// How a check ended.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It could not be made here, and why; no failure outside continuous integration.
    NotChecked(String),
}

pub(super) fn outcome_of(passed: bool) -> Outcome {
    if passed { Outcome::Passed } else { Outcome::Failed }
}

/// Prints what is wrong, a line each; passed if nothing is.
pub(super) fn outcome_of_findings(wrong: &[String]) -> Outcome {
    wrong.iter().for_each(|what| println!("{what}"));
    outcome_of(wrong.is_empty())
}
