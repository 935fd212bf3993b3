//! Settings of simulated devices: no text makes the parser panic, and what it takes lies within bounds.
#![no_main]

use iolane::sim::SimSettings;
use libfuzzer_sys::fuzz_target;

/// No duration is longer than 366 days.
const NS_MAX: u64 = 366 * 86_400 * 1_000_000_000;

fuzz_target!(|text: &str| {
    let Ok(settings) = text.parse::<SimSettings>() else { return };
    for share in [settings.short, settings.error] {
        assert!((0.0..=1.0).contains(&share), "{text:?}");
    }
    for time_ns in [settings.latency_ns, settings.jitter_ns, settings.stall_ns] {
        assert!(time_ns <= NS_MAX, "{text:?}");
    }
});
