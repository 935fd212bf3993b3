//! `iolane report` and the page that a study writes: their locations, what is refused, and that results are kept when
//! the page cannot be written. The contents of the page are tested in `page.rs`, and in the library.

mod common;

use std::os::unix::fs::symlink;

use common::{Ended, Folder, SHORT, assert_refused, iolane};

/// The shortest possible study.
fn study(folder: &Folder) -> Ended {
    iolane(folder, ["study", "--path", "psync", "--depth", "1", "--repeat", "1"].iter().chain(&SHORT))
}

#[test]
fn a_study_leaves_its_page_and_report_makes_the_same_one_again() {
    let folder = Folder::new();
    let ended = study(&folder).done();
    assert!(ended.stdout.contains("Results: results/survey/report.html, study.json, records.parquet"), "{ended:#?}");
    let page = std::fs::read(folder.join("results/survey/report.html")).unwrap();
    assert!(page.starts_with(b"<!doctype html>"));
    let again = iolane(&folder, ["report", "results/survey"]).done();
    assert_eq!(again.stdout, "results/survey/report.html\n");
    assert_eq!(std::fs::read(folder.join("results/survey/report.html")).unwrap(), page);
    iolane(&folder, ["report", "results/survey", "--out", "elsewhere.html"]).done();
    assert_eq!(std::fs::read(folder.join("elsewhere.html")).unwrap(), page);
    assert_eq!(iolane(&folder, ["report", "results/survey", "--out", "-"]).done().stdout.as_bytes(), page);
}

#[test]
fn folders_that_hold_no_whole_results_are_refused_in_a_line() {
    let folder = Folder::new();
    assert_refused(&iolane(&folder, ["report", "nowhere"]), 2, &["nowhere: there is no such folder"]);
    assert_refused(&iolane(&folder, ["report", "."]), 2, &["no study.json", "iolane study --out"]);
    study(&folder).done();
    let file = folder.join("results/survey/study.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let before = folder.contents();
    assert_refused(&iolane(&folder, ["report", "results/survey"]), 1, &["study.json: not a whole JSON document"]);
    assert_eq!(folder.contents(), before);
}

#[test]
fn a_page_that_cannot_be_written_fails_the_command_and_leaves_the_results() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.join("results/survey")).unwrap();
    // It can be opened for writing, and every write fails.
    symlink("/dev/full", folder.join("results/survey/report.html")).unwrap();
    let ended = study(&folder);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.ends_with("Results: results/survey/study.json, records.parquet\n"), "{ended:#?}");
    assert!(ended.stderr.contains("iolane: the report page: writing results/survey/report.html: "), "{ended:#?}");
    let report = iolane(&folder, ["report", "results/survey"]);
    assert_refused(&report, 1, &["writing results/survey/report.html", "no space left"]);
    iolane(&folder, ["report", "results/survey", "--out", "page.html"]).done();
}
