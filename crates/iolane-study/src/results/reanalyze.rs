//! Recomputes a study's results from its own folder with the joules of an external meter's trace: first the rows, then
//! arms, figures, advice and claims. Everything else stays as it was; nothing is written here.

use std::collections::HashSet;
use std::path::Path;

use iolane::{Error, Result};

use super::load::{Loaded, load_begun};
use super::report::{RecordsFile, StudyReport};
use crate::energy::EnergyNotes;
use crate::energy::align::{Aligned, align};
use crate::energy::trace::Samples;
use crate::plan::{Arm, Study};
use crate::rows::{LeftOut, Results, Row, parquet};
use crate::session::energy::fill_in;
use iolane_measure::meters::{AS_WIRED, Source};
use iolane_measure::telemetry::Unavailable;
use iolane_measure::workload::Workload;

/// Results with joules.
#[derive(Debug)]
pub struct Remade {
    pub report: StudyReport,
    /// The contents of `records.parquet`.
    pub records: Vec<u8>,
    /// How the trace was aligned with the study.
    pub aligned: Aligned,
    /// Runs that have joules.
    pub runs: usize,
}

/// The results in a folder with joules from a trace; `name` is the meter's name in them.
///
/// # Errors
/// As [`load`](super::load); `Failed` if the study is incomplete, or the trace cannot be aligned with it.
pub fn with_trace(folder: &Path, samples: &Samples, name: &str) -> Result<Remade> {
    let mut loaded = load_begun(folder)?;
    let shown = folder.display().to_string();
    if !loaded.document.complete {
        return Err(Error::failed(shown, "its study is not complete")
            .remedy("repeat the command that began it, which continues it and makes load steps at its end"));
    }
    let source = Source::measured(name, AS_WIRED);
    let what = format!("aligning {name} with {shown}");
    let refuse = |why: Unavailable| Error::failed(&what, why.reason).remedy(why.remedy);
    let aligned = align(samples, &loaded.document.energy.load_steps).map_err(refuse)?;
    let mut runs = 0;
    for row in loaded.rows.iter_mut().filter(|row| row.rejected.is_none()) {
        if row.arm.peer.is_some() {
            let why = "a recorded trace needs the time of a run to the second, and a peer does not report it";
            fill_in(row, Err(Unavailable::new(why)), None);
            continue;
        }
        let joules = aligned.joules(row);
        let joules = joules.map_err(|why| {
            let run = format!("the run of {} in repeat {}: {}", row.arm, row.repeat + 1, why.reason);
            refuse(Unavailable { reason: run, ..why })
        })?;
        fill_in(row, Ok(source.of(joules)), Some(aligned.idle_watts));
        runs += 1;
    }
    let records = parquet::write(&loaded.rows)?;
    let Loaded { document: mut report, rows, .. } = loaded;
    report.records = RecordsFile::new(rows.len(), parquet::checksum(&records));
    report.energy = EnergyNotes {
        source: Some(source),
        unavailable: None,
        idle_watts: Some(aligned.idle_watts),
        alignment: Some(aligned.clock),
        ..report.energy
    };
    let study = study_of(&report, &rows)?;
    let left_out = study.as_ref().map_or(Vec::new(), |study| left_out(study, &report, &rows));
    report.analyze(study.as_ref(), &rows, left_out);
    Ok(Remade { report, records, aligned, runs })
}

/// The results in a folder with claims decided by the model that were not testable, which the lab does outside the guest; `None` if the
/// model decides none.
///
/// # Errors
/// As [`load`](super::load).
pub fn with_model(folder: &Path) -> Result<Option<StudyReport>> {
    let Loaded { document: mut report, rows, .. } = load_begun(folder)?;
    let Some(study) = study_of(&report, &rows)?.filter(|_| report.complete) else { return Ok(None) };
    let further = report.further_results(&study, &rows, left_out(&study, &report, &rows));
    let Some(warning) = report.decide_by_model(&study, &further, &rows) else { return Ok(None) };
    report.warnings.push(warning);
    Ok(Some(report))
}

/// The study that results are of; `None` of a survey.
fn study_of(report: &StudyReport, rows: &[Row]) -> Result<Option<Study>> {
    let text = report.study_file.as_deref();
    let mut study = text.map(|text| Study::parse(text, "study.json's study_file")).transpose()?;
    // The seed and the size are the command's, not the file's.
    if let (Some(study), Some(row)) = (&mut study, rows.first()) {
        study.workload =
            Workload { seed: row.arm.workload.seed, size: row.arm.workload.size, ..study.workload.clone() };
    }
    Ok(study)
}

