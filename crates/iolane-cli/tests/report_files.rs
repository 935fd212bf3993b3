//! The files that `iolane report` writes next to the page: pictures, drawings, a digest, tables. Each is complete, none
//! replaces measured data, and if one cannot be written, none is.

mod common;

use std::fs;

use common::{Folder, assert_refused, iolane};

/// A folder with the results of a small study of the file `target`, which is in it too.
fn measured() -> Folder {
    let folder = Folder::new();
    folder.file("target", common::ODD_BYTES);
    let study = ["study", "--target", "target", "--path", "psync", "--path", "libaio", "--depth", "1", "--repeat", "3"];
    iolane(&folder, [&study[..], &["--runtime", "200ms", "--warmup", "0s", "--out", "results"]].concat()).done();
    folder
}

#[test]
fn a_report_becomes_drawings_tables_and_a_digest_and_says_where_they_are() {
    let folder = measured();
    let before = folder.names();
    let asked = ["report", "results", "--svg", "figures/svg", "--csv", "tables", "--md", "digest.md"];
    let ended = iolane(&folder, asked).done();
    assert_eq!(ended.stderr, "");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0] == "digest.md" && lines[1].starts_with("tables: ") && lines[2].starts_with("figures/svg: "));
    let digest = fs::read_to_string(folder.join("digest.md")).unwrap();
    assert!(digest.starts_with("### iolane study survey") && digest.contains("study --target target"), "{digest}");
    let arms = fs::read_to_string(folder.join("tables/arms.csv")).unwrap();
    assert_eq!(arms.lines().count(), 3, "{arms}");
    for entry in fs::read_dir(folder.join("figures/svg")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.starts_with("<svg") && text.contains("study survey"), "it says where it is from");
    }
    // A second time, over the existing files.
    iolane(&folder, asked).done();
    let mut after = before;
    after.extend(["digest.md", "figures", "tables"].map(String::from));
    after.sort();
    assert_eq!(folder.names(), after);
}

#[test]
fn the_text_of_a_study_can_be_read_again() {
    let folder = Folder::new();
    folder.file("target", common::ODD_BYTES);
    let study = ["study", "--target", "target", "--path", "psync", "--path", "libaio", "--depth", "1", "--repeat", "3"];
    let printed = iolane(&folder, [&study[..], &["--runtime", "200ms", "--warmup", "0s", "--out", "results"]].concat());
    let printed = printed.done().stdout;
    let again = iolane(&folder, ["report", "results", "--text", "-"]).done().stdout;
    // The first line is the target, and the study ends with the place of its results.
    let (first, rest) = again.split_once('\n').unwrap();
    assert!(first.starts_with("target ("), "{first}");
    assert!(printed.split_once('\n').unwrap().1.starts_with(rest), "{printed}\nand again:\n{again}");
    let both = iolane(&folder, ["report", "results", "--text", "-", "--md", "-"]);
    assert_refused(&both, 2, &["--md - with --text -", "standard output"]);
}

#[test]
fn a_picture_is_a_png_for_each_chart() {
    let folder = measured();
    iolane(&folder, ["report", "results", "--png", "figures"]).done();
    let pictures: Vec<_> = fs::read_dir(folder.join("figures")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        assert!(picture.extension().is_some_and(|extension| extension == "png"));
        assert!(fs::read(picture).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    }
}

#[test]
fn nothing_is_written_where_one_of_them_cannot_be_and_no_target_is_lost() {
    let folder = measured();
    let names = folder.names();
    let target = fs::read(folder.join("target")).unwrap();
    for hostile in [["--md", "target"], ["--md", "no/such/folder/digest.md"], ["--svg", "target"]] {
        let ended = iolane(&folder, [&["report", "results", "--csv", "tables"][..], &hostile].concat());
        assert!(matches!(ended.code, Some(1 | 2)), "{ended:#?}");
        assert_eq!(folder.names(), names, "{hostile:?}");
    }
    assert!(fs::read(folder.join("target")).unwrap() == target, "it is what it was");
    let results = fs::read(folder.join("results/study.json")).unwrap();
    for own in ["results/study.json", "results/records.parquet"] {
        assert_refused(&iolane(&folder, ["report", "results", "--md", own]), 2, &["would be lost"]);
    }
    let twice = ["report", "results", "--out", "x.html", "--md", "./x.html"];
    assert_refused(&iolane(&folder, twice), 2, &["two outputs"]);
    assert!(fs::read(folder.join("results/study.json")).unwrap() == results && folder.names() == names);
    assert_refused(&iolane(&folder, ["report", "results", "--out", "-", "--md", "-"]), 2, &["standard output"]);
    assert_refused(&iolane(&folder, ["report", "nowhere", "--md", "digest.md"]), 2, &["no such folder"]);
}

#[test]
fn a_digest_on_standard_output_is_alone_there() {
    let folder = measured();
    let ended = iolane(&folder, ["report", "results", "--md", "-", "--csv", "tables"]).done();
    assert!(ended.stdout.starts_with("### iolane study survey") && !ended.stdout.contains("tables: "), "{ended:#?}");
    assert!(ended.stderr.starts_with("tables: "), "{ended:#?}");
}
