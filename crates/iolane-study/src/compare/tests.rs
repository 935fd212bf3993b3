//! Comparisons of simulated results.

use serde_json::{Value, json};

use super::*;
use crate::rows::Row;
use iolane_measure::workload::Workload;

fn arm(name: &str) -> Arm {
    Arm {
        application: None,
        name: name.into(),
        path: name.parse().unwrap(),
        peer: None,
        workload: Workload::default(),
        threads: 1,
        drives: 1,
        cores: None,
    }
}

/// Results in a folder: arms with the IOPS of each repeat; latencies are the inverse.
fn results(folder: &str, arms: &[(Arm, &[u64])]) -> Loaded {
    let row = |arm: &Arm, (repeat, iops): (usize, &u64)| {
        let mut row = Row { ios: *iops, elapsed_s: 1.0, ..Row::new(arm.clone(), repeat as u32) };
        row.latency.record(1_000_000_000 / iops).unwrap();
        row
    };
    let rows = arms.iter().flat_map(|(arm, iops)| iops.iter().enumerate().map(|repeat| row(arm, repeat)));
    let json = json!({
        "schema": "iolane.study/1", "name": "survey", "title": "", "complete": true,
        "repeats": arms.iter().map(|(_, iops)| iops.len()).max().unwrap_or(0), "runtime_s": 1.0,
        "skipped": [], "claims": [], "scale": "scaled", "records": {"file": "records.parquet", "rows": 0, "crc32": 0},
    });
    let loaded =
        Loaded { folder: folder.into(), document: serde_json::from_value(json).unwrap(), rows: rows.collect() };
    assert!(loaded.document.complete);
    loaded
}

/// The results with this value in their study.json.
fn with(mut loaded: Loaded, key: &str, value: Value) -> Loaded {
    let mut json = serde_json::to_value(&loaded.document).unwrap();
    json[key] = value;
    loaded.document = serde_json::from_value(json).unwrap();
    loaded
}

fn changes(comparison: &Comparison) -> &Changes {
    comparison.folders[1].changes.as_ref().unwrap()
}

const FIVE: &[u64] = &[1000, 1010, 1020, 1030, 1040];

#[test]
fn a_folder_beside_itself_shows_no_difference_anywhere() {
    let one = with(
        results("results/one", &[(arm("psync"), FIVE), (arm("libaio"), &[2000; 5])]),
        "claims",
        json!([{"id": "S1", "says": "it is so", "verdict": "holds"}]),
    );
    let comparison = Comparison::new(&[one.clone(), one]).unwrap();
    let same = Changes {
        compared: 2,
        faster: 0,
        slower: 0,
        no_difference_shown: 2,
        p99_shorter: 0,
        p99_longer: 0,
        largest_gain: None,
        largest_loss: None,
    };
    assert_eq!(changes(&comparison), &same);
    assert!(comparison.differences.is_empty() && comparison.not_compared.is_empty() && comparison.warnings.is_empty());
    assert!(comparison.claims.iter().all(|claim| !claim.changed));
    let ratio = comparison.arms[0].folders[1].as_ref().unwrap().iops_ratio.unwrap();
    assert_eq!(ratio.estimate.value, 1.0);
    assert!(comparison.arms[0].folders[0].as_ref().unwrap().iops_ratio.is_none());
    assert_eq!(comparison.folders[1].label, "results/one", "the end does not tell them apart");
}

#[test]
fn folders_are_called_by_what_tells_them_apart() {
    let labels = |names: [&str; 2]| {
        let folders = names.map(|name| results(name, &[(arm("psync"), FIVE)]));
        let comparison = Comparison::new(&folders).unwrap();
        comparison.folders.iter().map(|folder| folder.label.clone()).collect::<Vec<_>>()
    };
    assert_eq!(labels(["results/before", "results/after"]), ["before", "after"]);
    assert_eq!(labels(["linux-6.1/results/x", "linux-7.2/results/x"]), ["linux-6.1", "linux-7.2"]);
    assert_eq!(labels(["/a/b/c/x", "/a/d/e/x"]), ["b/c", "d/e"]);
    assert_eq!(labels(["x", "results/x"]), ["x", "results/x"], "nothing is left of one");
}

