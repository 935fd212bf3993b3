//! Decides whether a run is valid: its requests succeeded, the path did what its name promises, and no other program
//! used its CPUs.

use iolane_measure::figures::RunFigure;
use iolane_measure::run::{RunOutcome, RunPlan};

use crate::rows::Row;

/// Whether a run is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Validity {
    Accepted,
    /// Other activity on the machine disturbed it; another attempt may succeed.
    Disturbed(String),
    /// It did not measure what it was meant to.
    Rejected(String),
}

/// Other programs may use this share of the CPU time available to an arm's threads.
const OTHERS_SHARE_MAX: f64 = 0.25;
/// A shorter time is within the resolution of the kernel's ticks.
const OTHERS_S_MIN: f64 = 0.05;
/// A path with more system calls per I/O than this was not served by a submission thread.
const SQPOLL_SYSCALLS_MAX: f64 = 0.5;

/// Decides whether a run is valid; `row` holds what `outcome` measured.
pub(super) fn validity(plan: &RunPlan, outcome: &RunOutcome, row: &Row) -> Validity {
    let tally = &outcome.tally;
    if tally.errors > 0 {
        let first = tally.first_error.as_deref().unwrap_or("unknown");
        return Validity::Rejected(format!("{} requests failed; the first: {first}", tally.errors));
    }
    if tally.ios == 0 {
        return Validity::Rejected("no request ended within the run".into());
    }
    let syscalls_per_io = row.figures.number(RunFigure::SyscallsPerIo).filter(|_| plan.path.polls_submissions());
    if let Some(per_io) = syscalls_per_io.filter(|per_io| *per_io > SQPOLL_SYSCALLS_MAX) {
        return Validity::Rejected(format!("{per_io:.2} system calls per I/O: the submission thread did not serve it"));
    }
    disturbance(plan, outcome, row).map_or(Validity::Accepted, Validity::Disturbed)
}

fn disturbance(plan: &RunPlan, outcome: &RunOutcome, row: &Row) -> Option<String> {
    let system = outcome.telemetry.system.as_ref().ok()?;
    if let Some(times @ 1..) = system.throttled {
        return Some(format!("a core was throttled for heat {times} times"));
    }
    if plan.keeps_real_time().is_err() {
        return None;
    }
    // Without the CPU time of kernel threads, it would be counted as that of other programs.
    row.figures.number(RunFigure::KernelThreadsS)?;
    let own_s = row.figures.cpu_s()?;
    let placed = [&plan.placement.cpus, &plan.placement.sqpoll_cpus];
    let cpus: Vec<u32> = placed.into_iter().flatten().flat_map(|list| list.cpus().to_vec()).collect();
    let is_ours = |cpu: &u32| cpus.is_empty() || cpus.contains(cpu);
    let busy_s: f64 = system.busy_s.iter().filter(|(cpu, _)| is_ours(cpu)).map(|(_, busy_s)| busy_s).sum();
    let others_s = busy_s - own_s;
    let threads = plan.threads * if plan.path.polls_submissions() { 2 } else { 1 };
    let share = others_s / (outcome.wall_s * threads as f64);
    (others_s > OTHERS_S_MIN && share > OTHERS_SHARE_MAX)
        .then(|| format!("other programs had {others_s:.2} s of its CPUs' time in a run of {:.2} s", outcome.wall_s))
}
