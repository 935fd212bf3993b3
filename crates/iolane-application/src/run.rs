//! One run of an application: its threads warm up, work for the measured phase, and are watched meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iolane::{Error, Result, Target};
use iolane_measure::span::Span;
use iolane_measure::telemetry::{RunTelemetry, Watch};

use crate::application::Application;
use crate::by::By;
use crate::job::Job;
use crate::loads::Shared;
use crate::tally::Tally;

/// What a run measured.
#[derive(Debug)]
pub struct Measured {
    /// What the application counts: keys, blocks, records.
    pub operations: u64,
    /// Bytes of data that were processed.
    pub bytes: u64,
    /// Latencies in nanoseconds; operations that are done together have one.
    pub latency: Histogram<u64>,
    /// System calls of the queues, where all of them count theirs.
    pub syscalls: Option<u64>,
    pub telemetry: RunTelemetry,
    pub span: Span,
}

/// More in flight than a program with one thread can use, and than tokio should start threads for.
const DEPTH_MAX: u32 = 1024;

/// Why an application cannot run by a way on a target; nothing if it can.
///
/// # Errors
/// `Usage` for a depth of 0 or above 1024; `Unavailable` for a path or target that does not work for it, or one that may not be written.
pub fn check(application: Application, by: &By, target: &Target, depth: u32) -> Result<()> {
    if !(1..=DEPTH_MAX).contains(&depth) {
        let cause = format!("its depth is between 1 and {DEPTH_MAX}");
        return Err(Error::usage(format!("application {application} at depth {depth}"), cause));
    }
    if !target.writable() {
        let cause = "the application writes what it reads, and writing to the target is not allowed";
        return Err(Error::unavailable(format!("application {application}"), cause)
            .remedy(format!("add --allow-writes {}, which destroys its data", target.name())));
    }
    let unfit = match target.kind() {
        kind if kind.has_virtual_time() => Some("its time is virtual, and that of an application is real"),
        kind if !kind.keeps_data() => Some("it keeps nothing"),
        _ => None,
    };
    if let Some(cause) = unfit {
        return Err(Error::unavailable(format!("application {application} on {}", target.name()), cause)
            .remedy("name a file or a drive, or leave --target out"));
    }
    if application.has_database() && crate::data::folder_of(target).is_none() {
        let cause = "redb keeps its database in a file of its own, beside a target that is a file";
        return Err(Error::unavailable(format!("application {application}"), cause)
            .remedy("name a file, or leave --target out"));
    }
    match by {
        By::Path(path) => iolane::probe(path, target).map(|_| ()),
        By::Rival(rival) => target.require_fd(rival.name()).map(|_| ()),
    }
}

const WARM: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;
/// How often a stop is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The phase that the threads are in.
struct Phase {
    now: AtomicU8,
    /// Nanoseconds since `origin` at which the measured phase began.
    began_ns: AtomicU64,
    origin: Instant,
    /// Threads that have opened what they need.
    opened: AtomicUsize,
    /// Whether one of them has failed.
    has_failed: AtomicBool,
}

/// Ends the run when it is dropped.
struct FailsOnDrop<'a>(&'a Phase);

impl Drop for FailsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.has_failed.store(true, Ordering::Relaxed);
    }
}

impl Phase {
    fn new() -> Self {
        Self {
            now: AtomicU8::new(WARM),
            began_ns: AtomicU64::new(0),
            origin: Instant::now(),
            opened: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
        }
    }

    /// How much of the measured phase is over.
    fn share(&self, runtime: Duration) -> f64 {
        let began = Duration::from_nanos(self.began_ns.load(Ordering::Relaxed));
        let over = self.origin.elapsed().saturating_sub(began);
        (over.as_secs_f64() / runtime.as_secs_f64()).min(1.0)
    }
}

/// Runs an application. `None` if it was stopped before its end.
///
/// # Errors
/// If a path or target does not work for it, a request failed, or its data was overwritten.
pub fn run(job: &Job<'_>, stop: &AtomicBool) -> Result<Option<Measured>> {
    check(job.application, &job.by, job.target, job.depth)?;
    if let Some(fd) = job.target.fd().filter(|_| !job.target.direct()) {
        // What an earlier run has left in the page cache would be read without the drive.
        let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
    }
    let shared = Shared::open(job)?;
    let threads = job.threads + Shared::background_threads(job.application);
    let phase = Phase::new();
    let mut watch = Watch::open(std::slice::from_ref(job.target), None);
    std::thread::scope(|scope| {
        let spawned: std::io::Result<Vec<_>> = (0..threads)
            .map(|thread| {
                let (shared, phase) = (&shared, &phase);
                let worker = move || {
                    // A thread that panics has failed, too.
                    let unless_done = FailsOnDrop(phase);
                    let worked = work(job, shared, thread, phase);
                    if worked.is_ok() {
                        std::mem::forget(unless_done);
                    }
                    worked
                };
                std::thread::Builder::new().name(format!("iolane-app-{thread}")).spawn_scoped(scope, worker)
            })
            .collect();
        let workers = spawned.map_err(|error| {
            phase.now.store(OVER, Ordering::Release);
            Error::no_thread(error)
        })?;
        let is_over = || stop.load(Ordering::Relaxed) || phase.has_failed.load(Ordering::Relaxed);
        wait(Duration::MAX, &|| is_over() || phase.opened.load(Ordering::Acquire) == threads);
        wait(job.warmup, &is_over);
        watch.begin();
        let from = Instant::now();
        phase.began_ns.store((from - phase.origin).as_nanos() as u64, Ordering::Relaxed);
        phase.now.store(MEASURED, Ordering::Release);
        wait(job.runtime, &is_over);
        phase.now.store(OVER, Ordering::Release);
        let to = Instant::now();
        let telemetry = watch.end();
        let mut all = Tally::new();
        let mut syscalls = Some(0);
        for (number, worker) in workers.into_iter().enumerate() {
            let worked = worker.join().map_err(|_| Error::failed("application", "one of its threads panicked"))?;
            let (tally, calls) = worked?;
            if number < job.threads {
                all.merge(&tally);
            }
            syscalls = syscalls.zip(calls).map(|(all, calls)| all + calls);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Tally { operations, bytes, latency } = all;
        Ok(Some(Measured { operations, bytes, latency, syscalls, telemetry, span: Span { from, to } }))
    })
}

fn wait(time: Duration, is_over: &dyn Fn() -> bool) {
    let begun = Instant::now();
    while !is_over()
        && let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
    {
        std::thread::sleep(LOOK.min(left));
    }
}

/// What one thread does until the end.
fn work(job: &Job<'_>, shared: &Shared, thread: usize, phase: &Phase) -> Result<(Tally, Option<u64>)> {
    let mut tally = Tally::new();
    let mut load = shared.load(job, thread)?;
    phase.opened.fetch_add(1, Ordering::Release);
    while phase.now.load(Ordering::Acquire) == WARM && !phase.has_failed.load(Ordering::Relaxed) {
        load.turn(0.0, &mut tally)?;
    }
    tally.reset();
    let before = load.syscalls();
    while phase.now.load(Ordering::Acquire) == MEASURED {
        load.turn(phase.share(job.runtime), &mut tally)?;
    }
    let calls = load.syscalls().zip(before).map(|(after, before)| after - before);
    Ok((tally, calls))
}