#[test]
fn faster_and_slower_arms_are_counted_and_the_largest_changes_named() {
    let before =
        results("before", &[(arm("psync"), FIVE), (arm("libaio"), FIVE), (arm("null"), FIVE), (arm("sim"), FIVE)]);
    let after = results(
        "after",
        &[
            (arm("psync"), &[2000, 2020, 2040, 2060, 2080]),
            (arm("libaio"), &[1500, 1510, 1520, 1530, 1540]),
            (arm("null"), &[500, 505, 510, 515, 520]),
            (arm("sim"), &[100, 1000, 1021, 1025, 9000]),
        ],
    );
    let comparison = Comparison::new(&[before, after]).unwrap();
    assert_eq!(
        comparison.folders[1].summary.as_deref(),
        Some(
            "after against before: of 4 arms 2 are faster and 1 slower, 1 show no difference; the largest gain is 2.00x, \
             psync randread 4k depth 1; the largest loss is 0.50x, null randread 4k depth 1; the p99 of 2 is shorter, that of 1 longer."
        )
    );
    assert_eq!(comparison.folders[0].summary, None);
    let cell = comparison.arms.iter().find(|arm| arm.arm.name == "psync").unwrap().folders[1].clone().unwrap();
    let p99 = cell.p99_ratio.unwrap();
    assert!(p99.shown && (p99.estimate.value - 0.5).abs() < 0.01, "its latency halved: {p99:?}");
}

#[test]
fn two_repeats_show_no_difference_and_three_come_with_a_warning() {
    let pair = |repeats| {
        let of = |folder, iops: u64| results(folder, &[(arm("psync"), &vec![iops; repeats])]);
        Comparison::new(&[of("a", 1000), of("b", 2000)]).unwrap()
    };
    let two = pair(2);
    assert_eq!((changes(&two).faster, changes(&two).no_difference_shown), (0, 1));
    assert!(two.warnings[0].contains("fewer than 3 repeats"), "{:?}", two.warnings);
    let three = pair(3);
    assert_eq!(changes(&three).faster, 1);
    assert!(three.warnings[0].contains("with 3 repeats, intervals are those of Student's t"), "{:?}", three.warnings);
    assert!(pair(5).warnings.is_empty());
}

#[test]
fn arms_that_a_folder_lacks_are_listed_by_path_with_its_reason() {
    let deep = Arm { workload: Workload { depth: 32, ..Workload::default() }, ..arm("psync") };
    let a = results("a", &[(arm("null"), FIVE), (arm("psync"), FIVE), (deep, FIVE), (arm("sim"), FIVE)]);
    let skipped = json!([{
        "path": "psync", "arms": 2, "which": "psync randread 4k depth 1", "reason": "there is none", "remedy": "get one",
        "failed": false,
    }]);
    let b = with(results("b", &[(arm("null"), FIVE), (arm("libaio"), FIVE)]), "skipped", skipped);
    let comparison = Comparison::new(&[a, b]).unwrap();
    let missing: Vec<(&str, usize, &str, &str, &str)> = comparison
        .not_compared
        .iter()
        .map(|missing| (&*missing.path, missing.arms, &*missing.folder, &*missing.reason, &*missing.remedy))
        .collect();
    assert_eq!(
        missing,
        [
            ("libaio", 1, "a", "it was not among its arms", ""),
            ("psync", 2, "b", "there is none", "get one"),
            ("sim", 1, "b", "it was not among its arms", ""),
        ]
    );
    assert_eq!(changes(&comparison).compared, 1);
    let libaio = comparison.arms.iter().find(|arm| arm.arm.name == "libaio").unwrap();
    assert!(libaio.folders[0].is_none() && libaio.folders[1].as_ref().unwrap().iops_ratio.is_none());
}

