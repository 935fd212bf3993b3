//! Stands in for `libfuzzer-sys`, so that a fuzz target compiles into a test: [`fuzz_target`] makes a function of it.

pub use arbitrary;

/// Makes a function `run` of a target, which takes bytes as the fuzzer hands them over.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub(crate) fn run($bytes: &[u8]) $body
    };
    (|$input:ident: $type:ty| $body:block) => {
        pub(crate) fn run(bytes: &[u8]) {
            use $crate::arbitrary::{Arbitrary, Unstructured};
            if bytes.len() < <$type as Arbitrary>::size_hint(0).0 {
                return;
            }
            let Ok($input) = <$type as Arbitrary>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
            $body
        }
    };
}
