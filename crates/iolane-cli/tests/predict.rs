//! `iolane calibrate` and `iolane predict`: from measurements of a file to a machine and its predictions, with documents as the schemas
//! say; what the machine was not calibrated for is refused in one line.

mod common;

use std::fs;

use common::{Ended, Folder, ODD_BYTES, assert_refused, assert_valid, command, finish, iolane, pid};
use serde_json::Value;

/// A machine of four cores, by observations that anybody can write.
const OBSERVATIONS: &str = r#"
name = "bench"
[processor]
cores = 4
[scheduler]
kind = "eevdf"
hz = 250
[[observation]]
path = "psync"
iops = 10000.0
[[observation]]
path = "io_uring"
iops = 10500.0
[[observation]]
path = "io_uring"
depth = 16
iops = 120000.0
cpu_ns_per_io = 4000.0
[[observation]]
path = "io_uring"
depth = 64
iops = 190000.0
"#;

/// A folder with a machine of these observations.
fn calibrated() -> Folder {
    let folder = Folder::new();
    fs::write(folder.join("observed.toml"), OBSERVATIONS).unwrap();
    iolane(&folder, ["calibrate", "observed.toml"]).done();
    folder
}

fn predict(folder: &Folder, options: &str) -> Ended {
    iolane(folder, ["predict"].into_iter().chain(options.split_whitespace()))
}

#[test]
fn a_study_becomes_a_machine_whose_numbers_are_told_with_what_was_not_used() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    let study =
        "study --path psync,posix_aio --depth 1 --repeat 2 --runtime 50ms --warmup 0s --target target --out results/a";
    iolane(&folder, study.split(' ')).done();
    let ended = iolane(&folder, ["calibrate", "results/a", "--out", "a.toml", "--json", "a.json"]).done();
    for words in [
        "read_ns",
        "not determined by these results",
        "Not used:\n  posix_aio",
        "CONFIG_HZ: 250",
        "Held out: nothing",
        "Machine: a.toml",
    ] {
        assert!(ended.stdout.contains(words), "`{words}` is not in {}", ended.stdout);
    }
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    let document: Value = serde_json::from_str(&fs::read_to_string(folder.join("a.json")).unwrap()).unwrap();
    assert_valid("calibrate", &document);
    let text = predict(&folder, "--machine a.toml --depth 1").done().stdout;
    assert!(text.contains("Errors: not known") && text.contains("for throughput (the most IOPS): psync"), "{text}");
}

#[test]
fn runs_become_a_machine_too() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    for depth in ["1", "4"] {
        let json = format!("{depth}.json");
        let run =
            ["run", "--target", "target", "--path", "libaio", "--depth", depth, "--runtime", "100ms", "--json", &json];
        iolane(&folder, run).done();
    }
    let document = iolane(&folder, ["calibrate", "1.json", "4.json", "--json", "-"]).done().json();
    assert_valid("calibrate", &document);
    // IOPS, p50 and processor time of each.
    assert_eq!(document["fitted"].as_array().unwrap().len(), 6, "{document:#}");
    let refused = iolane(&folder, ["calibrate", "1.json", "--out", "1.json"]);
    assert_refused(&refused, 2, &["writing 1.json", "holds results"]);
}

#[test]
fn what_the_fit_did_not_see_stands_beside_its_prediction_and_in_every_answer() {
    let folder = calibrated();
    let document = iolane(&folder, ["calibrate", "observed.toml", "--out", "b.toml", "--json", "-"]).done().json();
    assert_valid("calibrate", &document);
    let held_out = document["held_out"].as_array().unwrap();
    assert!(held_out.len() == 1 && held_out[0]["load"].as_str().unwrap().contains("depth 64"), "{document:#}");
    let text = predict(&folder, "--depth 8").done().stdout;
    assert!(text.contains("1 figures that the fit did not see") && text.contains("depth 64"), "{text}");
    iolane(&folder, ["calibrate", "observed.toml", "--hold-out", "none"]).done();
    assert!(predict(&folder, "--depth 8").done().stdout.contains("Errors: not known"));
    // A publication says more than its machine was fitted to: numbers, or only bounds.
    let numbers = predict(&folder, "--machine systor22 --path libaio,getevents --depth 128").done().stdout;
    assert!(numbers.contains("figures that the fit did not see"), "{numbers}");
    let bounds = predict(&folder, "--machine floe26 --path nvme --depth 128").done().stdout;
    assert!(bounds.contains("are bounds") && !bounds.contains("Calibrate"), "{bounds}");
}

