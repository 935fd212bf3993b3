//! `iolane lab study-all`: the published studies, each in a guest with a kernel and drives like the published ones, and all of their
//! verdicts in one table.

use std::path::Path;

use clap::FromArgMatches;
use iolane::Error;
use iolane_study::claims::{Decision, Verdict};
use iolane_study::results::{self, Loaded};
use serde_json::json;

use super::guest::say;
use crate::arguments::{self, Cli, Command, LabArguments, LabCommand, LabStudyAllArguments};
use crate::interrupt::is_stopped;
use crate::outcome::{Outcome, message};
use crate::output::{self, CellAlignment, Outputs};

/// A study, and the options of the guest that comes near to the published machine.
struct Part {
    study: &'static str,
    guest: &'static str,
    options: &'static str,
}

/// Two drives each, one for the kernel's driver and one for iolane's.
const PARTS: [Part; 4] = [
    Part { study: "systor22", guest: "--kernel 6.1 --nvme 2 --drive p3600", options: "" },
    Part { study: "ijraset24", guest: "--kernel 6.12 --nvme 1 --drive hynix", options: "" },
    // The last kernel on which blocking reads poll. No meter is in a guest: the power of the published processor, by model.
    Part {
        study: "hotstorage23",
        guest: "--kernel 5.10 --nvme 2 --drive optane",
        options: "--power-model idle=40,core=10",
    },
    Part { study: "floe26", guest: "--kernel 7.2 --nvme 2 --drive pm9a3", options: "" },
];

pub(super) fn study_all(arguments: LabStudyAllArguments) -> anyhow::Result<Outcome> {
    let LabStudyAllArguments { time, out, only, json } = arguments;
    if let Some(unknown) = only.iter().find(|name| PARTS.iter().all(|part| part.study != **name)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.study).collect();
        return Err(Error::usage(format!("--only {unknown}"), format!("not one of {}", names.join(", "))).into());
    }
    let outputs = Outputs::checked(json, &[])?;
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.study)).collect();
    let each = time / parts.len() as u32;
    let mut measured: Vec<(&Part, Loaded)> = Vec::new();
    let mut failed = false;
    for part in parts {
        let folder = out.join(part.study);
        match run(part, &format!("{}s", each.as_secs().max(1)), &folder).and_then(|()| Ok(results::load(&folder)?)) {
            Ok(loaded) => measured.push((part, loaded)),
            Err(error) => {
                say(&format!("{}: {}", part.study, message(&error)));
                failed = true;
            }
        }
        if is_stopped() {
            failed = true;
            break;
        }
    }
    show(&measured, &outputs)?;
    Ok(Outcome::failed_if(failed))
}

/// Runs a study in its guest; the line that does it by itself is printed.
fn run(part: &Part, time: &str, folder: &Path) -> anyhow::Result<()> {
    let line = format!(
        "iolane lab run {} --timeout 60m -- study {} --time {time} --out {} {}",
        part.guest,
        part.study,
        folder.display(),
        part.options
    );
    say(line.trim_end());
    let words = line.split_whitespace();
    let matches = arguments::command().try_get_matches_from(words)?;
    let Cli { command: Command::Lab(LabArguments { command: LabCommand::Run(run) }) } =
        Cli::from_arg_matches(&matches)?
    else {
        unreachable!("the line runs a command in the lab");
    };
    let Some(command) = super::GuestCommand::parse(&run.words)? else { return Ok(()) };
    let words = command.with_targets(run.guest.nvme);
    let outcome = super::guest::run(&run.guest, run.kernel.as_ref(), &words, &mut std::io::sink())?;
    if !matches!(outcome, Outcome::Done | Outcome::Code(0)) {
        // The study keeps what it measured, and has printed what failed.
        say(&format!("{}: a part of it failed", part.study));
    }
    Ok(())
}

fn show(measured: &[(&Part, Loaded)], outputs: &Outputs) -> anyhow::Result<()> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (_, loaded) in measured {
        for claim in &loaded.document.claims {
            rows.push(vec![claim.id.clone(), claim.verdict.to_string(), in_short(claim)]);
        }
    }
    let table = output::table(&["claim", "verdict", "because"], &rows, CellAlignment::Left);
    let verdicts = measured.iter().flat_map(|(_, loaded)| loaded.document.claims.iter().map(|claim| claim.verdict));
    let counts = Verdict::counts(verdicts).map(|(verdict, count)| (count > 0).then(|| format!("{verdict}: {count}")));
    outputs.text(&format!("{table}\n{}\n", counts.into_iter().flatten().collect::<Vec<_>>().join(", ")))?;
    let machine = |loaded: &Loaded| {
        let host = &loaded.document.host.host;
        json!({ "kernel_release": host.kernel_release, "cpu_model": host.cpu_model, "lab": host.lab })
    };
    let study = |(part, loaded): &(&Part, Loaded)| {
        json!({
            "name": part.study,
            "guest": part.guest,
            "machine": machine(loaded),
            "complete": loaded.document.complete,
            "claims": loaded.document.claims,
        })
    };
    outputs.document(&json!({
        "schema": "iolane.lab_studies/1",
        "studies": measured.iter().map(study).collect::<Vec<_>>(),
    }))
}

/// The figure that decided, or what is missing.
fn in_short(claim: &Decision) -> String {
    let of = |verdict: Verdict| claim.checks.iter().find(move |check| check.verdict == verdict);
    let deciding = of(claim.verdict).or(claim.checks.first());
    let text = deciding.map_or(claim.why.as_str(), |check| check.why.as_str());
    const WIDTH: usize = 110;
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}...", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_a_built_in_study_and_its_line_a_command() {
        for part in PARTS {
            assert!(iolane_study::plan::built_in(part.study).is_some(), "{}", part.study);
            let line = format!("iolane lab run {} -- study {} {}", part.guest, part.study, part.options);
            let matches = arguments::command().try_get_matches_from(line.split_whitespace()).unwrap();
            let Cli { command: Command::Lab(LabArguments { command: LabCommand::Run(run) }) } =
                Cli::from_arg_matches(&matches).unwrap()
            else {
                panic!("{line}");
            };
            assert!(
                super::super::GuestCommand::parse(&run.words).unwrap().is_some_and(|words| words.study().is_some())
            );
            super::super::guest::machine(&run.guest).check().unwrap();
        }
    }
}
