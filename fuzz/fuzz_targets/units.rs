//! Sizes, durations and cpu lists: no text makes a parser panic, and what is taken prints back to the same value.
#![no_main]

use std::time::Duration;

use iolane_core::units::{Bytes, CpuList, parse_duration};
use libfuzzer_sys::fuzz_target;

const YEAR: Duration = Duration::from_secs(366 * 86_400);

fuzz_target!(|text: &str| {
    if let Ok(bytes) = text.parse::<Bytes>() {
        assert_eq!(bytes.to_string().parse::<Bytes>().ok(), Some(bytes), "{text:?}");
    }
    if let Ok(duration) = parse_duration(text) {
        assert!(duration <= YEAR, "{text:?}");
    }
    if let Ok(list) = text.parse::<CpuList>() {
        assert!(!list.cpus().is_empty() && list.cpus().is_sorted_by(|a, b| a < b), "{text:?}");
        assert_eq!(list.to_string().parse::<CpuList>().as_ref().ok(), Some(&list), "{text:?}");
    }
});
