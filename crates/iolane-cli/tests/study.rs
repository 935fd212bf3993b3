//! Studies as users have them: from their own files, interrupted, killed, continued, on targets that may and may not be
//! written. Measured values are not judged; which runs exist is.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use common::{
    Ended, Folder, ODD_BYTES, SmallDisk, assert_refused, assert_valid, command, finish, iolane, is_root, pid, skipped,
    wait_until,
};
use iolane_study::rows::{Row, parquet};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// 12 arms, 5 runs of each.
const STUDY: &str = r#"
name = "mine"
title = "One of my own"

[scaled]
runtime = "30ms"
warmup = "0s"
repeats = 5

[paths]
"file" = "psync"
"nothing" = "null"
"simulated" = "sim"

[[group]]
path = ["file", "nothing", "simulated"]
bs = ["4k", "8k", "16k", "64k"]
"#;

const RUNS: usize = 60;

/// With a target for each of its paths.
const MINE: [&str; 8] = ["study", "mine.toml", "--target", "file", "--target", "null", "--target", "sim"];

/// Reads and writes by one path.
const WRITING: &str = r#"
name = "writing"
title = "Reads and writes"
scaled = { runtime = "20ms", warmup = "0s", repeats = 1 }
paths = { sync = "psync" }
group = [{ path = ["sync"], rw = ["randread", "randwrite"] }]
"#;

/// A folder with the study, and the file it reads.
fn folder() -> Folder {
    let folder = Folder::new();
    fs::write(folder.join("mine.toml"), STUDY).unwrap();
    folder.file("file", ODD_BYTES);
    folder
}

fn start(folder: &Folder, arguments: &[&str]) -> Child {
    command(folder, arguments).spawn().unwrap()
}

/// Valid runs with a complete line in the journal; runs that will be repeated do not count.
fn journaled(results: &Path) -> usize {
    let journal = fs::read_to_string(results.join("journal.jsonl")).unwrap_or_default();
    journal.split_inclusive('\n').filter(|line| line.ends_with('\n') && line.contains("\"rejected\":null")).count()
}

/// Waits until the journal holds `runs` runs.
#[track_caller]
fn wait_for_runs(results: &Path, runs: usize) {
    wait_until("its runs are in the journal", || journaled(results) >= runs);
}

#[track_caller]
fn kill(child: Child) {
    kill_process(pid(&child), Signal::KILL).unwrap();
    assert_eq!(finish(child).code, None);
}

#[track_caller]
fn interrupted(child: Child) -> Ended {
    kill_process(pid(&child), Signal::INT).unwrap();
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    ended
}

#[track_caller]
fn report(results: &Path) -> Value {
    let report = serde_json::from_str(&fs::read_to_string(results.join("study.json")).unwrap()).unwrap();
    assert_valid("study", &report);
    report
}

/// The rows of the results, which the report was made from.
#[track_caller]
fn rows(results: &Path) -> Vec<Row> {
    let records = &report(results)["records"];
    let file = fs::File::open(results.join(records["file"].as_str().unwrap())).unwrap();
    let rows = parquet::read(file, "records.parquet", records["crc32"].as_u64().unwrap() as u32).unwrap();
    assert_eq!(rows.len() as u64, records["rows"].as_u64().unwrap());
    rows
}

/// The arm and the repeat of each valid run.
fn cells(rows: &[Row]) -> Vec<(String, u32)> {
    let good = rows.iter().filter(|row| row.rejected.is_none());
    let mut cells: Vec<_> = good.map(|row| (row.arm.to_string(), row.repeat)).collect();
    cells.sort();
    cells
}

/// The start of each run, in milliseconds.
fn begun_ms(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| (row.started_unix_s * 1e3).round() as u64).collect()
}

/// Small pseudo-random numbers, the same for the same seed (SplitMix64: Steele, Lea and Flood, 2014).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The number of reads and writes that a program has made.
fn system_calls(child: &Child) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let count = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.parse::<u64>().ok()).unwrap_or(0);
    count("syscr: ") + count("syscw: ")
}

