//! Runs one arm: a thread per queue, warm-up, the slices that prove what the path did, then the measured phase.
//! Says what happened; `record` makes a document of it, and nothing here prints.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;
use iolane::capability::check_depth;
use iolane::units::CpuList;
use iolane::{Capabilities, Error, IoPath, Pages, Pool, QueueConfig, Result, Target, TargetKind};
use rand_core::Rng;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock::{Clock, RealClock, VirtualClock};
use crate::content::Generations;
use crate::energy::Span;
use crate::engine::{Engine, Extent, Phase, Tally};
use crate::gauge::{Dial, Gauge, Sampler};
use crate::placement::Placement;
use crate::telemetry::{Reading, RunTelemetry, SyscallCounter, Unavailable, Watch};
use crate::workload::{ThreadShare, Workload, random_stream};

/// One arm: what to run, where, how and for how long.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The path to take.
    pub path: IoPath,
    /// What is read and written; thread `i` uses target `i` modulo their number.
    pub targets: Vec<Target>,
    /// What to ask for.
    pub workload: Workload,
    /// Threads, a queue each; at least one per target.
    pub threads: usize,
    /// Where threads run.
    pub placement: Placement,
    /// Length of the measured phase.
    pub runtime: Duration,
    /// Load before it that is not measured.
    pub warmup: Duration,
    /// Pages that buffers are made of.
    pub pages: Pages,
    /// Whether the targets hold generation 0 of the workload's seed, as a scratch file does.
    pub prefilled: bool,
    /// Whether what it costs is read around the measured phase; without, only to learn what that reading costs itself.
    pub watched: bool,
}

/// What a run measured.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The measured phase, all threads together.
    pub tally: Tally,
    /// What the measured phase cost: processor time, interrupts, cycles, memory.
    pub telemetry: RunTelemetry,
    /// I/Os per second of each tenth of a second of the measured phase; empty where time is not real.
    pub rates: Vec<f64>,
    /// When it measured.
    pub span: Span,
    /// Real seconds that the measured phase took (with a simulated target the tally's own time is virtual).
    pub wall_s: f64,
    /// How long handing a batch over took, in nanoseconds, from a slice of its own before the measured phase.
    pub submit: Histogram<u64>,
    /// System calls, counted by the engine and by the kernel, in a slice of its own before the measured phase.
    pub trace: Trace,
    /// What the path can do on the first target.
    pub capabilities: Capabilities,
    /// Whether the run was stopped before its time.
    pub interrupted: bool,
}

/// System calls of one slice of a run.
#[derive(Debug, Clone)]
pub struct Trace {
    /// I/Os that the slice did.
    pub ios: u64,
    /// What the queues counted themselves; `None` where they cannot.
    pub engine: Option<u64>,
    /// What the kernel's tracepoint counted meanwhile.
    pub kernel: Reading<u64>,
}

/// Length of each slice, in nanoseconds: long enough for some thousand requests, short beside any run.
const SLICE_NS: u64 = 50_000_000;

impl RunPlan {
    /// That its time is the machine's, or why not: what processors and meters tell is of no use beside virtual time.
    ///
    /// # Errors
    /// If a target is simulated.
    pub fn keeps_real_time(&self) -> Reading<()> {
        match self.targets.iter().any(|target| target.kind() == TargetKind::Sim) {
            false => Ok(()),
            true => Err(Unavailable::new("the target is simulated, and its time is not the machine's")),
        }
    }

    /// Checks all that can be known before the run, on every target.
    ///
    /// # Errors
    /// As [`capabilities`](Self::capabilities), and `Usage` for a depth that the path does not take.
    pub fn check(&self) -> Result<Capabilities> {
        let capabilities = self.capabilities()?;
        check_depth(&self.path, self.workload.depth, capabilities.depth_max)?;
        Ok(capabilities)
    }

