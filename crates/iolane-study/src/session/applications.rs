//! Arms that an application runs: by a path, or as a program without iolane does it.

use std::sync::atomic::AtomicBool;

use iolane::{Error, Result, Target};
use iolane_application::{Application, By, Job, Layout, Measured, Prepared, Rival, check, run};
use iolane_measure::figures::RunFigure;
use iolane_measure::latencies::compact;
use iolane_measure::run::{CheckedPlan, RunPlan};
use iolane_measure::span::Span;
use iolane_measure::telemetry::{Sourced, Unavailable};
use iolane_measure::workload::{Rate, Workload};

use super::planned::Planned;
use crate::plan::Arm;
use crate::rows::Row;

/// The arms of the programs without iolane that do what this arm does.
pub(super) fn rivals(arm: &Arm) -> Vec<Arm> {
    let rivals = arm.application.map_or(&[][..], Application::rivals).iter();
    let beside = |rival: &Rival| {
        let path = rival.path();
        Arm { name: path.to_string(), path, peer: Some(rival.name().into()), ..arm.clone() }
    };
    rivals.map(beside).collect()
}

/// Checks that an application can run an arm. `run_plan` checks a path that keeps this many requests in flight; an application may have
/// more, of which the path gets as many as it takes.
pub(super) fn plan(
    application: Application,
    arm: &Arm,
    mut run_plan: impl FnMut(&Arm) -> Result<CheckedPlan>,
) -> Result<Planned> {
    let by = match &arm.peer {
        Some(rival) => By::Rival(rival.parse()?),
        None => By::Path(arm.path.clone()),
    };
    let workload = Workload { depth: 1, ..arm.workload.clone() };
    let checked = run_plan(&Arm { workload, ..arm.clone() })?;
    let target = target(checked.plan());
    check(application, &by, target, arm.workload.depth)?;
    layout(checked.plan())?;
    Ok(Planned { arm: arm.clone(), plan: checked, peer: None, by: Some(by) })
}

/// The first target: an application has its data on one.
fn target(plan: &RunPlan) -> &Target {
    plan.targets.first().expect("a checked plan has a target")
}

fn layout(plan: &RunPlan) -> Result<Layout> {
    Layout::of(target(plan), plan.workload.start, plan.workload.size)
}

/// What was written for the applications of a study, by target.
#[derive(Debug, Default)]
pub(super) struct Written(Vec<(String, Prepared)>);

impl Written {
    /// Writes what the applications read to each of their targets. `tell` gets the name of the target.
    ///
    /// # Errors
    /// If it cannot be written, or `stop` was set.
    pub(super) fn make(planned: &[Planned], stop: &AtomicBool, mut tell: impl FnMut(&str)) -> Result<Self> {
        let mut written: Vec<(String, Prepared)> = Vec::new();
        for plan in planned.iter().filter(|planned| planned.by.is_some()).map(|planned| planned.plan.plan()) {
            let target = target(plan);
            if written.iter().any(|(name, _)| name == target.name()) {
                continue;
            }
            let on_it = planned.iter().filter(|other| self::target(other.plan.plan()).name() == target.name());
            let applications: Vec<Application> = on_it.filter_map(|other| other.arm.application).collect();
            tell(target.name());
            let prepared = Prepared::make(target, layout(plan)?, &applications, stop, |_| ())?;
            written.push((target.name().to_owned(), prepared));
        }
        Ok(Self(written))
    }

    fn on(&self, target: &Target) -> Result<&Prepared> {
        let found = self.0.iter().find(|(name, _)| name == target.name());
        found.map(|(_, prepared)| prepared).ok_or_else(|| {
            Error::failed(format!("target {}", target.name()), "what the applications read was not written")
        })
    }
}

/// Runs one arm. `None` if it was stopped.
///
/// # Errors
/// As of the application.
pub(super) fn run_arm(
    base: Row,
    planned: &Planned,
    by: &By,
    written: &Written,
    stop: &AtomicBool,
) -> Result<Option<(Row, Span)>> {
    let plan = planned.plan.plan();
    let target = target(plan);
    let Arm { application, workload, threads, .. } = &planned.arm;
    let application = application.ok_or_else(|| Error::failed("an arm", "it has no application"))?;
    let job = Job {
        application,
        by: by.clone(),
        target,
        prepared: written.on(target)?,
        depth: workload.depth,
        threads: *threads,
        rate: workload.rate.map(Rate::per_s),
        warmup: plan.warmup,
        runtime: plan.runtime,
        // Each repeat draws other keys, the same for all ways.
        seed: workload.seed ^ u64::from(base.repeat) << 32,
    };
    Ok(run(&job, stop)?.map(|measured| row(base, measured)))
}

fn row(base: Row, measured: Measured) -> (Row, Span) {
    let Measured { operations, bytes, latency, syscalls, telemetry, span } = measured;
    let mut figures = telemetry.figures;
    let not_counted = || Unavailable::new("this way to the target does not count its system calls");
    let counted = "the count of the application's queues";
    let per_operation = |calls: u64| Sourced::new(calls as f64 / operations.max(1) as f64, counted);
    figures.set(RunFigure::SyscallsPerIo, syscalls.map(per_operation).ok_or_else(not_counted));
    let of_requests = || Unavailable::new("an application has no requests of its own to time");
    let only_engine = [
        RunFigure::SubmitBatch,
        RunFigure::ServiceP50Ns,
        RunFigure::ServiceP99Ns,
        RunFigure::StartLateP99Ns,
        RunFigure::FloorP50Ns,
        RunFigure::FloorP99Ns,
    ];
    only_engine.into_iter().for_each(|figure| figures.set(figure, Err::<Sourced<f64>, _>(of_requests())));
    let rejected = (operations == 0).then(|| "no operation ended within the run".to_owned());
    let row = Row {
        elapsed_s: span.seconds(),
        ios: operations,
        bytes,
        mean_ns: (!latency.is_empty()).then(|| latency.mean()),
        latency: compact(&latency),
        threads: telemetry.threads,
        figures,
        rejected,
        ..base
    };
    (row, span)
}
