//! The measurements of a study: one row per run, and rows grouped by arm. Every result of a study is derived from these
//! only.

mod columns;
mod disturbance;
mod gathered;
mod histogram;
pub mod journal;
mod metrics;
pub mod parquet;
mod row;
mod syscalls;
mod warning;

pub(crate) use disturbance::{disturbance, stood_still};
pub use gathered::{ArmResults, LeftOut, Preconditioned, RETRIES, Results, given_up, gives_up};
pub use row::Row;
pub(crate) use warning::POLLED_INTERRUPTS_MAX;
pub use warning::{FLOORS_MIN, Warning, WarningKind, is_cut_short};
