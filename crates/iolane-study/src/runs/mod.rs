//! Runs outside of a study: one from a command line, or the jobs of a job file, and the documents they make. `iolane run`
//! calls it. It opens no target that has a name, and prints nothing.

mod document;
mod job;
mod schedule;
mod side_by_side;

pub use document::RunsDocument;
pub use job::{JobPlan, RunJob, ScratchFiles, in_job};
pub use schedule::{Event, Ran, Schedule};
