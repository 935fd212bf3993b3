//! Preconditions targets before writes are measured: fills the drive, then writes at random until the rate is steady,
//! after the SNIA Solid State Storage Performance Test Specification (workload independent and workload dependent
//! preconditioning). Only targets that were opened for writing are touched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolane::{Error, IoPath, Result, Target};

use super::conditions::Conditions;
use super::planned::Planned;
use crate::plan::{PerScale, Scale};
use crate::rows::Preconditioned;
use crate::stats::first_steady_round;
use iolane_measure::progress::RunProgress;
use iolane_measure::run::{CheckedPlan, Probes, RunOutcome, RunPlan, run_with_progress};
use iolane_measure::workload::{Access, Workload};

/// The extent of preconditioning at a scale.
struct Effort {
    passes: f64,
    sequential_max: Duration,
    round: Duration,
    rounds_max: usize,
}

/// SNIA's own extent, or what a few minutes allow.
const EFFORT: PerScale<Effort> = PerScale {
    scaled: Effort {
        passes: 1.0,
        sequential_max: Duration::from_secs(15),
        round: Duration::from_secs(1),
        rounds_max: 10,
    },
    full: Effort {
        passes: 2.0,
        sequential_max: Duration::from_secs(24 * 3600),
        round: Duration::from_secs(60),
        rounds_max: 25,
    },
};

/// The estimated time for all targets: a small drive is filled quickly, and half of the rounds are usually enough.
pub(super) fn estimated_time(planned: &[Planned], scale: Scale) -> Duration {
    let effort = EFFORT.at(scale);
    effort.round * effort.rounds_max as u32 * targets(planned).len() as u32 * 3 / 4
}

/// The targets that arms write to, without duplicates, and without those that keep nothing.
fn targets(planned: &[Planned]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for target in planned
        .iter()
        .filter(|planned| planned.needs_preconditioning())
        .flat_map(|planned| &planned.plan.plan().targets)
    {
        let is_new = targets.iter().all(|known| known.name() != target.name());
        if is_new && target.kind().keeps_data() {
            targets.push(target.clone());
        }
    }
    targets
}

/// Preconditions every target that arms write to.
///
/// # Errors
/// As of a run; `Failed` if it was stopped.
pub(super) fn precondition(
    planned: &[Planned],
    conditions: &Conditions,
    (stop, run_progress): (&AtomicBool, &RunProgress),
    mut progress: impl FnMut(&str),
) -> Result<Vec<Preconditioned>> {
    let effort = EFFORT.at(conditions.scale);
    // All arms use the same part of a target.
    let (start, size) =
        planned.first().map_or((0, None), |planned| (planned.arm.workload.start, planned.arm.workload.size));
    let part = Workload { start, size, ..Workload::default() };
    let mut done = Vec::new();
    for target in targets(planned) {
        progress(target.name());
        let bytes = size.unwrap_or(target.bytes().saturating_sub(start));
        let mut passes = 1.0;
        if !conditions.prefilled {
            let written = run_with_progress(&sequential(&target, &part, bytes, effort)?, stop, run_progress)?;
            passes = written.tally.bytes as f64 / bytes as f64;
        }
        let (random, mut rounds) = (random(&target, &part, effort)?, Vec::new());
        while first_steady_round(&rounds).is_none() && rounds.len() < effort.rounds_max {
            let outcome = run_with_progress(&random, stop, run_progress)?;
            stopped(&outcome, stop)?;
            rounds.push(outcome.iops());
        }
        let steady_round = first_steady_round(&rounds);
        done.push(Preconditioned { target: target.name().into(), passes, rounds, steady_round });
    }
    Ok(done)
}

fn stopped(outcome: &RunOutcome, stop: &AtomicBool) -> Result<()> {
    match outcome.interrupted || stop.load(Ordering::Relaxed) {
        true => Err(Error::failed("preconditioning", "it was interrupted")),
        false => Ok(()),
    }
}

/// Writes `bytes` in sequence, over and over, to the part of the target that a workload names.
fn sequential(target: &Target, part: &Workload, bytes: u64, effort: &Effort) -> Result<CheckedPlan> {
    let workload = Workload {
        access: Access::Write,
        block_sizes: "128k".parse()?,
        bytes_max: Some((bytes as f64 * effort.passes) as u64),
        ..part.clone()
    };
    plan(target, workload, effort.sequential_max)
}

fn random(target: &Target, part: &Workload, effort: &Effort) -> Result<CheckedPlan> {
    plan(target, Workload { access: Access::RandWrite, ..part.clone() }, effort.round)
}

/// Enough requests in flight to keep a drive busy.
const DEPTH: u32 = 32;

fn plan(target: &Target, workload: Workload, runtime: Duration) -> Result<CheckedPlan> {
    let mut probes = Probes::default();
    let paths = ["io_uring", "libaio", "nvme", "psync"].map(IoPath::new);
    let mut reached = paths.into_iter().filter_map(|path| Some((probes.probe(&path, target).ok()?, path)));
    let (capabilities, path) = reached.next().ok_or_else(|| {
        Error::unavailable(format!("preconditioning {}", target.name()), "no available path can write to it")
    })?;
    let workload = Workload { depth: DEPTH.min(capabilities.depth_max), ..workload };
    RunPlan::new(path, vec![target.clone()], workload, runtime).check_with(&mut probes)
}