#[test]
fn a_prediction_is_as_the_schema_says_and_its_tables_fit() {
    let folder = calibrated();
    let options =
        "--threads 1,4 --cores 2,4,8 --drives 2 --depth 1,16 --goal latency --batch-submit 1 --batch-complete-max 1";
    let text = predict(&folder, options).done().stdout;
    for words in [
        "Prediction by a model, from machine.toml: bench; 4 cores, fitted to 3 loads; predicted with 8",
        "4 threads on 2 drives, 8 cores",
        "not predicted: psync: it has one request in flight",
        "Best path for latency, randread 4k depth 1, 1 submitted",
        "Left out of the model:",
    ] {
        assert!(text.contains(words), "`{words}` is not in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let document = predict(&folder, &format!("{options} --json -")).done().json();
    assert_valid("predict", &document);
    let loads = document["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 12);
    for path in loads.iter().flat_map(|load| load["paths"].as_array().unwrap()) {
        let [low, value, high] = ["low", "value", "high"].map(|end| path["iops"][end].as_f64().unwrap());
        assert!(0.0 < low && low <= value && value <= high, "{path:#}");
    }
    assert_eq!(
        predict(&folder, &format!("{options} --json -")).done().json(),
        document,
        "the same question has the same answer"
    );
}

#[test]
fn another_drive_takes_the_place_of_the_machines_own() {
    let folder = calibrated();
    let at = |drive: &str| {
        let options = format!("--path io_uring --depth 16 {drive} --json -");
        let document = predict(&folder, &options).done().json();
        document["loads"][0]["paths"][0]["iops"]["value"].as_f64().unwrap()
    };
    let (own, optane, slow) = (at(""), at("--drive optane"), at("--drive iops=1000"));
    assert!(optane > 1.3 * own, "{own} {optane}: the processor is the limit, and not the drive");
    assert!((950.0..=1050.0).contains(&slow), "{slow}");
    let text = predict(&folder, "--drive optane").done().stdout;
    assert!(text.contains("bench, with another drive (optane)"), "{text}");
    for (wrong, cause) in
        [("p9999", "optane"), ("error=0.1", "not those of a drive"), ("latency=1ms", "not those of a drive")]
    {
        assert_refused(&predict(&folder, &format!("--drive {wrong}")), 2, &[cause]);
    }
}

#[test]
fn results_stand_beside_what_is_predicted_also_on_a_page() {
    let folder = Folder::new();
    fs::write(folder.join("observed.toml"), OBSERVATIONS).unwrap();
    let options = "--machine observed.toml --depth 1,16,64 --page page.html";
    let text = predict(&folder, options).done().stdout;
    assert_eq!(text.matches("\n    measured ").count(), 4, "{text}");
    assert!(text.contains("Page: page.html"), "{text}");
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    for words in [
        "Predicted IOPS of randread 4k, 1 thread on 1 drive, 4 cores",
        "io_uring, measured",
        "did not see",
        "Left out of the model",
    ] {
        assert!(page.contains(words), "`{words}` is not on the page");
    }
    assert_refused(&predict(&folder, "--machine observed.toml --page observed.toml"), 2, &["writing observed.toml"]);
}

#[test]
fn a_machine_with_a_model_of_its_power_is_judged_by_joules() {
    let folder = Folder::new();
    fs::write(
        folder.join("power.toml"),
        OBSERVATIONS.replace("[scheduler]", "[power]\nidle_w = 50.0\ncore_w = 8.0\n[scheduler]"),
    )
    .unwrap();
    let document = predict(&folder, "--machine power.toml --goal efficiency --depth 16 --json -").done().json();
    assert_valid("predict", &document);
    assert_eq!(document["decided_by"], "the most I/Os per joule");
    let watts = document["loads"][0]["paths"][0]["watts"]["value"].as_f64().unwrap();
    assert!((50.0..60.0).contains(&watts), "{document:#}");
}

#[test]
fn what_cannot_be_predicted_is_refused_with_what_to_do() {
    let folder = calibrated();
    for (options, says) in [
        ("--path libaio", &["--path libaio", "calibrate --measure --path libaio"][..]),
        ("--bs 64k", &["--bs 64k", "calibrated with 4k", "drive.bytes_per_s"]),
        ("--rw randwrite", &["calibrated without writes", "--rw randwrite"]),
        ("--rw read", &["--rw read", "randread, randwrite or randrw"]),
        ("--read-percent 70", &["--read-percent", "--rw randrw"]),
        ("--machine nowhere", &["nowhere", "systor22", "iolane calibrate --measure"]),
        ("--json machine.toml", &["writing machine.toml", "would be lost"]),
        ("--threads 5..1", &["backwards"]),
        ("--cores 99999", &["--cores 99999"]),
    ] {
        assert_refused(&predict(&folder, options), 2, says);
    }
    fs::write(folder.join("machine.toml"), "schema = \"iolane.machine/9\"\n").unwrap();
    assert_refused(&predict(&folder, ""), 2, &["machine machine.toml"]);
    assert_refused(
        &iolane(&folder, ["calibrate", "--target", "x", "observed.toml"]),
        2,
        &["--target", "add --measure"],
    );
    assert_refused(&iolane(&folder, ["calibrate", "observed.toml", "--hold-out", "7"]), 2, &["--hold-out 7"]);
    let refused = iolane(&folder, ["calibrate", "--measure", "--path", "posix_aio"]);
    assert_refused(&refused, 2, &["posix_aio", "choose psync"]);
}

#[test]
fn a_calibration_measures_what_it_needs() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    let words = "calibrate --measure --path psync,libaio --depth 1,2,4 --time 2s --target target --hold-out 2";
    let ended = iolane(&folder, words.split(' ')).done();
    assert!(ended.stdout.contains("held out") && ended.stdout.contains("libaio, reads of 4096, depth 2"), "{ended:#?}");
    assert!(folder.join("results/calibrate/report.html").exists(), "what was measured can be looked at");
    assert_eq!(folder.names(), ["machine.toml", "results", "target"]);
}

#[test]
fn a_prediction_that_is_interrupted_keeps_what_is_complete() {
    let folder = calibrated();
    let options =
        ["predict", "--threads", "1..400", "--cores", "400", "--depth", "64", "--path", "io_uring", "--json", "-"];
    let child = command(&folder, options).spawn().unwrap();
    let pid = pid(&child);
    // It catches signals before it reads the machine; playing all loads takes minutes.
    common::wait_until("it plays", || {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse::<usize>().ok());
        threads.is_some_and(|threads| threads > 2)
    });
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted: "), "{}", ended.stderr);
    let document = ended.json();
    assert_valid("predict", &document);
    assert_eq!(document["complete"], false);
}
