//! The results of a study: no bytes make reading study.json panic, and what is taken is written again.
#![no_main]

use iolane_study::results::{StudyReport, to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = serde_json::from_slice::<StudyReport>(bytes) else { return };
    assert!(to_json(&report).is_ok());
});
