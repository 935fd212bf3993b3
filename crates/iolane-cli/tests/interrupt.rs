//! Programs that end early, by Ctrl-C, by kill -9 or because their reader exits, and programs that run concurrently:
//! completed measurements are kept and marked as partial, and nothing else is left in the folder.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use common::{
    Folder, IOLANE, ODD_BYTES, assert_valid, command, command_of, finish, iolane, measuring_threads, pid, wait_until,
};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// A run of long duration.
const LONG: [&str; 8] = ["run", "--path", "psync", "--runtime", "3m", "--warmup", "0s", "--size=16m"];

fn start(folder: &Folder, arguments: &[&str]) -> Child {
    command(folder, arguments).spawn().unwrap()
}

/// Waits until a run's threads have made many reads or writes, by their name in proc_pid_io(5): there is no warm-up, so these
/// are measured.
#[track_caller]
fn wait_until_measuring(child: &Child, calls: &str) {
    wait_until("it measures", || measuring_threads(pid(child)) > 0);
    let io = format!("/proc/{}/io", child.id());
    let count = || {
        let text = fs::read_to_string(&io).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix(calls)).unwrap_or("0");
        count.parse::<u64>().unwrap()
    };
    let before = count();
    wait_until("it has read or written", || count() > before + 20_000);
}

fn interrupt(child: &Child) {
    kill_process(pid(child), Signal::INT).unwrap();
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_says_so() {
    let folder = Folder::new();
    let child = start(&folder, &[&LONG[..], &["--json", "record.json"]].concat());
    wait_until_measuring(&child, "syscr: ");
    assert_eq!(folder.names(), [""; 0], "the scratch file has no name");
    interrupt(&child);
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("note: interrupted"), "{}", ended.stdout);
    assert_eq!(folder.names(), ["record.json"]);
    let record: Value = serde_json::from_str(&fs::read_to_string(folder.join("record.json")).unwrap()).unwrap();
    assert_valid("run", &record);
    assert!(record["result"]["ios"].as_u64() > Some(0), "{record:#}");
    assert!(record["result"]["elapsed_s"].as_f64().unwrap() < 180.0);
    assert!(
        record["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains("interrupted"))
    );
}

#[test]
fn an_interrupted_run_with_json_on_standard_output_says_so_beside_it() {
    let folder = Folder::new();
    let child = start(&folder, &[&LONG[..], &["--json", "-"]].concat());
    wait_until_measuring(&child, "syscr: ");
    interrupt(&child);
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_valid("run", &ended.json());
    assert!(ended.stderr.contains("iolane: interrupted"), "{}", ended.stderr);
}

#[test]
fn a_run_that_is_asked_to_terminate_ends_as_one_that_is_interrupted() {
    let folder = Folder::new();
    let child = start(&folder, &LONG);
    wait_until_measuring(&child, "syscr: ");
    kill_process(pid(&child), Signal::TERM).unwrap();
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("note: interrupted") && folder.names().is_empty(), "{ended:#?}");
}

/// The program, started by a shell that has done this before.
fn start_after(folder: &Folder, before: &str, arguments: &[&str]) -> Child {
    let script = format!("{before}; exec \"$0\" \"$@\"");
    command_of("sh", folder, ["-c", &script, IOLANE].iter().chain(arguments)).spawn().unwrap()
}

#[test]
fn a_run_that_is_to_ignore_the_end_of_its_terminal_goes_on_as_under_nohup() {
    let folder = Folder::new();
    let child = start_after(&folder, "trap '' HUP", &LONG);
    wait_until_measuring(&child, "syscr: ");
    kill_process(pid(&child), Signal::HUP).unwrap();
    wait_until_measuring(&child, "syscr: ");
    interrupt(&child);
    let ended = finish(child);
    assert!(ended.stdout.contains("note: interrupted"), "{ended:#?}");
}

#[test]
fn a_file_beyond_the_limit_of_its_size_is_an_error_and_leaves_nothing() {
    let folder = Folder::new();
    let arguments = ["run", "--path", "null", "--target", "null", "--runtime", "50ms", "--json", "record.json"];
    let ended = finish(start_after(&folder, "ulimit -f 0", &arguments));
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("record.json") && ended.stderr.contains("too large"), "{ended:#?}");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_run_of_several_repeats_ends_at_the_first_interrupt() {
    let folder = Folder::new();
    let child = start(&folder, &[&LONG[..], &["--repeat", "100", "--json", "-"]].concat());
    wait_until_measuring(&child, "syscr: ");
    interrupt(&child);
    assert_eq!(finish(child).json()["workload"]["repeats"], 1);
}

