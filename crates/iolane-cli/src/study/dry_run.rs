//! What a study would do: its arms, what it leaves out and why, and how long it would take. Nothing is measured for it.

use std::path::Path;

use iolane_study::plan::{Arm, Factor, Scale};
use iolane_study::report::skipped;
use iolane_study::session::Session;
use serde_json::json;

use crate::output::{self, CellAlignment};
use crate::study::text;
use crate::{Outcome, targets};

pub(crate) fn say(session: &Session, json: Option<&Path>) -> anyhow::Result<Outcome> {
    if let Some(file) = json {
        output::write_json(file, &document(session))?;
    }
    if !output::json_on_stdout(json) {
        output::print(&text(session))?;
    }
    Ok(Outcome::Done)
}

fn document(session: &Session) -> serde_json::Value {
    json!({
        "schema": "iolane.plan/1",
        "name": session.study().name,
        "arms": session.arms().collect::<Vec<_>>(),
        "skipped": skipped(session.left_out()),
        "repeats": session.conditions().lengths.repeats,
        "runtime_s": session.runtime().as_secs_f64(),
        "warmup_s": session.conditions().lengths.warmup.as_secs_f64(),
        "time_s": session.estimated_time().as_secs_f64(),
    })
}

fn text(session: &Session) -> String {
    let (study, conditions) = (session.study(), session.conditions());
    let mut text = format!("{}: {}\n", study.name, study.title);
    for target in &conditions.targets {
        text.push_str(&format!("{}\n", targets::describe(target)));
    }
    let arms: Vec<&Arm> = session.arms().collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for group in by_load(&arms) {
        rows.push(vec![
            join(group.iter().map(|arm| arm.label())),
            join(group.iter().map(|arm| arm.shown(Factor::Depth))),
            join(group.iter().map(|arm| format!("{} {}", arm.rw, arm.bs))),
            join(group.iter().map(|arm| arm.shown(Factor::Threads))),
            join(group.iter().map(|arm| arm.shown(Factor::Drives))),
            join(group.iter().map(|arm| arm.shown(Factor::Cores))),
            group.len().to_string(),
        ]);
    }
    let headings = ["paths", "depths", "load", "threads", "drives", "cores", "arms"];
    text.push_str(&format!("\n{}\n", output::table(&headings, &rows, CellAlignment::Left)));
    text.push_str(&text::not_taken(&skipped(session.left_out())));
    let lengths = &conditions.lengths;
    let total = session.estimated_time();
    let sentence = format!(
        "{} runs ({} arms, {} repeats each in an order of chance): {:.2} s measured after {:.2} s of warm-up. It would take {}.",
        session.runs(),
        arms.len(),
        lengths.repeats,
        session.runtime().as_secs_f64(),
        lengths.warmup.as_secs_f64(),
        output::long_time(total),
    );
    text.push_str(&format!("{}\n", output::wrap(&sentence, 0)));
    if conditions.scale == Scale::Scaled && !study.source.is_empty() {
        text.push_str(&format!("{}\n", output::wrap(&scaled(session), 0)));
    }
    text
}

/// What of a published study is not done in full.
fn scaled(session: &Session) -> String {
    let study = session.study();
    let full = study.arms(Scale::Full).map_or(0, |arms| arms.len());
    let asked = study.arms(Scale::Scaled).map_or(0, |arms| arms.len());
    let lengths = study.lengths.at(Scale::Full);
    let runtime = lengths.runtime.map_or("as long as time allows".into(), |runtime| format!("{runtime:?}"));
    format!(
        "Scaled: {asked} of {full} arms, and shorter runs; --full takes all of them, {} repeats, {runtime} each after {:?}.",
        lengths.repeats, lengths.warmup
    )
}

/// Arms that differ in path and depth alone.
fn by_load<'a>(arms: &[&'a Arm]) -> Vec<Vec<&'a Arm>> {
    let load = |arm: &Arm| (arm.rw, arm.bs.to_string(), arm.threads, arm.drives, arm.cores);
    let mut groups: Vec<Vec<&Arm>> = Vec::new();
    for arm in arms {
        match groups.iter_mut().find(|group| load(group[0]) == load(arm)) {
            Some(group) => group.push(arm),
            None => groups.push(vec![arm]),
        }
    }
    groups
}

/// The values there are, each once, in their order.
fn join(values: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct.join(" ")
}
