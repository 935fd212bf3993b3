//! Studies are read, or refused by the line with the cause; arms are expanded from groups.

use std::time::Duration;

use iolane::Result;
use proptest::prelude::*;

use super::*;
use crate::plan::{Arm, Scale};

#[test]
fn every_built_in_study_is_valid_and_has_its_name() {
    for BuiltIn { name, text } in BUILT_IN {
        let study = Study::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(study.name, *name);
        for scale in [Scale::Scaled, Scale::Full] {
            assert!(!study.arms(scale).unwrap().is_empty(), "{name}");
        }
    }
}

/// A valid study; tests replace one line of it.
const SMALL: &str = r#"name = "small"
title = "a small one"
paths = { a = "psync", b = "libaio" }
[[group]]
path = ["a", "b"]
depth = 1
[[claim]]
id = "C1"
says = "b is faster"
published = "nothing"
[[claim.check]]
says = "IOPS of b over those of a"
rule = "ratio"
metric = "iops"
of = { where = { path = "b" } }
to = { where = { path = "a" } }
at_least = 1.0
"#;

fn small_with(line: &str, instead: &str) -> Result<Study> {
    assert_eq!(SMALL.matches(line).count(), 1, "{line}");
    Study::parse(&SMALL.replace(line, instead), "small.toml")
}

/// The error for the small study with one line replaced.
fn refusal(line: &str, instead: &str) -> String {
    match small_with(line, instead) {
        Ok(_) => panic!("`{instead}` was taken"),
        Err(error) => error.to_string(),
    }
}

fn claims(name: &str) -> Vec<String> {
    let study = Study::parse(built_in(name).unwrap().text, name).unwrap();
    study.claims.into_iter().map(|claim| claim.id).collect()
}

#[test]
fn every_published_claim_has_its_rule() {
    let numbered =
        |letter: char, count: usize| -> Vec<String> { (1..=count).map(|number| format!("{letter}{number}")).collect() };
    assert_eq!(claims("systor22"), numbered('S', 20));
    assert_eq!(claims("ijraset24"), numbered('B', 7));
    assert_eq!(claims("hotstorage23"), numbered('E', 19));
    assert_eq!(claims("floe26"), numbered('F', 10));
}

#[test]
fn the_small_scale_of_a_built_in_study_leaves_each_run_a_second_on_a_small_machine() {
    for BuiltIn { name, text } in BUILT_IN {
        let study = Study::parse(text, name).unwrap();
        let lengths = study.lengths.scaled;
        let small = |arm: &Arm| arm.drives <= 2 && arm.cores.is_none_or(|cores| cores <= 2);
        let runs = study.arms(Scale::Scaled).unwrap().iter().filter(|arm| small(arm)).count() * lengths.repeats;
        assert!(lengths.time <= Duration::from_secs(9 * 60), "{name}");
        // 0.4 s: warm-up, proofs, opening and closing.
        assert!(lengths.time.as_secs_f64() / runs as f64 > 1.0 + 0.4, "{name}: {runs} runs");
    }
}

#[test]
fn the_example_of_the_documentation_is_valid_and_is_what_the_page_shows() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let example = std::fs::read_to_string(docs.join("example-study.toml")).unwrap();
    let page = std::fs::read_to_string(docs.join("studies.md")).unwrap();
    assert!(page.contains(&example), "docs/studies.md shows another text than docs/example-study.toml");
    let study = Study::parse(&example, "example-study.toml").unwrap();
    assert_eq!(study.arms(Scale::Scaled).unwrap().len(), 10);
}

#[test]
fn invalid_toml_is_refused_with_its_line() {
    let error = Study::parse("name = \"x\"\ntitle = \n", "x.toml").unwrap_err().to_string();
    assert!(error.starts_with("x.toml line 2: "), "{error}");
    assert!(!error.trim_end().contains('\n'), "{error}");
}