    /// What the path can do on the first target, once it is known that the workload fits every target but for its depth.
    ///
    /// # Errors
    /// `Usage` for a workload that makes no sense or does not fit a target, `Unavailable` if the path cannot be had.
    pub fn capabilities(&self) -> Result<Capabilities> {
        self.workload.validate()?;
        iolane::interface_of(&self.path)?.validate(&self.path)?;
        let required = Engine::<RealClock>::required_operations(&self.workload);
        let mut first = None;
        for target in &self.targets {
            let bytes = self.region_bytes(target)?;
            self.workload.block_sizes.check(target.name(), target.block_bytes(), bytes)?;
            if self.workload.access.writes() && !target.writable() {
                return Err(Error::usage(
                    format!("--rw {} on {}", self.workload.access, target.name()),
                    "the target was opened for reading",
                ));
            }
            self.check_verify()?;
            let capabilities = iolane::probe(&self.path, target)?;
            let missing = required.without(capabilities.operations);
            if missing != iolane::Operations::default() {
                return Err(Error::usage(
                    format!("{} on {}", self.path, target.name()),
                    format!("this path has no {missing}"),
                )
                .remedy("choose another path or workload"));
            }
            let most = capabilities.request_bytes_max.unwrap_or(u64::MAX);
            if u64::from(self.workload.block_sizes.max()) > most {
                let what = format!("{} on {} with blocks of {}", self.path, target.name(), self.workload.block_sizes);
                return Err(Error::unavailable(what, format!("this path carries {most} bytes at most here"))
                    .remedy("use smaller blocks, or another path"));
            }
            first.get_or_insert(capabilities);
        }
        if self.threads == 0 {
            return Err(Error::usage("--threads 0", "a run needs one thread or more"));
        }
        if self.targets.len() > self.threads {
            let cause = format!("{} targets need a thread each", self.targets.len());
            return Err(Error::usage(format!("--threads {}", self.threads), cause)
                .remedy(format!("use --threads {} or more", self.targets.len())));
        }
        first.ok_or_else(|| Error::usage("run", "there is no target"))
    }

    /// Refuses a --verify that would compare nothing, and pass for having compared.
    fn check_verify(&self) -> Result<()> {
        let access = self.workload.access;
        let refuse =
            |cause: &str, remedy: &str| Err(Error::usage(format!("--verify with --rw {access}"), cause).remedy(remedy));
        match (self.workload.verify, access.reads(), access.writes()) {
            (false, ..) | (true, true, true) => Ok(()),
            (true, false, _) => refuse("nothing is read back", "read as well (--rw rw or randrw)"),
            (true, true, false) if self.holds_known_content() => Ok(()),
            (true, true, false) => refuse(
                "nothing says what the target should hold",
                "write as well (--rw randrw), or leave --target out and use blocks of 512 bytes or a multiple",
            ),
        }
    }

    /// Whether the targets hold what a scratch file is filled with, in units that its blocks are made of, and keep it.
    fn holds_known_content(&self) -> bool {
        let sectors = self.workload.block_sizes.min().is_multiple_of(512);
        self.prefilled && sectors && !self.workload.access.writes()
    }

    /// How much of a target is used.
    fn region_bytes(&self, target: &Target) -> Result<u64> {
        match self.workload.size {
            Some(size) if size > target.bytes() => Err(Error::usage(
                format!("--size {}", iolane::units::Bytes(size)),
                format!("{} has {}", target.name(), iolane::units::Bytes(target.bytes())),
            )
            .remedy("use a smaller --size, or leave it out to use all of it")),
            size => Ok(size.unwrap_or(target.bytes())),
        }
    }

    /// The cpus that its threads are kept to, and the submission threads of its path; `None` where the scheduler chooses.
    fn cpus(&self) -> Option<CpuList> {
        let spoll_cpus = self.placement.spoll_cpus.as_ref().filter(|_| self.path.polls_submissions());
        let lists = [Some(self.placement.cpus.as_ref()?), spoll_cpus];
        Some(lists.into_iter().flatten().flat_map(|list| list.cpus()).copied().collect())
    }

