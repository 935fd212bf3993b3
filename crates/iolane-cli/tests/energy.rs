//! `iolane energy`, and the meters of `run`: a refusal changes nothing, and gives its reason in one line.

mod common;

use std::fs;

use common::{Folder, iolane};
use serde_json::Value;

/// A very short survey, without load steps.
fn measured(folder: &Folder) {
    let words =
        "study --target null:16m --path null --depth 1 --runtime 200ms --warmup 10ms --repeat 1 --meter none --out out";
    iolane(folder, words.split(' ')).done();
}

#[test]
fn a_file_that_cannot_be_laid_over_results_leaves_them_as_they_were() {
    let folder = Folder::new();
    measured(&folder);
    let files = ["study.json", "records.parquet"].map(|name| folder.path().join("out").join(name));
    let before = files.clone().map(|file| fs::read(file).unwrap());
    fs::write(folder.path().join("meter.csv"), "time,watts\n1,50\n2,50\n3,50\n").unwrap();
    let refused = iolane(&folder, ["energy", "out", "--meter-csv", "meter.csv"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("made no load steps; measure again with --meter-steps"), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1);
    assert_eq!(files.map(|file| fs::read(file).unwrap()), before);
}

#[test]
fn what_is_no_meters_file_is_wrong_use_and_names_the_line() {
    let folder = Folder::new();
    measured(&folder);
    for (text, says) in
        [("nothing", "no heading names a time column"), ("time,watts\n1,5\n1,5", "meter.csv line 3: time")]
    {
        fs::write(folder.path().join("meter.csv"), text).unwrap();
        let refused = iolane(&folder, ["energy", "out", "--meter-csv", "meter.csv"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(says) && refused.stderr.lines().count() == 1, "{}", refused.stderr);
    }
    assert_eq!(iolane(&folder, ["energy", "out", "--meter-csv", "gone.csv"]).code, Some(2));
    fs::write(folder.path().join("meter.csv"), "time,watts\n1,5\n2,5").unwrap();
    assert_eq!(iolane(&folder, ["energy", "nowhere", "--meter-csv", "meter.csv"]).code, Some(2));
}

#[test]
fn a_run_with_a_model_says_modelled_and_one_without_a_meter_says_why() {
    let folder = Folder::new();
    let run = |meter: &[&str]| -> Value {
        let words =
            ["run", "--target", "null:16m", "--path", "null", "--runtime", "100ms", "--warmup", "1ms", "--json", "-"];
        serde_json::from_str(&iolane(&folder, words.iter().chain(meter)).done().stdout).unwrap()
    };
    let modelled = run(&["--power-model", "idle=40,core=8"]);
    assert_eq!(modelled["result"]["energy"]["source"], "idle=40,core=8");
    assert_eq!(modelled["result"]["energy"]["modelled"], true);
    assert!(modelled["result"]["energy"]["watts"].as_f64().unwrap() >= 40.0);
    let without = run(&["--meter", "none"]);
    assert_eq!(without["result"]["energy"], Value::Null);
    assert_eq!(without["telemetry"]["joules"]["unavailable"], "no meter was asked for (--meter none)");
}

#[test]
fn a_meter_that_was_asked_for_and_cannot_be_had_ends_the_command() {
    let folder = Folder::new();
    let run = |words: &[&str]| iolane(&folder, ["run", "--target", "null:16m", "--path", "null"].iter().chain(words));
    let failed = run(&["--meter-command", "echo no meter here >&2; exit 3"]);
    assert_eq!((failed.code, failed.stderr.lines().count()), (Some(3), 1), "{}", failed.stderr);
    assert!(failed.stderr.contains("no meter here"), "{}", failed.stderr);
    for words in [&["--meter", "plug"][..], &["--power-model", "idle=40"], &["--meter-command", " "]] {
        assert_eq!(run(words).code, Some(2), "{words:?}");
    }
    assert_eq!(run(&["--meter", "none", "--power-model", "idle=4,core=1"]).code, Some(2));
}
