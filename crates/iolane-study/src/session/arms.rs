//! Which arms of a study can be run on these targets, and why the others cannot.

use iolane::units::CpuList;
use iolane::{Error, IoPath, Pages, Result, Target};

use super::{Conditions, Planned, peers};
use crate::placement::Placement;
use crate::plan::{Arm, Study};
use crate::records::LeftOut;
use crate::run::RunPlan;
use crate::workload::Workload;

/// The arms that can be run, and those that cannot.
///
/// # Errors
/// `Usage` for a workload that makes no sense on any target.
pub(super) fn plan(study: &Study, conditions: &Conditions) -> Result<(Vec<Planned>, Vec<LeftOut>)> {
    study.workload.validate()?;
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for arm in study.arms(conditions.scale)? {
        match run_plan(study, conditions, &arm) {
            Ok(plan) => planned.push(Planned { arm, plan, peer: None }),
            Err(error) => {
                let (reason, remedy) = (error.cause().into(), error.remedy_text().into());
                left_out.push(LeftOut { arm, reason, remedy, failed: false })
            }
        }
    }
    let own = planned.len();
    for peer in &conditions.peers {
        let (theirs, cannot) = peers::plan(study, &planned[..own], peer);
        planned.extend(theirs);
        left_out.extend(cannot);
    }
    Ok((planned, left_out))
}

fn run_plan(study: &Study, conditions: &Conditions, arm: &Arm) -> Result<RunPlan> {
    let (mut drives, trouble) = reached(&arm.path, &conditions.targets)?;
    if drives.len() < arm.drives {
        let cause = format!("it takes {} drives, and this path can reach {} here", arm.drives, drives.len());
        let too_few = || Error::unavailable("study", cause).remedy("name more by --target");
        return Err(trouble.filter(|_| drives.is_empty()).unwrap_or_else(too_few));
    }
    drives.truncate(arm.drives);
    if arm.rw.writes()
        && let Some(target) = drives.iter().find(|target| !target.writable())
    {
        return Err(Error::unavailable("study", "it writes, and that was not allowed")
            .remedy(format!("--allow-writes {} allows it, and destroys what is there", target.name())));
    }
    let placement = match (arm.cores, &conditions.placement) {
        (Some(cores), _) => Placement::within(cores, arm.threads)?,
        (None, Some(placement)) => placement.clone(),
        (None, None) => Placement::apart(arm.threads),
    };
    let plan = RunPlan {
        path: arm.path.clone(),
        targets: drives,
        workload: Workload {
            access: arm.rw,
            block_sizes: arm.bs.clone(),
            depth: arm.depth,
            size: conditions.size,
            ..study.workload.clone()
        },
        threads: arm.threads,
        // A submission thread's cpu is only for the paths that have one; the others would refuse it.
        placement: Placement { spoll_cpus: spoll_cpus(arm, &placement), ..placement },
        runtime: conditions.lengths.runtime.unwrap_or_default(),
        warmup: conditions.lengths.warmup,
        pages: Pages::Base,
        prefilled: conditions.prefilled,
        watched: true,
    };
    plan.check()?;
    Ok(plan)
}

/// The targets that a path can reach, and why it cannot reach one of the others.
///
/// # Errors
/// `Usage` for a path that no interface has.
fn reached(path: &IoPath, targets: &[Target]) -> Result<(Vec<Target>, Option<Error>)> {
    let meant_for = iolane::interface_of(path)?;
    let (mut drives, mut trouble) = (Vec::new(), None);
    for target in targets {
        match iolane::probe(path, target) {
            Ok(_) => drives.push(target.clone()),
            // Of several reasons that of a target which the path is meant for tells most.
            Err(error) if trouble.is_none() || meant_for.reaches(target.kind()) => trouble = Some(error),
            Err(_) => {}
        }
    }
    Ok((drives, trouble))
}

fn spoll_cpus(arm: &Arm, placement: &Placement) -> Option<CpuList> {
    placement.spoll_cpus.clone().filter(|_| arm.path.polls_submissions())
}
