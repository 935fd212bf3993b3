//! What `auto` has learnt, read back from a file: no text makes the parser panic, an error is one line, and what is taken is written in a form
//! that is taken again.
#![no_main]

use iolane_core::PathMemory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<PathMemory>() {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(memory) => drop(memory.to_string().parse::<PathMemory>().expect("it was just written")),
    }
});
