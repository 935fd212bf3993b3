//! What one run measured. `run` makes it; records, rows and validity checks read it.

use std::time::Duration;

use iolane::Capabilities;

use crate::engine::{Submissions, Tally};
use crate::span::Span;
use crate::telemetry::{Reading, RunTelemetry};

#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The measured phase, all threads together; of what was read back after it, the verified reads and the errors.
    pub tally: Tally,
    /// Blocks that were written and should have been read back, but the run was stopped.
    pub unread_blocks: u64,
    /// What the measured phase cost: processor time, interrupts, cycles, memory.
    pub telemetry: RunTelemetry,
    /// I/Os per second in each tenth of a second of the measured phase; empty in virtual time.
    pub rates: Vec<f64>,
    /// The longest time in which a thread that only samples the rates got no turn; none in virtual time. Beyond a second the program was stopped,
    /// or the machine.
    pub gap: Duration,
    /// The measured phase in real time.
    pub span: Span,
    /// Length of the measured phase in real seconds; the tally of a simulated target counts virtual time.
    pub wall_s: f64,
    /// Submissions of a short phase of its own before the measured one.
    pub submissions: Submissions,
    /// System calls of a short phase of its own before the measured one.
    pub syscall_proof: SyscallProof,
    /// What the path can do on the first target.
    pub capabilities: Capabilities,
    /// Whether the run was stopped before its time.
    pub interrupted: bool,
}

impl RunOutcome {
    /// I/Os per second of the measured phase.
    pub fn iops(&self) -> f64 {
        match self.tally.elapsed_ns() {
            0 => 0.0,
            elapsed_ns => self.tally.ios as f64 * 1e9 / elapsed_ns as f64,
        }
    }
}

/// System calls of one short phase, counted twice: by the queues and by the kernel.
#[derive(Debug, Clone)]
pub struct SyscallProof {
    /// I/Os of that phase.
    pub ios: u64,
    /// The queues' own count, and the times a thread slept until a request was due; `None` where a queue cannot count them.
    pub engine: Option<u64>,
    /// The count of the kernel's tracepoint.
    pub kernel: Reading<u64>,
}

impl SyscallProof {
    /// Adds what another thread counted at the same time.
    pub(super) fn merge(&mut self, other: Self) {
        self.ios += other.ios;
        self.engine = self.engine.zip(other.engine).map(|(a, b)| a + b);
        self.kernel = match (std::mem::replace(&mut self.kernel, Ok(0)), other.kernel) {
            (Ok(a), Ok(b)) => Ok(a + b),
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        };
    }
}
