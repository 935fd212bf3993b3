//! The notation of paths: no text makes the parser panic, and what it takes it prints back to the same path.
#![no_main]

use iolane_core::IoPath;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(path) = text.parse::<IoPath>() {
        assert_eq!(path.to_string().parse::<IoPath>().as_ref().ok(), Some(&path), "{text:?}");
    }
});