#[test]
fn other_studies_are_compared_by_what_their_arms_do_and_refused_if_none_does_the_same() {
    let of_study = |folder, name: &str, arms: &[(Arm, &[u64])]| with(results(folder, arms), "name", json!(name));
    let survey = of_study("a", "survey", &[(arm("psync"), FIVE)]);
    let renamed = Arm { name: "sync".into(), ..arm("psync") };
    let paper = of_study("b", "paper", &[(renamed, FIVE)]);
    assert_eq!(changes(&Comparison::new(&[survey.clone(), paper]).unwrap()).compared, 1);
    let other = of_study("b", "paper", &[(arm("libaio"), FIVE)]);
    let error = Comparison::new(&[survey.clone(), other]).unwrap_err();
    assert_eq!(error.kind(), iolane::ErrorKind::Usage);
    assert!(error.to_string().starts_with("comparing a and b: they are of survey and paper"), "{error}");
    assert_eq!(Comparison::new(&[survey]).unwrap_err().kind(), iolane::ErrorKind::Usage);
}

#[test]
fn one_study_may_have_two_names_for_a_path_and_each_is_compared_with_its_own() {
    let again = || Arm { name: "again".into(), ..arm("psync") };
    let a = results("a", &[(arm("psync"), FIVE), (again(), &[10; 5])]);
    let b = results("b", &[(again(), &[10; 5]), (arm("psync"), FIVE)]);
    let comparison = Comparison::new(&[a, b]).unwrap();
    assert_eq!((comparison.arms.len(), changes(&comparison).no_difference_shown), (2, 2));
}

#[test]
fn claims_show_the_verdict_of_each_folder_and_whether_it_changed() {
    let of = |folder, claims| with(results(folder, &[(arm("psync"), FIVE)]), "claims", claims);
    let a = of("a", json!([{"id": "S1", "says": "x", "verdict": "holds"}, {"id": "S2", "verdict": "holds"}]));
    let b = of("b", json!([{"id": "S1", "says": "x", "verdict": "does not hold"}, {"id": "S2", "verdict": "holds"}]));
    let c = of("c", json!([]));
    let verdicts = |comparison: &Comparison| -> Vec<(String, bool)> {
        comparison.claims.iter().map(|claim| (claim.id.clone(), claim.changed)).collect()
    };
    let two = Comparison::new(&[a.clone(), b.clone()]).unwrap();
    assert_eq!(verdicts(&two), [("S1".into(), true), ("S2".into(), false)]);
    assert_eq!(two.claims[0].verdicts, [Some(Verdict::Holds), Some(Verdict::DoesNotHold)]);
    let three = Comparison::new(&[a, b, c]).unwrap();
    assert_eq!(verdicts(&three), [("S1".into(), true), ("S2".into(), true)]);
    assert_eq!(three.claims[1].verdicts[2], None);
}

#[test]
fn an_arm_without_a_single_request_has_no_ratio_and_an_interruption_is_told() {
    let a = results("a", &[(arm("psync"), FIVE), (arm("null"), FIVE)]);
    let mut b = with(results("b", &[(arm("psync"), FIVE), (arm("null"), FIVE)]), "complete", json!(false));
    b.rows.iter_mut().filter(|row| row.arm.name == "null").for_each(|row| row.ios = 0);
    let comparison = Comparison::new(&[a, b]).unwrap();
    let null = comparison.arms.iter().find(|arm| arm.arm.name == "null").unwrap();
    assert_eq!(null.folders[1].as_ref().unwrap().change, None);
    assert_eq!(changes(&comparison).compared, 1);
    assert_eq!(comparison.warnings, ["b was interrupted: 5 of its repeats are complete"]);
}
