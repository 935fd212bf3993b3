//! How a command ends: its exit code, and the line on standard error for an error. Commands return it; `main` applies it.

use std::process::ExitCode;

use iolane::ErrorKind;

/// The end of a command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Something failed or was interrupted, and the command has reported it.
    Failed,
    /// The exit code of a command in the lab.
    Code(u8),
}

impl Outcome {
    pub(crate) fn failed_if(failed: bool) -> Self {
        if failed { Self::Failed } else { Self::Done }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Failed => Self::from(1),
            Outcome::Code(code) => Self::from(code),
        }
    }
}

/// The message of an error. Our own errors include the system's cause; others are printed with their chain.
pub(crate) fn message(error: &anyhow::Error) -> String {
    match error.downcast_ref::<iolane::Error>() {
        Some(ours) => ours.to_string(),
        None => format!("{error:#}"),
    }
}

/// 1 failed, 2 invalid usage, 3 target or path unavailable.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(match error.downcast_ref::<iolane::Error>().map(iolane::Error::kind) {
        Some(ErrorKind::Usage) => 2,
        Some(ErrorKind::Unavailable) => 3,
        _ => 1,
    })
}
