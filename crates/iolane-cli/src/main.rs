//! The `iolane` command: arguments in, calls into the library and the study crate, printed answers out; nothing else.
#![forbid(unsafe_code)]

mod arguments;
mod compare;
mod energy;
mod interrupt;
mod jobs;
mod lab;
mod nvme;
mod output;
mod probe;
mod report;
mod run;
mod screen;
mod study;
mod targets;

use std::process::ExitCode;

use clap::FromArgMatches;
use iolane::ErrorKind;

use crate::arguments::{Cli, Command};

/// What a command that did its work ends with.
enum Outcome {
    Done,
    /// It ended, and the answer is that something failed, or it was interrupted; it has said so itself.
    Failed,
    /// A command in the lab ended with this exit code.
    Code(u8),
}

fn main() -> ExitCode {
    if iolane_lab::guest::is_inside() {
        iolane_lab::guest::live();
    }
    let matches = arguments::command().get_matches();
    let outcome = Cli::from_arg_matches(&matches).map_err(anyhow::Error::from).and_then(|cli| {
        interrupt::catch()?;
        match cli.command {
            Command::Probe(arguments) => probe::probe(&arguments),
            Command::Run(arguments) => run::run(&arguments),
            Command::Study(arguments) => study::study(&arguments),
            Command::Report(arguments) => report::report(&arguments),
            Command::Energy(arguments) => energy::energy(&arguments),
            Command::Compare(arguments) => compare::compare(&arguments),
            Command::Nvme(arguments) => nvme::nvme(&arguments.command),
            Command::Lab(arguments) => lab::lab(&arguments.command),
            Command::Completions { shell } => arguments::completions(shell),
            Command::Man => arguments::man_page(),
        }
    });
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Ok(Outcome::Code(code)) => ExitCode::from(code),
        Err(error) => {
            output::complain(&format!("iolane: {}", one_line(&error)));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Our own errors tell the system's cause themselves; of others the whole chain is told.
fn one_line(error: &anyhow::Error) -> String {
    match error.downcast_ref::<iolane::Error>() {
        Some(ours) => ours.to_string(),
        None => format!("{error:#}"),
    }
}

/// 1 failed, 2 wrong use, 3 the target or path cannot be had.
fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<iolane::Error>().map(iolane::Error::kind) {
        Some(ErrorKind::Usage) => 2,
        Some(ErrorKind::Unavailable) => 3,
        Some(ErrorKind::Exhausted | ErrorKind::Failed) | None => 1,
    }
}
