//! The workload of a user: asked for in one line, stated whole wherever results are, compared and exported as it is.

mod common;

use std::fs;

use common::{Folder, ODD_BYTES, assert_refused, assert_valid, iolane};
use iolane_study::rows::{Row, parquet};
use serde_json::{Value, json};

const SHORT: [&str; 6] = ["--runtime", "50ms", "--warmup", "0s", "--repeat", "1"];

/// What an engineer asks for, but for the rates and the target.
const MIXED: [&str; 11] =
    ["study", "--rw", "randrw", "--read-percent", "70", "--bs", "16k", "--offsets", "zipf:1.2", "--threads", "2"];

fn words<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

#[test]
fn lists_are_factors_and_every_result_states_the_whole_load() {
    let folder = Folder::new();
    let factors = ["--path", "psync,libaio", "--depth", "1,4", "--rate", "500,1k", "--size", "4m"];
    let ended = iolane(&folder, words(&[&MIXED, &factors, &SHORT])).done();
    // `psync` has one request in flight.
    for load in ["randrw 70/30 16k zipf:1.2, rate 500/s, 2 threads", "randrw 70/30 16k zipf:1.2, rate 1k/s, 2 threads"]
    {
        assert!(ended.stdout.lines().any(|line| line == load), "{load}: {}", ended.stdout);
    }
    assert!(ended.stdout.contains("psync (2 arms)") && ended.stdout.contains("at most 1"), "{}", ended.stdout);

    let results = folder.join("results/survey");
    let report: Value = serde_json::from_slice(&fs::read(results.join("study.json")).unwrap()).unwrap();
    assert_valid("study", &report);
    let arms = report["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 6, "{report:#}");
    for arm in arms {
        assert_eq!((&arm["rw"], &arm["read_percent"], &arm["bs"]), (&json!("randrw"), &json!(70), &json!("16k")));
        assert_eq!((&arm["offsets"], &arm["threads"]), (&json!("zipf:1.2"), &json!(2)));
        assert_eq!(arm["ranked_by"], "p99_ns");
    }
    let records = fs::File::open(results.join("records.parquet")).unwrap();
    let crc32 = report["records"]["crc32"].as_u64().unwrap() as u32;
    let rows: Vec<Row> = parquet::read(records, "records.parquet", crc32).unwrap();
    let mut rates: Vec<f64> = rows.iter().map(|row| row.arm.workload.rate.unwrap().per_s()).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    assert_eq!(rates, [500.0, 1000.0]);
    assert!(rows.iter().all(|row| row.arm.workload.offsets.to_string() == "zipf:1.2"));
    let page = fs::read_to_string(results.join("report.html")).unwrap();
    assert!(page.contains("randrw 70/30 16k zipf:1.2, rate 500/s, 2 threads"));
}

#[test]
fn a_comparison_names_every_part_of_a_load_that_differs_and_compares_no_unequal_loads() {
    let folder = Folder::new();
    let null = ["study", "--path", "null", "--target", "null", "--depth", "1", "--out"];
    iolane(&folder, words(&[&null, &["a"], &SHORT])).done();
    let other =
        ["b", "--rate", "500", "--offsets", "zipf:1.2", "--rw", "randrw", "--read-percent", "70", "--fsync", "8"];
    iolane(&folder, words(&[&null, &other, &SHORT])).done();
    let text = iolane(&folder, ["compare", "a", "b"]).done().stdout;
    assert!(text.contains("no arm in common; the loads differ in "), "{text}");
    for (part, values) in [
        ("rw", "randread randrw"),
        ("read_percent", "100 70"),
        ("offsets", "uniform zipf:1.2"),
        ("rate", "none 500"),
        ("fsync_every", "none 8"),
    ] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(part)).expect(part);
        assert_eq!(line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), values, "{text}");
    }
    assert!(!text.contains("slower"), "{text}");
}

#[test]
fn a_plan_and_an_export_have_the_size_of_the_scratch_file_that_a_study_measures() {
    let folder = Folder::new();
    let ask = ["study", "--path", "psync", "--depth", "1"];
    let planned = |more: &[&str]| iolane(&folder, words(&[&ask, more])).done().stdout;
    assert!(planned(&["--dry-run"]).contains("(1 GiB file, "));
    // Nothing is written: a terabyte would take hours, where it fits.
    assert!(planned(&["--dry-run", "--size", "1t"]).contains("(1 TiB file, "));
    planned(&["--fio", "jobs"]);
    let job = fs::read_to_string(folder.join("jobs/survey.fio")).unwrap();
    assert!(job.lines().any(|line| line == "size=1g"), "{job}");
}

