//! `iolane probe`: what a target can be reached by, and what stands in the way of the rest; with `--host`, what on the
//! machine distorts a measurement.

use std::path::Path;

use iolane::{Capabilities, Error, IoPath, Target};
use iolane_study::plan::all_paths;
use iolane_study::record::{HostRecord, TargetRecord};
use iolane_study::telemetry::{Facts, Finding, findings};
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
    /// With `--host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<Finding>>,
    paths: Vec<ProbedPath>,
}

#[derive(Serialize)]
struct ProbedPath {
    path: String,
    /// The target on which it is, or is not, to be had.
    target: String,
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
    /// Of the first target that a path can be taken to, or else of the first one that it is meant for, or of the first.
    fn on_first_of(path: &IoPath, targets: &[Target]) -> Option<Self> {
        let interface = iolane::interface_of(path).ok()?;
        let probe = |target: &Target| Self::new(path, target, iolane::probe(path, target));
        let mut probed = targets.iter().filter(|target| interface.reaches(target.kind())).map(probe);
        let Some(first) = probed.next() else { return targets.first().map(probe) };
        Some(if first.available { first } else { probed.find(|other| other.available).unwrap_or(first) })
    }

    fn new(path: &IoPath, target: &Target, probed: Result<Capabilities, Error>) -> Self {
        let target = target.name().to_owned();
        match probed {
            Ok(capabilities) => Self {
                path: path.to_string(),
                target,
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
                target,
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
    let named = targets::named(arguments.target.as_slice());
    if let Some(file) = &arguments.json {
        output::check_writable(file, &named)?;
    }
    let target = match named.first() {
        Some(name) => Target::options().direct(arguments.direct).open(name)?,
        None => {
            targets::scratch(Path::new("."), iolane::units::Bytes(SCRATCH_BYTES), 1)?.open(false, arguments.direct)?
        }
    };
    // Who names no target asks what the machine offers, and some of that is on its devices alone.
    let mut targets = vec![target];
    if arguments.target.is_none() {
        targets.extend(targets::special_devices());
    }
    let mut every_path: Vec<IoPath> = Vec::new();
    for path in targets.iter().flat_map(|target| all_paths(std::slice::from_ref(target))) {
        if !every_path.contains(&path) {
            every_path.push(path);
        }
    }
    let paths: Vec<ProbedPath> = every_path.iter().filter_map(|path| ProbedPath::on_first_of(path, &targets)).collect();
    let target = &targets[0];
    let findings = arguments.host.then(|| findings(&Facts::gather(target)));
    if !output::json_on_stdout(arguments.json.as_deref()) {
        output::print(&match &findings {
            Some(findings) => host_text(target, findings),
            None => text(target, &paths),
        })?;
    }
    if let Some(file) = &arguments.json {
        let report = ProbeReport {
            schema: "iolane.probe/1",
            target: TargetRecord::new(target),
            host: HostRecord::gather(Some(target)),
            findings,
            paths,
        };
        output::write_json(file, &report)?;
    }
    Ok(Outcome::Done)
}

/// The machine as a table, and below it what to do about each thing that distorts.
fn host_text(target: &Target, findings: &[Finding]) -> String {
    let row = |finding: &Finding| {
        let state = finding.effect.clone().unwrap_or_else(|| "ok".into());
        vec![finding.fact.to_owned(), finding.value.clone(), state]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    let mut text = format!("this machine, for {}\n\n", targets::describe(target));
    text.push_str(&output::table(&["fact", "value", "what it distorts"], &rows, CellAlignment::Left));
    let remedies: Vec<String> = findings
        .iter()
        .filter_map(|finding| Some(output::wrap(&format!("  {}: {}", finding.fact, finding.remedy.as_ref()?), 6)))
        .collect();
    if !remedies.is_empty() {
        text.push_str(&format!("\nwhat to do\n{}\n", remedies.join("\n")));
    }
    text
}

fn text(target: &Target, paths: &[ProbedPath]) -> String {
    let mut text = format!("{}\n\n", targets::describe(target));
    let rows: Vec<Vec<String>> = paths
        .iter()
        .filter(|path| path.available)
        .map(|path| {
            let operations = path.operations.as_deref().unwrap_or_default().join(" ");
            let elsewhere = if path.target == target.name() { "" } else { path.target.as_str() };
            vec![path.path.clone(), path.depth_max.unwrap_or(0).to_string(), operations, elsewhere.to_owned()]
        })
        .collect();
    let only_here = rows.iter().all(|row| row[3].is_empty());
    let (headings, columns) = (["available", "depth to", "operations", "only on"], if only_here { 3 } else { 4 });
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row[..columns].to_vec()).collect();
    text.push_str(&match rows.is_empty() {
        true => "No path can be had.\n".into(),
        false => output::table(&headings[..columns], &rows, CellAlignment::Left),
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
