//! `iolane study --dry-run`: the arms of a study, what it leaves out and why, and how long it would take.

use iolane_study::claims::lint;
use iolane_study::format;
use iolane_study::plan::{Arm, Factor, Scale};
use iolane_study::results::skipped;
use iolane_study::session::Session;
use serde_json::json;

use super::skipped as not_measured;
use crate::output::{self, CellAlignment, Outputs};
use crate::targets;

pub(super) fn show(session: &Session, outputs: &Outputs) -> anyhow::Result<()> {
    outputs.document(&document(session))?;
    outputs.text(&text(session))
}

fn document(session: &Session) -> serde_json::Value {
    json!({
        "schema": "iolane.plan/1",
        "name": session.study().name,
        "arms": arms(session),
        "skipped": skipped(session.left_out()),
        "repeats": session.conditions().lengths.repeats,
        "looks": session.looks(),
        "runtime_s": session.runtime().as_secs_f64(),
        "warmup_s": session.conditions().lengths.warmup.as_secs_f64(),
        "time_s": session.estimated_time().as_secs_f64(),
    })
}

/// The arms that would run; those of a search have no rate yet.
fn arms(session: &Session) -> Vec<Arm> {
    let searches = session.study().rate_until.is_some();
    session.arms().map(|arm| if searches { arm.without_rate() } else { arm.clone() }).collect()
}

fn text(session: &Session) -> String {
    let (study, conditions) = (session.study(), session.conditions());
    let mut text = format!("{}: {}\n", study.name, study.title);
    for target in &conditions.targets {
        text.push_str(&format!("{}\n", targets::describe(target)));
    }
    let arms = arms(session);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for group in by_load(&arms.iter().collect::<Vec<_>>()) {
        rows.push(vec![
            join(group.iter().map(|arm| arm.label())),
            join(group.iter().map(|arm| arm.shown(Factor::Depth))),
            join(group.iter().map(|arm| arm.requests_in_words())),
            join(group.iter().map(|arm| arm.shown(Factor::Threads))),
            join(group.iter().map(|arm| arm.shown(Factor::Drives))),
            join(group.iter().map(|arm| arm.shown(Factor::Cores))),
            group.len().to_string(),
        ]);
    }
    let headings = ["paths", "depths", "load", "threads", "drives", "cores", "arms"];
    text.push_str(&format!("\n{}\n", output::table(&headings, &rows, CellAlignment::Left)));
    text.push_str(&not_measured::text(&skipped(session.left_out())));
    let (count, repeats) = (arms.len(), conditions.lengths.repeats);
    let runs = match study.rate_until {
        Some(_) => {
            format!("About {} runs ({count} searches, {repeats} runs at each rate near the highest)", session.runs())
        }
        None => format!("{} runs ({count} arms, {repeats} repeats each, in random order)", session.runs()),
    };
    let further = match session.looks() {
        1 => String::new(),
        _ => format!(
            " Of these, {} for all arms, then further repeats of those that could decide a claim.",
            format::duration(session.time_of_runs())
        ),
    };
    let limit = conditions.time_max.filter(|max| *max < session.estimated_time());
    let limit = limit.map_or(String::new(), |max| format!(" --time ends it after {}.", format::duration(max)));
    let sentence = format!(
        "{runs} of {} after {} of warm-up: about {} in total.{further}{limit}",
        format::time(session.runtime().as_secs_f64() * 1e9),
        format::time(conditions.lengths.warmup.as_secs_f64() * 1e9),
        format::duration(session.estimated_time()),
    );
    text.push_str(&format!("{}\n", output::wrap(&sentence, 0)));
    if conditions.scale == Scale::Scaled && !study.source.is_empty() {
        text.push_str(&format!("{}\n", output::wrap(&scaled(session), 0)));
    }
    for note in lint(study).notes {
        text.push_str(&format!("{}\n", output::wrap(&format!("Not testable: {note}"), 0)));
    }
    text
}

/// How the scaled study differs from the published one.
fn scaled(session: &Session) -> String {
    let study = session.study();
    let full = study.arms(Scale::Full).map_or(0, |arms| arms.len());
    let asked = study.arms(Scale::Scaled).map_or(0, |arms| arms.len());
    let lengths = study.lengths.at(Scale::Full);
    let runtime = lengths.runtime.map_or("as long as the time budget allows".into(), format::duration);
    format!(
        "Scaled: {asked} of {full} arms, with shorter runs; --full runs all of them, {} repeats of {runtime} after {}.",
        lengths.repeats,
        format::duration(lengths.warmup)
    )
}

/// Arms that differ only in path and depth.
fn by_load<'a>(arms: &[&'a Arm]) -> Vec<Vec<&'a Arm>> {
    let mut groups: Vec<Vec<&Arm>> = Vec::new();
    for arm in arms {
        match groups.iter_mut().find(|group| group[0].load_key() == arm.load_key()) {
            Some(group) => group.push(arm),
            None => groups.push(vec![arm]),
        }
    }
    groups
}

/// The distinct values, in their order.
fn join(values: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct.join(" ")
}
