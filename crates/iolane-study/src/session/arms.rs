//! Decides which arms of a study can run on these targets, and why the others cannot. Sessions call it before they
//! start.

use std::collections::HashSet;

use iolane::units::CpuList;
use iolane::{Error, ErrorKind, IoPath, Result, Target};

use super::conditions::Conditions;
use super::planned::Planned;
use super::{applications, peers};
use crate::plan::{Arm, Study};
use crate::rows::LeftOut;
use iolane_measure::nearest_cpus::nearest_cpus;
use iolane_measure::placement::Placement;
use iolane_measure::run::{CheckedPlan, Probes, RunPlan};

/// The arms that can run, and those that cannot.
///
/// # Errors
/// `Usage` if there is no arm that can run, and the workload of one is invalid on every target.
pub(super) fn plan(study: &Study, conditions: &Conditions) -> Result<(Vec<Planned>, Vec<LeftOut>)> {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    let mut misuse = None;
    let mut probes = Probes::default();
    let arms = study.arms(conditions.scale)?;
    let writes = arms.iter().any(|arm| arm.workload.access.writes() && arm.application.is_none());
    for arm in with_rivals(arms) {
        let is_bounded = || study.rate_until.map_or(Ok(()), |bound| bound.check(&arm.workload));
        let checked = check_content(&arm, writes).and_then(|()| is_bounded());
        let planned_arm = checked.and_then(|()| match arm.application {
            None => {
                Ok(Planned { plan: run_plan(conditions, &arm, &mut probes)?, arm: arm.clone(), peer: None, by: None })
            }
            Some(application) => {
                applications::plan(application, &arm, |asked| run_plan(conditions, asked, &mut probes))
            }
        });
        match planned_arm {
            Ok(arm) => planned.push(arm),
            Err(error) => {
                let (reason, remedy) = (error.cause().into(), error.remedy_text().into());
                left_out.push(LeftOut { arm, reason, remedy, failed: false });
                if error.kind() == ErrorKind::Usage {
                    misuse.get_or_insert(error);
                }
            }
        }
    }
    if let Some(error) = misuse.filter(|_| planned.is_empty()) {
        return Err(error);
    }
    let own = planned.len();
    for peer in &conditions.peers {
        let (theirs, cannot) = peers::plan(&planned[..own], peer);
        planned.extend(theirs);
        left_out.extend(cannot);
    }
    Ok((planned, left_out))
}

/// The arms, and beside each application the programs that do the same without iolane.
fn with_rivals(arms: Vec<Arm>) -> Vec<Arm> {
    let mut known = HashSet::new();
    let rivals: Vec<Arm> = arms.iter().flat_map(applications::rivals).filter(|arm| known.insert(arm.clone())).collect();
    arms.into_iter().chain(rivals).collect()
}

/// Refuses what relies on the content of the targets if an arm of requests `writes`: what they hold then depends on the order of the arms.
fn check_content(arm: &Arm, writes: bool) -> Result<()> {
    let remedy = match (arm.application, &arm.workload) {
        (Some(_), _) => "measure applications in a study of their own",
        (None, workload) if workload.verify && !workload.access.writes() => "verify reads in a study of their own",
        (None, _) => return Ok(()),
    };
    let what = arm.application.map_or_else(
        || format!("--verify with --rw {}", arm.workload.access),
        |application| format!("application {application}"),
    );
    match writes {
        false => Ok(()),
        true => Err(Error::usage(what, "other arms of the study write to the same targets").remedy(remedy)),
    }
}

fn run_plan(conditions: &Conditions, arm: &Arm, probes: &mut Probes) -> Result<CheckedPlan> {
    let (mut drives, trouble) = reached(&arm.path, &conditions.targets, probes)?;
    if drives.len() < arm.drives {
        let plural = if arm.drives == 1 { "drive" } else { "drives" };
        let cause = format!("needs {} {plural}; this path reaches {} of the targets given", arm.drives, drives.len());
        let too_few = || Error::unavailable("study", cause).remedy("add --target");
        return Err(trouble.filter(|_| drives.is_empty()).unwrap_or_else(too_few));
    }
    drives.truncate(arm.drives);
    if arm.workload.access.writes()
        && let Some(target) = drives.iter().find(|target| !target.writable())
    {
        return Err(Error::unavailable("study", "it writes, and writing to the target is not allowed")
            .remedy(format!("add --allow-writes {}, which destroys its data", target.name())));
    }
    let placement = match (arm.cores, &conditions.placement) {
        (_, Some(_)) if arm.application.is_some() => {
            return Err(Error::usage("an application", "the scheduler places its threads").remedy("leave out --cpus"));
        }
        (_, None) if arm.application.is_some() => Placement::default(),
        (Some(cores), _) => Placement::within(&nearest_cpus(&drives), cores, arm.threads)?,
        (None, Some(placement)) => placement.clone(),
        (None, None) => Placement::apart(&nearest_cpus(&drives), arm.threads),
    };
    let runtime = conditions.lengths.runtime.unwrap_or_default();
    let plan = RunPlan {
        threads: arm.threads,
        // Paths without a submission thread refuse a CPU for it.
        placement: Placement { sqpoll_cpus: sqpoll_cpus(arm, &placement), ..placement },
        warmup: conditions.lengths.warmup,
        prefilled: conditions.prefilled,
        ..RunPlan::new(arm.path.clone(), drives, arm.workload.clone(), runtime)
    };
    plan.check_with(probes)
}

/// The targets that a path reaches, and why it does not reach one of the others.
///
/// # Errors
/// `Usage` for a path that belongs to no interface.
fn reached(path: &IoPath, targets: &[Target], probes: &mut Probes) -> Result<(Vec<Target>, Option<Error>)> {
    let meant_for = iolane::interface_of(path)?;
    let (mut drives, mut trouble) = (Vec::new(), None);
    for target in targets {
        match probes.probe(path, target) {
            Ok(_) => drives.push(target.clone()),
            // Of several reasons, the one for a target of the kind the path is made for explains most.
            Err(error) if trouble.is_none() || meant_for.reaches(target.kind()) => trouble = Some(error),
            Err(_) => {}
        }
    }
    Ok((drives, trouble))
}

fn sqpoll_cpus(arm: &Arm, placement: &Placement) -> Option<CpuList> {
    placement.sqpoll_cpus.clone().filter(|_| arm.path.polls_submissions())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_application::Application;
    use iolane_measure::workload::{Access, Workload};

    #[test]
    fn what_relies_on_content_is_not_measured_beside_arms_that_write() {
        let load = |access, verify| {
            let workload = Workload { access, verify, ..Workload::default() };
            Arm { workload, ..Arm::of_null("an arm") }
        };
        let lookups = Arm { application: Some(Application::MultiGet), ..load(Access::RandRead, false) };
        for (arm, what) in [(load(Access::RandRead, true), "--verify"), (lookups.clone(), "application multi-get")] {
            let error = check_content(&arm, true).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("other arms of the study write"), "{error}");
        }
        assert!(check_content(&lookups, false).is_ok());
        for (access, verify, writes) in
            [(Access::RandRead, true, false), (Access::RandRead, false, true), (Access::RandWrite, true, true)]
        {
            assert!(check_content(&load(access, verify), writes).is_ok(), "{access}");
        }
    }
}
