//! Runs one arm: a thread per queue, warm-up, the short phases that prove what the path does, the measured phase, then the
//! reading back of verified writes.
//! This thread coordinates the others and reads telemetry between their phases; it issues no I/O itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use iolane::{Error, Result};

use super::floor;
use super::outcome::RunOutcome;
use super::phase_barrier::PhaseBarrier;
use super::plan::{CheckedPlan, RunPlan};
use super::thread::{RunThread, ThreadOutcome, panicked};
use crate::clock::{Clock, RealClock, VirtualClock};
use crate::content::{ContentMap, Origin, Verifier};
use crate::progress::{RunProgress, Sampler, ThreadCounters};
use crate::span::Span;
use crate::telemetry::{RunTelemetry, SyscallCounter, Unavailable, Watch};

/// Runs an arm. `stop` ends it early; the outcome then covers the time until it was stopped.
///
/// # Errors
/// `Exhausted` when memory or descriptors run out; `Failed` when a queue fails or --verify finds wrong content. Failed
/// requests are counted in the outcome.
pub fn run(checked: &CheckedPlan, stop: &AtomicBool) -> Result<RunOutcome> {
    run_with_progress(checked, stop, &RunProgress::default())
}

/// As [`run`], with rate and tail latency shown in `progress` while it runs.
///
/// # Errors
/// As [`run`].
pub fn run_with_progress(checked: &CheckedPlan, stop: &AtomicBool, progress: &RunProgress) -> Result<RunOutcome> {
    match virtual_clock(checked.plan()) {
        // I/Os per real second of a simulated device would measure this program's speed.
        Some(clock) => Ok(RunOutcome {
            rates: Vec::new(),
            gap: Duration::ZERO,
            ..run_on(checked, &clock, stop, &RunProgress::default())?
        }),
        None => {
            let (clock, plan) = (RealClock::new(), checked.plan());
            let floor = plan.workload.rate.map(|_| floor::measure(plan, &clock, stop));
            let mut outcome = run_on(checked, &clock, stop, progress)?;
            if let Some(floor) = floor {
                floor::note(&mut outcome.telemetry.figures, floor, &outcome.tally);
            }
            Ok(outcome)
        }
    }
}

/// The clock of simulated targets, which is then that of all targets.
fn virtual_clock(plan: &RunPlan) -> Option<VirtualClock> {
    plan.targets.first().and_then(iolane::sim::clock).map(VirtualClock)
}

fn run_on<C: Clock>(checked: &CheckedPlan, clock: &C, stop: &AtomicBool, progress: &RunProgress) -> Result<RunOutcome> {
    let plan = checked.plan();
    let counters: Vec<Arc<ThreadCounters>> = (0..plan.threads).map(|_| Arc::default()).collect();
    let verifiers = verifiers(plan)?;
    let barrier = PhaseBarrier::new(plan.threads);
    // The kernel patches its code when the first user of a tracepoint comes and when the last one goes. This counter holds
    // the tracepoint while the threads open and close theirs, so that no code is patched while a thread of the run makes
    // system calls: QEMU's translator has been seen to run the old code for ever when that happens.
    let tracepoint = SyscallCounter::open();
    let mut watch = plan.watched.then(|| Watch::open(&plan.targets, plan.cpus().as_ref()));
    let (telemetry, span, sampled, outcomes) = std::thread::scope(|scope| {
        let spawned: io::Result<Vec<_>> = (0..plan.threads)
            .map(|index| {
                let verifier = verifiers[index % verifiers.len()].clone();
                let (clock, counters, barrier) = (clock.clone(), counters[index].clone(), &barrier);
                let thread = RunThread { plan, index, verifier, clock, counters, barrier, stop };
                std::thread::Builder::new().name(format!("iolane-{index}")).spawn_scoped(scope, || thread.run())
            })
            .collect();
        let threads = spawned.map_err(|error| {
            barrier.cancel();
            clock.cancel();
            Error::no_thread(error)
        })?;
        let mut sampler = Sampler::new(&counters, progress, Instant::now());
        barrier.coordinate(&mut sampler, || drop(tracepoint));
        // Samples of warm-up and short phases are only for display; rates begin with the measured phase.
        let (begun, mut sampler) = barrier.coordinate(&mut sampler, || {
            watch.iter_mut().for_each(Watch::begin);
            let begun = Instant::now();
            (begun, Sampler::new(&counters, progress, begun))
        });
        let (ended, telemetry) = barrier.coordinate(&mut sampler, || (Instant::now(), watch.map(Watch::end)));
        assert!(begun <= ended, "the monotonic clock does not go back");
        let telemetry =
            telemetry.unwrap_or_else(|| RunTelemetry::unavailable(&Unavailable::new("the run was not watched")));
        let sampled = sampler.end(ended);
        let span = Span { from: begun, to: ended };
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        Ok::<_, Error>((telemetry, span, sampled, joined.collect::<Result<Vec<_>>>()?))
    })?;
    // A thread without an outcome gave way to one with an error, which was returned above.
    assert!(outcomes.iter().all(Option::is_some), "a thread did not measure though none had failed");
    let all = outcomes.into_iter().flatten().reduce(merged);
    let ThreadOutcome { mut measured, submissions, syscall_proof, read_back } =
        all.expect("a checked plan has at least one thread");
    measured.verified += read_back.verified;
    measured.errors += read_back.errors;
    measured.first_error = measured.first_error.or(read_back.first_error);
    Ok(RunOutcome {
        tally: measured,
        unread_blocks: read_back.unread,
        telemetry,
        rates: sampled.rates,
        gap: sampled.gap,
        span,
        wall_s: span.seconds(),
        submissions,
        syscall_proof,
        capabilities: checked.capabilities().clone(),
        interrupted: stop.load(Ordering::Relaxed),
    })
}

