//! Makes a study's results anew from its own folder, once an external meter's trace tells what its runs took: joules in the
//! rows, and with them arms, figures, answers and claims. What was not measured again stays as it was; nothing is written
//! here.

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
        results.left_out = left_out(study, scale, &results, &loaded.document.skipped);
        // An arm that was given up has rows too.
        results.arms.retain(|arm| !results.left_out.iter().any(|left_out| left_out.arm == arm.arm));
        in_order_of(study, scale, &mut results);
        let figures: Vec<FigureReport> =
            study.figures.iter().map(|figure| FigureReport::new(figure, &results)).collect();
        set(&mut loaded.json, "figures", &figures);
        set(&mut loaded.json, "claims", &claims::decide(study, &results));
    }
    let failed = |skipped: &Skipped| skipped.failed;
    let given_up: Vec<String> =
        loaded.document.skipped.iter().filter(|skipped| failed(skipped)).map(|skipped| skipped.which.clone()).collect();
    results.arms.retain(|arm| !given_up.contains(&arm.arm.to_string()));
    let answers = answers(&results);
    set(&mut loaded.json, "arms", &arm_reports(&results, &loaded.rows));
    set(&mut loaded.json, "advice", &sentences(&answers));
    set(&mut loaded.json, "answers", &answers);
}

/// The arms of the study that were not measured. `study.json` tells the reasons of those of one path together.
fn left_out(study: &Study, scale: Scale, results: &Results, skipped: &[Skipped]) -> Vec<LeftOut> {
    let arms = study.arms(scale).unwrap_or_default();
    let missing = arms.into_iter().filter_map(|arm| {
        let (name, label) = (arm.to_string(), arm.label());
        let itself = skipped.iter().find(|skipped| skipped.which == name);
        let was_measured = results.arms.iter().any(|results| results.arm == arm);
        if was_measured && !itself.is_some_and(|skipped| skipped.failed) {
            return None;
        }
        let told = itself.or_else(|| skipped.iter().find(|skipped| skipped.path == label));
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
