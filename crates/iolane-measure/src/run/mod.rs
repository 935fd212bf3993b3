//! One run of one arm: [`RunPlan`] describes it, [`CheckedPlan`] proves that it can be run, [`run`](run()) runs it, and
//! [`RunOutcome`] holds what it measured. `iolane run` and studies call it; nothing here prints or writes results.

mod coordinator;
mod floor;
mod outcome;
mod phase_barrier;
mod plan;
mod thread;
#[cfg(test)]
mod verification_tests;

pub use coordinator::{run, run_with_progress};
pub use outcome::{RunOutcome, SyscallProof};
pub use plan::{CheckedPlan, Probes, RunPlan, THREADS_MAX};
