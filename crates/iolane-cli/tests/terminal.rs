//! What reaches the terminal: no escape sequence of a file's name, of an argument or of results from elsewhere.

mod common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use common::{Ended, Folder, command, finish, iolane};
use proptest::prelude::*;
use serde_json::Value;

/// Sets the terminal's title, clears it, turns colours on, answers back, and reorders text.
const EVIL: &str = "x\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[31m\u{1b}[6n\u{9b}2J\u{7f}\u{8}\r\u{202e}y";

fn assert_harmless(ended: &Ended) -> Result<(), TestCaseError> {
    for text in [&ended.stdout, &ended.stderr] {
        let bad = text.chars().find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || *c == '\u{202e}');
        prop_assert!(bad.is_none(), "{:?} in {:?}", bad, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_name_of_a_file_controls_the_terminal(mut name in prop::collection::vec(prop_oneof![Just(0x1b), Just(0x9b), 1..=255u8], 1..24)) {
        name.retain(|byte| *byte != b'/');
        name.insert(0, b'n');
        let folder = Folder::new();
        let name = OsString::from_vec(name);
        let data = folder.file(&name, 1 << 16);
        let text = |word: &str| OsString::from(word);
        let short = ["--path", "psync", "--direct", "false", "--runtime", "1ms", "--warmup", "0s"].map(text);
        let run = |more: &[OsString]| [&[text("run"), text("--target"), data.clone().into()], &short[..], more].concat();
        let ended = finish(command(&folder, run(&[])).spawn().unwrap());
        prop_assert_eq!(ended.code, Some(0), "{:?}", ended);
        assert_harmless(&ended)?;
        for words in [
            run(&[text("--json"), text("-")]),
            run(&[text("--rw"), text("write")]),
            vec![text("probe"), name.clone()],
            vec![text("study"), name.clone()],
            vec![text("report"), name.clone()],
            vec![text("advise"), name.clone()],
            vec![text("run"), name.clone()],
            [&[text("lab"), text("run"), text("--kernel")], &[name.clone()][..], &["--", "probe"].map(text)].concat(),
        ] {
            assert_harmless(&finish(command(&folder, words).spawn().unwrap()))?;
        }
    }
}

#[test]
fn no_argument_that_is_refused_controls_the_terminal() {
    let folder = Folder::new();
    let option = format!("--{EVIL}");
    for words in [&[EVIL][..], &["run", &option], &["run", "--depth", EVIL], &["lab", "run", "--", "run", &option]] {
        let ended = iolane(&folder, words);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert_harmless(&ended).unwrap();
    }
}

/// Puts text that is no figure in the place of every name in a document, but for what identifies it.
fn spoil(value: &mut Value, key: &str) {
    const KEPT: [&str; 2] = ["schema", "path"];
    match value {
        Value::String(text) if !KEPT.contains(&key) && text.contains("PLACE") => *text = EVIL.into(),
        Value::Array(values) => values.iter_mut().for_each(|value| spoil(value, key)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| spoil(value, key)),
        _ => {}
    }
}

#[test]
fn no_name_of_a_device_in_results_controls_the_terminal() {
    let folder = Folder::new();
    let short = ["--path", "null,sim", "--target", "null", "--target", "sim", "--depth", "1", "--repeat", "2"];
    let study = ["study", "--runtime", "5ms", "--warmup", "0s", "--out", "r"];
    iolane(&folder, study.iter().chain(&short)).done();
    iolane(&folder, study[..study.len() - 1].iter().chain(&["as-measured"]).chain(&short)).done();
    let file = folder.join("r/study.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    document["host"]["cpu_model"] = "PLACE".into();
    document["host"]["kernel_release"] = "PLACE".into();
    document["targets"][0]["name"] = "PLACE".into();
    document["targets"][0]["model"] = "PLACE".into();
    document["warnings"] = serde_json::json!(["PLACE"]);
    spoil(&mut document, "");
    fs::write(&file, document.to_string()).unwrap();
    for words in [
        &["compare", "as-measured", "r"][..],
        &["compare", "as-measured", "r", "--json", "-"],
        &["advise", "r"],
        &["advise", "r", "--json", "-"],
        &["report", "r", "--md", "-"],
        &["report", "r", "--out", "-"],
    ] {
        let ended = iolane(&folder, words);
        assert_harmless(&ended).unwrap();
        // What can be seen of the name stays, so that it was there.
        let is_shown = ended.stdout.contains("title") || ended.stderr.contains("title");
        assert!(is_shown, "{words:?}: {ended:#?}");
    }
}