    /// Which share of its target a thread has.
    fn share(&self, thread: usize) -> ThreadShare {
        let targets = self.targets.len();
        let on_this_target = (self.threads - thread % targets).div_ceil(targets);
        ThreadShare { index: (thread / targets) as u32, count: on_this_target as u32 }
    }
}

/// Runs an arm; `stop` ends it early, with what was measured until then.
///
/// # Errors
/// As [`RunPlan::check`]; `Exhausted` when memory or descriptors run out; `Failed` when a queue fails or content is not
/// what was written. Failed requests are counted in the outcome.
pub fn run(plan: &RunPlan, stop: &AtomicBool) -> Result<RunOutcome> {
    run_seen(plan, stop, &Gauge::default())
}

/// Runs an arm as [`run`] does, and tells a gauge meanwhile how fast it is.
///
/// # Errors
/// As [`run`].
pub fn run_seen(plan: &RunPlan, stop: &AtomicBool, gauge: &Gauge) -> Result<RunOutcome> {
    let capabilities = plan.check()?;
    match virtual_clock(plan)? {
        // I/Os per real second of a simulated device would say how fast this program is.
        Some(clock) => {
            Ok(RunOutcome { rates: Vec::new(), ..run_on(plan, capabilities, &clock, stop, &Gauge::default())? })
        }
        None => run_on(plan, capabilities, &RealClock::new(), stop, gauge),
    }
}

/// The clock of a simulated target, which then is the only one.
fn virtual_clock(plan: &RunPlan) -> Result<Option<VirtualClock>> {
    let simulated = plan.targets.iter().filter(|target| target.kind() == TargetKind::Sim).count();
    match (simulated, plan.threads) {
        (0, _) => Ok(None),
        (1, 1) => Ok(plan.targets.first().and_then(iolane::sim::clock).map(VirtualClock)),
        _ => Err(Error::usage("a simulated target", "its virtual time is one thread's")
            .remedy("use one target and --threads 1")),
    }
}

/// Where the threads of a run wait for the coordinator, so that all measure at the same time and it can read its
/// counters while nothing else goes on.
#[derive(Default)]
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Default)]
struct MeetingState {
    arrived: usize,
    /// How often the coordinator has sent everyone on.
    dismissed: usize,
    /// A thread could not be made ready: the others need not measure.
    failed: bool,
    /// The coordinator will not come: not all threads could be made.
    abandoned: bool,
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, MeetingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arrives, and waits to be sent on; false if a thread has failed.
    fn attend(&self, failed: bool) -> bool {
        let mut state = self.state();
        state.arrived += 1;
        state.failed |= failed;
        let dismissed = state.dismissed;
        self.changed.notify_all();
        let waited = self.changed.wait_while(state, |state| state.dismissed == dismissed && !state.abandoned);
        !waited.unwrap_or_else(PoisonError::into_inner).failed
    }

    /// Sends away those that were made, and whoever comes after.
    fn abandon(&self) {
        let mut state = self.state();
        (state.failed, state.abandoned) = (true, true);
        self.changed.notify_all();
    }

    /// Waits for that many to arrive, with a look at the dials each tenth of a second, does `meanwhile`, and sends them
    /// on.
    fn hold<T>(&self, attendants: usize, sampler: &mut Sampler<'_>, meanwhile: impl FnOnce() -> T) -> T {
        let mut state = self.state();
        while state.arrived < attendants {
            let next_in = sampler.next_in(Instant::now());
            let waited = self.changed.wait_timeout_while(state, next_in, |state| state.arrived < attendants);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                sampler.look(Instant::now());
            }
        }
        drop(state);
        let result = meanwhile();
        let mut state = self.state();
        state.arrived = 0;
        state.dismissed += 1;
        self.changed.notify_all();
        result
    }
}

/// What one thread brings back.
struct ThreadOutcome {
    measured: Tally,
    submit: Histogram<u64>,
    trace: Trace,
}

