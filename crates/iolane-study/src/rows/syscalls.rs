//! System calls per I/O of a run, by the engine's count or the kernel's.

use iolane_measure::figures::{RunFigure, RunFigures};
use iolane_measure::run::RunOutcome;
use iolane_measure::telemetry::{Reading, Sourced, Unavailable};

/// System calls per I/O: the engine's count over the measured phase, or the kernel's over the proof's slice where the path
/// cannot count its own.
pub(super) fn set_syscalls(figures: &mut RunFigures, outcome: &RunOutcome) {
    figures.set(RunFigure::SyscallsPerIo, syscalls_per_io(outcome));
}

fn syscalls_per_io(outcome: &RunOutcome) -> Reading<Sourced<f64>> {
    let per_io = |count: u64, ios: u64, source: String| match ios {
        0 => Err(Unavailable::new("no I/O was done")),
        _ => Ok(Sourced::new(count as f64 / ios as f64, source)),
    };
    match (outcome.tally.syscalls, &outcome.syscall_proof.kernel) {
        (Some(counted), Ok(_)) => per_io(
            counted,
            outcome.tally.ios,
            "the engine's count; the kernel's tracepoint checked it in a slice".into(),
        ),
        (Some(counted), Err(why)) => {
            per_io(counted, outcome.tally.ios, format!("the engine's count; the kernel's is unavailable: {why}"))
        }
        (None, Ok(seen)) => per_io(
            *seen,
            outcome.syscall_proof.ios,
            "the kernel's tracepoint, in a slice before the measurement".into(),
        ),
        (None, Err(why)) => Err(why.clone()),
    }
}
