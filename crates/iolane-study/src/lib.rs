//! Studies: plans of arms, sessions that run them, rows, statistics, claims and results. Called by the command line and
//! `iolane-report`. It does not know how a path works, draws nothing, and prints nothing.
#![forbid(unsafe_code)]

pub mod advise;
pub mod calibrate;
pub mod claims;
pub mod compare;
pub mod energy;
pub mod files;
pub mod fio;
pub mod format;
pub mod peers;
mod place;
pub mod plan;
pub mod predict;
pub mod results;
pub mod rows;
pub mod run_record;
pub mod runs;
pub mod search;
pub mod session;
pub mod stats;
