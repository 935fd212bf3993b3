//! `iolane lab`: the same commands in a virtual machine, whose output is passed on as it comes.

mod by_model;
mod files;
mod guest;
mod guest_command;
mod guest_study;
mod kernels;
mod matrix;
mod study_all;

use crate::arguments::{LabCommand, LabRunArguments};
use crate::outcome::Outcome;

use self::guest_command::GuestCommand;

pub(crate) fn lab(command: LabCommand) -> anyhow::Result<Outcome> {
    match command {
        LabCommand::Run(arguments) => run(&arguments),
        LabCommand::Matrix(arguments) => matrix::matrix(arguments),
        LabCommand::StudyAll(arguments) => study_all::study_all(arguments),
        LabCommand::Fetch { version } => kernels::fetch(&version),
        LabCommand::Kernels => kernels::list(),
    }
}

fn run(arguments: &LabRunArguments) -> anyhow::Result<Outcome> {
    let Some(command) = GuestCommand::parse(&arguments.words)? else { return Ok(Outcome::Done) };
    let words = command.with_targets(&arguments.guest);
    let results = command.results_folder();
    let before = results.as_deref().and_then(guest_study::stamp);
    let kernel = arguments.kernel.as_ref();
    let outcome = guest::run(&arguments.guest, kernel, (&words, results.as_deref()), &mut std::io::stdout())?;
    if let Some(folder) = results.filter(|folder| guest_study::stamp(folder) != before) {
        by_model::decide(&folder);
    }
    Ok(outcome)
}
