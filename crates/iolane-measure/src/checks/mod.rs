//! What on this machine distorts a measurement: `inputs` reads the machine, `rules` judges each fact and gives a remedy.
//! `iolane probe --host` prints the findings.

mod inputs;
mod rules;

pub use inputs::{Facts, InterruptSpread, Turbo};
pub use rules::{FAST_CLOCKS, Finding, findings};
