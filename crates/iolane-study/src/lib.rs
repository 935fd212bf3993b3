//! Plans, runs and records measurements; knows nothing of how a path works, and prints nothing.
#![forbid(unsafe_code)]

pub mod content;
pub mod telemetry;
pub mod workload;
