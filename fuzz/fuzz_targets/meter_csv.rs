//! Files of external meters: no text makes reading one panic, and what is read goes forward in time and is finite.
#![no_main]

use iolane_study::energy::trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(samples) = trace::parse(text, "meter.csv") else { return };
    assert!(samples.iter().all(|(at_s, watts)| at_s.is_finite() && watts.is_finite()), "{samples:?}");
    assert!(samples.is_sorted_by(|(a_s, _), (b_s, _)| a_s < b_s), "{samples:?}");
});
