//! Makes a study's results anew from its own folder, once an external meter's trace tells what its runs took: joules in the
//! rows, and with them arms, figures, answers and claims. What was not measured again stays as it was; nothing is written
//! here.

use std::collections::HashSet;
use std::path::Path;

use iolane::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::load::{Loaded, load_begun};
use super::{FigureReport, RECORDS_FILE, RecordsFile, Skipped, answers, arm_reports, in_order_of, sentences};
use crate::claims;
use crate::energy::align::{Aligned, align};
use crate::energy::trace::Samples;
use crate::energy::{AS_WIRED, EnergyNotes, Source};
use crate::plan::{Scale, Study};
use crate::records::{LeftOut, Results, Row, parquet};
use crate::session::energy::fill_in;
use crate::telemetry::Unavailable;

/// Results with joules in them.
#[derive(Debug)]
pub struct Remade {
    /// `study.json`.
    pub json: Value,
    /// The bytes of `records.parquet`.
    pub records: Vec<u8>,
    /// How the trace was laid over the study.
    pub aligned: Aligned,
    /// Runs that have joules now.
    pub runs: usize,
}

/// What is taken over from `study.json`.
#[derive(Deserialize)]
struct Kept {
    scale: String,
    study_file: Option<String>,
    energy: EnergyNotes,
}

/// The results in a folder with the joules that a trace tells; `name` is what the meter is called in them.
///
/// # Errors
/// As of [`load`](super::load); `Failed` if the study is not at its end, or the trace cannot be laid over it.
pub fn with_trace(folder: &Path, samples: &Samples, name: &str) -> Result<Remade> {
    let mut loaded = load_begun(folder)?;
    let shown = folder.display().to_string();
    if !loaded.document.complete {
        return Err(Error::failed(shown, "its study has not come to an end")
            .remedy("the command that began it goes on with it, and makes load steps at its end"));
    }
    let too_old = |error: serde_json::Error| {
        Error::failed(&shown, error.to_string()).remedy("measure again with this version of iolane, and --meter-steps")
    };
    let kept = Kept::deserialize(&loaded.json).map_err(too_old)?;
    let source = Source::measured(name, AS_WIRED);
    let what = format!("laying {name} over {shown}");
    let refuse = |why: Unavailable| Error::failed(&what, why.reason).remedy(why.remedy);
    let aligned = align(samples, &kept.energy.load_steps).map_err(refuse)?;
    let mut runs = 0;
    for row in loaded.rows.iter_mut().filter(|row| row.worthless.is_none()) {
        if row.arm.peer.is_some() {
            let why = "a recorded trace needs to the second when a run measured, and a peer does not tell it";
            fill_in(row, Err(Unavailable::new(why)), None);
            continue;
        }
        let joules = aligned.joules(row);
        let joules = joules.map_err(|why| {
            let run = format!("the run of {} in repeat {}: {}", row.arm, row.repeat + 1, why.reason);
            refuse(Unavailable { reason: run, ..why })
        })?;
        fill_in(row, Ok((joules, source.to_string())), Some(aligned.idle_watts));
        runs += 1;
    }
    let records = parquet::write(&loaded.rows)?;
    let crc32 = parquet::checksum(&records);
    let energy = EnergyNotes {
        source: Some(source),
        unavailable: None,
        idle_watts: Some(aligned.idle_watts),
        alignment: Some(aligned.clock),
        ..kept.energy
    };
    let study = kept.study_file.as_deref().map(|text| Study::parse(text, "study.json's study_file")).transpose()?;
    let scale = if kept.scale == "full" { Scale::Full } else { Scale::Scaled };
    splice(&mut loaded, study.as_ref(), scale);
    let file = RecordsFile { file: RECORDS_FILE, rows: loaded.rows.len(), crc32 };
    set(&mut loaded.json, "records", &file);
    set(&mut loaded.json, "energy", &energy);
    Ok(Remade { json: loaded.json, records, aligned, runs })
}

