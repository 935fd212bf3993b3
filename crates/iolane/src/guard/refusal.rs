//! The answer of a check that refuses a target: the reason, the cause and the remedy. The guard's other files call the target "it";
//! `mod.rs` adds its name.

use std::ffi::OsStr;
use std::{error, fmt, io};

use iolane_core::Error;
use iolane_core::error::describe;
use rustix::io::Errno;

/// The kind of answer with which the guard refuses to let a target be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It exists, and is not [among](super::PermitOptions::among) what may be written.
    NotNamed,
    /// It is in use: mounted, swap, held by another device, or open in another process.
    InUse,
    /// It carries a signature, as of a file system, or what it carries cannot be read. It needs [`erase`](super::PermitOptions::erase).
    HoldsData,
    /// A check got no answer.
    Unanswered,
    /// It is nothing that can be written as a disk is, or cannot be opened.
    Unsuitable,
}

/// Why a target may not be written. As an [`Error`] it is one line with the cause and the remedy.
#[derive(Debug)]
pub struct Refused {
    reason: Reason,
    error: Error,
}

impl Refused {
    pub(super) fn new(reason: Reason, error: Error) -> Self {
        Self { reason, error }
    }

    /// The kind of refusal, for a program that words its own message or asks its user.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl error::Error for Refused {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// Why a target is refused, without its name.
#[derive(Debug)]
pub(super) struct Refusal {
    reason: Reason,
    pub(super) cause: String,
    remedy: String,
}

impl Refusal {
    pub(super) fn new(reason: Reason, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason, cause: cause.into(), remedy: remedy.into() }
    }

    pub(super) fn in_use(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Reason::InUse, cause, remedy)
    }

    pub(super) fn unreadable(what: impl AsRef<OsStr>, error: impl Into<io::Error>) -> Self {
        let cause = format!("whether it is in use cannot be told from {}", shown(what.as_ref()));
        let cause = format!("{cause} ({})", describe(&error.into()));
        Self::new(Reason::Unanswered, cause, "run where /proc and /sys can be read")
    }

    /// As an error of the operation, such as `writing to /dev/sda`.
    pub(super) fn of(self, what: String) -> Refused {
        let error = Error::unavailable(what, self.cause).remedy(self.remedy);
        let error = match self.reason {
            Reason::InUse => error.errno(Errno::BUSY.raw_os_error()),
            Reason::HoldsData => error.errno(Errno::EXIST.raw_os_error()),
            _ => error.errno(Errno::PERM.raw_os_error()),
        };
        Refused::new(self.reason, error)
    }
}

/// A name without control characters, for one line of a message.
pub(super) fn shown(name: &OsStr) -> String {
    name.to_string_lossy().replace(char::is_control, "?")
}