fn run_on<C: Clock>(
    plan: &RunPlan,
    capabilities: Capabilities,
    clock: &C,
    stop: &AtomicBool,
    gauge: &Gauge,
) -> Result<RunOutcome> {
    let dials: Vec<Arc<Dial>> = (0..plan.threads).map(|_| Arc::default()).collect();
    let books = books(plan)?;
    let meeting = Meeting::default();
    // While one counter is open, opening and closing those of the threads changes nothing in the kernel. So its code is
    // patched, which a tracepoint's coming and going takes, while no thread of the run makes a system call: patched under
    // running threads, QEMU's translator has been seen to run the old code for ever.
    let tracepoint = SyscallCounter::open();
    let mut watch = plan.watched.then(|| Watch::open(&plan.targets, plan.cpus().as_ref()));
    let (telemetry, span, rates, outcomes) = std::thread::scope(|scope| {
        let spawned: io::Result<Vec<_>> = (0..plan.threads)
            .map(|thread| {
                let (meeting, book, clock) = (&meeting, books[thread % books.len()].clone(), clock.clone());
                let dial = dials[thread].clone();
                let name = format!("iolane-{thread}");
                let work = move || work(plan, thread, book, clock, dial, meeting, stop);
                std::thread::Builder::new().name(name).spawn_scoped(scope, work)
            })
            .collect();
        let threads = spawned.map_err(|error| {
            meeting.abandon();
            Error::system("making a thread", error)
        })?;
        let mut sampler = Sampler::new(&dials, gauge, Instant::now());
        meeting.hold(threads.len(), &mut sampler, || drop(tracepoint));
        // What it saw of warm-up and slices was for the gauge alone; it begins anew before the threads do.
        let (begun, mut sampler) = meeting.hold(threads.len(), &mut sampler, || {
            watch.iter_mut().for_each(Watch::begin);
            let begun = Instant::now();
            (begun, Sampler::new(&dials, gauge, begun))
        });
        let (ended, telemetry) = meeting.hold(threads.len(), &mut sampler, || (Instant::now(), watch.map(Watch::end)));
        let telemetry =
            telemetry.unwrap_or_else(|| RunTelemetry::unavailable(&Unavailable::new("the run was not watched")));
        let rates = sampler.end(ended);
        let span = Span { from: begun, to: ended };
        let panicked = |_| Err(Error::failed("a thread of the run", "it panicked, which is a bug in iolane"));
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        Ok::<_, Error>((telemetry, span, rates, joined.collect::<Result<Vec<_>>>()?))
    })?;
    let mut outcomes = outcomes.into_iter().flatten();
    let mut all = outcomes.next().ok_or_else(|| Error::usage("--threads 0", "a run needs one thread or more"))?;
    for outcome in outcomes {
        all.measured.merge(&outcome.measured);
        let _ = all.submit.add(&outcome.submit);
        all.trace.merge(outcome.trace);
    }
    Ok(RunOutcome {
        tally: all.measured,
        telemetry,
        rates,
        span,
        wall_s: span.seconds(),
        submit: all.submit,
        trace: all.trace,
        capabilities,
        interrupted: stop.load(Ordering::Relaxed),
    })
}

/// The books of what each target holds, one a target; `None` without --verify.
fn books(plan: &RunPlan) -> Result<Vec<Option<Arc<Generations>>>> {
    let workload = &plan.workload;
    let book = |target| -> Result<Option<Arc<Generations>>> {
        if !workload.verify {
            return Ok(None);
        }
        let (bytes, unit_bytes) = (plan.region_bytes(target)?, workload.block_sizes.min());
        let book = match plan.holds_known_content() {
            true => Generations::prefilled(0, bytes, unit_bytes, workload.seed),
            // What an earlier run wrote, or a repeat before this one, must not pass for this one's.
            false => Generations::unwritten(0, bytes, unit_bytes, run_id()),
        };
        book.map(|book| Some(Arc::new(book)))
    };
    plan.targets.iter().map(book).collect()
}

