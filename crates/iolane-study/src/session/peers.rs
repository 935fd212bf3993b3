//! Arms that another tool runs: the same load on the same target, beside iolane's own, by its own words.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;

use iolane::{Error, Result, Target, TargetKind};

use super::Planned;
use crate::peers::{self, Installed, Load, Peer};
use crate::plan::Study;
use crate::records::{LeftOut, Row, UNAVAILABLE};
use crate::run::RunPlan;
use crate::telemetry::{RunTelemetry, Unavailable};
use crate::workload::OffsetPattern;

/// A peer that is there.
#[derive(Clone)]
pub struct InstalledPeer {
    /// The tool.
    pub peer: &'static dyn Peer,
    /// Its program.
    pub installed: Installed,
}

impl std::fmt::Debug for InstalledPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.installed.fmt(f)
    }
}

impl InstalledPeer {
    /// Looks for the peer of that name.
    ///
    /// # Errors
    /// `Usage` for a name that is no peer's, `Unavailable`, with how to get it, if it is not installed.
    pub fn find(name: &str) -> Result<Self> {
        let known = peers::PEERS.iter().find(|peer| peer.name() == name);
        let peer = *known.ok_or_else(|| {
            let names: Vec<&str> = peers::PEERS.iter().map(|peer| peer.name()).collect();
            Error::usage(format!("peer `{name}`"), "no peer of that name").remedy(format!("use {}", names.join(", ")))
        })?;
        Ok(Self { peer, installed: peers::find(peer)? })
    }
}

/// The arms of a peer beside iolane's own, and those of them that it has no counterpart for.
pub(super) fn plan(study: &Study, own: &[Planned], peer: &InstalledPeer) -> (Vec<Planned>, Vec<LeftOut>) {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for beside in own {
        let mut arm = beside.arm.clone();
        arm.peer = Some(peer.peer.name().into());
        match cannot(study, &beside.plan, peer) {
            None => planned.push(Planned { arm, plan: beside.plan.clone(), peer: Some(peer.clone()) }),
            Some(reason) => left_out.push(LeftOut { arm, reason, remedy: String::new(), failed: false }),
        }
    }
    (planned, left_out)
}

fn cannot(study: &Study, plan: &RunPlan, peer: &InstalledPeer) -> Option<String> {
    let workload = &study.workload;
    if workload.rate.is_some() || workload.fsync_every.is_some() || workload.offsets != OffsetPattern::UNIFORM {
        return Some("peers run loads without a rate, without fsync and with uniform offsets alone".into());
    }
    if plan.workload.block_sizes.single().is_none() {
        return Some("peers run blocks of one size alone".into());
    }
    if plan.targets.iter().any(|target| target.kind() == TargetKind::NvmeController) {
        return Some(
            "iolane keeps the controller open for its own arms, and no two programs can have it at once".into(),
        );
    }
    let names = names(plan);
    peer.peer.cannot(&load(plan, &names))
}

/// The targets by names that another process can open.
fn names(plan: &RunPlan) -> Vec<String> {
    let name = |target: &Target| match target.fd() {
        // A scratch file has no name but this one.
        Some(fd) if plan.prefilled => format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()),
        _ => target.name().to_owned(),
    };
    plan.targets.iter().map(name).collect()
}

fn load<'a>(plan: &'a RunPlan, targets: &'a [String]) -> Load<'a> {
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
        spoll_cpus: plan.placement.spoll_cpus.as_ref(),
        runtime: plan.runtime,
        warmup: plan.warmup,
        seed: workload.seed,
        direct: plan.targets.iter().all(Target::direct),
        size: workload.size,
    }
}

/// Runs a peer's arm once.
pub(super) fn run(base: Row, plan: &RunPlan, peer: &InstalledPeer, stop: &AtomicBool) -> Result<Row> {
    let names = names(plan);
    let load = load(plan, &names);
    let measured = peers::run(peer.peer, &peer.installed, &load, stop)?;
    let mut warnings = peer.peer.differences(&load);
    if measured.latency.is_none() {
        warnings.push(format!("{} prints no percentiles of latency", peer.peer.name()));
    }
    Ok(Row {
        elapsed_s: measured.elapsed_s,
        ios: measured.ios,
        errors: measured.errors,
        bytes: measured.bytes,
        mean_ns: Some(measured.mean_ns),
        latency: measured.latency.unwrap_or_else(|| base.latency.clone()),
        user_s: measured.user_s,
        system_s: measured.system_s,
        sources: sources(peer),
        warnings,
        ..base
    })
}

/// Only what the peer prints of itself: what runs in another program is not watched.
fn sources(peer: &InstalledPeer) -> BTreeMap<String, String> {
    let why = Unavailable::new(format!("another program ran it, and {} does not tell", peer.peer.name()));
    let mut sources = RunTelemetry::unavailable(&why).sources;
    sources.insert("syscalls_per_io".into(), format!("{UNAVAILABLE}{why}"));
    sources.insert("cpu_s".into(), format!("what {} prints of itself", peer.peer.name()));
    sources
}