#[test]
fn a_study_killed_at_any_moment_loses_no_run_and_makes_none_twice() {
    let folder = folder();
    let results = folder.join("results/mine");
    let undisturbed = start(&folder, &MINE.iter().chain(&["--out", "undisturbed"]).copied().collect::<Vec<_>>());
    let mut seeded = Seeded(0x10_1a_9e);
    for _ in 0..20 {
        let mut child = start(&folder, &MINE);
        // After a line of the journal, or none; and then somewhere before the one after the next.
        let lines = journaled(&results) + seeded.below(2) as usize;
        wait_until("its runs are in the journal", || {
            journaled(&results) >= lines || child.try_wait().unwrap().is_some()
        });
        let calls = system_calls(&child) + seeded.below(2000);
        wait_until("it has gone on", || {
            system_calls(&child) >= calls || journaled(&results) > lines || child.try_wait().unwrap().is_some()
        });
        let _ = kill_process(pid(&child), Signal::KILL);
        finish(child);
    }
    let before = journaled(&results);
    assert!(before > 0, "it never got anywhere");
    let ended = iolane(&folder, MINE).done();
    assert!(ended.stderr.contains(&format!("continuing after {before} runs")), "{ended:#?}");
    assert!(!results.join("journal.jsonl").exists());

    let undisturbed = finish(undisturbed).done();
    assert!(!undisturbed.stderr.contains("continuing"), "{undisturbed:#?}");
    let expected = cells(&rows(&folder.join("undisturbed")));
    assert_eq!(expected.len(), RUNS);
    assert_eq!(cells(&rows(&results)), expected);
}

#[test]
fn an_interrupted_study_goes_on_by_the_same_command_and_by_no_other() {
    let folder = folder();
    let results = folder.join("results/mine");
    let child = start(&folder, &MINE);
    wait_for_runs(&results, 14);
    let ended = interrupted(child);
    assert!(ended.stdout.contains("the same command continues"), "{ended:#?}");
    let report_then = report(&results);
    assert_eq!(report_then["complete"], false);
    let kept = cells(&rows(&results));
    assert_eq!(kept.len(), journaled(&results));
    let begun = begun_ms(&rows(&results));

    let before = fs::read(results.join("journal.jsonl")).unwrap();
    fs::write(folder.join("other.toml"), STUDY.replace("\"64k\"", "\"32k\"")).unwrap();
    fs::write(folder.join("named.toml"), STUDY.replace("\"mine\"", "\"yours\"")).unwrap();
    fs::copy(folder.join("file"), folder.join("copy")).unwrap();
    let of = |file: &'static str, target: &'static str, more: &[&'static str]| {
        let words = ["study", file, "--target", target, "--target", "null", "--target", "sim", "--out", "results/mine"];
        [&words[..], more].concat()
    };
    for (words, differs) in [
        (of("mine.toml", "file", &["--repeat", "9"]), "its repeats"),
        (of("mine.toml", "file", &["--runtime", "31ms"]), "the lengths of its runs"),
        (of("mine.toml", "file", &["--seed", "2"]), "its workload"),
        (of("mine.toml", "file", &["--cpus", "0"]), "its placement"),
        (of("mine.toml", "copy", &[]), "its targets"),
        (of("other.toml", "file", &[]), "its workload"),
        (of("named.toml", "file", &[]), "its name"),
    ] {
        let ended = iolane(&folder, words);
        assert_refused(&ended, 2, &["continuing the study in results/mine", differs, "--fresh", "another folder"]);
    }
    assert!(fs::read(results.join("journal.jsonl")).unwrap() == before, "a refused command changed the journal");

    let ended = iolane(&folder, MINE).done();
    assert!(ended.stderr.contains(&format!("continuing after {} runs", kept.len())), "{ended:#?}");
    let all = rows(&results);
    assert_eq!(cells(&all).len(), RUNS);
    let again = begun_ms(&all[..begun.len()]);
    assert_eq!(again, begun, "what was measured before is kept, and not measured again");
    assert_eq!(report(&results)["complete"], true);
    assert!(!results.join("journal.jsonl").exists());
}

