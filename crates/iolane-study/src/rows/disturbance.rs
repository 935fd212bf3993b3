//! What disturbed a run: other programs used its processors, or it stood still. A study repeats such a run, and `run` names the cause.

use std::time::Duration;

use iolane_measure::figures::RunFigure;
use iolane_measure::host::LabMachine;
use iolane_measure::placement::allowed_cpus;
use iolane_measure::run::{RunOutcome, RunPlan};

/// Other programs may use this share of the CPU time available to an arm's threads.
const OTHERS_SHARE_MAX: f64 = 0.25;
/// A shorter time is within the resolution of the kernel's ticks.
const OTHERS_S_MIN: f64 = 0.05;
/// A thread that only sleeps is never this late on a machine that runs.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// That the program, or the machine, was stopped during a run, and for how long.
pub(crate) fn stood_still(outcome: &RunOutcome) -> Option<String> {
    let gap_s = outcome.gap.as_secs_f64();
    let text = || {
        format!(
            "it stood still for {gap_s:.1} s in a run of {:.1} s: the program or the machine was stopped",
            outcome.wall_s
        )
    };
    (outcome.gap > STOOD_STILL).then(text)
}

/// What disturbed a run that had the machine for itself.
pub(crate) fn disturbance(plan: &RunPlan, outcome: &RunOutcome) -> Option<String> {
    if let Some(why) = stood_still(outcome) {
        return Some(why);
    }
    let system = outcome.telemetry.system.as_ref().ok()?;
    if let Some(times @ 1..) = system.throttled {
        return Some(format!("a core was throttled for heat {times} times"));
    }
    // The lab keeps the processors of a guest busy whose clock counts instructions.
    let counts_instructions = LabMachine::of_this_guest().is_some_and(|lab| lab.exact);
    if plan.keeps_real_time().is_err() || counts_instructions {
        return None;
    }
    let figures = &outcome.telemetry.figures;
    // Without the CPU time of kernel threads, it would be counted as that of other programs.
    figures.number(RunFigure::KernelThreadsS)?;
    let own_s = figures.threads_s()?;
    let placed = [&plan.placement.cpus, &plan.placement.sqpoll_cpus];
    let cpus: Vec<u32> = placed.into_iter().flatten().flat_map(|list| list.cpus().to_vec()).collect();
    let is_placed = !cpus.is_empty();
    let cpus = if is_placed { cpus } else { allowed_cpus() };
    let busy_s: f64 = system.busy_s.iter().filter(|(cpu, _)| cpus.contains(cpu)).map(|(_, busy_s)| busy_s).sum();
    let others_s = busy_s - own_s;
    let threads = plan.threads * if plan.path.polls_submissions() { 2 } else { 1 };
    let needed_s = outcome.wall_s * threads as f64;
    // Threads that are not placed go to the processors that others leave.
    let has_enough = !is_placed && cpus.len() as f64 * outcome.wall_s - others_s >= needed_s;
    (others_s > OTHERS_S_MIN && others_s / needed_s > OTHERS_SHARE_MAX && !has_enough)
        .then(|| format!("other programs had {others_s:.2} s of its CPUs' time in a run of {:.2} s", outcome.wall_s))
}
