//! The floor of an open loop: the latency of the same schedule on path `null`, where a request completes at once. What
//! remains is the time that threads take to wake up on this machine. Measured before each run with a rate.

use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;
use iolane::{IoPath, Result, Target};

use super::plan::{FLOOR, RunPlan};
use super::thread::{open_engine, panicked};
use crate::clock::RealClock;
use crate::engine::{Extent, Phase, Tally};
use crate::figures::{RunFigure, RunFigures};
use crate::placement::Placement;
use crate::telemetry::{Reading, Sourced, Unavailable};
use crate::workload::Workload;

const PATH: &str = "null";

/// Runs the schedule of a plan on `null`, with as many threads in the same places.
pub(super) fn measure(plan: &RunPlan, clock: &RealClock, stop: &AtomicBool) -> Reading<Tally> {
    if plan.path.interface() == PATH {
        return Err(Unavailable::new("this path is the floor itself"));
    }
    on_null(plan, clock, stop).map_err(|error| Unavailable::new(format!("its run on null failed: {error}")))
}

fn on_null(plan: &RunPlan, clock: &RealClock, stop: &AtomicBool) -> Result<Tally> {
    let bytes = plan.region_bytes(plan.target_of(0))?.max(4096);
    let plan = RunPlan {
        path: IoPath::new(PATH),
        targets: vec![Target::open(format!("{PATH}:{bytes}"))?],
        workload: Workload { verify: false, start: 0, size: None, bytes_max: None, ..plan.workload.clone() },
        placement: Placement { sqpoll_cpus: None, ..plan.placement.clone() },
        ..plan.clone()
    };
    let run_one = |index| {
        let mut engine = open_engine(&plan, index, clock.clone(), None)?;
        let mut tally = Tally::new();
        engine.run(Phase::Measure, Extent::of(FLOOR.as_nanos() as u64), stop, &mut tally)?;
        Ok(tally)
    };
    std::thread::scope(|scope| {
        let run_one = &run_one;
        let threads: Vec<_> = (0..plan.threads)
            .map(|index| std::thread::Builder::new().spawn_scoped(scope, move || run_one(index)))
            .collect::<std::io::Result<_>>()
            .map_err(iolane::Error::no_thread)?;
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        let tallies = joined.collect::<Result<Vec<Tally>>>()?;
        let merged = tallies.into_iter().reduce(|mut all, other| {
            all.merge(&other);
            all
        });
        Ok(merged.unwrap_or_else(Tally::new))
    })
}

/// Fills in the figures of an open loop: its floor, how late requests were started, and the time of the device alone.
pub(super) fn note(figures: &mut RunFigures, floor: Reading<Tally>, measured: &Tally) {
    for (figure, at) in [(RunFigure::FloorP50Ns, 0.5), (RunFigure::FloorP99Ns, 0.99)] {
        let floor = floor.as_ref().map_err(Clone::clone);
        figures.set(figure, floor.and_then(|floor| quantile(&floor.latency, at, "the schedule on null")));
    }
    for (figure, at) in [(RunFigure::ServiceP50Ns, 0.5), (RunFigure::ServiceP99Ns, 0.99)] {
        figures.set(figure, quantile(&measured.service, at, "engine"));
    }
    let never_waited = |_| Unavailable::new("no thread waited for a request to become due");
    figures.set(RunFigure::StartLateP99Ns, quantile(&measured.lateness, 0.99, "engine").map_err(never_waited));
}

fn quantile(times: &Histogram<u64>, at: f64, source: &str) -> Reading<Sourced<f64>> {
    match times.is_empty() {
        true => Err(Unavailable::new("no request completed")),
        false => Ok(Sourced::new(times.value_at_quantile(at) as f64, source)),
    }
}
