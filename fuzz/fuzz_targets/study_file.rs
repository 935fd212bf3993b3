//! The file of a study: no text makes the parser panic, and what it takes has its arms listed, or refused, at both scales.
#![no_main]

use iolane_study::plan::{Scale, Study};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(study) = Study::parse(text, "study.toml") else { return };
    for scale in [Scale::Scaled, Scale::Full] {
        if let Ok(arms) = study.arms(scale) {
            for figure in &study.figures {
                assert!(figure.select.of(&arms, |arm| arm).len() <= arms.len(), "{text:?}");
            }
        }
    }
});
