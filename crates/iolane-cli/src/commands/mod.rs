//! One file or folder per command. Each makes a job of its arguments in one place, calls the library crates, and prints.

pub(crate) mod advise;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod energy;
pub(crate) mod lab;
pub(crate) mod manual;
pub(crate) mod nvme;
pub(crate) mod predict;
pub(crate) mod probe;
pub(crate) mod report;
mod report_page;
pub(crate) mod run;
pub(crate) mod study;