/// A number that no other run has.
fn run_id() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_1970.as_nanos() as u64 ^ u64::from(std::process::id())
}

/// One thread's run; `None` if it did not measure because another thread had failed.
fn work<C: Clock>(
    plan: &RunPlan,
    thread: usize,
    book: Option<Arc<Generations>>,
    clock: C,
    dial: Arc<Dial>,
    meeting: &Meeting,
    stop: &AtomicBool,
) -> Result<Option<ThreadOutcome>> {
    let prepared = without_panic(|| prepare(plan, thread, book, clock, dial, stop));
    let mut all_ready = meeting.attend(prepared.is_err());
    let prepared = prepared.and_then(|(mut engine, trace)| {
        let slice = Extent::of(SLICE_NS);
        let submit = all_ready.then(|| without_panic(|| phase(&mut engine, Phase::TimeSubmission, slice, stop)));
        // What the measured phase counts into is made before the counters are read that it stands beside.
        Ok((engine, trace, submit.transpose()?.map(|tally| tally.submit), Tally::new()))
    });
    all_ready &= meeting.attend(prepared.is_err());
    let measured = prepared.map(|(mut engine, trace, submit, mut tally)| {
        // Neither warm-up nor slices count towards the bytes that the workload may move.
        let bytes_max = plan.workload.bytes_max.unwrap_or(u64::MAX);
        let extent = Extent { duration_ns: nanoseconds(plan.runtime), bytes_max };
        let measured =
            all_ready.then(|| without_panic(|| engine.run(Phase::Measure, extent, stop, &mut tally).map(|()| tally)));
        (engine, measured, submit, trace)
    });
    meeting.attend(false);
    // Only now may the queue close: its kernel threads have been counted.
    let (_engine, measured, submit, trace) = measured?;
    let Some((measured, submit)) = measured.zip(submit) else { return Ok(None) };
    Ok(Some(ThreadOutcome { measured: measured?, submit, trace }))
}

/// A bug in one thread must not leave the others waiting for it.
fn without_panic<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| Err(Error::failed("a thread of the run", "it panicked, which is a bug in iolane")))
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX / 2)
}

/// Opens the queue, warms up, and runs the slice that says how many system calls the path makes.
fn prepare<C: Clock>(
    plan: &RunPlan,
    thread: usize,
    book: Option<Arc<Generations>>,
    clock: C,
    dial: Arc<Dial>,
    stop: &AtomicBool,
) -> Result<(Engine<C>, Trace)> {
    if let Some(cpu) = nth(plan.placement.cpus.as_ref(), thread) {
        pin(cpu)?;
    }
    // Opened before the queue, for it counts the threads that are made after it. It slows every system call on the
    // machine, and is gone before anything is measured.
    let counter = SyscallCounter::open();
    let target = &plan.targets[thread % plan.targets.len()];
    let workload = &plan.workload;
    let share = plan.share(thread);
    let pool = Pool::new(workload.depth as usize, workload.block_sizes.max() as usize, plan.pages)?;
    if workload.access.writes() && book.is_none() {
        fill_with_noise(&pool, workload.seed);
    }
    let config =
        QueueConfig::new(workload.depth).pool(&pool).spoll_cpu(nth(plan.placement.spoll_cpus.as_ref(), thread));
    let queue = iolane::open_queue(&plan.path, target, &config)?;
    let generator = workload.requests(0, plan.region_bytes(target)?, share)?;
    let mut engine = Engine::new(queue, clock, workload, generator, book, &pool, plan.threads)?.seen_on(dial);
    phase(&mut engine, Phase::Measure, Extent::of(nanoseconds(plan.warmup)), stop)?;
    let trace = trace(&mut engine, counter, stop)?;
    Ok((engine, trace))
}

/// Runs one phase and says what it did.
fn phase<C: Clock>(engine: &mut Engine<C>, phase: Phase, extent: Extent, stop: &AtomicBool) -> Result<Tally> {
    let mut tally = Tally::new();
    engine.run(phase, extent, stop, &mut tally)?;
    Ok(tally)
}