/// The arms that were not measured. `study.json` groups their reasons by path.
fn left_out(study: &Study, report: &StudyReport, rows: &[Row]) -> Vec<LeftOut> {
    let arms = study.arms(report.scale).unwrap_or_default();
    let whole: Vec<Row> = rows.iter().filter(|row| (row.repeat as usize) < report.repeats).cloned().collect();
    let results = Results::new(&whole, Vec::new());
    let measured: HashSet<&Arm> = results.arms.iter().map(|results| &results.arm).collect();
    let run: HashSet<&Arm> = whole.iter().map(|row| &row.arm).collect();
    let skipped = &report.skipped;
    let missing = arms.into_iter().filter(|arm| !measured.contains(arm)).map(|arm| {
        let (name, label) = (arm.to_string(), arm.label());
        let itself = skipped.iter().find(|skipped| skipped.which == name);
        let was_run = run.contains(&arm);
        let alike = || skipped.iter().find(|skipped| skipped.path == label && skipped.failed == was_run);
        let told = itself.or_else(alike).or_else(|| skipped.iter().find(|skipped| skipped.path == label));
        let (reason, remedy) = told.map_or(("it was not measured", ""), |told| (&told.reason, &told.remedy));
        let failed = told.is_some_and(|told| told.failed);
        LeftOut { reason: reason.into(), remedy: remedy.into(), failed, arm }
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use iolane_measure::figures::RunFigure;
    use serde_json::{Value, json};

    use tempfile::TempDir;

    use super::*;
    use crate::claims::Verdict;
    use crate::energy::steps::LoadSteps;
    use crate::plan::Arm;
    use crate::plan::Scale;
    use crate::results::{RECORDS_FILE, REPORT_FILE, fixtures};
    use crate::rows::RETRIES;

    fn json_of(report: &StudyReport) -> Value {
        serde_json::to_value(report).unwrap()
    }

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

    /// When the load steps at the end begin: each repeat has two runs, two seconds apart.
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

    /// Samples of a plug meter whose clock starts at 5 and runs 100 ppm fast.
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
    fn folder(rows: &[Row]) -> TempDir {
        let tree = tempfile::tempdir().unwrap();
        let bytes = parquet::write(rows).unwrap();
        let mut json = json_of(&fixtures::loaded(&Study::parse(STUDY, "small").unwrap(), rows, Vec::new()).document);
        json["study_file"] = json!(STUDY);
        json["energy"] = json!({"unavailable": "no meter", "idle_watts": null, "load_steps": steps()});
        json["records"]["crc32"] = json!(parquet::checksum(&bytes));
        std::fs::write(tree.path().join(RECORDS_FILE), bytes).unwrap();
        std::fs::write(tree.path().join(REPORT_FILE), json.to_string()).unwrap();
        tree
    }

    #[test]
    fn a_trace_gives_every_run_its_joules_and_decides_the_claims_of_energy() {
        let tree = folder(&rows());
        let before: Value = serde_json::from_slice(&std::fs::read(tree.path().join(REPORT_FILE)).unwrap()).unwrap();
        assert_eq!(before["claims"][0]["verdict"], "not testable here");
        let remade = with_trace(tree.path(), &samples(), "meter file plug.csv").unwrap();
        assert_eq!(remade.runs, 10);
        std::fs::write(tree.path().join(RECORDS_FILE), &remade.records).unwrap();
        std::fs::write(tree.path().join(REPORT_FILE), json_of(&remade.report).to_string()).unwrap();
        let loaded = crate::results::load(tree.path()).unwrap();
        for row in &loaded.rows {
            let right = watts_of(&row.arm) * RUN_S;
            let joules = row.figures.number(RunFigure::Joules).unwrap();
            assert!((joules / right - 1.0).abs() < 0.01, "{joules} J and not {right} J");
            assert!((row.figures.number(RunFigure::IdleJoules).unwrap() / (40.0 * RUN_S) - 1.0).abs() < 0.01);
            assert_eq!(row.joules().unwrap().source, "meter file plug.csv, what it is wired to");
        }
        let claim = &loaded.document.claims[0];
        assert_eq!(claim.verdict, Verdict::Holds);
        let why = &claim.why;
        assert!(why.ends_with("; joules by meter file plug.csv, what it is wired to"), "{why}");
        let energy = &loaded.document.energy;
        assert_eq!(energy.source.as_ref().map(|source| source.name.as_str()), Some("meter file plug.csv"));
        assert_eq!(energy.unavailable, None);
        assert!(loaded.document.arms[0].ios_per_joule.unwrap().value > 19.0);
        let host = serde_json::to_value(&loaded.document.host).unwrap();
        assert_eq!(host["kernel_release"], before["host"]["kernel_release"], "the machine is the one that measured");
        // A second alignment gives the same result.
        let again = with_trace(tree.path(), &samples(), "meter file plug.csv").unwrap();
        assert_eq!((again.runs, again.report.claims[0].verdict), (10, Verdict::Holds));
    }

    #[test]
    fn arms_that_were_given_up_and_peers_get_no_figure_from_a_trace() {
        let mut rows = rows();
        let with_rows = rows[0].clone();
        // The first arm's fourth repeat is rejected in every attempt.
        let failed = |attempt| Row { attempt, rejected: Some("it failed".into()), ..with_rows.clone() };
        rows.splice(6..7, (0..=RETRIES).map(|attempt| Row { repeat: 3, ..failed(attempt) }));
        let mut peer = rows[1].clone();
        peer.arm.peer = Some("fio".into());
        rows.push(peer);
        let tree = folder(&rows);
        let remade = with_trace(tree.path(), &samples(), "plug").unwrap();
        let arms = &remade.report.arms;
        assert_eq!(arms.len(), 2, "b, and the peer beside it: {arms:#?}");
        assert_eq!(remade.report.claims[0].verdict, Verdict::NotTestable);
        std::fs::write(tree.path().join(RECORDS_FILE), &remade.records).unwrap();
        std::fs::write(tree.path().join(REPORT_FILE), json_of(&remade.report).to_string()).unwrap();
        let read = crate::results::load(tree.path()).map(|loaded| loaded.rows);
        let peer = read.unwrap().into_iter().find(|row| row.arm.peer.is_some()).unwrap();
        let why = peer.figures.why_missing(RunFigure::Joules).unwrap();
        assert!(why.reason.contains("to the second"), "{why}");
    }

    #[test]
    fn a_trace_that_cannot_be_laid_is_refused_in_a_line_with_the_run_and_the_reason() {
        let refused =
            |tree: &TempDir, samples: &Samples| with_trace(tree.path(), samples, "plug").unwrap_err().to_string();
        let tree = folder(&rows());
        let gap: Samples = samples().into_iter().filter(|(at_s, _)| !(130.0..137.0).contains(at_s)).collect();
        let why = refused(&tree, &gap);
        assert!(why.contains("the run of a") && why.contains("a gap of 8 s") && why.lines().count() == 1, "{why}");
        assert!(refused(&tree, &samples()[..200].to_vec()).contains("the study took"));
        let mut short = rows();
        short[3].elapsed_s = 2.0;
        assert!(refused(&folder(&short), &samples()).contains("--runtime 8s or longer"));
    }

    #[test]
    fn results_without_an_end_or_without_load_steps_are_refused() {
        let with = |key: &str, value: Value| {
            let tree = folder(&rows());
            let mut json: Value =
                serde_json::from_slice(&std::fs::read(tree.path().join(REPORT_FILE)).unwrap()).unwrap();
            json[key] = value;
            std::fs::write(tree.path().join(REPORT_FILE), json.to_string()).unwrap();
            with_trace(tree.path(), &samples(), "plug").unwrap_err().to_string()
        };
        assert!(with("complete", json!(false)).contains("its study is not complete"));
        assert!(with("energy", json!({"idle_watts": null, "load_steps": []})).contains("--meter-steps"));
        assert!(with("energy", Value::Null).contains("measure again with this version"));
    }

    #[test]
    fn arms_that_were_not_measured_keep_their_reason() {
        let rows: Vec<Row> = rows().into_iter().filter(|row| row.arm.name == "a").collect();
        let tree = folder(&rows);
        let mut json: Value = serde_json::from_slice(&std::fs::read(tree.path().join(REPORT_FILE)).unwrap()).unwrap();
        json["skipped"] = json!([
            {"path": "b", "arms": 1, "which": "b", "reason": "no such path", "remedy": "", "failed": false}
        ]);
        std::fs::write(tree.path().join(REPORT_FILE), json.to_string()).unwrap();
        let remade = with_trace(tree.path(), &samples(), "plug").unwrap();
        assert_eq!(remade.report.claims[0].why, "not measured: b (1 arm: no such path)");
    }
}
