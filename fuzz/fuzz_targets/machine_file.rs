//! Machines and observations of the model: no text makes the parsers panic, errors are one line, and a machine that is taken is read as
//! written and makes a machine of each draw.
#![no_main]

use iolane_model::{MachineFile, Observations};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match MachineFile::parse(text, "machine.toml") {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(file) => {
            let again = MachineFile::parse(&file.to_text(), "again").expect("it was just written");
            assert_eq!(again, file);
            (0..file.draw_count()).for_each(|at| drop(file.draw(at)));
        }
    }
    match Observations::parse(text, "observed.toml") {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(observations) => assert!(observations.observations.iter().all(|of| !of.in_words().is_empty())),
    }
});