/// Runs a slice with the kernel counting system calls beside the queue.
fn trace<C: Clock>(engine: &mut Engine<C>, counter: Reading<SyscallCounter>, stop: &AtomicBool) -> Result<Trace> {
    let mut tally = Tally::new();
    let mut counter = counter.and_then(|mut counter| counter.start().map(|()| counter));
    engine.run(Phase::Measure, Extent::of(SLICE_NS), stop, &mut tally)?;
    let counted = counter.as_mut().map_err(|unavailable| unavailable.clone()).and_then(SyscallCounter::stop);
    let kernel = match (counted, tally.syscalls) {
        // Every I/O of a path that cannot count its own takes one call at least, made by threads of its library.
        (Ok(counted), None) if counted < tally.ios => {
            Err(Unavailable::new("the library's threads were there before the counter"))
        }
        (counted, _) => counted,
    };
    Ok(Trace { ios: tally.ios, engine: tally.syscalls, kernel })
}

impl Trace {
    fn merge(&mut self, other: Self) {
        self.ios += other.ios;
        self.engine = self.engine.zip(other.engine).map(|(a, b)| a + b);
        self.kernel = match (std::mem::replace(&mut self.kernel, Ok(0)), other.kernel) {
            (Ok(a), Ok(b)) => Ok(a + b),
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        };
    }
}

fn nth(cpus: Option<&CpuList>, thread: usize) -> Option<u32> {
    let cpus = cpus?.cpus();
    cpus.get(thread % cpus.len().max(1)).copied()
}

fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    if (cpu as usize) < CpuSet::MAX_CPU {
        set.set(cpu as usize);
    }
    sched_setaffinity(None, &set).map_err(|errno| {
        Error::usage(
            format!("--cpus {cpu}"),
            format!("this process may not run there: {}", iolane::error::describe(&errno.into())),
        )
        .remedy("see /sys/devices/system/cpu/online and the cpuset of the process")
    })
}