/// A file outside the test's folder, removed when dropped.
struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_study_of_a_log_advises_for_commits_and_shows_them() {
    let folder = Folder::new();
    // In memory, so that there are enough commits to advise on, however busy the disk is.
    let log = format!("/dev/shm/iolane-log-{}", std::process::id());
    fs::write(&log, vec![1; 16 << 20]).unwrap();
    let _removed = Removed(log.clone());
    let ask =
        ["study", "--path", "psync", "--depth", "1", "--target", &log, "--allow-writes", &log, "--direct", "false"];
    let short =
        ["--rw", "write", "--repeat", "3", "--fresh", "--runtime", "200ms", "--warmup", "0s", "--json", "study.json"];
    let ended = iolane(&folder, words(&[&ask, &short, &["--fdatasync", "1"]])).done();
    assert!(ended.stdout.contains("commit p50 commit p99"), "{}", ended.stdout);
    let text = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("for commits take psync (median p99 of commits "), "{text}");
    let study: Value = serde_json::from_str(&fs::read_to_string(folder.join("study.json")).unwrap()).unwrap();
    let p50 = |of: &str| study["arms"][0][of].as_u64().unwrap();
    assert!(p50("commit_p50_ns") >= p50("sync_p50_ns"), "a commit is a write, too: {:#}", study["arms"][0]);
    // Without syncs a durable write is a commit, and has no column of its own.
    assert!(!iolane(&folder, words(&[&ask, &short, &["--durable"]])).done().stdout.contains("commit"));
}

#[test]
fn an_exported_job_is_the_arm_and_an_arm_that_fio_cannot_run_is_named() {
    let folder = Folder::new();
    let ask = ["study", "--path", "io_uring", "--depth", "4", "--threads", "2", "--size", "1g", "--fio", "jobs"];
    let load = [
        "--rw",
        "randwrite",
        "--bs",
        "16k",
        "--offsets",
        "zipf:1.2",
        "--rate",
        "500",
        "--fsync",
        "8",
        "--batch-complete",
        "2",
    ];
    iolane(&folder, words(&[&ask, &load])).done();
    let job = fs::read_to_string(folder.join("jobs/survey.fio")).unwrap();
    for line in [
        "rw=randwrite",
        "bs=16k",
        "random_distribution=zipf:1.2",
        "rate_iops=250",
        "numjobs=2",
        "fsync=8",
        "iodepth=4",
        "iodepth_batch_complete_min=2",
        "iodepth_batch_complete_max=4",
    ] {
        assert!(job.lines().any(|known| known == line), "{line}: {job}");
    }

    let mixed = ["--rw", "randread,randrw", "--rate", "502"];
    let ended = iolane(&folder, words(&[&ask, &mixed])).done();
    assert!(
        ended.stderr.contains("1 of 2 arms are only comments: fio's rates of the reads and the writes"),
        "{ended:#?}"
    );
    let before = fs::read(folder.join("jobs/survey.fio")).unwrap();
    let ended = iolane(&folder, words(&[&ask, &["--rw", "randrw", "--rate", "502"]]));
    assert_refused(&ended, 3, &["fio can run none of the 1 arms", "these are 125.5 and 125.5"]);
    assert!(fs::read(folder.join("jobs/survey.fio")).unwrap() == before, "the file is as it was");
}

#[test]
fn a_study_file_has_mixes_syncs_and_checked_reads() {
    let folder = Folder::new();
    folder.file("file", ODD_BYTES);
    let study = "name = \"mine\"\ntitle = \"One of my own\"\n\
                 workload = { seed = 7, read_percent = 70, offsets = \"zipf:1.2\", verify = true }\n\
                 scaled = { runtime = \"20ms\", warmup = \"0s\", repeats = 1 }\npaths = { sync = \"psync\" }\n\
                 group = { path = \"sync\", rw = \"randrw\", bs = \"4k\", fsync_every = [1, 8], rate = [\"1k\", 2000] }\n";
    fs::write(folder.join("mine.toml"), study).unwrap();
    let ended = iolane(&folder, ["study", "mine.toml", "--target", "file", "--allow-writes", "file"]).done();
    for load in ["rate 1k/s, fsync every 1, verified", "rate 2k/s, fsync every 8, verified"] {
        assert!(ended.stdout.contains(&format!("randrw 70/30 4k zipf:1.2, {load}")), "{load}: {}", ended.stdout);
    }
    let report: Value = serde_json::from_slice(&fs::read(folder.join("results/mine/study.json")).unwrap()).unwrap();
    assert_eq!(report["seed"], 7);
}