#[test]
fn an_interrupted_study_replaces_no_complete_results_and_can_still_continue() {
    let folder = folder();
    let results = folder.join("results/mine");
    iolane(&folder, MINE.iter().chain(&["--repeat", "1"])).done();
    let whole = Folder::contents_of(&results);
    let child = start(&folder, &MINE.iter().chain(&["--repeat", "500"]).copied().collect::<Vec<_>>());
    wait_for_runs(&results, 20);
    let ended = interrupted(child);
    assert!(ended.stdout.contains("complete study and was not replaced"), "{ended:#?}");
    let mut after = Folder::contents_of(&results);
    assert!(after.remove(OsStr::new("journal.jsonl")).is_some(), "what it measured is kept");
    assert!(after == whole, "the complete results were changed");

    let child = start(&folder, &MINE.iter().chain(&["--repeat", "500"]).copied().collect::<Vec<_>>());
    wait_for_runs(&results, 40);
    assert!(interrupted(child).stderr.contains("continuing after "));
    iolane(&folder, MINE.iter().chain(&["--repeat", "2", "--fresh"])).done();
    assert_eq!(cells(&rows(&results)).len(), RUNS / 5 * 2);
}

#[test]
fn a_time_budget_that_the_shortest_runs_exceed_is_reported() {
    let folder = Folder::new();
    let words = ["study", "--path", "null", "--depth", "1", "--repeat", "2", "--dry-run", "--time"];
    let ended = iolane(&folder, words.iter().chain(&["10ms"])).done();
    let parts =
        ["iolane: --time 10 ms is too short for 2 runs of at least 200 ms", "it ends after the repeats that fit"];
    assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{}", ended.stderr);
    assert_eq!(iolane(&folder, words.iter().chain(&["1m"])).done().stderr, "");
}

#[test]
fn a_time_budget_ends_a_study_after_the_repeats_that_fit() {
    let folder = Folder::new();
    let ask = ["study", "--path", "null", "--target", "null", "--depth", "1,2", "--warmup", "0s", "--repeat", "500"];
    let ended = iolane(&folder, ask.iter().chain(&["--time", "2s"])).done();
    let text = fs::read_to_string(folder.join("results/survey/study.json")).unwrap();
    let study: Value = serde_json::from_str(&text).unwrap();
    let repeats = study["repeats"].as_u64().unwrap();
    // Two runs of 0.2 s each at least: of 500 repeats no more than a few fit, and the first always runs.
    assert!((1..=6).contains(&repeats) && study["complete"] == true, "{repeats} repeats");
    // All 1000 would take minutes; the time left is never more than the limit leaves.
    let first = ended.stderr.lines().find(|line| line.starts_with("study: 0 of 1000 runs, ")).unwrap_or("");
    assert!(first.starts_with("study: 0 of 1000 runs, 2 s left"), "{ended:#?}");
    assert!(ended.stdout.contains(&format!("the time allowed {repeats} of 500 repeats")), "{}", ended.stdout);
}

/// Two names of one path, of which no number of repeats shows which is faster.
const UNDECIDABLE: &str = r#"
name = "undecidable"
title = "A claim that noise keeps open"
scaled = { time = "1s", warmup = "0s", repeats = 500 }
paths = { a = "null", b = "null" }
group = [{ path = ["a", "b"] }]
[[claim]]
id = "C1"
says = "equal to the last digit"
published = "1"
[[claim.check]]
says = "IOPS of a relative to b"
rule = "ratio"
metric = "iops"
of = { where = { path = "a" } }
to = { where = { path = "b" } }
at_least = 0.9999999
at_most = 1.0000001
"#;

