//! Predicts what the publications state of more jobs, cores and drives than the machines were fitted to.

use iolane_core::error::Result;

use super::Published;
use super::bench::{Bench, Expected, Unchecked, Verdict};
use super::statements::statements;
use crate::{Figure, HeldOut, MachineFile};

/// A statement of a text beside what the model predicts.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The claim that has it.
    pub claim: &'static str,
    /// What it states.
    pub says: &'static str,
    /// The published value.
    pub expected: Expected,
    /// The predicted one, in the same unit.
    pub predicted: Figure,
    /// Whether they agree.
    pub verdict: Verdict,
}

/// Predicts what a text states, on a machine that was fitted to nothing of it.
///
/// # Errors
/// As [`predict`](crate::predict) if the machine is not that of the text.
pub fn check(published: &Published, machine: MachineFile) -> Result<Vec<Statement>> {
    let mut bench = Bench::new(machine);
    let check = |statement: &Unchecked| {
        let predicted = (statement.predict)(&mut bench)?;
        Ok(Statement {
            claim: statement.claim,
            says: statement.says,
            expected: statement.expected,
            predicted,
            verdict: statement.expected.compare(predicted.value),
        })
    };
    statements(published.name).iter().map(check).collect()
}

impl Statement {
    /// The ratio or number that a text states, beside the predicted one. A bound is neither.
    pub fn held_out(&self) -> Option<HeldOut> {
        let ratio = |percent: f64| 1.0 + percent / 100.0;
        let (observed, predicted) = match self.expected {
            Expected::Percent(published) => (ratio(published), ratio(self.predicted.value)),
            Expected::Jobs(published) => (published, self.predicted.value),
            Expected::PercentWithin(..) | Expected::AtMost(_) | Expected::AtLeast(_) => return None,
        };
        Some(HeldOut { what: format!("{}: {}", self.claim, self.says), observed, predicted })
    }
}
