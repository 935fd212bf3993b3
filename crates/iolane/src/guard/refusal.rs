//! The result of a check that refuses a target: the cause and the remedy. The guard's other files call the target "it"; `mod.rs`
//! adds its name.

use std::ffi::OsStr;
use std::io;

use iolane_core::Error;
use iolane_core::error::describe;

/// Why a target is refused, without its name.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) cause: String,
    pub(super) remedy: String,
}

impl Refusal {
    pub(super) fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause: cause.into(), remedy: remedy.into() }
    }

    pub(super) fn unreadable(what: impl AsRef<OsStr>, error: impl Into<io::Error>) -> Self {
        let cause = format!("whether it is in use cannot be told from {}", shown(what.as_ref()));
        Self::new(format!("{cause} ({})", describe(&error.into())), "run where /proc and /sys can be read")
    }

    /// As an error of the operation, such as `writing to /dev/sda`.
    pub(super) fn of(self, what: String) -> Error {
        Error::unavailable(what, self.cause).remedy(self.remedy)
    }
}

/// A name without control characters, for one line of a message.
pub(super) fn shown(name: &OsStr) -> String {
    name.to_string_lossy().replace(char::is_control, "?")
}