#[test]
fn claims_of_a_study_whose_time_is_too_short_are_decided_on_the_repeats_that_there_are() {
    let folder = Folder::new();
    fs::write(folder.join("undecidable.toml"), UNDECIDABLE).unwrap();
    let ended = iolane(&folder, ["study", "undecidable.toml", "--target", "null", "--time", "1s"]).done();
    let study = report(&folder.join("results/undecidable"));
    assert_eq!(study["looks"], serde_json::json!([]), "{ended:#?}");
    assert!(study["claims"][0]["measured"].is_string(), "{:#}", study["claims"]);
}

#[test]
fn fresh_begins_anew_and_a_wrong_command_forgets_nothing() {
    let folder = folder();
    let results = folder.join("results/mine");
    let child = start(&folder, &MINE);
    wait_for_runs(&results, 3);
    kill(child);
    let before = fs::read(results.join("journal.jsonl")).unwrap();
    let missing = ["study", "mine.toml", "--fresh", "--target", "missing"];
    assert_refused(&iolane(&folder, missing), 3, &["target missing"]);
    iolane(&folder, MINE.iter().chain(&["--dry-run", "--fresh"])).done();
    assert!(fs::read(results.join("journal.jsonl")).unwrap() == before, "it forgot what was measured");

    let ended = iolane(&folder, MINE.iter().chain(&["--fresh", "--repeat", "1"])).done();
    assert!(!ended.stderr.contains("continuing"), "{ended:#?}");
    assert_eq!(cells(&rows(&results)).len(), RUNS / 5);
}

#[test]
fn of_two_at_once_in_one_folder_the_second_is_refused() {
    let folder = folder();
    let results = folder.join("results/mine");
    let first = start(&folder, &MINE.iter().chain(&["--repeat", "500"]).copied().collect::<Vec<_>>());
    wait_for_runs(&results, 1);
    for more in [&[][..], &["--fresh"], &["--repeat", "2"]] {
        let second = iolane(&folder, MINE.iter().chain(more));
        assert_refused(&second, 1, &["results/mine/journal.jsonl", "another study writes there now", "--out"]);
    }
    interrupted(first);
    assert_eq!(cells(&rows(&results)).len(), journaled(&results));
}

