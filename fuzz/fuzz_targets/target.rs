//! Made-up targets: no text behind `null:` or `sim:` makes opening panic, and what is opened has a size.
//! Never a name of a file: a fuzzer must open nothing on the machine it runs on.
#![no_main]

use iolane::Target;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for scheme in ["null", "sim"] {
        if let Ok(target) = Target::open(format!("{scheme}:{text}")) {
            assert_eq!(target.kind().name(), scheme, "{text:?}");
            assert!(target.bytes() >= 4096 && target.fd().is_none(), "{text:?}");
        }
    }
});
