//! One run: a workload, the engine that drives it through a path, and what the run cost. `iolane run` and studies call it.
//! It writes no results, knows nothing of studies, and prints nothing.
#![forbid(unsafe_code)]

mod block_data;
pub mod checks;
mod clock;
pub mod content;
mod engine;
pub mod figures;
pub mod host;
pub mod latencies;
pub mod meters;
pub mod nearest_cpus;
pub mod observe;
mod pace;
pub mod placement;
pub mod process;
mod process_io;
pub mod progress;
pub mod run;
pub mod scratch;
pub mod serde_text;
pub mod span;
#[cfg(test)]
mod sysfs_fixture;
pub mod telemetry;
pub mod workload;

pub use engine::{Submissions, Tally};