#[test]
fn an_interrupt_while_the_scratch_file_is_made_leaves_nothing() {
    let folder = Folder::new();
    let child = start(&folder, &["run", "--size", "4g"]);
    let made = |child: &Child| {
        let text = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
        let written = text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap_or("0");
        written.parse::<u64>().unwrap()
    };
    wait_until("it writes the file", || made(&child) > 4 << 20);
    interrupt(&child);
    let ended = finish(child);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{ended:#?}");
    assert!(ended.stderr.contains("scratch file of 4g") && ended.stderr.contains("interrupted"), "{ended:#?}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn an_interrupted_study_keeps_its_whole_repeats_and_says_so() {
    let folder = Folder::new();
    let arguments = ["study", "--path", "psync", "--path", "libaio", "--path", "null", "--depth", "1", "--size", "16m"];
    let arguments = [&arguments[..], &["--runtime", "100ms", "--warmup", "0s", "--repeat", "1000"]].concat();
    let mut child = start(&folder, &arguments);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // A line every ten runs: at the second, some repeats of two runs each are complete.
    while !line.starts_with("study: 10 of ") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it was interrupted");
    }
    interrupt(&child);
    let reader = std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    let ended = finish(child);
    reader.join().unwrap().unwrap();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("note: interrupted"), "{ended:#?}");
    assert!(ended.stdout.contains("Results: results/survey/report.html, study.json"), "{ended:#?}");
    let text = fs::read_to_string(folder.join("results/survey/study.json")).unwrap();
    let study: Value = serde_json::from_str(&text).unwrap();
    assert_valid("study", &study);
    assert_eq!(study["complete"], false);
    let repeats = study["repeats"].as_u64().unwrap();
    assert!((4..1000).contains(&repeats), "{repeats}");
    assert_eq!(study["arms"].as_array().unwrap().len(), 2);
}

#[test]
fn a_killed_measurement_for_advice_is_in_the_way_of_another_load_until_it_is_to_start_over() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    let advise = |bytes, time| {
        ["advise", "--path", "psync,libaio", "--depth", "1", "--bs", bytes, "--time", time, "--target", "target"]
    };
    let child = start(&folder, &advise("4k", "10m"));
    let journal = folder.join("results/advice/journal.jsonl");
    wait_until("it has a journal", || fs::metadata(&journal).is_ok_and(|file| file.len() > 0));
    wait_until("it measures", || measuring_threads(pid(&child)) > 0);
    kill_process(pid(&child), Signal::KILL).unwrap();
    assert_eq!(finish(child).code, None);
    let other = advise("16k", "2s");
    let refused = iolane(&folder, other);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("differs in its workload") && refused.stderr.contains("--fresh"), "{refused:#?}");
    let fresh = iolane(&folder, other.into_iter().chain(["--fresh"]));
    assert!(!fresh.stderr.contains("differs") && fresh.stdout.contains("Advice from results/advice"), "{fresh:#?}");
}

#[test]
fn a_study_interrupted_before_anything_was_measured_says_so_and_writes_nothing() {
    let folder = Folder::new();
    let child = start(&folder, &["study", "--path", "psync", "--depth", "1", "--runtime", "1m", "--size", "16m"]);
    wait_until("it measures", || measuring_threads(pid(&child)) > 0);
    interrupt(&child);
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    // Progress is printed before it.
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("iolane: study: ") && last.contains("interrupted"), "{ended:#?}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_killed_run_leaves_nothing() {
    let folder = Folder::new();
    let child = start(&folder, &LONG);
    wait_until("it measures", || measuring_threads(pid(&child)) > 0);
    kill_process(pid(&child), Signal::KILL).unwrap();
    assert_eq!(finish(child).code, None);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_killed_run_that_writes_leaves_its_target_usable() {
    let folder = Folder::new();
    folder.file("file", ODD_BYTES);
    let write = ["run", "--target", "file", "--allow-writes", "file", "--rw", "randrw", "--depth", "8"];
    let child = start(&folder, &[&write[..], &["--runtime", "3m"]].concat());
    wait_until("it measures", || measuring_threads(pid(&child)) > 0);
    kill_process(pid(&child), Signal::KILL).unwrap();
    finish(child);
    iolane(&folder, [&write[..], &["--runtime", "100ms", "--verify"]].concat()).done();
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_verified_run_that_is_interrupted_says_what_it_did_not_read_back() {
    let folder = Folder::new();
    let child = start(&folder, &[&LONG[..], &["--verify", "--rw", "randwrite"]].concat());
    wait_until_measuring(&child, "syscw: ");
    interrupt(&child);
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let whole: String = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(whole.contains("blocks were written and not read back"), "{ended:#?}");
    assert!(whole.contains("verified 0 blocks read back"), "{ended:#?}");
}

#[test]
fn two_at_once_in_one_folder_do_not_disturb_each_other() {
    let folder = Folder::new();
    let arguments = ["run", "--verify", "--rw", "randrw", "--runtime", "500ms", "--size", "16m", "--json"];
    let children = ["one.json", "two.json"].map(|file| start(&folder, &[&arguments[..], &[file]].concat()));
    for child in children {
        finish(child).done();
    }
    assert_eq!(folder.names(), ["one.json", "two.json"]);
    // Both write to the same file: the last one wins, and the file is complete.
    let children = [(), ()].map(|()| start(&folder, &["probe", "--json", "one.json"]));
    for child in children {
        finish(child).done();
    }
    assert_valid("probe", &serde_json::from_str(&fs::read_to_string(folder.join("one.json")).unwrap()).unwrap());
    assert_eq!(folder.names(), ["one.json", "two.json"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new();
    let short = ["run", "--runtime", "100ms", "--size", "1m"];
    let commands: [&[&str]; 6] =
        [&["probe"], &["probe", "--json", "-"], &short, &["man"], &["completions", "bash"], &["--help"]];
    for arguments in commands {
        let mut child = command(&folder, arguments).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = finish(child);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
    let script = format!("set -o pipefail; {} probe --json - | head -1", common::IOLANE);
    let ended = finish(command_of("bash", &folder, ["-c", &script]).spawn().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "{\n", ""));
}
