//! The notation of block sizes: no text makes the parser panic, what it takes it prints back to the same sizes, and
//! every size drawn lies between the smallest and the largest.
#![no_main]

use iolane_measure::workload::{BlockSizes, random_stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(sizes) = text.parse::<BlockSizes>() else { return };
    assert_eq!(sizes.to_string().parse::<BlockSizes>().as_ref().ok(), Some(&sizes), "{text:?}");
    let (min, max) = (sizes.min(), sizes.max());
    assert!(0 < min && min <= max && max <= BlockSizes::BYTES_MAX, "{text:?}");
    let mut random = random_stream(text.len() as u64, 0);
    for _ in 0..100 {
        let bytes = sizes.pick(&mut random);
        assert!((min..=max).contains(&bytes), "{text:?} drew {bytes}");
    }
});
