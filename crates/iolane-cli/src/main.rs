//! The `iolane` command: parses the command line, calls the library crates, prints. It measures nothing itself.
#![forbid(unsafe_code)]
// Everything that is printed passes `output`, which keeps escape sequences from the terminal.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod commands;
mod interrupt;
mod meter;
mod outcome;
mod output;
mod session;
mod targets;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::arguments::{Cli, Command};
use crate::outcome::Outcome;

fn main() -> ExitCode {
    if iolane_lab::guest::is_inside() {
        iolane_lab::guest::live();
    }
    let matches = arguments::command().try_get_matches().unwrap_or_else(|error| output::exit(&error));
    match Cli::from_arg_matches(&matches).map_err(anyhow::Error::from).and_then(run) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            output::complain(&format!("iolane: {}", outcome::message(&error)));
            outcome::exit_code(&error)
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    interrupt::catch()?;
    match cli.command {
        Command::Probe(arguments) => commands::probe::probe(arguments),
        Command::Run(arguments) => commands::run::run(*arguments),
        Command::Study(arguments) => commands::study::study(*arguments),
        Command::Advise(arguments) => commands::advise::advise(*arguments),
        Command::Calibrate(arguments) => commands::calibrate::calibrate(*arguments),
        Command::Predict(arguments) => commands::predict::predict(*arguments),
        Command::Report(arguments) => commands::report::report(arguments),
        Command::Energy(arguments) => commands::energy::energy(&arguments),
        Command::Compare(arguments) => commands::compare::compare(arguments),
        Command::Nvme(arguments) => commands::nvme::nvme(arguments.command),
        Command::Lab(arguments) => commands::lab::lab(arguments.command),
        Command::Fio => commands::manual::fio_job_files(),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man => commands::manual::page(),
    }
}
