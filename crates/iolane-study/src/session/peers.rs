//! Arms that a peer tool runs: the same load on the same target as iolane's own, as the peer itself reports it.

use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;

use iolane::{Result, Target, TargetKind};

use super::installed_peer::InstalledPeer;
use super::planned::Planned;
use crate::peers::{self, Load, LoadTarget};
use crate::rows::{LeftOut, Row, Warning};
use iolane_measure::figures::{RunFigure, RunFigures};
use iolane_measure::run::RunPlan;
use iolane_measure::telemetry::{Sourced, Unavailable};
use iolane_measure::workload::OffsetPattern;

/// The arms of a peer next to iolane's own, and those that it has no counterpart for.
pub(super) fn plan(own: &[Planned], peer: &InstalledPeer) -> (Vec<Planned>, Vec<LeftOut>) {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for beside in own {
        let mut arm = beside.arm.clone();
        arm.peer = Some(peer.peer.name().into());
        match cannot(beside.plan.plan(), peer) {
            None => planned.push(Planned { arm, plan: beside.plan.clone(), peer: Some(peer.clone()) }),
            Some(reason) => left_out.push(LeftOut { arm, reason, remedy: String::new(), failed: false }),
        }
    }
    (planned, left_out)
}

fn cannot(plan: &RunPlan, peer: &InstalledPeer) -> Option<String> {
    let workload = &plan.workload;
    if workload.rate.is_some() || workload.fsync_every.is_some() || workload.offsets != OffsetPattern::UNIFORM {
        return Some("peers run only loads with uniform offsets, without a rate and without fsync".into());
    }
    if plan.workload.block_sizes.single().is_none() {
        return Some("peers run only loads with one block size".into());
    }
    if plan.targets.iter().any(|target| target.kind() == TargetKind::NvmeController) {
        return Some(
            "iolane keeps the controller open for its own arms, and only one program can use it at a time".into(),
        );
    }
    let targets = load_targets(plan);
    peer.peer.cannot(&load(plan, &targets))
}

/// The targets, by names that another process can open.
fn load_targets(plan: &RunPlan) -> Vec<LoadTarget> {
    let name = |target: &Target| match target.fd() {
        // A scratch file has no other name.
        Some(fd) if plan.prefilled => format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()),
        _ => target.name().to_owned(),
    };
    plan.targets.iter().map(|target| LoadTarget { name: name(target), kind: target.kind() }).collect()
}

fn load<'a>(plan: &'a RunPlan, targets: &'a [LoadTarget]) -> Load<'a> {
    let workload = &plan.workload;
    Load {
        path: &plan.path,
        access: workload.access,
        read_percent: workload.read_percent(),
        block_bytes: workload.block_sizes.max(),
        depth: workload.depth,
        threads: plan.threads,
        targets,
        cpus: plan.placement.cpus.as_ref(),
        sqpoll_cpus: plan.placement.sqpoll_cpus.as_ref(),
        runtime: plan.runtime,
        warmup: plan.warmup,
        seed: workload.seed,
        direct: plan.targets.iter().all(Target::direct),
        size: workload.size,
    }
}

/// Runs one arm with a peer.
pub(super) fn run(base: Row, plan: &RunPlan, peer: &InstalledPeer, stop: &AtomicBool) -> Result<Row> {
    let targets = load_targets(plan);
    let load = load(plan, &targets);
    let measured = peers::run(peer.peer, &peer.installed, &load, stop)?;
    let mut warnings: Vec<Warning> = peer.peer.differences(&load).into_iter().map(Warning::note).collect();
    if measured.latency.is_none() {
        warnings.push(Warning::note(format!("{} prints no percentiles of latency", peer.peer.name())));
    }
    Ok(Row {
        elapsed_s: measured.elapsed_s,
        ios: measured.ios,
        errors: measured.errors,
        bytes: measured.bytes,
        mean_ns: Some(measured.mean_ns),
        latency: measured.latency.unwrap_or_else(|| base.latency.clone()),
        figures: figures(peer, measured.user_s, measured.system_s),
        warnings,
        ..base
    })
}

/// Only the figures that the peer itself prints: another program's run is not observed.
fn figures(peer: &InstalledPeer, user_s: Option<f64>, system_s: Option<f64>) -> RunFigures {
    let why = Unavailable::new(format!("another program ran it, and {} does not print it", peer.peer.name()));
    let mut figures = RunFigures::unavailable(&why);
    let source = format!("what {} prints of itself", peer.peer.name());
    for (figure, seconds) in [(RunFigure::UserS, user_s), (RunFigure::SystemS, system_s)] {
        figures.set(figure, seconds.map(|seconds| Sourced::new(seconds, source.clone())).ok_or_else(|| why.clone()));
    }
    figures
}
