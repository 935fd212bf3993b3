//! Numbers at their extremes: whatever an option is given, the program ends with a documented exit code and a line, never
//! with a panic.

mod common;

use common::{Ended, Folder, iolane};
use proptest::prelude::*;

/// The options of a workload, each with a value that is fine.
const OPTIONS: [(&str, &str); 20] = [
    ("--threads", "1"),
    ("--depth", "4"),
    ("--bs", "4k"),
    ("--size", "1g"),
    ("--rate", "1k"),
    ("--rate-until", "p99=1ms"),
    ("--read-percent", "50"),
    ("--batch-submit", "2"),
    ("--batch-complete", "2"),
    ("--batch-complete-max", "2"),
    ("--fsync", "8"),
    ("--fdatasync", "8"),
    ("--offsets", "zipf:1.2"),
    ("--align", "8k"),
    ("--data", "compress:50"),
    ("--start", "1m"),
    ("--runtime", "1s"),
    ("--warmup", "0s"),
    ("--repeat", "2"),
    ("--time", "1m"),
];

/// Numbers and texts that programs trip over.
const VALUES: [&str; 30] = [
    "0",
    "1",
    "-1",
    "2",
    "100",
    "101",
    "255",
    "256",
    "4096",
    "4097",
    "65535",
    "65536",
    "65537",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-308",
    "inf",
    "NaN",
    "0.0000001",
    "99999999999999999999g",
    "8e",
    "p99.9999=1us",
    "p0.0001=366d",
    "zipf:1e9",
    "1k-1g",
];

#[track_caller]
fn assert_no_panic(arguments: &[String], ended: &Ended) {
    assert!(!ended.stderr.contains("panicked"), "{arguments:?}: {ended:#?}");
    assert!(matches!(ended.code, Some(0..=3)), "{arguments:?}: {ended:#?}");
}

#[test]
fn no_value_of_an_option_makes_a_plan_panic() {
    let folder = Folder::new();
    for (option, fine) in OPTIONS {
        for value in VALUES.into_iter().chain([fine, ""]) {
            // One argument, so that a value that begins with a dash is one.
            let option = format!("{option}={value}");
            let ask = ["study", "--dry-run", "--path", "null", "--target", "null", "--rw", "randrw", &option];
            let ask = ask.map(String::from);
            assert_no_panic(&ask, &iolane(&folder, &ask));
        }
    }
}

#[test]
fn no_value_of_an_option_makes_a_short_run_panic() {
    let folder = Folder::new();
    // A length that is asked for is kept; the others do not change it.
    let has_its_length =
        |option: &str| !["--runtime", "--warmup", "--repeat", "--time", "--rate-until"].contains(&option);
    for (option, _) in OPTIONS.into_iter().filter(|(option, _)| has_its_length(option)) {
        for value in ["0", "1", "4097", "18446744073709551615", "1e308"] {
            let option = format!("{option}={value}");
            let ask = [
                "run",
                "--path",
                "null",
                "--target",
                "null",
                "--rw",
                "randrw",
                "--runtime=1ms",
                "--warmup=0s",
                &option,
            ];
            let ask = ask.map(String::from);
            assert_no_panic(&ask, &iolane(&folder, &ask));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_combination_of_options_makes_a_plan_panic(
        chosen in prop::collection::vec((prop::sample::select(OPTIONS.to_vec()), prop::sample::select(VALUES.to_vec()), any::<bool>()), 1..6),
        access in prop::sample::select(vec!["read", "randwrite", "rw", "randrw"]),
    ) {
        let folder = Folder::new();
        let mut ask: Vec<String> = ["study", "--dry-run", "--path", "null", "--target", "null", "--rw", access].map(String::from).into();
        for ((option, fine), value, is_fine) in chosen {
            if ask.iter().all(|known| !known.starts_with(&format!("{option}="))) {
                ask.push(format!("{option}={}", if is_fine { fine } else { value }));
            }
        }
        assert_no_panic(&ask, &iolane(&folder, &ask));
    }
}