/// Replaces what is made from the rows.
fn splice(loaded: &mut Loaded, study: Option<&Study>, scale: Scale) {
    let whole = loaded.document.repeats;
    let kept: Vec<Row> = loaded.rows.iter().filter(|row| (row.repeat as usize) < whole).cloned().collect();
    let mut results = Results::new(&kept, Vec::new());
    if let Some(study) = study {
        results.left_out = left_out(study, scale, &kept, &results, &loaded.document.skipped);
        in_order_of(study, scale, &mut results);
        let figures: Vec<FigureReport> =
            study.figures.iter().map(|figure| FigureReport::new(figure, &results)).collect();
        set(&mut loaded.json, "figures", &figures);
        set(&mut loaded.json, "claims", &claims::decide(study, &results));
    }
    let answers = answers(&results);
    set(&mut loaded.json, "arms", &arm_reports(&results, &loaded.rows));
    set(&mut loaded.json, "advice", &sentences(&answers));
    set(&mut loaded.json, "answers", &answers);
}

/// The arms of the study that were not measured. `study.json` tells the reasons of those of one path together.
fn left_out(study: &Study, scale: Scale, rows: &[Row], results: &Results, skipped: &[Skipped]) -> Vec<LeftOut> {
    let arms = study.arms(scale).unwrap_or_default();
    let measured: HashSet<String> = results.arms.iter().map(|results| results.arm.to_string()).collect();
    let run: HashSet<String> = rows.iter().map(|row| row.arm.to_string()).collect();
    let missing = arms.into_iter().filter_map(|arm| {
        let (name, label) = (arm.to_string(), arm.label());
        if measured.contains(&name) {
            return None;
        }
        let itself = skipped.iter().find(|skipped| skipped.which == name);
        let was_run = run.contains(&name);
        let alike = || skipped.iter().find(|skipped| skipped.path == label && skipped.failed == was_run);
        let told = itself.or_else(alike).or_else(|| skipped.iter().find(|skipped| skipped.path == label));
        let (reason, remedy) = told.map_or(("it was not measured", ""), |told| (&told.reason, &told.remedy));
        let failed = told.is_some_and(|told| told.failed);
        Some(LeftOut { reason: reason.into(), remedy: remedy.into(), failed, arm })
    });
    missing.collect()
}

