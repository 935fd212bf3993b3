//! What the machine says about a run: system calls, processor time, interrupts, the processor's counters and its clock,
//! memory, and the host itself. The runner reads these around a measurement, by [`Watch`]. Nothing here does I/O on a
//! target or runs on the hot path. `docs/telemetry.md` lists every figure.
//!
//! The rules:
//! - A counter that cannot work is [`Unavailable`], with the reason and what to do about it. It is never 0.
//! - A fact about the host that the kernel does not tell is `None` (JSON `null`). It is never guessed.
//! - A counter counts what its documentation says and nothing else: what the counting itself costs is taken out
//!   exactly, or the documentation says that it is in.

mod counters;
mod cpu;
mod facts;
mod findings;
#[cfg(test)]
mod fixture;
mod frequency;
mod host;
mod interrupts;
mod machine;
mod memory;
mod numa;
mod perf;
mod syscalls;
mod watch;

pub use cpu::{CpuSnapshot, CpuUse};
pub use facts::{Facts, InterruptSpread, Turbo};
pub(crate) use findings::FAST_CLOCKS;
pub use findings::{Finding, findings};
pub use host::{COMMAND_LINE_VARIABLE, DeviceHost, FileSystem, Host, HugePages, Limit, Mitigations, command_line};
pub(crate) use machine::SOFT_ALONE;
pub use machine::{MachineSnapshot, MachineUse};
pub use syscalls::SyscallCounter;
pub use watch::{RunTelemetry, Watch};

use std::fmt;

use serde::Serialize;

/// What a counter read, or why it cannot.
pub type Reading<T> = Result<T, Unavailable>;

/// A value, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it is from and what it holds, in a few words.
    pub source: String,
}

impl<T> Sourced<T> {
    fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

/// Why a counter cannot work here, and what to do about it. Printed `reason; remedy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// The cause, as far as is known.
    pub reason: String,
    /// What to do; empty if nothing is known to help.
    pub remedy: String,
}

impl Unavailable {
    /// A reason without a remedy.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: String::new() }
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_counter_prints_its_reason_and_its_remedy() {
        let unavailable = Unavailable::new("tracefs is not mounted");
        assert_eq!(unavailable.to_string(), "tracefs is not mounted");
        assert_eq!(unavailable.remedy("run as root").to_string(), "tracefs is not mounted; run as root");
    }
}
