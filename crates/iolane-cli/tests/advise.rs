//! `iolane advise` on results of a real study: its text, its JSON, the check of a path in use, and refusals in one line.

mod common;

use common::{Folder, ODD_BYTES, assert_valid, iolane};

/// Results of two paths on a file.
fn study(folder: &Folder) {
    folder.file("target", ODD_BYTES);
    let words = "study --path psync,libaio --depth 1 --repeat 3 --runtime 50ms --warmup 0s --target target --out results/survey";
    iolane(folder, words.split(' ')).done();
}

#[test]
fn advice_names_a_path_with_all_others_and_its_settings_for_other_programs() {
    let folder = Folder::new();
    study(&folder);
    let text = iolane(&folder, ["advise"]).done().stdout;
    for words in
        ["Advice from results/survey (survey): 3 repeats", "for throughput: ", " lead ", "    fio     ioengine="]
    {
        assert!(text.contains(words), "`{words}` is not in {text}");
    }
    let document = iolane(&folder, ["advise", "--goal", "throughput", "--json", "-"]).done().json();
    assert_valid("advice", &document);
    let advice = document["advice"].as_array().unwrap();
    assert!(advice.len() == 1 && advice[0]["goal"] == "throughput", "{document:#}");
    assert_eq!(advice[0]["others"].as_array().unwrap().len(), 1);
}

#[test]
fn a_path_in_use_is_checked_for_one_goal() {
    let folder = Folder::new();
    study(&folder);
    let command = ["advise", "--goal", "throughput", "--check", "psync", "--min-gain", "100%", "--json", "check.json"];
    let ended = iolane(&folder, command);
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("check.json")).unwrap()).unwrap();
    assert_valid("advice", &document);
    let passed = document["check"]["passed"].as_bool().unwrap();
    assert_eq!(ended.code, Some(i32::from(!passed)), "{ended:#?}");
    assert_eq!((&document["check"]["path"], &document["check"]["least_gain"]), (&"psync".into(), &2.0.into()));
    assert!(ended.stdout.contains("Check of psync for throughput: "), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_advised_is_refused_in_one_line() {
    let folder = Folder::new();
    study(&folder);
    for (arguments, says) in [
        (&["advise", "nowhere"][..], "nowhere"),
        (&["advise", "--goal", "latency,throughput", "--check", "psync"], "one goal at a time"),
        (&["advise", "--goal", "throughput", "--check", "io_uring"], "it has libaio, psync"),
        (&["advise", "--goal", "commits", "--check", "psync"], "the load does not decide this goal"),
    ] {
        let ended = iolane(&folder, arguments);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(2), "", 1), "{ended:#?}");
        assert!(ended.stderr.contains(says), "{ended:#?}");
    }
}
