//! Arms that a peer tool runs: the same load on the same target as iolane's own, as the peer itself reports it.

use std::sync::atomic::AtomicBool;

use iolane::{Error, Result, Target};

use super::installed_peer::InstalledPeer;
use super::planned::Planned;
use crate::peers::{self, Load, LoadTarget, PeerMeasurement, PeerRun};
use crate::rows::{LeftOut, Row, Warning};
use iolane_measure::figures::{FigureValue, RunFigure, RunFigures};
use iolane_measure::latencies::compact;
use iolane_measure::run::RunPlan;
use iolane_measure::telemetry::{Reading, Sourced, Unavailable, Watch};
use iolane_measure::workload::Workload;

/// The arms of a peer next to iolane's own, and those that it has no counterpart for.
pub(super) fn plan(own: &[Planned], peer: &InstalledPeer) -> (Vec<Planned>, Vec<LeftOut>) {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for beside in own.iter().filter(|planned| planned.by.is_none()) {
        let mut arm = beside.arm.clone();
        arm.peer = Some(peer.peer.name().into());
        match check(beside.plan.plan(), peer) {
            Ok(()) => planned.push(Planned { arm, plan: beside.plan.clone(), peer: Some(peer.clone()), by: None }),
            Err(error) => {
                let (reason, remedy) = (error.cause().into(), error.remedy_text().into());
                left_out.push(LeftOut { arm, reason, remedy, failed: false });
            }
        }
    }
    (planned, left_out)
}

/// What a [`Load`] says of a workload. A peer runs an arm only if all else is as by default.
const FIELDS_OF_PEERS: [&str; 9] =
    ["rw", "read_percent", "bs", "depth", "batch_submit", "batch_complete", "batch_complete_max", "size", "seed"];

/// A field of a workload that a peer is not told, if it is not as by default.
fn beyond_peers(workload: &Workload) -> Option<(&'static str, String)> {
    let fields = workload.fields().into_iter().zip(Workload::default().fields());
    let mut beyond = fields.filter(|(is, usual)| !FIELDS_OF_PEERS.contains(&is.0) && is != usual);
    beyond.next().map(|(field, _)| field)
}

/// Checks that a peer can and may run an arm.
fn check(plan: &RunPlan, peer: &InstalledPeer) -> Result<()> {
    let cannot = |cause: String| Err(Error::usage(peer.peer.name(), cause));
    let workload = &plan.workload;
    if let Some((name, value)) = beyond_peers(workload) {
        return cannot(format!("peers run no load with {name} {value}"));
    }
    if plan.workload.block_sizes.single().is_none() {
        return cannot("peers run only loads with one block size".into());
    }
    let targets = load_targets(plan);
    let load = load(plan, &targets);
    peer.peer.cannot(&load).map_or(Ok(()), cannot)?;
    peers::check_permits(peer.peer, &load)
}

fn load_targets(plan: &RunPlan) -> Vec<LoadTarget> {
    plan.targets.iter().map(LoadTarget::of).collect()
}

