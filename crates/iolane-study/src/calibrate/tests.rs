//! From results to a machine and back.

use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::Sourced;
use serde_json::json;

use super::*;
use crate::plan::Arm;
use crate::results::{Loaded, fixtures};
use crate::rows::Row;

fn arm(path: &str, depth: u32) -> Arm {
    let mut arm = Arm { path: path.parse().unwrap(), ..Arm::of_null(path) };
    arm.workload.depth = depth;
    arm
}

/// Two repeats of each arm with this many requests in a second.
fn loaded(arms: &[(Arm, u64)], direct: bool) -> Loaded {
    let rows: Vec<Row> = (0..2)
        .flat_map(|repeat| {
            arms.iter().map(move |(arm, ios)| {
                let mut row = Row::new(arm.clone(), repeat);
                (row.ios, row.elapsed_s) = (*ios + u64::from(repeat), 1.0);
                row.latency.record_n(80_000, 100).unwrap();
                for (figure, seconds) in [(RunFigure::UserS, 0.01), (RunFigure::SystemS, 0.03)] {
                    row.figures.set(figure, Ok(Sourced::new(seconds, "simulated")));
                }
                row
            })
        })
        .collect();
    let json = json!({
        "schema": "iolane.study/1", "name": "survey", "complete": true, "repeats": 2, "runtime_s": 1.0,
        "targets": [{"kind": "file", "name": "scratch", "bytes": 1 << 30, "direct": direct}],
        "host": {"kernel_release": "6.1.0", "cpus_online": "0-3", "cpu_model": "test", "smt": false},
        "records": {"file": "records.parquet", "rows": rows.len(), "crc32": 0},
    });
    fixtures::of_json(json, &rows)
}

#[test]
fn the_results_of_a_study_become_observations_and_what_cannot_is_counted_with_its_reason() {
    let arms = [(arm("psync", 1), 10_000), (arm("posix_aio", 1), 9_000), (arm("posix_aio", 16), 9_000)];
    let gathered = Gathered::of_results(&loaded(&arms, true)).unwrap();
    let [observation] = &gathered.observations[..] else { panic!("{gathered:#?}") };
    assert_eq!((observation.path.as_str(), observation.depth, observation.cores), ("psync", 1, None));
    assert!((observation.cpu_ns_per_io.unwrap() - 4_000.0).abs() < 1.0, "{observation:?}");
    assert!((observation.p50_ns.unwrap() - 80_000.0).abs() < 100.0, "{observation:?}");
    let [not_used] = &gathered.not_used[..] else { panic!("{gathered:#?}") };
    assert_eq!((not_used.path.as_str(), not_used.arms), ("posix_aio", 2));
    assert_eq!((gathered.processor.cores, gathered.scheduler.hz), (4, 250));
    assert!(gathered.notes.iter().any(|note| note.contains("file system")), "{:?}", gathered.notes);
}

#[test]
fn results_of_the_page_cache_are_refused() {
    let error = Gathered::of_results(&loaded(&[(arm("psync", 1), 10_000)], false)).unwrap_err().to_string();
    assert!(error.contains("page cache") && error.contains("calibrate --measure"), "{error}");
}

#[test]
fn rejected_runs_tell_nothing() {
    let mut results = loaded(&[(arm("psync", 1), 10_000), (arm("libaio", 1), 10_000)], true);
    for row in results.rows.iter_mut().filter(|row| row.arm.name == "libaio") {
        row.rejected = Some("other programs had the processors".into());
    }
    let gathered = Gathered::of_results(&results).unwrap();
    assert_eq!(gathered.observations.len(), 1, "{gathered:#?}");
}

#[test]
fn results_of_different_machines_are_not_put_together() {
    let one = Gathered::of_results(&loaded(&[(arm("psync", 1), 10_000)], true)).unwrap();
    let mut other = one.clone();
    other.processor.cores = 8;
    let both = vec![("a".to_owned(), one.clone()), ("b".to_owned(), other)];
    let error = Gathered::together(both).unwrap_err().to_string();
    assert!(error.starts_with("b: its machine has 8 cores") && error.contains("that of a has 4 cores"), "{error}");
    let same = Gathered::together(vec![("a".to_owned(), one.clone()), ("b".to_owned(), one)]).unwrap();
    assert_eq!((same.observations.len(), same.notes.len()), (2, 2), "what both note is noted once");
}

#[test]
fn what_the_fit_did_not_see_is_predicted_and_recorded() {
    let arms = [(arm("libaio", 1), 11_000), (arm("libaio", 16), 120_000), (arm("libaio", 64), 200_000)];
    let gathered = Gathered::of_results(&loaded(&arms, true)).unwrap();
    let calibrated = calibrate(&gathered, &HoldOut::Automatic).unwrap();
    assert_eq!(calibrated.machine.made_from.len(), 2);
    let figures: Vec<&str> = calibrated.held_out.iter().map(|held_out| held_out.figure).collect();
    assert_eq!(figures, ["IOPS", "p50", "p99", "CPU per I/O"]);
    assert!(calibrated.held_out.iter().all(|held_out| held_out.load.contains("depth 64")), "{:?}", calibrated.held_out);
    assert_eq!(calibrated.machine.held_out.len(), 4);
    assert!(calibrated.fitted.iter().all(|fitted| !fitted.what.ends_with("p99")), "the tail of a drive is not fitted");
    let all = calibrate(&gathered, &HoldOut::Nothing).unwrap();
    assert_eq!((all.machine.made_from.len(), all.machine.held_out.len()), (3, 0));
}

#[test]
fn a_file_that_no_run_wrote_is_refused_in_one_line() {
    for (text, says) in [
        ("{", "not a JSON document"),
        ("{}", "does not say"),
        ("{\"schema\": \"iolane.study/1\"}", "iolane.study/1, not iolane.run/1"),
        ("{\"schema\": \"iolane.run/1\"}", "missing field"),
    ] {
        let error = Gathered::of_run_file(text, "run.json").unwrap_err().to_string();
        assert!(error.starts_with("run.json: ") && error.contains(says) && error.lines().count() == 1, "{error}");
    }
}
