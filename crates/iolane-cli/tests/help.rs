//! The command's own documentation: every help text fits a terminal, ends properly and is kept as a snapshot, so that a
//! change is noticed; the manual page and the completions exist.

mod common;

use common::{Folder, iolane};

#[test]
fn every_help_text_is_as_it_was_and_fits_100_columns() {
    let folder = Folder::new();
    for (name, arguments) in [
        ("iolane", &["--help"][..]),
        ("probe", &["probe", "--help"]),
        ("run", &["run", "--help"]),
        ("study", &["study", "--help"]),
        ("energy", &["energy", "--help"]),
        ("advise", &["advise", "--help"]),
        ("calibrate", &["calibrate", "--help"]),
        ("predict", &["predict", "--help"]),
        ("report", &["report", "--help"]),
        ("compare", &["compare", "--help"]),
        ("lab_run", &["lab", "run", "--help"]),
        ("lab_matrix", &["lab", "matrix", "--help"]),
        ("nvme", &["nvme", "--help"]),
        ("nvme_bind", &["nvme", "bind", "--help"]),
    ] {
        let ended = iolane(&folder, arguments).done();
        assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
        insta::assert_snapshot!(name, without_interfaces(&ended.stdout));
    }
}

/// The line before the list of interfaces, which is generated from the registry.
const BEFORE_LIST: &str = "where INTERFACE is\n";

/// The help without that list, so that a new interface changes no snapshot.
fn without_interfaces(help: &str) -> String {
    match listed(help) {
        Some(list) => help.replace(list, "  (every registered interface with its summary)\n"),
        None => help.into(),
    }
}

fn listed(help: &str) -> Option<&str> {
    let (_, rest) = help.split_once(BEFORE_LIST)?;
    let bytes = rest.split_inclusive('\n').take_while(|line| line.starts_with("  ")).map(str::len).sum();
    rest.get(..bytes)
}

#[test]
fn the_help_of_run_lists_every_registered_interface_with_its_summary() {
    let folder = Folder::new();
    let help = iolane(&folder, ["run", "--help"]).done().stdout;
    let words: Vec<&str> = listed(&help).expect("the help lists interfaces").split_whitespace().collect();
    let registered = iolane::interfaces().flat_map(|interface| [interface.name(), interface.summary()]);
    let expected: Vec<&str> = registered.flat_map(str::split_whitespace).collect();
    assert_eq!(words, expected);
}

#[test]
fn the_short_help_and_the_version_are_told_too() {
    let folder = Folder::new();
    assert!(iolane(&folder, ["run", "-h"]).done().stdout.contains("--depth"));
    assert_eq!(iolane(&folder, ["--version"]).done().stdout, format!("iolane {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_page_on_fio_job_files_is_in_the_program() {
    let folder = Folder::new();
    let page = iolane(&folder, ["fio"]).done().stdout;
    for words in [&["help", "fio"][..], &["fio", "--help"]] {
        assert_eq!(iolane(&folder, words).done().stdout.trim_end(), page.trim_end());
    }
    assert!(page.contains("iodepth") && page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn the_manual_page_and_the_completions_name_every_command() {
    let folder = Folder::new();
    let mut texts = vec![iolane(&folder, ["man"]).done().stdout];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        texts.push(iolane(&folder, ["completions", shell]).done().stdout);
    }
    for text in texts {
        for command in
            ["probe", "run", "study", "energy", "compare", "calibrate", "predict", "nvme", "lab", "fio", "completions"]
        {
            assert!(text.contains(command), "{command}: {text}");
        }
    }
}