#[test]
fn an_interrupted_study_with_json_on_standard_output_says_so_beside_it() {
    let folder = folder();
    let child = start(&folder, &MINE.iter().chain(&["--json", "-", "--repeat", "500"]).copied().collect::<Vec<_>>());
    wait_for_runs(&folder.join("results/mine"), 1);
    let ended = interrupted(child);
    assert_valid("study", &ended.json());
    assert!(
        ended.stderr.contains("iolane: interrupted") && ended.stderr.contains("command continues"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_damaged_set_up_is_refused_and_a_damaged_run_is_measured_again() {
    let folder = folder();
    let results = folder.join("results/mine");
    let child = start(&folder, &MINE);
    wait_for_runs(&results, 3);
    kill(child);
    let text = fs::read_to_string(results.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (damaged, words) in [
        (text.replace(lines[0], "{}"), ["journal.jsonl line 1", "schema"]),
        (text.replace("iolane.journal/5", "iolane.journal/1"), ["journal.jsonl line 1", "checksum"]),
        (format!("\0\0\0\n{text}"), ["journal.jsonl line 1", "column"]),
    ] {
        fs::write(results.join("journal.jsonl"), &damaged).unwrap();
        let ended = iolane(&folder, MINE);
        assert_refused(&ended, 1, &[words[0], words[1], "--fresh"]);
        assert!(!ended.stderr.contains("line 1 column"), "one line is named, the file's own: {}", ended.stderr);
        assert_eq!(fs::read_to_string(results.join("journal.jsonl")).unwrap(), damaged);
    }
    // Another figure of a valid run, and a line of nothing.
    let damaged = text.replacen("\"repeat\":0", "\"repeat\":7", 1).replace(lines[3], "\0");
    fs::write(results.join("journal.jsonl"), damaged).unwrap();
    let ended = iolane(&folder, MINE).done();
    assert!(ended.stderr.contains("2 lines (") && ended.stderr.contains("will be measured again"), "{}", ended.stderr);
    assert_eq!(cells(&rows(&results)).len(), RUNS);
}

#[test]
fn a_printed_study_can_be_changed_and_run() {
    let folder = Folder::new();
    folder.file("file", ODD_BYTES);
    let printed = iolane(&folder, ["study", "--print", "systor22"]).done().stdout;
    fs::write(folder.join("my.toml"), printed.replace("name = \"systor22\"", "name = \"my-own\"")).unwrap();
    let short = ["--runtime", "20ms", "--warmup", "0s", "--repeat", "1", "--target", "file"];
    let plan = iolane(&folder, ["study", "my.toml", "--dry-run", "--json", "-"].iter().chain(&short)).done().json();
    let built_in =
        iolane(&folder, ["study", "systor22", "--dry-run", "--json", "-"].iter().chain(&short)).done().json();
    assert_eq!((&plan["arms"], plan["name"].as_str()), (&built_in["arms"], Some("my-own")));

    // One group, one path and one value of each factor take little time.
    let own = "name = \"my-own\"\ntitle = \"Less\"\n[paths]\nx = \"psync\"\n[[group]]\npath = [\"x\"]\n";
    fs::write(folder.join("my.toml"), own).unwrap();
    let ended = iolane(&folder, ["study", "my.toml"].iter().chain(&short)).done();
    assert!(ended.stdout.starts_with("my-own: Less\n"), "{ended:#?}");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{ended:#?}");
    assert_eq!(cells(&rows(&folder.join("results/my-own"))), [("x randread 4k depth 1".into(), 0)]);
}

#[test]
fn studies_that_cannot_be_are_refused_with_file_and_line_and_nothing_is_written() {
    let folder = Folder::new();
    folder.file("file", ODD_BYTES);
    fs::create_dir(folder.join("directory")).unwrap();
    fs::write(folder.join("binary"), [0xff, 0xfe, 0, 1]).unwrap();
    fs::File::create(folder.join("huge")).unwrap().set_len(1 << 40).unwrap();
    let with = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    with("empty", String::new());
    with("broken", STUDY.replace("repeats = 5", "repeats = "));
    with("unknown", STUDY.replace("warmup", "warm_up"));
    with("path", STUDY.replace("\"psync\"", "\"psync+sqpoll+\""));
    with("nowhere", STUDY.replace("path = [\"file\"", "path = [\"fiel\""));
    with("type", STUDY.replace("[\"4k\"", "[\"4x\""));
    with("zero", STUDY.replace("repeats = 5", "repeats = 0"));
    with("name", STUDY.replace("\"mine\"", "\"../mine\""));
    with("no-threads", format!("{STUDY}threads = 0\n"));
    with("threads", format!("{STUDY}threads = 9223372036854775807\ncores = 1\n"));
    with("arms", format!("{STUDY}depth = {:?}\n", (1..20_000).collect::<Vec<u32>>()));
    with("deep", format!("x = {}", "[".repeat(100_000)));
    let claim = "[[claim]]\nid = \"C1\"\nsays = \"fast\"\npublished = \"\"\n[[claim.check]]\nsays = \"IOPS\"\nrule = \"value\"\n\
                 metric = \"iops\"\nof = { where = { path = \"file\" } }\nat_least = 1\n";
    with("ambiguous", format!("{STUDY}{claim}"));
    let before = folder.names();
    for (file, parts) in [
        ("directory", &["study directory", "not a file"][..]),
        ("binary", &["study binary", "not UTF-8"]),
        ("huge", &["study huge", "1 MiB or less"]),
        ("missing", &["study missing", "no such file", "systor22"]),
        ("", &["NAME|FILE"]),
        ("empty", &["empty", "name"]),
        ("broken", &["broken line 8"]),
        ("unknown", &["unknown line 7", "warm_up"]),
        ("path", &["path line 11", "psync+sqpoll+"]),
        ("nowhere", &["nowhere", "`fiel` is not in [paths]"]),
        ("type", &["type line 17", "4x"]),
        ("zero", &["zero", "repeats = 0"]),
        ("name", &["name line 2", "letters"]),
        ("no-threads", &["no-threads", "[[group]] 1", "threads"]),
        ("threads", &["threads", "[[group]] 1", "4096"]),
        ("arms", &["study mine", "more than 100000 arms"]),
        ("deep", &["deep line 1"]),
        ("ambiguous", &["claim C1: check `IOPS`: `of` selects 4 arms", "take"]),
    ] {
        let ended = iolane(&folder, ["study", file, "--target", "file"]);
        assert_refused(&ended, 2, parts);
        assert_eq!(folder.names(), before, "{file}");
    }
    let ended = iolane(&folder, ["study", "--print", "nonesuch"]);
    assert_refused(&ended, 2, &["study nonesuch", "systor22"]);
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_the_study_then_does() {
    let folder = Folder::new();
    fs::write(folder.join("mine.toml"), STUDY).unwrap();
    folder.file("file", ODD_BYTES);
    let before = folder.contents();
    // Two of its three paths have no target.
    let words = ["study", "mine.toml", "--target", "file", "--target", "null"];
    let plan = iolane(&folder, words.iter().chain(&["--dry-run", "--json", "-"])).done().json();
    assert_valid("plan", &plan);
    let told = iolane(&folder, words.iter().chain(&["--dry-run"])).done().stdout;
    assert!(folder.contents() == before, "{:?}", folder.names());

    let [skipped] = &plan["skipped"].as_array().unwrap()[..] else { panic!("{plan:#}") };
    assert_eq!((skipped["path"].as_str(), skipped["arms"].as_u64()), (Some("simulated"), Some(4)));
    let reason = skipped["reason"].as_str().unwrap();
    assert!(!reason.is_empty() && told.contains("simulated (4 arms)") && told.contains(reason), "{told}");
    let arms = plan["arms"].as_array().unwrap().len();
    let repeats = plan["repeats"].as_u64().unwrap() as usize;
    assert_eq!((arms, repeats), (8, 5));
    assert!(told.contains("40 runs (8 arms, 5 repeats each"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");

    iolane(&folder, words).done();
    let results = folder.join("results/mine");
    assert_eq!(cells(&rows(&results)).len(), arms * repeats);
    assert_eq!(report(&results)["skipped"], plan["skipped"]);

    // No name appears where a scratch file would be created, and the plan goes only to the requested file.
    let empty = Folder::new();
    iolane(&empty, ["study", "systor22", "--dry-run", "--full"]).done();
    assert!(empty.names().is_empty(), "{:?}", empty.names());
    iolane(&empty, ["study", "--dry-run", "--out", "elsewhere", "--json", "plan.json"]).done();
    assert_eq!(empty.names(), ["plan.json"]);
}

#[test]
fn arms_that_write_are_left_out_of_a_target_that_was_not_allowed_and_run_on_one_that_was() {
    let folder = Folder::new();
    let file = folder.file("file", ODD_BYTES);
    fs::write(folder.join("writing.toml"), WRITING).unwrap();
    let before = fs::read(&file).unwrap();
    let words = ["study", "writing.toml", "--target", "file"];
    let ended = iolane(&folder, words).done();
    assert!(fs::read(&file).unwrap() == before, "it wrote to what it was not allowed to");
    let results = folder.join("results/writing");
    let report_of_reads = report(&results);
    let [skipped] = &report_of_reads["skipped"].as_array().unwrap()[..] else { panic!("{report_of_reads:#}") };
    assert_eq!(skipped["which"], "sync randwrite 4k depth 1");
    assert!(skipped["reason"].as_str().unwrap().contains("not allowed"), "{skipped}");
    assert!(skipped["remedy"].as_str().unwrap().contains("--allow-writes file"), "{skipped}");
    assert!(ended.stdout.contains("--allow-writes file"), "{ended:#?}");
    assert_eq!(report_of_reads["preconditioned"].as_array().unwrap().len(), 0);
    assert_eq!(cells(&rows(&results)), [("sync randread 4k depth 1".into(), 0)]);

    iolane(&folder, words.iter().chain(&["--allow-writes", "file"])).done();
    let report_of_all = report(&results);
    assert_eq!(report_of_all["skipped"].as_array().unwrap().len(), 0);
    assert_eq!(report_of_all["preconditioned"][0]["target"], "file");
    assert_eq!(cells(&rows(&results)).len(), 2);
    assert!(fs::read(&file).unwrap() != before, "it did not write");
}

#[test]
fn a_scratch_file_is_written_to_without_asking() {
    let folder = Folder::new();
    fs::write(folder.join("writing.toml"), WRITING).unwrap();
    iolane(&folder, ["study", "writing.toml", "--size", "1m"]).done();
    assert_eq!(cells(&rows(&folder.join("results/writing"))).len(), 2);
    assert_eq!(folder.names(), ["results", "writing.toml"]);
}

#[test]
fn results_and_the_journal_never_replace_a_target() {
    let folder = Folder::new();
    fs::write(folder.join("mine.toml"), STUDY).unwrap();
    for name in ["study.json", "records.parquet", "journal.jsonl"] {
        folder.file(name, ODD_BYTES);
        let before = folder.contents();
        let ended = iolane(&folder, ["study", "mine.toml", "--out", ".", "--target", name]);
        assert_refused(&ended, 2, &[&format!("writing ./{name}"), "it is a target"]);
        assert!(folder.contents() == before, "{:?}", folder.names());
    }
    folder.file("mine.fio", ODD_BYTES);
    let before = folder.contents();
    let ended = iolane(&folder, ["study", "mine.toml", "--fio", ".", "--target", "mine.fio"]);
    assert_refused(&ended, 2, &["writing ./mine.fio", "it is a target"]);
    assert!(folder.contents() == before, "{:?}", folder.names());
}

#[test]
fn a_disk_that_becomes_full_ends_a_study_which_goes_on_once_there_is_room() {
    let Some(disk) = SmallDisk::mount("disk full for the journal") else { return };
    let folder = disk.folder();
    let study = STUDY.replace("path = [\"file\", \"nothing\", \"simulated\"]", "path = [\"nothing\"]");
    fs::write(folder.join("mine.toml"), study).unwrap();
    // The space left holds only the first lines of the journal.
    folder.file("filler", (4 << 20) - 6 * 4096);
    let words = ["study", "mine.toml", "--target", "null", "--out", "."];
    let ended = iolane(folder, words);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains("journal.jsonl") && last.contains("no space left"), "{ended:#?}");
    assert!(last.contains("make room") && last.contains("continues"), "{ended:#?}");
    let kept = journaled(folder.path());
    assert!((1..20).contains(&kept), "{kept} of 20 runs are in the journal");
    assert_eq!(folder.names(), ["filler", "journal.jsonl", "mine.toml"]);

    fs::remove_file(folder.join("filler")).unwrap();
    let ended = iolane(folder, words).done();
    assert!(ended.stderr.contains(&format!("continuing after {kept} runs")), "{ended:#?}");
    assert_eq!(cells(&rows(folder.path())).len(), 20);
}

#[test]
fn a_folder_that_can_only_be_read_is_known_before_anything_is_measured() {
    let Some(disk) = SmallDisk::mount("results that can only be read") else { return };
    let folder = disk.folder();
    fs::write(folder.join("mine.toml"), STUDY).unwrap();
    let path = folder.path().as_os_str();
    let remount = [OsStr::new("-o"), OsStr::new("remount,ro"), path];
    assert!(Command::new("mount").args(remount).status().unwrap().success());
    for out in [".", "new/folder"] {
        let ended = iolane(folder, ["study", "mine.toml", "--target", "null", "--out", out]);
        assert_refused(&ended, 1, &["writing ", out, "read-only", "choose a place you may write"]);
    }
    // A dry run is still possible.
    iolane(folder, ["study", "mine.toml", "--target", "null", "--dry-run"]).done();
}

#[test]
fn results_in_a_folder_that_a_user_may_not_write_are_refused() {
    if is_root() {
        return skipped("folder without permission", "root may write everywhere");
    }
    let folder = folder();
    fs::create_dir(folder.join("closed")).unwrap();
    fs::set_permissions(folder.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let ended = iolane(&folder, MINE.iter().chain(&["--out", "closed"]));
    assert_refused(&ended, 1, &["writing closed/study.json", "permission denied", "choose a place you may write"]);
}

/// Two applications on one path.
const APPLICATIONS: &str = r#"
name = "applications"
title = "Lookups and a database"
scaled = { runtime = "60ms", warmup = "0s", repeats = 3 }
paths = { sync = "psync" }
group = [{ application = ["multi-get", "redb-read"], path = ["sync"], depth = 4 }]
"#;

#[test]
fn applications_are_measured_beside_programs_without_iolane_in_their_own_unit() {
    let folder = Folder::new();
    fs::write(folder.join("apps.toml"), APPLICATIONS).unwrap();
    let ended = iolane(&folder, "study apps.toml --size 16m".split(' ')).done();
    for words in ["keys/s", "records/s", "calls: system calls per operation", "std psync", "tokio psync"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("IOPS"), "{}", ended.stdout);
    let results = folder.join("results/applications");
    let page = fs::read_to_string(results.join("report.html")).unwrap();
    assert!(page.contains("CPU seconds per million keys") && !page.contains("IOPS"), "the page counts I/Os");
    let report = report(&results);
    let arms = report["arms"].as_array().unwrap();
    let of = |application: &str, peer: Value| {
        let found = arms.iter().find(|arm| arm["application"] == application && arm["peer"] == peer);
        found.unwrap_or_else(|| panic!("no {application} of {peer}: {arms:?}"))
    };
    assert!(of("multi-get", Value::Null)["iops"]["value"].as_f64().unwrap() > 0.0);
    let block_sizes = ["multi-get", "redb-read"].map(|application| of(application, "std".into())["bs"].clone());
    assert_eq!(block_sizes, ["16k", "4k"]);
    let answers = report["answers"].as_array().unwrap();
    assert!(!answers.is_empty() && answers.iter().all(|answer| answer["take"]["path"] == "sync"), "{answers:?}");
    assert_eq!(report["preconditioned"], Value::Array(Vec::new()));
    let rows = rows(&results);
    assert!(rows.iter().all(|row| row.arm.application.is_some() && row.rejected.is_none() && row.cpus.is_none()));
    // Nothing of a database or its data is left.
    assert_eq!(folder.names(), ["apps.toml", "results"]);
}

#[test]
fn applications_overwrite_no_target_that_they_may_only_read() {
    let folder = Folder::new();
    fs::write(folder.join("apps.toml"), APPLICATIONS).unwrap();
    folder.file("file", 16 << 20);
    let study = iolane(&folder, "study apps.toml --target file".split(' '));
    assert_refused(&study, 3, &["the application writes what it reads", "add --allow-writes"]);
    assert!(fs::read(folder.join("file")).unwrap().iter().all(|byte| *byte == 0x5a), "the file was written");
    let allowed = iolane(&folder, "study apps.toml --target file --allow-writes file".split(' ')).done();
    assert!(allowed.stdout.contains("keys/s"), "{}", allowed.stdout);
}
