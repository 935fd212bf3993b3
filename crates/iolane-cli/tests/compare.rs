//! `iolane compare` on results of real studies of the path `null`, which needs no device: its text, its JSON, and the
//! one-line refusal of results that are incomplete or of another version.

mod common;

use std::fs;
use std::path::Path;

use common::{Ended, Folder, assert_valid, iolane};
use serde_json::Value;

/// Results of a study that takes less than a second.
fn study(folder: &Folder, out: &str, arguments: &[&str]) {
    let short = ["--runtime", "50ms", "--warmup", "0s", "--size", "1m"];
    iolane(folder, ["study", "--out", out].iter().chain(&short).chain(arguments)).done();
}

fn json_of(folder: &Folder, folders: &[&str]) -> Value {
    let document = iolane(folder, ["compare", "--json", "-"].iter().chain(folders)).done().json();
    assert_valid("compare", &document);
    document
}

fn edit(folder: &Folder, file: &str, change: impl FnOnce(String) -> String) {
    let file = folder.join(file);
    fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
}

fn copy(folder: &Folder, from: &str, to: &str) {
    fs::create_dir(folder.join(to)).unwrap();
    for name in ["study.json", "records.parquet"] {
        fs::copy(folder.join(from).join(name), folder.join(to).join(name)).unwrap();
    }
}

#[track_caller]
fn refused(ended: Ended, code: i32, says: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(code), "", 1), "{ended:#?}");
    says.iter().for_each(|words| assert!(ended.stderr.contains(words), "`{words}` is not in {ended:#?}"));
}

#[test]
fn a_comparison_becomes_a_page_which_takes_no_targets_place() {
    let folder = Folder::new();
    let target = folder.file("target", common::ODD_BYTES);
    for out in ["a", "b"] {
        study(&folder, out, &["--path", "psync", "--depth", "1", "--repeat", "3", "--target", "target"]);
    }
    let ended = iolane(&folder, ["compare", "a", "b", "--html", "page.html"]).done();
    assert!(ended.stdout.ends_with("Page: page.html\n"), "{}", ended.stdout);
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("b against a: of 1 arms") && page.contains("psync (b)"), "it says what it shows");
    let before = fs::read(&target).unwrap();
    refused(iolane(&folder, ["compare", "a", "b", "--html", "target"]), 2, &["it is a target"]);
    refused(iolane(&folder, ["compare", "a", "b", "--html", "-"]), 2, &["standard output"]);
    assert!(fs::read(&target).unwrap() == before, "it is what it was");
}

#[test]
fn a_loss_beyond_what_is_allowed_fails_and_a_gain_does_not() {
    let folder = Folder::new();
    for (out, latency) in [("fast", "100us"), ("slow", "110us")] {
        let target = format!("sim:16m,latency={latency},jitter=0us");
        study(&folder, out, &["--path", "sim", "--depth", "1", "--repeat", "3", "--target", &target]);
    }
    let compare = |arguments: &[&str]| iolane(&folder, ["compare"].iter().chain(arguments));
    let lost = compare(&["fast", "slow", "--max-loss", "5%"]);
    assert_eq!(lost.code, Some(1), "{lost:#?}");
    let lines: Vec<&str> = lost.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("slow: the IOPS of sim"), "{lost:#?}");
    assert!(lines[0].contains("is 0.91x that of the first") && lines[1].contains("the p99 of sim"), "{lost:#?}");
    assert!(lost.stdout.contains("Gate: 1 arms compared, 1 with a loss that is not allowed, 0 too noisy"), "{lost:#?}");
    let allowed = compare(&["fast", "slow", "--max-loss", "20"]).done();
    assert!(allowed.stdout.contains("1 arms compared, 0 with a loss"), "{allowed:#?}");
    compare(&["slow", "fast", "--max-loss", "0"]).done();
    let gate = &json_of(&folder, &["fast", "slow", "--max-loss", "20", "--strict"])["gate"];
    let counts = ["compared", "lost", "undecided"].map(|key| gate[key].as_u64());
    assert_eq!((counts, gate["max_loss"].as_f64()), ([Some(1), Some(0), Some(0)], Some(0.2)), "{gate}");
    let alone = compare(&["fast", "slow", "--strict"]);
    assert!(alone.code == Some(2) && alone.stderr.contains("--max-loss"), "{alone:#?}");
    compare(&["fast", "slow"]).done();
    // A gate that sees nothing is closed.
    study(&folder, "twice", &["--path", "sim", "--depth", "1", "--repeat", "2", "--target", "sim:16m"]);
    let blind = compare(&["fast", "twice", "--max-loss", "5%"]);
    assert!(blind.code == Some(1) && blind.stderr.contains("twice has 2 repeats"), "{blind:#?}");
    study(&folder, "other", &["--path", "sim", "--depth", "2", "--repeat", "3", "--target", "sim:16m"]);
    let blind = compare(&["fast", "other", "--max-loss", "5%"]);
    assert!(blind.code == Some(1) && blind.stderr.contains("no arm in common"), "{blind:#?}");
    for wrong in ["300%", "half", ""] {
        let ended = compare(&["fast", "slow", "--max-loss", wrong]);
        assert!(ended.code == Some(2) && ended.stderr.contains(&format!("percentage `{wrong}`")), "{ended:#?}");
    }
    let changes = &json_of(&folder, &["fast", "slow"])["folders"][1]["changes"];
    assert_eq!((changes["slower"].as_u64(), changes["p99_longer"].as_u64()), (Some(1), Some(1)), "{changes}");
}

