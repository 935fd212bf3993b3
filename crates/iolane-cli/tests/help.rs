//! What the command says of itself: every help text fits a terminal, ends well and is kept as a snapshot, so that a
//! change of it is seen; the manual page and the completions are there.

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
        ("report", &["report", "--help"]),
        ("compare", &["compare", "--help"]),
        ("lab_run", &["lab", "run", "--help"]),
        ("lab_matrix", &["lab", "matrix", "--help"]),
        ("nvme", &["nvme", "--help"]),
        ("nvme_bind", &["nvme", "bind", "--help"]),
    ] {
        let ended = iolane(&folder, arguments).done();
        assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
        insta::assert_snapshot!(name, ended.stdout);
    }
}

#[test]
fn the_short_help_and_the_version_are_told_too() {
    let folder = Folder::new();
    assert!(iolane(&folder, ["run", "-h"]).done().stdout.contains("--depth"));
    assert_eq!(iolane(&folder, ["--version"]).done().stdout, format!("iolane {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_manual_page_and_the_completions_name_every_command() {
    let folder = Folder::new();
    let mut texts = vec![iolane(&folder, ["man"]).done().stdout];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        texts.push(iolane(&folder, ["completions", shell]).done().stdout);
    }
    for text in texts {
        for command in ["probe", "run", "study", "energy", "compare", "nvme", "lab", "completions"] {
            assert!(text.contains(command), "{command}: {text}");
        }
    }
}
