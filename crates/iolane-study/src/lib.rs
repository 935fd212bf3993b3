//! Plans, runs and records measurements: what `iolane run` and `iolane study` do. It knows nothing of how a path works,
//! and prints nothing.
#![forbid(unsafe_code)]

pub mod claims;
mod clock;
pub mod compare;
pub mod content;
pub mod energy;
mod engine;
pub mod fio;
pub mod gauge;
mod latencies;
pub mod peers;
pub mod placement;
pub mod plan;
pub mod quantity;
pub mod record;
pub mod records;
pub mod report;
pub mod run;
pub mod scratch;
pub mod session;
pub mod stats;
pub mod telemetry;
pub mod text;
pub mod workload;

pub use engine::Tally;