#[test]
fn a_study_beside_itself_shows_no_difference_and_beside_another_what_differs() {
    let folder = Folder::new();
    study(&folder, "a", &["--path", "null", "--depth", "1,4", "--repeat", "3"]);
    study(&folder, "b", &["--path", "null", "--depth", "4,16", "--repeat", "4", "--seed", "2"]);

    let itself = iolane(&folder, ["compare", "a", "a"]).done().stdout;
    assert!(itself.contains("no difference") && itself.contains("2 show no difference"), "{itself}");
    assert!(itself.contains("~1.00x") && !itself.contains("Not in every folder"), "{itself}");

    let page = iolane(&folder, ["compare", "a", "b", "--json", "c.json"]).done().stdout;
    for words in ["b against a: of 1 arms", "what differs", "repeats", "null depth 4", "Not in every folder (2 arms)"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(page.contains("not in a: ") && page.contains("not in b: "), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");

    let document: Value = serde_json::from_str(&fs::read_to_string(folder.join("c.json")).unwrap()).unwrap();
    assert_valid("compare", &document);
    let facts = document["differences"].as_array().unwrap();
    let value = |what: &str| &facts.iter().find(|fact| fact["what"] == what).expect(what)["values"];
    assert_eq!((value("repeats"), value("seed")), (&serde_json::json!(["3", "4"]), &serde_json::json!(["1", "2"])));
    let arms = document["arms"].as_array().unwrap();
    let null_4 = arms.iter().find(|arm| arm["path"] == "null" && arm["depth"] == 4).unwrap();
    let cell = &null_4["folders"][1];
    let [low, value, high] = ["low", "value", "high"].map(|key| cell["iops_ratio"][key].as_f64().unwrap());
    assert!(0.0 < low && low <= value && value <= high, "{cell}");
    assert_eq!(null_4["folders"][0]["change"], Value::Null);
    assert_eq!((arms.len(), document["not_compared"].as_array().unwrap().len()), (3, 2), "{document:#}");
}

#[test]
fn three_folders_have_a_column_each_and_claims_their_verdicts() {
    let folder = Folder::new();
    study(&folder, "a", &["--path", "null", "--depth", "1", "--repeat", "3"]);
    let claim = |verdict: &str| format!(r#""claims": [{{"id": "S1", "says": "it is so", "verdict": "{verdict}"}}]"#);
    for (name, verdict) in [("b", "holds"), ("c", "does not hold")] {
        copy(&folder, "a", name);
        edit(&folder, &format!("{name}/study.json"), |text| text.replace(r#""claims": []"#, &claim(verdict)));
    }
    let document = json_of(&folder, &["a", "b", "c"]);
    let claim = &document["claims"][0];
    assert_eq!(claim["verdicts"], serde_json::json!([null, "holds", "does not hold"]), "{document:#}");
    let page = iolane(&folder, ["compare", "a", "b", "c"]).done().stdout;
    let row = page.lines().find(|line| line.starts_with("S1")).expect("the claim has a row");
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["S1", "-", "holds", "does", "not", "hold", "it", "is", "so"]
    );
    let arm = page.lines().find(|line| line.starts_with("null depth 1")).expect("the arm has a row");
    assert_eq!(arm.split_whitespace().filter(|word| *word == "~1.00x").count(), 2, "{page}");
    let two = iolane(&folder, ["compare", "b", "c"]).done().stdout;
    assert!(two.contains("verdicts differ on 1 of 1: S1."), "{two}");
}

#[test]
fn results_that_are_not_whole_or_not_known_are_refused_in_a_line() {
    let folder = Folder::new();
    study(&folder, "a", &["--path", "null", "--depth", "1", "--repeat", "1"]);
    let compare = |other: &str| iolane(&folder, ["compare", "a", other]);
    let records = fs::read(folder.join("a/records.parquet")).unwrap();

    refused(compare("nowhere"), 2, &["iolane: nowhere: there is no such folder", "iolane study --out"]);
    fs::create_dir(folder.join("empty")).unwrap();
    refused(compare("empty"), 2, &["empty: there is no study.json in it"]);

    copy(&folder, "a", "cut");
    fs::write(folder.join("cut/records.parquet"), &records[..records.len() / 2]).unwrap();
    refused(compare("cut"), 1, &["cut/records.parquet: its CRC-32 is", "measure again"]);
    fs::remove_file(folder.join("cut/records.parquet")).unwrap();
    refused(compare("cut"), 1, &["cut/records.parquet: the file is missing", "copy the folder again"]);
    edit(&folder, "cut/study.json", |text| text[..text.len() / 2].to_owned());
    refused(compare("cut"), 1, &["cut/study.json: not a whole JSON document"]);

    copy(&folder, "a", "newer");
    edit(&folder, "newer/study.json", |text| text.replace("iolane.study/1", "iolane.study/2"));
    refused(compare("newer"), 1, &["newer/study.json: its schema is iolane.study/2", "reads iolane.study/1"]);

    let other = folder.join("other");
    copy(&folder, "a", "other");
    edit(&folder, "other/study.json", |text| text.replacen(r#""name": "survey""#, r#""name": "paper""#, 1));
    assert!(compare("other").done().stdout.contains("study"), "they have an arm in common");
    fs::remove_dir_all(&other).unwrap();
    study(&folder, "other", &["--path", "sim", "--depth", "1", "--repeat", "1"]);
    edit(&folder, "other/study.json", |text| text.replacen(r#""name": "survey""#, r#""name": "paper""#, 1));
    refused(compare("other"), 2, &["comparing a and other", "survey and paper", "no arm in common"]);
    assert!(!Path::new(&folder.join("results")).exists());
}

#[test]
fn one_folder_alone_is_wrong_use() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["compare", "a"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
}