fn merged(mut all: ThreadOutcome, other: ThreadOutcome) -> ThreadOutcome {
    all.measured.merge(&other.measured);
    all.submissions.merge(&other.submissions);
    all.syscall_proof.merge(other.syscall_proof);
    all.read_back.merge(other.read_back);
    all
}

/// What the blocks of each target should hold, in the order of the targets; `None` without --verify.
fn verifiers(plan: &RunPlan) -> Result<Vec<Option<Verifier>>> {
    let workload = &plan.workload;
    let (seed, unit_bytes) = (workload.seed, workload.block_sizes.min());
    let verifier = |target| -> Result<Option<Verifier>> {
        if !workload.verify {
            return Ok(None);
        }
        if !plan.knows_content() {
            return Ok(Some(Verifier::EarlierRun { seed, unit_bytes }));
        }
        let bytes = plan.region_bytes(target)?;
        let map = match workload.access.writes() {
            false => ContentMap::prefilled(workload.start, bytes, unit_bytes, seed),
            // Of this run alone, so that blocks of an earlier run or repeat do not pass for blocks of this one.
            true => ContentMap::unwritten(workload.start, bytes, unit_bytes, Origin { seed, run: run_number() }),
        };
        map.map(|map| Some(Verifier::Map(Arc::new(map))))
    };
    plan.targets.iter().map(verifier).collect()
}