/// Data that neither a drive nor a file system can compress or find twice.
fn fill_with_noise(pool: &Pool, seed: u64) {
    let mut random = random_stream(seed ^ 0x006e_6f69_7365, 0);
    let mut buffers: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for buffer in &mut buffers {
        random.fill_bytes(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one thread does on a simulated device whose every request takes 100 us, in virtual time.
    fn simulated(workload: Workload, runtime: Duration) -> Tally {
        simulated_with("", workload, runtime)
    }

    /// The same with more settings of the device.
    fn simulated_with(settings: &str, workload: Workload, runtime: Duration) -> Tally {
        let plan = RunPlan {
            path: IoPath::new("sim"),
            targets: vec![Target::open(format!("sim:16m,latency=100us,jitter=0us,{settings}")).unwrap()],
            workload,
            threads: 1,
            placement: Placement::default(),
            runtime,
            warmup: Duration::ZERO,
            pages: Pages::Base,
            prefilled: false,
            watched: true,
        };
        run(&plan, &AtomicBool::new(false)).unwrap().tally
    }

    #[test]
    fn a_thread_ends_with_the_last_block_that_its_bytes_hold() {
        for (bytes_max, depth, ios) in [(4096, 1, 1), (8191, 4, 1), (40_960, 3, 10), (43_000, 32, 10)] {
            let workload = Workload { bytes_max: Some(bytes_max), depth, ..Workload::default() };
            assert_eq!(simulated(workload, Duration::from_secs(3600)).ios, ios, "{bytes_max}");
        }
    }

    #[test]
    fn time_ends_a_run_whose_bytes_would_last_longer() {
        let workload = |bytes_max| Workload { bytes_max, ..Workload::default() };
        let limited = simulated(workload(Some(1 << 40)), Duration::from_millis(10));
        assert_eq!(limited.ios, simulated(workload(None), Duration::from_millis(10)).ios);
    }

    #[test]
    fn what_a_rate_would_ask_for_after_the_last_byte_is_not_late() {
        let workload = Workload { bytes_max: Some(40_960), rate: Some(1e6), ..Workload::default() };
        let tally = simulated(workload, Duration::from_secs(1));
        assert_eq!((tally.ios, tally.late), (10, 0));
    }

    #[test]
    fn a_thread_thinks_after_each_request_and_that_is_no_latency() {
        let workload = Workload { think_us: Some(900), ..Workload::default() };
        let tally = simulated(workload, Duration::from_millis(100));
        assert!((98..=101).contains(&tally.ios), "{}", tally.ios);
        assert!(tally.latency.max() < 150_000, "{} ns", tally.latency.max());
    }

    /// What a second shows of a device that answers in 100 us, and stops for 100 ms once in that second: at a request of
    /// that number, counted from the first of the two slices before.
    fn with_a_stall(request: u64, workload: Workload) -> Tally {
        simulated_with(&format!("stall-every={request},stall=100ms"), workload, Duration::from_secs(1))
    }

    /// A histogram of three digits is right to a thousandth, and a simulated device tells in whole microseconds that a
    /// request has ended.
    #[track_caller]
    fn assert_percentiles(tally: &Tally, expected: &[(f64, f64)]) {
        for (percentile, expected_us) in expected {
            let measured_us = tally.latency.value_at_percentile(*percentile) as f64 / 1e3;
            let close = (measured_us - expected_us).abs() <= 0.001 * expected_us + 1.0;
            assert!(close, "p{percentile} is {measured_us} us and not {expected_us} us");
        }
    }

    #[test]
    fn a_run_tells_the_rate_of_each_tenth_of_a_second_that_was_real() {
        let plan = |path: &str, target: &str| RunPlan {
            path: IoPath::new(path),
            targets: vec![Target::open(target).unwrap()],
            workload: Workload::default(),
            threads: 1,
            placement: Placement::default(),
            runtime: Duration::from_millis(300),
            warmup: Duration::ZERO,
            pages: Pages::Base,
            prefilled: false,
            watched: true,
        };
        let outcome = run(&plan("null", "null"), &AtomicBool::new(false)).unwrap();
        let seen: f64 = outcome.rates.iter().map(|rate| rate / 10.0).sum();
        let done = outcome.tally.ios as f64;
        // How many looks a busy machine allows is not known; what they saw together is at most what was done.
        assert!(!outcome.rates.is_empty() && seen > 0.0, "{:?}", outcome.rates);
        assert!(seen < 1.2 * done, "{seen} of {done}");
        let outcome = run(&plan("sim", "sim:16m,latency=100us"), &AtomicBool::new(false)).unwrap();
        assert!(outcome.rates.is_empty());
    }

    #[test]
    fn without_a_rate_a_stall_is_one_slow_request_which_the_percentiles_miss() {
        // 10,000 requests a second, of which 500 in each slice, and 1000 that never come to be.
        let closed_loop = with_a_stall(6000, Workload::default());
        assert_eq!(closed_loop.ios, 9000);
        assert_percentiles(&closed_loop, &[(50.0, 100.0), (99.9, 100.0), (100.0, 100_100.0)]);
        // Paced as with the rate below, but each waits for the one before it: 100 never come to be.
        let paced = with_a_stall(600, Workload { think_us: Some(900), ..Workload::default() });
        assert_eq!(paced.ios, 900);
        assert_percentiles(&paced, &[(50.0, 100.0), (99.0, 100.0), (100.0, 100_100.0)]);
    }

    #[test]
    fn with_a_rate_a_stall_counts_for_every_request_that_was_due_meanwhile() {
        // One each millisecond: the first to meet the stall takes 100.1 ms, the next 99.1, the hundredth 1.1. So ten of
        // the thousand take longer than p99, which is the eleventh's 90.1 ms.
        let rate = |depth| Workload { rate: Some(1000.0), depth, ..Workload::default() };
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