#[test]
fn an_error_names_the_line() {
    for (line, instead, place, cause) in [
        ("depth = 1", "deph = 1", "line 6", "unknown field `deph`"),
        ("says = \"b is faster\"", "say = \"b is faster\"", "line 9", "unknown field `say`"),
        ("b = \"libaio\"", "b = \"libaio+slow\"", "line 3", "`slow` is not a submission or completion mode"),
        ("depth = 1", "depth = []", "line 6", "a factor needs at least one value"),
        ("depth = 1", "depth = { scaled = [1], full = [] }", "line 6", "a factor needs at least one value"),
        ("depth = 1", "depth = { scaled = [1] }", "line 6", "missing field `full`"),
        ("depth = 1", "depth = -1", "line 6", "invalid value: integer `-1`"),
        ("depth = 1", "cores = 0", "line 6", "expected a number above 0"),
        ("depth = 1", "cores = \"0J\"", "line 6", "expected a number above 0"),
        ("depth = 1", "cores = \"J-1\"", "line 6", "expected a number above 0, J, J+N, NJ or all"),
        ("depth = 1", "cores = \"99999J\"", "line 6", "expected a number above 0"),
        ("depth = 1", "drives = 0", "line 6", "the number of drives must be 1 or more"),
        ("depth = 1", "drives = \"2J\"", "line 6", "expected a number of drives or \"J\""),
        ("metric = \"iops\"", "metric = \"speed\"", "line 14", "metric `speed`: no metric of that name"),
    ] {
        let error = refusal(line, instead);
        assert!(error.contains(&format!("small.toml {place}: ")) && error.contains(cause), "{instead}: {error}");
    }
}

#[test]
fn a_check_has_the_keys_of_its_rule_and_no_others() {
    let ratio = "to = { where = { path = \"a\" } }";
    for (line, instead, cause) in [
        (ratio, "", "this rule needs `to`"),
        (ratio, &format!("{ratio}\nalong = \"bs\""), "this rule does not take `along`"),
        ("rule = \"ratio\"", "rule = \"value\"", "this rule does not take `to`"),
        ("rule = \"ratio\"", "rule = \"crossing\"", "this rule needs `along`"),
        (ratio, &format!("{ratio}\nshare = 1.5"), "`share` must be above 0 and at most 1"),
        (ratio, &format!("{ratio}\nshare = nan"), "`share` must be above 0 and at most 1"),
    ] {
        let error = refusal(line, instead);
        assert!(error.contains(cause), "{instead}: {error}");
    }
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let twice = SMALL.split_once("[[claim]]").unwrap().1;
    for (line, instead, cause) in [
        ("path = [\"a\", \"b\"]", "path = [\"a\", \"c\"]", "path `c` is not in [paths]"),
        ("depth = 1", "threads = 0", "`threads` must be between 1 and"),
        ("depth = 1", "threads = 9223372036854775807", "between 1 and 4096"),
        ("of = { where = { path = \"b\" } }", "of = { where = { path = \"c\" } }", "no group has a path `c`"),
        ("at_least = 1.0", "", "neither at_least nor at_most"),
        ("at_least = 1.0", "at_least = 2.0\nat_most = 1.0", "at_least is above at_most"),
        ("at_least = 1.0", &format!("at_least = 1.0\n[[claim]]{twice}"), "[[claim]] C1 occurs twice"),
        (
            "depth = 1",
            "depth = 1\n[[figure]]\nid = \"1\"\ntitle = \"\"\nx = \"rw\"\ny = \"iops\"",
            "`rw`, `offsets` and `application` cannot be the x axis",
        ),
        ("depth = 1", "depth = 1\napplication = \"multi-get\"\nbs = \"4k\"", "an application has no factor `bs`"),
        ("depth = 1", "depth = 1\napplication = \"merge\"\ndrives = 2", "an application has no factor `drives`"),
        ("depth = 1", "depth = 1\napplication = \"multiget\"", "no application has that name"),
        ("depth = 1", "depth = 1\napplication = \"mixed\"", "application mixed needs a `rate`"),
        ("depth = 1", "depth = 1\napplication = \"merge\"\nrate = 100", "application merge has no `rate`"),
        ("title = \"a small one\"", "title = \"\"\nscaled = { repeats = 0 }", "repeats = 0 would measure nothing"),
        ("title = \"a small one\"", "title = \"\"\nfull = { runtime = \"0s\" }", "a runtime of 0"),
    ] {
        let error = refusal(line, instead);
        assert!(error.contains(cause), "{instead}: {error}");
    }
}

#[test]
fn one_value_is_taken_where_a_list_is_expected() {
    let study = small_with("path = [\"a\", \"b\"]", "path = \"b\"").unwrap_err().to_string();
    assert!(study.contains("no group has a path `a`"), "{study}");
    let figure =
        "[figure]\nid = \"1\"\ntitle = \"t\"\nx = \"depth\"\ny = \"iops\"\npublished = { path = \"a\", x = 1, y = 2 }";
    let text = SMALL.replace(
        "[[group]]\npath = [\"a\", \"b\"]\ndepth = 1",
        "[group]\npath = [\"a\", \"b\"]\ndepth = { scaled = 1, full = [1, 2] }",
    );
    let text = text.replace("[[claim]]", "[claim]").replace("[[claim.check]]", "[claim.check]");
    let study = Study::parse(&format!("{text}{figure}"), "small.toml").unwrap();
    assert_eq!(Scale::ALL.map(|scale| study.arms(scale).unwrap().len()), [2, 4]);
    assert_eq!((study.claims.len(), study.figures[0].published.len()), (1, 1));
    // The line of an error inside is still known.
    let error = refusal("depth = 1", "depth = { scaled = -1, full = [1] }");
    assert!(error.contains("small.toml line 6: invalid value: integer `-1`"), "{error}");
}