/// A number that no other run has.
fn run_number() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_1970.as_nanos() as u64 ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use iolane::{IoPath, Target};

    use super::*;
    use crate::engine::Tally;
    use crate::figures::RunFigure;
    use crate::workload::{Access, Arrivals, Rate, Workload};

    /// The tally of one thread on a simulated device where each request takes 100 us, in virtual time.
    fn simulated(workload: Workload, runtime: Duration) -> Tally {
        simulated_with("", workload, runtime)
    }

    fn simulated_with(settings: &str, workload: Workload, runtime: Duration) -> Tally {
        let device = format!("sim:16m,latency=100us,jitter=0us,{settings}");
        let options = workload.target_options(true);
        let options = if workload.access.writes() { options.write_unguarded() } else { options };
        let target = options.open(device).unwrap();
        let plan = RunPlan::new(IoPath::new("sim"), vec![target], workload, runtime);
        run(&plan.check().unwrap(), &AtomicBool::new(false)).unwrap().tally
    }

    /// Four threads on two drives of a published profile.
    fn on_drives(world: &str) -> RunOutcome {
        let open = |drive| Target::open(format!("sim:16m,world={world},drive={drive},profile=optane")).unwrap();
        let targets = vec![open("a"), open("b")];
        let workload = Workload { depth: 32, ..Workload::default() };
        let plan = RunPlan::new(IoPath::new("sim"), targets, workload, Duration::from_millis(20));
        run(&RunPlan { threads: 4, ..plan }.check().unwrap(), &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn threads_on_simulated_drives_run_at_the_same_virtual_time_and_repeat_to_the_last_request() {
        let [first, second] = [0, 1].map(|_| on_drives("coordinator").tally);
        assert_eq!((first.ios, first.window_ns), (second.ios, second.window_ns));
        assert!(first.latency == second.latency, "the latencies differ");
        // Twice 550 k reads per second for 20 ms.
        assert!((20_900..=22_200).contains(&first.ios), "{}", first.ios);
    }

    #[test]
    fn a_thread_ends_with_the_last_block_within_its_byte_limit() {
        for (bytes_max, depth, ios) in [(4096, 1, 1), (8191, 4, 1), (40_960, 3, 10), (43_000, 32, 10)] {
            let workload = Workload { bytes_max: Some(bytes_max), depth, ..Workload::default() };
            assert_eq!(simulated(workload, Duration::from_secs(3600)).ios, ios, "{bytes_max}");
        }
    }

    #[test]
    fn time_ends_a_run_that_does_not_reach_its_byte_limit() {
        let workload = |bytes_max| Workload { bytes_max, ..Workload::default() };
        let limited = simulated(workload(Some(1 << 40)), Duration::from_millis(10));
        assert_eq!(limited.ios, simulated(workload(None), Duration::from_millis(10)).ios);
    }

    #[test]
    fn requests_due_after_the_byte_limit_are_not_late() {
        let workload = Workload { bytes_max: Some(40_960), rate: Some(Rate::new(1e6).unwrap()), ..Workload::default() };
        let tally = simulated(workload, Duration::from_secs(1));
        assert_eq!((tally.ios, tally.late), (10, 0));
    }

    #[test]
    fn think_time_follows_each_request_and_is_no_latency() {
        let workload = Workload { think_us: Some(900), ..Workload::default() };
        let tally = simulated(workload, Duration::from_millis(100));
        assert!((98..=101).contains(&tally.ios), "{}", tally.ios);
        assert!(tally.latency.max() < 150_000, "{} ns", tally.latency.max());
    }

    /// One second of a device that answers in 100 us and stalls once for 100 ms, at the request of that number, counted from
    /// the beginning of the two short phases.
    fn with_a_stall(request: u64, workload: Workload) -> Tally {
        simulated_with(&format!("stall-every={request},stall=100ms"), workload, Duration::from_secs(1))
    }

    /// A histogram of three digits is exact to a thousandth, and a simulated device completes requests at whole microseconds.
    #[track_caller]
    fn assert_percentiles(tally: &Tally, expected: &[(f64, f64)]) {
        for (percentile, expected_us) in expected {
            let measured_us = tally.latency.value_at_percentile(*percentile) as f64 / 1e3;
            let close = (measured_us - expected_us).abs() <= 0.001 * expected_us + 1.0;
            assert!(close, "p{percentile} is {measured_us} us instead of {expected_us} us");
        }
    }

    #[test]
    fn a_run_has_the_rate_of_each_tenth_of_a_second_of_real_time() {
        let plan = |path: &str, target: &str| {
            let targets = vec![Target::open(target).unwrap()];
            RunPlan::new(IoPath::new(path), targets, Workload::default(), Duration::from_millis(300))
        };
        let outcome = run(&plan("null", "null").check().unwrap(), &AtomicBool::new(false)).unwrap();
        let seen: f64 = outcome.rates.iter().map(|rate| rate / 10.0).sum();
        let done = outcome.tally.ios as f64;
        // A busy machine may allow fewer samples; together they count at most what was done.
        assert!(!outcome.rates.is_empty() && seen > 0.0, "{:?}", outcome.rates);
        assert!(seen < 1.2 * done, "{seen} of {done}");
        let outcome = run(&plan("sim", "sim:16m,latency=100us").check().unwrap(), &AtomicBool::new(false)).unwrap();
        assert!(outcome.rates.is_empty());
    }

    #[test]
    fn requests_that_arrive_at_random_wait_as_long_as_queueing_theory_says() {
        // One server, constant service of 100 us, Poisson arrivals: the mean wait is s * u / (2 * (1 - u)) for a use u of the
        // server (Pollaczek and Khinchine). At a use of a half and 0.8 that is 50 and 200 us.
        for (per_s, wait_us) in [(5000.0, 50.0), (8000.0, 200.0)] {
            let rate = Some(Rate::new(per_s).unwrap());
            let load = Workload { rate, arrivals: Arrivals::Poisson, ..Workload::default() };
            let tally = simulated(load, Duration::from_secs(60));
            let mean_us = tally.latency.mean() / 1e3;
            assert!((mean_us / (100.0 + wait_us) - 1.0).abs() < 0.03, "{mean_us} us at {per_s}/s");
            // The time of the device is told apart from the wait.
            assert!(tally.service.max() < 102_000, "{} ns", tally.service.max());
            let served = tally.ios as f64 / 60.0;
            assert!((served / per_s - 1.0).abs() < 0.02, "{served}/s of {per_s}/s");
        }
    }

    #[test]
    fn the_writes_of_a_mix_have_latencies_of_their_own() {
        let mix = Workload { access: Access::RandRw, read_percent: Some(70), ..Workload::default() };
        let tally = simulated(mix, Duration::from_secs(1));
        let share = tally.writes.len() as f64 / tally.ios as f64;
        assert!((share - 0.3).abs() < 0.02, "{share}");
        assert_eq!(tally.latency.len(), tally.ios);
        let reads = simulated(Workload::default(), Duration::from_secs(1));
        assert!(reads.writes.is_empty() && !reads.latency.is_empty());
    }

    #[test]
    fn syncs_follow_their_number_of_writes_and_have_latencies_of_their_own() {
        let base = Workload { access: Access::RandWrite, ..Workload::default() };
        for load in
            [Workload { fsync_every: Some(4), ..base.clone() }, Workload { fdatasync_every: Some(4), ..base.clone() }]
        {
            let tally = simulated(load, Duration::from_secs(1));
            assert!(tally.syncs.len().abs_diff(tally.ios / 4) <= 1, "{} of {}", tally.syncs.len(), tally.ios);
            assert_eq!(tally.latency.len(), tally.ios, "syncs are not among the writes");
            assert!((99_000..102_000).contains(&tally.syncs.min()), "{} ns", tally.syncs.min());
        }
        let without = simulated(base, Duration::from_secs(1));
        assert!(without.syncs.is_empty() && without.commits.is_empty());
    }

    #[test]
    fn a_commit_lasts_from_the_first_write_that_a_sync_covers_to_the_end_of_the_sync() {
        let base = Workload { access: Access::Write, depth: 1, ..Workload::default() };
        // A write and a sync take 100 us each.
        for (every, commit_us) in [(1, 200), (4, 500)] {
            let tally = simulated(Workload { fdatasync_every: Some(every), ..base.clone() }, Duration::from_secs(1));
            assert!(tally.commits.len().abs_diff(tally.syncs.len()) <= 1, "{} commits", tally.commits.len());
            for quantile in [0.01, 0.5, 0.99] {
                let measured_us = tally.commits.value_at_quantile(quantile) / 1000;
                assert!(measured_us.abs_diff(commit_us) <= 2, "{measured_us} us with a sync every {every}");
            }
        }
        // A sync that begins while its write is in flight does not cover it; the next does.
        let deep = simulated(Workload { fdatasync_every: Some(1), depth: 2, ..base }, Duration::from_secs(1));
        assert!((199_000..205_000).contains(&deep.commits.min()), "{} ns", deep.commits.min());
    }

    #[test]
    fn a_sync_takes_no_turn_of_the_rate_and_no_time_to_think() {
        let log = Workload { access: Access::Write, depth: 1, fdatasync_every: Some(1), ..Workload::default() };
        for load in [
            Workload { rate: Some(Rate::new(1000.0).unwrap()), ..log.clone() },
            Workload { think_us: Some(800), ..log },
        ] {
            let tally = simulated(load, Duration::from_secs(1));
            assert!((998..=1001).contains(&tally.ios), "{} writes", tally.ios);
            assert!(tally.syncs.len().abs_diff(tally.ios) <= 1, "{} syncs", tally.syncs.len());
            assert!((199_000..205_000).contains(&tally.commits.max()), "{} ns", tally.commits.max());
        }
    }

    #[test]
    fn a_run_with_a_rate_has_the_figures_of_an_open_loop() {
        let workload = Workload { rate: Some(Rate::new(1000.0).unwrap()), ..Workload::default() };
        let targets = vec![Target::open("null").unwrap()];
        let plan = RunPlan::new(IoPath::new("null"), targets, workload, Duration::from_millis(100));
        let plan = RunPlan { threads: 2, ..plan };
        let never = AtomicBool::new(false);
        let outcome = run(&plan.clone().check().unwrap(), &never).unwrap();
        let figures = &outcome.telemetry.figures;
        assert!(figures.number(RunFigure::ServiceP99Ns).is_some());
        // On a machine that is busy throughout, no thread waits for a request, and the figure has a reason instead.
        assert!(figures.reading(RunFigure::StartLateP99Ns).is_some());
        let why = figures.why_missing(RunFigure::FloorP99Ns).unwrap();
        assert_eq!(why.reason, "this path is the floor itself");
        // Any other path has a floor: at most as many requests as are due in a quarter of a second.
        let other = RunPlan { path: IoPath::new("psync"), ..plan.clone() };
        let floor = floor::measure(&other, &RealClock::new(), &never).unwrap();
        assert!((1..=250).contains(&floor.ios) && floor.latency.len() == floor.ios, "{}", floor.ios);
        // Without a rate there is none of this.
        let closed = RunPlan { workload: Workload::default(), ..plan };
        let outcome = run(&closed.check().unwrap(), &never).unwrap();
        assert!(outcome.telemetry.figures.reading(RunFigure::ServiceP99Ns).is_none());
    }

    #[test]
    fn without_a_rate_a_stall_is_one_slow_request_which_the_percentiles_miss() {
        // 10,000 requests a second, 500 of them in each short phase; the stall keeps 1000 from being made.
        let closed_loop = with_a_stall(6000, Workload::default());
        assert_eq!(closed_loop.ios, 9000);
        assert_percentiles(&closed_loop, &[(50.0, 100.0), (99.9, 100.0), (100.0, 100_100.0)]);
        // Paced as with the rate below, but each waits for the one before it: 100 are never made.
        let paced = with_a_stall(600, Workload { think_us: Some(900), ..Workload::default() });
        assert_eq!(paced.ios, 900);
        assert_percentiles(&paced, &[(50.0, 100.0), (99.0, 100.0), (100.0, 100_100.0)]);
    }

    #[test]
    fn with_a_rate_a_stall_counts_for_every_request_that_was_due_meanwhile() {
        // One each millisecond: the first to meet the stall takes 100.1 ms, the next 99.1, the hundredth 1.1. So ten of
        // the thousand take longer than p99, which is the eleventh's 90.1 ms.
        let rate = |depth| Workload { rate: Some(Rate::new(1000.0).unwrap()), depth, ..Workload::default() };
        let deep = with_a_stall(600, rate(128));
        assert_eq!((deep.ios, deep.late), (1000, 0));
        let expected = [(50.0, 100.0), (90.0, 100.0), (90.1, 1100.0), (95.0, 50_100.0), (99.0, 90_100.0)];
        assert_percentiles(&deep, &expected);
        assert_percentiles(&deep, &[(100.0, 100_100.0)]);
        // At depth 1 each then waits for those before it as well, 100 us for each: the eleventh for ten.
        let alone = with_a_stall(600, rate(1));
        assert_eq!((alone.ios, alone.late), (1000, 0));
        assert_percentiles(&alone, &[(50.0, 100.0), (99.0, 91_100.0), (100.0, 100_100.0)]);
    }
}
