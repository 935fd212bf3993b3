//! Settings of simulated devices: no text makes the parser panic, and what it takes lies within bounds.
#![no_main]

use iolane::sim::{Faults, SimSettings, Timing};
use libfuzzer_sys::fuzz_target;

/// No duration is longer than 366 days.
const NS_MAX: u64 = 366 * 86_400 * 1_000_000_000;

fuzz_target!(|text: &str| {
    let Ok(settings) = text.parse::<SimSettings>() else { return };
    let Faults { error, short, lost, torn, altered, misdirected, altered_read, misdirected_read } = settings.faults;
    for share in [error, short, lost, torn, altered, misdirected, altered_read, misdirected_read] {
        assert!((0.0..=1.0).contains(&share), "{text:?}");
    }
    assert!(settings.stall_ns <= NS_MAX, "{text:?}");
    match &settings.timing {
        Timing::Fixed { latency_ns, jitter_ns } => assert!(*latency_ns.max(jitter_ns) <= NS_MAX, "{text:?}"),
        Timing::Units(drive) => {
            assert!(drive.read_ns.max(drive.write_ns) <= NS_MAX as f64, "{text:?}");
            assert!(drive.units >= 1.0 && drive.iops >= 1.0 && drive.bytes_per_s >= 1.0 && drive.tags > 0, "{text:?}");
        }
    }
    // What it says of itself makes the same drive, but for what is rounded.
    settings.timing.to_string().parse::<SimSettings>().unwrap();
});