fn set(json: &mut Value, key: &str, value: &impl Serialize) {
    // What is made of numbers and texts alone is always JSON.
    json[key] = serde_json::to_value(value).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::energy::fixture::Tree;
    use crate::energy::steps::LoadSteps;
    use crate::plan::Arm;
    use crate::records::RETRIES;
    use crate::report::{REPORT_FILE, fixtures};

    const STUDY: &str = r#"
        name = "small"
        title = "two paths"
        paths = { a = "libaio", b = "psync" }
        [[group]]
        path = ["a", "b"]
        depth = [1]
        [[claim]]
        id = "X1"
        says = "a is thrifty"
        published = "a 20, b 10"
        [[claim.check]]
        says = "I/Os per joule of a over those of b"
        rule = "ratio"
        metric = "ios_per_joule"
        of = { where = { path = "a" } }
        to = { where = { path = "b" } }
        at_least = 1.5
    "#;

    const BEGIN_S: f64 = 1_700_000_000.0;
    const RUN_S: f64 = 12.0;
    const REPEATS: u32 = 5;

    /// When the steps at the end begin: each repeat has two runs, two seconds apart.
    fn steps() -> Vec<LoadSteps> {
        let first = LoadSteps::at(BEGIN_S);
        let last = LoadSteps::at(first.ended_unix_s() + f64::from(REPEATS) * 2.0 * (RUN_S + 2.0));
        vec![first, last]
    }

    fn watts_of(arm: &Arm) -> f64 {
        if arm.name == "a" { 100.0 } else { 80.0 }
    }

    fn rows() -> Vec<Row> {
        let arms = Study::parse(STUDY, "small").unwrap().arms(Scale::Scaled).unwrap();
        let row = |repeat: u32, place: usize, arm: &Arm| {
            let before = f64::from(repeat * 2) + place as f64;
            Row {
                started_unix_s: steps()[0].ended_unix_s() + before * (RUN_S + 2.0) + 2.0,
                elapsed_s: RUN_S,
                ios: if arm.name == "a" { 24_000 } else { 9600 },
                ..Row::new(arm.clone(), repeat)
            }
        };
        let repeat =
            |repeat| arms.iter().enumerate().map(move |(place, arm)| row(repeat, place, arm)).collect::<Vec<_>>();
        (0..REPEATS).flat_map(repeat).collect()
    }

    /// What a meter at the plug wrote, whose clock began at 5 and is quick by 100 ppm.
    fn samples() -> Samples {
        let (steps, rows) = (steps(), rows());
        let watts = |unix_s: f64| {
            for steps in &steps {
                if (steps.started_unix_s..steps.ended_unix_s()).contains(&unix_s) {
                    let digit = ((unix_s - steps.started_unix_s) / steps.chip_s) as usize;
                    return if steps.code.as_bytes()[digit] == b'1' { 120.0 } else { 40.0 };
                }
            }
            let of = |row: &&Row| (row.started_unix_s - 2.0..row.started_unix_s + RUN_S).contains(&unix_s);
            rows.iter().find(of).map_or(40.0, |row| watts_of(&row.arm))
        };
        let sample = |second: u32| (5.0 + f64::from(second) * 1.0001, watts(BEGIN_S - 60.0 + f64::from(second)));
        (0..400).map(sample).collect()
    }

    /// The folder of such a study.
    fn folder(rows: &[Row]) -> Tree {
        let tree = Tree::new();
        let bytes = parquet::write(rows).unwrap();
        let mut json = fixtures::loaded(&Study::parse(STUDY, "small").unwrap(), rows, Vec::new()).json;
        json["study_file"] = json!(STUDY);
        json["energy"] = json!({"unavailable": "no meter", "idle_watts": null, "load_steps": steps()});
        json["records"]["crc32"] = json!(parquet::checksum(&bytes));
        std::fs::write(tree.0.join(RECORDS_FILE), bytes).unwrap();
        tree.write(REPORT_FILE, &json.to_string());
        tree
    }

    #[test]
    fn a_trace_gives_every_run_its_joules_and_decides_the_claims_of_energy() {
        let tree = folder(&rows());
        let before: Value = serde_json::from_slice(&std::fs::read(tree.0.join(REPORT_FILE)).unwrap()).unwrap();
        assert_eq!(before["claims"][0]["verdict"], "not testable here");
        let remade = with_trace(&tree.0, &samples(), "meter file plug.csv").unwrap();
        assert_eq!(remade.runs, 10);
        std::fs::write(tree.0.join(RECORDS_FILE), &remade.records).unwrap();
        tree.write(REPORT_FILE, &remade.json.to_string());
        let loaded = crate::report::load(&tree.0).unwrap();
        for row in &loaded.rows {
            let right = watts_of(&row.arm) * RUN_S;
            let joules = row.joules.unwrap();
            assert!((joules / right - 1.0).abs() < 0.01, "{joules} J and not {right} J");
            assert!((row.idle_joules.unwrap() / (40.0 * RUN_S) - 1.0).abs() < 0.01);
            assert_eq!(row.sources["joules"], "meter file plug.csv, what it is wired to");
        }
        let claim = &loaded.json["claims"][0];
        assert_eq!(claim["verdict"], "holds");
        let why = claim["why"].as_str().unwrap();
        assert!(why.ends_with("; joules by meter file plug.csv, what it is wired to"), "{why}");
        assert_eq!(
            (&loaded.json["energy"]["source"], &loaded.json["energy"]["unavailable"]),
            (&json!("meter file plug.csv"), &Value::Null)
        );
        assert!(loaded.json["arms"][0]["ios_per_joule"]["value"].as_f64().unwrap() > 19.0);
        assert_eq!(loaded.json["host"], before["host"], "what was not measured again was changed");
        // Laid a second time it is the same.
        let again = with_trace(&tree.0, &samples(), "meter file plug.csv").unwrap();
        assert_eq!((again.runs, &again.json["claims"][0]["verdict"]), (10, &json!("holds")));
    }

    #[test]
    fn arms_that_were_given_up_and_peers_get_no_figure_from_a_trace() {
        let mut rows = rows();
        let with_rows = rows[0].clone();
        // The first arm's fourth repeat is worth nothing however often it is made.
        let failed = |attempt| Row { attempt, worthless: Some("it failed".into()), ..with_rows.clone() };
        rows.splice(6..7, (0..=RETRIES).map(|attempt| Row { repeat: 3, ..failed(attempt) }));
        let mut peer = rows[1].clone();
        peer.arm.peer = Some("fio".into());
        rows.push(peer);
        let tree = folder(&rows);
        let remade = with_trace(&tree.0, &samples(), "plug").unwrap();
        let arms = remade.json["arms"].as_array().unwrap();
        assert_eq!(arms.len(), 2, "b, and the peer beside it: {arms:#?}");
        assert_eq!(remade.json["claims"][0]["verdict"], "not testable here");
        std::fs::write(tree.0.join(RECORDS_FILE), &remade.records).unwrap();
        tree.write(REPORT_FILE, &remade.json.to_string());
        let read = crate::report::load(&tree.0).map(|loaded| loaded.rows);
        let peer = read.unwrap().into_iter().find(|row| row.arm.peer.is_some()).unwrap();
        assert!(
            peer.joules.is_none() && peer.sources["joules"].contains("to the second"),
            "{:?}",
            peer.sources["joules"]
        );
    }

    #[test]
    fn a_trace_that_cannot_be_laid_is_refused_in_a_line_with_the_run_and_the_reason() {
        let refused = |tree: &Tree, samples: &Samples| with_trace(&tree.0, samples, "plug").unwrap_err().to_string();
        let tree = folder(&rows());
        let gap: Samples = samples().into_iter().filter(|(at_s, _)| !(130.0..137.0).contains(at_s)).collect();
        let why = refused(&tree, &gap);
        assert!(why.contains("the run of a") && why.contains("silent for") && why.lines().count() == 1, "{why}");
        assert!(refused(&tree, &samples()[..200].to_vec()).contains("the study took"));
        let mut short = rows();
        short[3].elapsed_s = 2.0;
        assert!(refused(&folder(&short), &samples()).contains("--runtime 8s or longer"));
    }

    #[test]
    fn results_without_an_end_or_without_load_steps_are_refused() {
        let with = |key: &str, value: Value| {
            let tree = folder(&rows());
            let mut json: Value = serde_json::from_slice(&std::fs::read(tree.0.join(REPORT_FILE)).unwrap()).unwrap();
            json[key] = value;
            tree.write(REPORT_FILE, &json.to_string());
            with_trace(&tree.0, &samples(), "plug").unwrap_err().to_string()
        };
        assert!(with("complete", json!(false)).contains("has not come to an end"));
        assert!(with("energy", json!({"idle_watts": null, "load_steps": []})).contains("--meter-steps"));
        assert!(with("energy", Value::Null).contains("measure again with this version"));
    }

    #[test]
    fn arms_that_were_not_measured_keep_their_reason() {
        let rows: Vec<Row> = rows().into_iter().filter(|row| row.arm.name == "a").collect();
        let tree = folder(&rows);
        let mut json: Value = serde_json::from_slice(&std::fs::read(tree.0.join(REPORT_FILE)).unwrap()).unwrap();
        json["skipped"] = json!([
            {"path": "b", "arms": 1, "which": "b", "reason": "no such path", "remedy": "", "failed": false}
        ]);
        tree.write(REPORT_FILE, &json.to_string());
        let remade = with_trace(&tree.0, &samples(), "plug").unwrap();
        assert_eq!(remade.json["claims"][0]["why"], "not measured: b (1 arm: no such path)");
    }
}
