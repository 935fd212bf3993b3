//! `iolane probe`: the paths to a target, and why the others are unavailable; with `--host`, the machine settings that affect
//! measurements.

use iolane::units::Bytes;
use iolane::{Capabilities, Error, IoPath, Target, TargetOptions};
use iolane_measure::checks::{Facts, Finding, findings};
use iolane_study::plan::all_paths;
use iolane_study::run_record::{HostRecord, TargetRecord};
use serde::Serialize;

use crate::arguments::ProbeArguments;
use crate::outcome::Outcome;
use crate::output::{self, CellAlignment, Outputs};
use crate::targets::{self, Chosen};

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
    /// The target it was probed on.
    target: String,
    available: bool,
    reason: Option<String>,
    remedy: Option<String>,
    depth_max: Option<u32>,
    operations: Option<Vec<&'static str>>,
    /// The shortest and the longest in bytes; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_write_bytes: Option<[u64; 2]>,
    event_fd: Option<bool>,
    unregistered_memory: Option<&'static str>,
    note: Option<String>,
}

impl ProbedPath {
    /// On the first target where the path is available, otherwise on the first of a kind that it reaches, or on the first.
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
                atomic_write_bytes: capabilities.atomic_writes.map(|writes| [writes.bytes_min, writes.bytes_max]),
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
                atomic_write_bytes: None,
                event_fd: None,
                unregistered_memory: None,
                note: None,
            },
        }
    }
}

/// The size of the scratch file that is probed when no target is named.
const SCRATCH_BYTES: u64 = 1 << 20;

pub(crate) fn probe(arguments: ProbeArguments) -> anyhow::Result<Outcome> {
    let chosen = Chosen::of(arguments.target.as_slice());
    let outputs = Outputs::checked(arguments.json, chosen.names())?;
    let target = match chosen.names() {
        [name, ..] => Target::options().direct(arguments.direct).open(name)?,
        [] => open_scratch(Target::options().direct(arguments.direct))?,
    };
    let mut targets = vec![target];
    // Without a target the question is what the machine offers, and only its devices offer some paths.
    if arguments.target.is_none() {
        targets.extend(targets::special_devices());
    }
    let paths = probe_paths(&targets);
    let target = &targets[0];
    let findings = arguments.host.then(|| findings(&Facts::gather(target)));
    outputs.text(&match &findings {
        Some(findings) => host_text(target, findings),
        None => text(target, &paths),
    })?;
    outputs.document(&ProbeReport {
        schema: "iolane.probe/1",
        target: TargetRecord::new(target),
        host: HostRecord::gather(Some(target)),
        findings,
        paths,
    })?;
    Ok(Outcome::Done)
}

/// A scratch file here, or where temporary files go: what the machine offers does not depend on where one may write.
fn open_scratch(options: TargetOptions) -> anyhow::Result<Target> {
    let elsewhere = std::env::temp_dir();
    targets::open_scratch(SCRATCH_BYTES, 1, options.clone(), false).or_else(|error| {
        let target = targets::open_scratch_in(&elsewhere, SCRATCH_BYTES, 1, options, false).map_err(|_| error)?;
        output::warn(&format!("this folder takes no scratch file; one in {} is probed", elsewhere.display()));
        Ok(target)
    })
}

/// Every path of these targets, each on the target that it suits best.
fn probe_paths(targets: &[Target]) -> Vec<ProbedPath> {
    let mut every_path: Vec<IoPath> = Vec::new();
    for path in targets.iter().flat_map(|target| all_paths(std::slice::from_ref(target))) {
        if !every_path.contains(&path) {
            every_path.push(path);
        }
    }
    every_path.iter().filter_map(|path| ProbedPath::on_first_of(path, targets)).collect()
}

/// The settings as a table, then the remedies.
fn host_text(target: &Target, findings: &[Finding]) -> String {
    let row = |finding: &Finding| {
        let state = finding.effect.clone().unwrap_or_else(|| "ok".into());
        vec![finding.fact.to_owned(), finding.value.clone(), state]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    let mut text = format!("This machine, for {}\n\n", targets::describe(target));
    text.push_str(&output::table(&["setting", "value", "effect on measurements"], &rows, CellAlignment::Left));
    let remedies: Vec<String> = findings
        .iter()
        .filter_map(|finding| Some(output::wrap(&format!("  {}: {}", finding.fact, finding.remedy.as_ref()?), 6)))
        .collect();
    if !remedies.is_empty() {
        text.push_str(&format!("\nRemedies:\n{}\n", remedies.join("\n")));
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
    let (headings, columns) = (["available", "max depth", "operations", "only on"], if only_here { 3 } else { 4 });
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row[..columns].to_vec()).collect();
    text.push_str(&match rows.is_empty() {
        true => "No path is available.\n".into(),
        false => output::table(&headings[..columns], &rows, CellAlignment::Left),
    });
    if let Some([least, most]) = target.atomic_writes().map(|writes| [writes.bytes_min, writes.bytes_max].map(Bytes)) {
        let lengths = format!("  atomic-write: {least} to {most}, each a power of two at a multiple of its length");
        text.push_str(&format!("{}\n", output::wrap(&lengths, 4)));
    }
    for path in paths {
        if let Some(note) = &path.note {
            text.push_str(&format!("{}\n", output::wrap(&format!("  {}: {note}", path.path), 4)));
        }
    }
    let missing: Vec<&ProbedPath> = paths.iter().filter(|path| !path.available).collect();
    if !missing.is_empty() {
        text.push_str("\nUnavailable:\n");
        let entries = missing.iter().map(|path| {
            (path.path.as_str(), path.reason.as_deref().unwrap_or(""), path.remedy.as_deref().unwrap_or(""))
        });
        text.push_str(&output::reasons(entries));
    }
    text
}
