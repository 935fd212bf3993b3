//! Decides whether a run is valid: its requests succeeded, the path did what its name promises, and no other program
//! used its CPUs.

use iolane::IoPath;
use iolane_measure::figures::{RunFigure, RunFigures};
use iolane_measure::run::{RunOutcome, RunPlan};

use crate::rows::{POLLED_INTERRUPTS_MAX, Row, disturbance, is_cut_short};

/// Whether a run is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Validity {
    Accepted,
    /// Other activity on the machine disturbed it; another attempt may succeed.
    Disturbed(String),
    /// It did not measure what it was meant to.
    Rejected(String),
}

/// A path with more system calls per I/O than this was not served by a submission thread.
const SQPOLL_SYSCALLS_MAX: f64 = 0.5;

/// Decides whether a run is valid; `row` holds what `outcome` measured.
pub(super) fn validity(plan: &RunPlan, outcome: &RunOutcome, row: &Row) -> Validity {
    let tally = &outcome.tally;
    if tally.errors > 0 {
        let first = tally.first_error.as_deref().unwrap_or("unknown");
        return Validity::Rejected(format!("{} requests failed; the first: {first}", tally.errors));
    }
    if is_cut_short(tally.short, tally.ios) {
        let cause = "the target became shorter, or its drive cuts transfers short";
        return Validity::Rejected(format!("{} of {} requests were short: {cause}", tally.short, tally.ios));
    }
    if tally.ios == 0 {
        return Validity::Rejected("no request ended within the run".into());
    }
    if let Some(why) = not_as_named(&plan.path, &row.figures, tally.ios) {
        return Validity::Rejected(why);
    }
    disturbance(plan, outcome).map_or(Validity::Accepted, Validity::Disturbed)
}

/// Why a run is not one of its path: a submission thread that did not serve it, a device that was not polled. Figures that are
/// unavailable prove nothing.
fn not_as_named(path: &IoPath, figures: &RunFigures, ios: u64) -> Option<String> {
    let calls = figures.number(RunFigure::SyscallsPerIo).filter(|_| path.polls_submissions());
    if let Some(per_io) = calls.filter(|per_io| *per_io > SQPOLL_SYSCALLS_MAX) {
        return Some(format!("{per_io:.2} system calls per I/O: the submission thread did not serve it"));
    }
    let interrupts = figures.number(RunFigure::DeviceInterrupts).filter(|_| iolane::polls_completions(path));
    let per_io = interrupts.map(|interrupts| interrupts / ios as f64);
    let per_io = per_io.filter(|per_io| *per_io > POLLED_INTERRUPTS_MAX)?;
    Some(format!("{per_io:.2} interrupts of the device per I/O: its completions were not all polled"))
}

#[cfg(test)]
mod tests {
    use iolane_measure::telemetry::{Sourced, Unavailable};

    use super::*;

    #[test]
    fn a_path_that_was_not_polled_or_not_served_by_its_thread_is_not_measured() {
        let why = |path: &str, figure, value: f64| {
            let mut figures = RunFigures::default();
            figures.set(figure, Ok(Sourced::new(value, "test")));
            not_as_named(&path.parse().unwrap(), &figures, 1000)
        };
        let unpolled = why("io_uring+iopoll", RunFigure::DeviceInterrupts, 200.0).unwrap();
        assert!(unpolled.starts_with("0.20 interrupts"), "{unpolled}");
        assert!(why("nvme", RunFigure::DeviceInterrupts, 200.0).is_some(), "the driver polls without being asked");
        assert!(why("io_uring+sqpoll", RunFigure::SyscallsPerIo, 0.9).unwrap().contains("submission thread"));
        for (path, figure, value) in [
            ("io_uring+iopoll", RunFigure::DeviceInterrupts, 90.0),
            ("io_uring", RunFigure::DeviceInterrupts, 1000.0),
            ("io_uring", RunFigure::SyscallsPerIo, 1.0),
            ("io_uring+sqpoll", RunFigure::SyscallsPerIo, 0.1),
        ] {
            assert_eq!(why(path, figure, value), None, "{path}");
        }
        let unknown = RunFigures::unavailable(&Unavailable::new("no /proc"));
        assert_eq!(not_as_named(&"io_uring+iopoll".parse().unwrap(), &unknown, 1000), None);
    }
}
