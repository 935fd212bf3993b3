//! Plans, runs and records measurements: what `iolane run` and `iolane study` do. It knows nothing of how a path works,
//! and prints nothing.
#![forbid(unsafe_code)]

mod clock;
pub mod content;
mod engine;
pub mod fio;
pub mod placement;
pub mod record;
pub mod run;
pub mod scratch;
pub mod stats;
pub mod survey;
pub mod telemetry;
pub mod workload;

pub use engine::Tally;
