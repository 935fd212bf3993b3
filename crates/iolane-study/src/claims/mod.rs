//! Decides the claims of a study from its results: holds, does not hold, inconclusive, or not testable here, each with
//! figures that a reader can check. Reports call it. Pure functions of a study and its results; nothing here measures,
//! reads or prints. The rules are specified in `docs/methodology.md`, "Deciding claims".

mod bounds;
mod by_model;
mod crossing;
mod decide;
mod decision;
mod each;
mod evidence;
mod finding;
mod lint;
mod looks;
mod missing;
mod needs;
mod operand;
mod order;
mod ratio;
mod tails;
mod undecided;
mod value;
mod values;
mod verdict;

pub use by_model::{Model, could_decide, decide_by_model};
pub use decide::decide;
pub use decision::{CheckDecision, Decision};
pub use lint::{Lint, lint, require_testable};
pub use looks::Looks;
pub(crate) use needs::shared_cores;
pub use undecided::undecided;
pub use verdict::Verdict;

#[cfg(test)]
mod tests;
