//! Whether a run is worth anything: its requests ended well, the path did what its name says, and nobody else had the
//! processors meanwhile.

use crate::record;
use crate::run::{RunOutcome, RunPlan};

/// What a run is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Worth {
    /// It counts.
    Good,
    /// Something else on the machine was in its way; another attempt may be better.
    Disturbed(String),
    /// It did not measure what it was meant to.
    Invalid(String),
}

/// Others may have this share of the processor time that an arm's threads could have had.
const OTHERS_SHARE_MAX: f64 = 0.25;
/// And less than this is the kernel's ticks' coarseness.
const OTHERS_S_MIN: f64 = 0.05;
/// A path that makes more system calls per I/O than this has not been served by a submission thread.
const SPOLL_SYSCALLS_MAX: f64 = 0.5;

/// What a run is worth.
pub(super) fn worth(plan: &RunPlan, outcome: &RunOutcome) -> Worth {
    let tally = &outcome.tally;
    if tally.errors > 0 {
        let first = tally.first_error.as_deref().unwrap_or("unknown");
        return Worth::Invalid(format!("{} requests failed; the first: {first}", tally.errors));
    }
    if tally.ios == 0 {
        return Worth::Invalid("no request ended within the run".into());
    }
    if let Some(per_io) = record::syscalls_per_io(outcome).filter(|_| plan.path.polls_submissions())
        && per_io > SPOLL_SYSCALLS_MAX
    {
        return Worth::Invalid(format!("{per_io:.2} system calls per I/O: the submission thread did not serve it"));
    }
    disturbance(plan, outcome).map_or(Worth::Good, Worth::Disturbed)
}

fn disturbance(plan: &RunPlan, outcome: &RunOutcome) -> Option<String> {
    let machine = outcome.telemetry.machine.as_ref().ok()?;
    if let Some(times @ 1..) = machine.throttled {
        return Some(format!("the processor was slowed down for heat {times} times"));
    }
    if plan.keeps_real_time().is_err() {
        return None;
    }
    let cpu = outcome.telemetry.cpu.as_ref().ok()?;
    let own_s = cpu.user_s + cpu.system_s + cpu.kernel_threads_s.as_ref().ok()?;
    let placed = [&plan.placement.cpus, &plan.placement.spoll_cpus];
    let cpus: Vec<u32> = placed.into_iter().flatten().flat_map(|list| list.cpus().to_vec()).collect();
    let is_ours = |cpu: &u32| cpus.is_empty() || cpus.contains(cpu);
    let busy_s: f64 = machine.busy_s.iter().filter(|(cpu, _)| is_ours(cpu)).map(|(_, busy_s)| busy_s).sum();
    let others_s = busy_s - own_s;
    let threads = plan.threads * if plan.path.polls_submissions() { 2 } else { 1 };
    let share = others_s / (outcome.wall_s * threads as f64);
    (others_s > OTHERS_S_MIN && share > OTHERS_SHARE_MAX).then(|| {
        format!("other programs had {others_s:.2} s of its processors' time in a run of {:.2} s", outcome.wall_s)
    })
}
