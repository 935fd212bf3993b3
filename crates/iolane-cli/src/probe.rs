//! `iolane probe`: what a target can be reached by, and what stands in the way of the rest.

use iolane::{Capabilities, Error, IoPath, Target};
use iolane_study::record::{HostRecord, TargetRecord};
use iolane_study::survey::SurveyPlan;
use serde::Serialize;

use crate::arguments::ProbeArguments;
use crate::output::CellAlignment;
use crate::{Outcome, output, targets};

/// Schema `iolane.probe/1`, described in `docs/schema/probe.json`.
#[derive(Serialize)]
struct ProbeReport {
    schema: &'static str,
    target: TargetRecord,
    host: HostRecord,
    paths: Vec<ProbedPath>,
}

#[derive(Serialize)]
struct ProbedPath {
    path: String,
    available: bool,
    reason: Option<String>,
    remedy: Option<String>,
    depth_max: Option<u32>,
    operations: Option<Vec<&'static str>>,
    event_fd: Option<bool>,
    unregistered_memory: Option<&'static str>,
    note: Option<String>,
}

impl ProbedPath {
    fn new(path: &IoPath, probed: Result<Capabilities, Error>) -> Self {
        match probed {
            Ok(capabilities) => Self {
                path: path.to_string(),
                available: true,
                reason: None,
                remedy: None,
                depth_max: Some(capabilities.depth_max),
                operations: Some(capabilities.operations.names()),
                event_fd: Some(capabilities.event_fd),
                unregistered_memory: capabilities.unregistered_memory,
                note: capabilities.note,
            },
            Err(error) => Self {
                path: path.to_string(),
                available: false,
                reason: Some(error.cause().into()),
                remedy: Some(error.remedy_text().into()).filter(|remedy: &String| !remedy.is_empty()),
                depth_max: None,
                operations: None,
                event_fd: None,
                unregistered_memory: None,
                note: None,
            },
        }
    }
}

/// The size of the scratch file that is probed when no target is named.
const SCRATCH_BYTES: u64 = 1 << 20;

pub(crate) fn probe(arguments: &ProbeArguments) -> anyhow::Result<Outcome> {
    if let Some(file) = &arguments.json {
        output::check_writable(file, arguments.target.as_slice())?;
    }
    let target = match &arguments.target {
        Some(name) => Target::options().direct(arguments.direct).open(name)?,
        None => targets::scratch(iolane::units::Bytes(SCRATCH_BYTES), 1)?.open(false, arguments.direct)?,
    };
    let paths: Vec<ProbedPath> =
        SurveyPlan::all_paths(&target).iter().map(|path| ProbedPath::new(path, iolane::probe(path, &target))).collect();
    if !output::json_on_stdout(arguments.json.as_deref()) {
        output::print(&text(&target, &paths))?;
    }
    if let Some(file) = &arguments.json {
        let report = ProbeReport {
            schema: "iolane.probe/1",
            target: TargetRecord::new(&target),
            host: HostRecord::gather(Some(&target)),
            paths,
        };
        output::write_json(file, &report)?;
    }
    Ok(Outcome::Done)
}

fn text(target: &Target, paths: &[ProbedPath]) -> String {
    let mut text = format!("{}\n\n", targets::describe(target));
    let rows: Vec<Vec<String>> = paths
        .iter()
        .filter(|path| path.available)
        .map(|path| {
            let operations = path.operations.as_deref().unwrap_or_default().join(" ");
            vec![path.path.clone(), path.depth_max.unwrap_or(0).to_string(), operations]
        })
        .collect();
    text.push_str(&match rows.is_empty() {
        true => "No path can be had.\n".into(),
        false => output::table(&["available", "depth to", "operations"], &rows, CellAlignment::Left),
    });
    for path in paths {
        if let Some(note) = &path.note {
            text.push_str(&format!("{}\n", output::wrap(&format!("  {}: {note}", path.path), 4)));
        }
    }
    let missing: Vec<&ProbedPath> = paths.iter().filter(|path| !path.available).collect();
    if !missing.is_empty() {
        text.push_str("\nnot available\n");
        let entries = missing.iter().map(|path| {
            (path.path.as_str(), path.reason.as_deref().unwrap_or(""), path.remedy.as_deref().unwrap_or(""))
        });
        text.push_str(&output::reasons(entries));
    }
    text
}