#[test]
fn a_name_that_could_lead_out_of_its_folder_is_refused() {
    for name in ["../up", "/etc", ".hidden", "", "a b"] {
        let error = refusal("name = \"small\"", &format!("name = \"{name}\""));
        assert!(error.contains("the name of a study consists of"), "{name}: {error}");
    }
}

#[test]
fn an_arm_of_two_groups_occurs_once() {
    let study = small_with("depth = 1", "depth = [1, 2]\n[[group]]\npath = [\"b\"]\ndepth = [2, 3]").unwrap();
    assert_eq!(study.arms(Scale::Full).unwrap().len(), 5);
}

#[test]
fn too_many_arms_are_refused_before_any_is_made() {
    let many = vec!["1"; 200_000].join(",");
    let product = format!("depth = [{many}]\nthreads = [{many}]\nbs = [{}]", vec!["\"4k\""; 200_000].join(","));
    let huge = "depth = [4294967295]\nthreads = [4096]\ncores = [\"65536J+65536\"]";
    let error = small_with("depth = 1", &product).unwrap().arms(Scale::Scaled).unwrap_err().to_string();
    assert!(error.contains("more than 100000 arms"), "{error}");
    let study = small_with("depth = 1", huge).unwrap();
    assert!(study.arms(Scale::Full).unwrap().iter().all(|arm| arm.cores == Some((1 << 28) + (1 << 16))));
}

fn reads_without_panic(text: &str) {
    if let Ok(study) = Study::parse(text, "any.toml") {
        for scale in [Scale::Scaled, Scale::Full] {
            let _ = study.arms(scale);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*", lines in "([a-z_]+ = [\\[\\]{}\"0-9a-z.,J+-]*\n|\\[\\[(group|claim|figure)\\]\\]\n)*") {
        reads_without_panic(&text);
        reads_without_panic(&lines);
    }

    #[test]
    fn a_built_in_study_with_a_piece_replaced_is_read_or_refused(
        which in 0..BUILT_IN.len(),
        from in 0.0..1.0f64,
        cut in 0usize..40,
        piece in "[\\[\\]{}=\",.0-9a-zJ+\n -]{0,20}",
    ) {
        let text = BUILT_IN[which].text;
        let from = (from * text.len() as f64) as usize;
        let to = (from + cut).min(text.len());
        if let (Some(before), Some(after)) = (text.get(..from), text.get(to..)) {
            reads_without_panic(&format!("{before}{piece}{after}"));
        }
    }
}

#[test]
fn every_part_of_a_load_is_a_factor_and_selects_arms() {
    let factors = "rw = \"randrw\"\nread_percent = [50, 70]\noffsets = [\"uniform\", \"zipf:1.2\"]\nrate = [500, \"2k\"]\n\
                   batch_submit = 1\nfsync_every = [1, 8]";
    let study = small_with("depth = 1", factors).unwrap();
    let arms = study.arms(Scale::Full).unwrap();
    assert_eq!(arms.len(), 2 * 2 * 2 * 2 * 2);
    let selected = |conditions: &str| {
        let selection: Selection = toml::from_str(conditions).unwrap();
        selection.of(&arms, |arm| arm).len()
    };
    for (conditions, count) in [
        ("", 32),
        ("read_percent = 70", 16),
        ("offsets = \"zipf:1.2\"", 16),
        ("offsets = [\"uniform\", \"zipf:1.2\"]", 32),
        ("rate = 2000", 16),
        ("rate = \"2k\"", 16),
        ("rate = [1, 500.0]", 16),
        ("batch_submit = 1", 32),
        ("batch_submit = \">=2\"", 0),
        ("batch_complete = 1", 0),
        ("fsync_every = \"max\"", 16),
        ("fsync_every = \"<=1\"\nrate = 500\nread_percent = \"min\"", 4),
    ] {
        assert_eq!(selected(conditions), count, "{conditions}");
    }
    assert!(toml::from_str::<Selection>("rate = \"fast\"").is_err());
}
