//! `iolane lab study-all`: the published studies, each in a guest with a kernel and drives like the published ones, and all of their
//! verdicts in one table.

use std::path::Path;
use std::time::Duration;

use clap::FromArgMatches;
use iolane::Error;
use iolane_study::claims::{Decision, Verdict};
use iolane_study::format;
use iolane_study::results::Loaded;
use serde_json::json;

use super::guest::say;
use super::guest_command::GuestCommand;
use super::guest_study::GuestStudy;
use crate::arguments::{self, Cli, Command, LabArguments, LabCommand, LabRunArguments, LabStudyAllArguments};
use crate::interrupt::is_stopped;
use crate::outcome::Outcome;
use crate::output::{self, CellAlignment, Outputs};

/// A study, and the guest that comes near to the published machine.
struct Part {
    study: &'static str,
    guest: &'static str,
    /// The most processors that its arms keep busy at the small scale.
    most_cpus: usize,
    /// The most drives that one driver of its arms uses.
    most_drives: usize,
    /// Whether iolane's own driver needs as many drives again.
    user_space_driver: bool,
    options: &'static str,
}

const PARTS: [Part; 4] = [
    Part {
        study: "systor22",
        guest: "--kernel 6.1 --drive p3600",
        most_cpus: 10,
        most_drives: 5,
        user_space_driver: true,
        options: "",
    },
    Part {
        study: "ijraset24",
        guest: "--kernel 6.12 --drive hynix",
        most_cpus: 3,
        most_drives: 1,
        user_space_driver: false,
        options: "",
    },
    // The last kernel on which blocking reads poll. No meter is in a guest: the power of the published processor, by model.
    Part {
        study: "hotstorage23",
        guest: "--kernel 5.10 --drive optane",
        most_cpus: 8,
        most_drives: 1,
        user_space_driver: true,
        options: "--power-model idle=40,core=10",
    },
    Part {
        study: "floe26",
        guest: "--kernel 7.2 --drive pm9a3",
        most_cpus: 8,
        most_drives: 4,
        user_space_driver: true,
        options: "",
    },
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
    let host_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut measured: Vec<(&Part, Loaded)> = Vec::new();
    let mut failed = false;
    for part in parts {
        let study = run(part, host_cpus, each, &out.join(part.study))?;
        measured.extend(study.loaded.map(|loaded| (part, loaded)));
        if let Some(trouble) = study.trouble {
            say(&format!("{}: {trouble}", part.study));
            failed = true;
        }
        if is_stopped() {
            failed = true;
            break;
        }
    }
    show(&measured, host_cpus, &outputs)?;
    Ok(Outcome::failed_if(failed))
}

impl Part {
    /// The size of the guest on a host with this many processors: the thread that emulates the drives has one of its own, and at
    /// least two are virtual. More drives than processors that are free to use them would show nothing.
    fn size(&self, host_cpus: usize) -> [String; 4] {
        let cpus = host_cpus.saturating_sub(1).clamp(2, self.most_cpus.max(2));
        let drives = self.most_drives.min(cpus - 1) * if self.user_space_driver { 2 } else { 1 };
        ["--cpus".into(), cpus.to_string(), "--nvme".into(), drives.to_string()]
    }

    /// The command that runs the study by itself.
    fn words(&self, host_cpus: usize, time: Duration, folder: &Path) -> Vec<String> {
        let mut words: Vec<String> = ["iolane", "lab", "run"].map(str::to_owned).into();
        words.extend(self.guest.split_whitespace().map(str::to_owned));
        words.extend(self.size(host_cpus));
        words.extend(["--timeout", "60m", "--", "study", self.study].map(str::to_owned));
        words.extend(["--time".into(), format!("{}s", time.as_secs().max(1))]);
        words.extend(["--out".into(), folder.display().to_string()]);
        words.extend(self.options.split_whitespace().map(str::to_owned));
        words
    }

    /// That command, as it is parsed.
    fn arguments(words: &[String]) -> anyhow::Result<LabRunArguments> {
        let matches = arguments::command().try_get_matches_from(words)?;
        match Cli::from_arg_matches(&matches)?.command {
            Command::Lab(LabArguments { command: LabCommand::Run(run) }) => Ok(run),
            _ => unreachable!("the words run a command in the lab"),
        }
    }
}

/// Runs a study in its guest, and prints the command that does it by itself.
fn run(part: &Part, host_cpus: usize, time: Duration, folder: &Path) -> anyhow::Result<GuestStudy> {
    let words = part.words(host_cpus, time, folder);
    say(&format::shell_line(&words));
    let LabRunArguments { kernel, guest, words } = Part::arguments(&words)?;
    let Some(command) = GuestCommand::parse(&words)? else { unreachable!("the words ask for no help") };
    Ok(GuestStudy::run(&guest, kernel.as_ref(), &command.with_targets(&guest), folder))
}

fn show(measured: &[(&Part, Loaded)], host_cpus: usize, outputs: &Outputs) -> anyhow::Result<()> {
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
            "guest": format!("{} {}", part.guest, part.size(host_cpus).join(" ")),
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
    use super::super::guest;
    use super::*;

    #[test]
    fn every_part_is_a_built_in_study_and_its_line_a_command() {
        for part in PARTS {
            assert!(iolane_study::plan::built_in(part.study).is_some(), "{}", part.study);
            let words = part.words(4, Duration::from_secs(90), Path::new("with space/x"));
            let run = Part::arguments(&words).unwrap();
            let command = GuestCommand::parse(&run.words).unwrap().unwrap();
            assert_eq!(command.study().unwrap().out.as_deref(), Some(Path::new("with space/x")));
            guest::machine(&run.guest).check().unwrap();
        }
    }

    #[test]
    fn a_guest_is_as_large_as_its_study_can_use_and_the_host_has_processors_for() {
        let size =
            |study: &str, host_cpus| PARTS.iter().find(|part| part.study == study).unwrap().size(host_cpus).join(" ");
        assert_eq!(size("systor22", 1), "--cpus 2 --nvme 2");
        assert_eq!(size("systor22", 2), "--cpus 2 --nvme 2");
        assert_eq!(size("systor22", 4), "--cpus 3 --nvme 4");
        assert_eq!(size("systor22", 64), "--cpus 10 --nvme 10");
        assert_eq!(size("ijraset24", 16), "--cpus 3 --nvme 1");
        assert_eq!(size("hotstorage23", 16), "--cpus 8 --nvme 2");
    }
}