fn load<'a>(plan: &'a RunPlan, targets: &'a [LoadTarget]) -> Load<'a> {
    let workload = &plan.workload;
    Load {
        path: &plan.path,
        access: workload.access,
        read_percent: workload.read_percent(),
        block_bytes: workload.block_sizes.max(),
        depth: workload.depth,
        batch_submit: workload.batch_submit,
        batch_complete: workload.batch_complete,
        batch_complete_max: workload.batch_complete_max,
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
    // Only one program at a time can have an NVMe controller open.
    iolane::nvme::release(&plan.targets)?;
    let mut watch = Watch::open(&plan.targets, plan.placement.cpus.as_ref());
    watch.begin();
    let PeerRun { measured, calls_per_io } = peers::run(peer.peer, &peer.installed, &load, stop)?;
    let machine = watch.end().figures;
    let mut warnings: Vec<Warning> = peer.peer.differences(&load).into_iter().map(Warning::note).collect();
    if measured.latency.is_none() {
        warnings.push(Warning::note(format!("{} prints no percentiles of latency", peer.peer.name())));
    }
    let mut figures = figures(peer, &measured, calls_per_io);
    add_kernels_time(&mut figures, &machine, measured.elapsed_s / (measured.elapsed_s + plan.warmup.as_secs_f64()));
    Ok(Row {
        elapsed_s: measured.elapsed_s,
        ios: measured.ios,
        errors: measured.errors,
        bytes: measured.bytes,
        mean_ns: Some(measured.mean_ns),
        latency: measured.latency.map_or_else(|| base.latency.clone(), |latency| compact(&latency)),
        figures,
        warnings,
        ..base
    })
}

/// The processor time that the kernel spent without charging it to the peer, which the figures of iolane's own arms include too; `share`
/// is that of the measured time in the time with requests.
fn add_kernels_time(figures: &mut RunFigures, machine: &RunFigures, share: f64) {
    for figure in [RunFigure::KernelWorkersS, RunFigure::InterruptS, RunFigure::InterruptApartS] {
        let of_run = |known: &Sourced<FigureValue>| {
            let seconds = known.value.number().unwrap_or(0.0) * share;
            Sourced::new(seconds, format!("{}; the measured part of the run by time", known.source))
        };
        match machine.reading(figure) {
            Some(Ok(known)) => figures.set(figure, Ok(of_run(known))),
            Some(Err(why)) => figures.set::<f64>(figure, Err(why.clone())),
            None => {}
        }
    }
}

/// What the peer prints of itself, and the system calls that the kernel counted: the rest of another program's run is not observed.
fn figures(peer: &InstalledPeer, measured: &PeerMeasurement, calls_per_io: Reading<f64>) -> RunFigures {
    let why = Unavailable::new(format!("another program ran it, and {} does not print it", peer.peer.name()));
    let mut figures = RunFigures::unavailable(&why);
    let printed = format!("what {} prints of itself", peer.peer.name());
    for (figure, seconds) in [(RunFigure::UserS, measured.user_s), (RunFigure::SystemS, measured.system_s)] {
        figures.set(figure, seconds.map(|seconds| Sourced::new(seconds, printed.clone())).ok_or_else(|| why.clone()));
    }
    let counted = "the kernel's tracepoint and its account of the process's I/O, in a slice of the run";
    figures.set(RunFigure::SyscallsPerIo, calls_per_io.map(|calls| Sourced::new(calls, counted)));
    figures
}

#[cfg(test)]
mod tests {
    use iolane_measure::workload::Access;

    use super::*;

    #[test]
    fn an_arm_with_a_load_that_a_peer_is_not_told_is_left_out() {
        let base =
            Workload { access: Access::RandRw, read_percent: Some(70), depth: 8, size: Some(1), ..Workload::default() };
        assert_eq!(beyond_peers(&base), None);
        for (name, workload) in [
            ("verify", Workload { verify: true, ..base.clone() }),
            ("think_us", Workload { think_us: Some(5), ..base.clone() }),
            ("offsets", Workload { offsets: "zipf:1.2".parse().unwrap(), ..base.clone() }),
            ("align", Workload { align: Some(8192), ..base.clone() }),
            ("start", Workload { start: 1, ..base.clone() }),
        ] {
            assert_eq!(beyond_peers(&workload).map(|(field, _)| field), Some(name));
        }
    }

    #[test]
    fn the_kernels_time_is_that_of_the_measured_part_and_what_is_unavailable_stays_so() {
        let mut machine = RunFigures::default();
        machine.set(RunFigure::KernelWorkersS, Ok(Sourced::new(0.5, "clocks")));
        machine.set::<f64>(RunFigure::InterruptApartS, Err(Unavailable::new("not counted")));
        let mut figures = RunFigures::default();
        figures.set(RunFigure::UserS, Ok(Sourced::new(1.0, "fio")));
        figures.set(RunFigure::SystemS, Ok(Sourced::new(2.0, "fio")));
        add_kernels_time(&mut figures, &machine, 0.8);
        assert_eq!(figures.cpu_s(), Some(3.4));
        assert_eq!(figures.why_missing(RunFigure::InterruptApartS).unwrap().reason, "not counted");
    }
}
