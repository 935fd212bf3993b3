//! The loop that keeps one queue busy: it generates requests, hands them over, reaps, and notes latencies.
//! One engine is one thread's; the runner decides when its phases begin. It allocates nothing while a phase runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use iolane::{Buffer, Completion, Error, IoError, Operations, Pool, Queue, Request, Result};

use crate::clock::Clock;
use crate::content::{Expected, Generations};
use crate::gauge::Dial;
use crate::latencies::{LatencyCounts, new_histogram};
use crate::workload::{PlannedRequest, RequestGenerator, Workload};

/// What one phase of one engine did.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Reads and writes that ended without an error.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Those of them that moved less than was asked for.
    pub short: u64,
    /// Reads that were compared with what had been written, and found to be it.
    pub verified: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The first failure, in words.
    pub first_error: Option<String>,
    /// fsync requests that ended.
    pub syncs: u64,
    /// With a rate: requests that were due and had not begun when the phase ended.
    pub late: u64,
    /// System calls the queue made, where it can count its own.
    pub syscalls: Option<u64>,
    /// When the phase began and when its last request ended, in nanoseconds of the run's clock.
    pub window_ns: (u64, u64),
    /// From a request's start (with a rate: its intended start) to its completion.
    pub latency: Histogram<u64>,
    /// How long handing a batch over took; only in phases that measure it.
    pub submit: Histogram<u64>,
}

impl Tally {
    /// One in which nothing has happened. It allocates, so it is made before a phase begins.
    pub(crate) fn new() -> Self {
        Self {
            ios: 0,
            bytes: 0,
            short: 0,
            verified: 0,
            errors: 0,
            first_error: None,
            syncs: 0,
            late: 0,
            syscalls: None,
            window_ns: (0, 0),
            latency: new_histogram(),
            submit: new_histogram(),
        }
    }

    /// How long it took, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        self.window_ns.1 - self.window_ns.0
    }

    /// Adds what another engine did at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.short += other.short;
        self.verified += other.verified;
        self.errors += other.errors;
        self.syncs += other.syncs;
        self.late += other.late;
        self.syscalls = self.syscalls.zip(other.syscalls).map(|(a, b)| a + b);
        // From the first to the last of all: threads that had to take turns did not do their work at the same time.
        self.window_ns = (self.window_ns.0.min(other.window_ns.0), self.window_ns.1.max(other.window_ns.1));
        self.first_error = self.first_error.take().or_else(|| other.first_error.clone());
        let _ = self.latency.add(&other.latency);
        let _ = self.submit.add(&other.submit);
    }
}

/// What a phase is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Submission and waiting go together, as cheaply as the path can; the phase that results come from.
    Measure,
    /// Each batch is handed over by a call of its own, which is timed.
    TimeSubmission,
}

/// How far a phase goes: it ends at whichever comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) duration_ns: u64,
    /// What is asked for at most.
    pub(crate) bytes_max: u64,
}

impl Extent {
    /// So long, whatever is done meanwhile.
    pub(crate) fn of(duration_ns: u64) -> Self {
        Self { duration_ns, bytes_max: u64::MAX }
    }
}

/// The longest that an engine with nothing to do rests before it looks whether it is to stop: a tenth of a second.
const IDLE_NS_MAX: u64 = 100_000_000;

/// Keeps one queue busy.
pub(crate) struct Engine<C> {
    queue: Box<dyn Queue>,
    clock: C,
    generator: RequestGenerator,
    /// Fewest completions to wait for.
    batch: usize,
    /// Nanoseconds from one intended start to the next, with a rate.
    interval_ns: Option<f64>,
    fsync_every: Option<u32>,
    /// Nanoseconds to wait after each request, with a think time.
    think_ns: Option<u64>,
    /// Bytes that the phase may still ask for.
    bytes_left: u64,
    /// The book of what each block holds, with --verify; all engines on a target share it.
    book: Option<Arc<Generations>>,
    /// Tags not in use, with their buffers.
    free: Vec<(u32, Buffer)>,
    depth: usize,
    /// By tag: what is in flight.
    in_flight: Box<[InFlight]>,
    /// Whether all it takes for a request to begin is that one before has ended.
    unconditional: bool,
    requests: Vec<Request>,
    completions: Vec<Completion>,
    latencies: LatencyCounts,
    /// What has ended, where others can look.
    dial: Arc<Dial>,
    writes_unsynced: u32,
    /// The place that an fsync in flight has taken.
    syncing: Option<(u32, Buffer)>,
    /// A request that was drawn and overlaps one in flight; it goes first when that has ended.
    held_back: Option<PlannedRequest>,
}

#[derive(Clone, Copy)]
struct InFlight {
    start_ns: u64,
    request: PlannedRequest,
}

impl<C: Clock> Engine<C> {
    /// An engine on a queue; `pool` has a buffer for each request in flight, `threads` engines share the workload's rate.
    pub(crate) fn new(
        queue: Box<dyn Queue>,
        clock: C,
        workload: &Workload,
        generator: RequestGenerator,
        book: Option<Arc<Generations>>,
        pool: &Pool,
        threads: usize,
    ) -> Result<Self> {
        let depth = queue.depth();
        // Reversed, so that tag 0 is given out first and a shallow load stays in few cache lines.
        let free: Vec<_> = (0..depth as u32).rev().filter_map(|tag| Some((tag, pool.take()?))).collect();
        if free.len() < depth {
            return Err(Error::exhausted("buffers", format!("{} for {depth} requests in flight", pool.frames())));
        }
        let nothing = PlannedRequest { is_read: true, offset: 0, block_bytes: 0 };
        Ok(Self {
            clock,
            generator,
            batch: workload.batch.map_or(1, |batch| batch as usize),
            interval_ns: workload.rate.map(|rate| threads as f64 * 1e9 / rate),
            fsync_every: workload.fsync_every,
            think_ns: workload.think_us.map(|think_us| think_us.saturating_mul(1000)),
            bytes_left: u64::MAX,
            unconditional: workload.rate.is_none()
                && workload.fsync_every.is_none()
                && workload.think_us.is_none()
                && workload.bytes_max.is_none()
                && book.is_none(),
            book,
            free,
            depth,
            in_flight: vec![InFlight { start_ns: 0, request: nothing }; depth].into(),
            requests: Vec::with_capacity(depth),
            completions: Vec::with_capacity(depth),
            latencies: LatencyCounts::new(),
            dial: Arc::default(),
            writes_unsynced: 0,
            syncing: None,
            held_back: None,
            queue,
        })
    }

    /// Shows what it does on a dial that others look at.
    pub(crate) fn seen_on(self, dial: Arc<Dial>) -> Self {
        dial.show(&self.latencies);
        Self { dial, ..self }
    }

    /// Runs for so long, or until `stop`, and then until all that was begun has ended; counts into `tally`.
    ///
    /// # Errors
    /// A failure of the queue, or content that is not what was written. Failed requests are counted, not returned.
    pub(crate) fn run(&mut self, phase: Phase, extent: Extent, stop: &AtomicBool, tally: &mut Tally) -> Result<()> {
        let syscalls_before = self.queue.syscalls();
        let begin_ns = self.clock.now_ns();
        let end_ns = begin_ns + extent.duration_ns;
        let mut now_ns = begin_ns;
        self.bytes_left = extent.bytes_max;
        // When the thread has thought for long enough.
        let mut resume_ns = begin_ns;
        let mut schedule = self.interval_ns.map(|interval_ns| Schedule { begin_ns, interval_ns, started: 0 });
        let is_time = |now_ns: u64| now_ns < end_ns && !stop.load(Ordering::Relaxed);
        let mut goes_on = is_time(now_ns);
        let unconditional = self.unconditional;
        loop {
            if goes_on && !self.free.is_empty() && now_ns >= resume_ns {
                match &mut schedule {
                    None => self.refill(now_ns),
                    Some(schedule) => self.refill_due(now_ns, schedule),
                }
                goes_on = self.bytes_left > 0;
            }
            let busy = self.free.len() < self.depth;
            if !busy && !goes_on {
                break;
            }
            let begin_next_ns = schedule.as_ref().map_or(resume_ns, Schedule::next_ns);
            if !busy && (schedule.is_some() || now_ns < resume_ns) {
                self.clock.idle_until(begin_next_ns.min(end_ns).min(now_ns + IDLE_NS_MAX));
                now_ns = self.clock.now_ns();
                goes_on = is_time(now_ns);
                continue;
            }
            if phase == Phase::TimeSubmission && !self.requests.is_empty() {
                self.hand_over_timed(tally)?;
            }
            // With a rate, waiting would keep requests from starting when they are due.
            let min = if schedule.is_some() && goes_on { 0 } else { self.batch };
            loop {
                self.queue.turn(&mut self.requests, min, &mut self.completions)?;
                now_ns = self.clock.now_ns();
                goes_on = is_time(now_ns);
                self.note_completions(now_ns, goes_on && unconditional, tally)?;
                // There is nothing else to see to while each request begins where one has ended.
                if !(goes_on && unconditional) || phase == Phase::TimeSubmission {
                    break;
                }
            }
            goes_on = goes_on && self.bytes_left > 0;
            if let Some(think_ns) = self.think_ns {
                resume_ns = now_ns.saturating_add(think_ns);
            }
        }
        self.latencies.move_to(&mut tally.latency);
        tally.ios = tally.latency.len();
        tally.window_ns = (begin_ns, now_ns);
        // What was due after the last of its bytes was asked for is not late: nobody wanted it.
        let schedule = schedule.filter(|_| self.bytes_left > 0);
        tally.late = schedule.map_or(0, |schedule| schedule.due(end_ns.min(now_ns)).saturating_sub(schedule.started));
        tally.syscalls = self.queue.syscalls().zip(syscalls_before).map(|(after, before)| after - before);
        Ok(())
    }

    /// What the queue can be asked for beside reads and writes.
    pub(crate) fn required_operations(workload: &Workload) -> Operations {
        let mut required = Operations::default();
        if workload.access.reads() {
            required = required.with(Operations::READ);
        }
        if workload.access.writes() {
            required = required.with(Operations::WRITE);
        }
        if workload.fsync_every.is_some() {
            required = required.with(Operations::FSYNC);
        }
        required
    }

    /// Puts a request into every free place; all of them start now.
    fn refill(&mut self, now_ns: u64) {
        while !self.free.is_empty() && self.prepare(now_ns) {}
    }

    /// Puts the requests that are due into free places; each starts when it was due, however late that is now.
    fn refill_due(&mut self, now_ns: u64, schedule: &mut Schedule) {
        while !self.free.is_empty() && schedule.next_ns() <= now_ns && self.prepare(schedule.next_ns()) {
            schedule.started += 1;
        }
    }

    /// Prepares one request, or says that none can be: no place is free, or what was drawn overlaps one in flight.
    #[inline(never)]
    fn prepare(&mut self, start_ns: u64) -> bool {
        let Some((tag, buffer)) = self.free.pop() else { return false };
        if self.fsync_every.is_some_and(|every| self.writes_unsynced >= every) && self.syncing.is_none() {
            self.requests.push(Request::fsync(tag.into()));
            self.syncing = Some((tag, buffer));
            self.writes_unsynced = 0;
            return true;
        }
        let planned = self.held_back.take().unwrap_or_else(|| self.generator.next_request());
        let Some(bytes_left) = self.bytes_left.checked_sub(planned.block_bytes.into()) else {
            self.bytes_left = 0;
            self.free.push((tag, buffer));
            return false;
        };
        let mut buffer = sized(buffer, planned);
        if let Some(book) = &self.book
            && !claim(book, planned, &mut buffer)
        {
            self.held_back = Some(planned);
            self.free.push((tag, buffer));
            return false;
        }
        self.bytes_left = bytes_left;
        self.writes_unsynced += u32::from(!planned.is_read);
        self.in_flight[tag as usize] = InFlight { start_ns, request: planned };
        add(&mut self.requests, tag, buffer, planned);
        true
    }

    fn hand_over_timed(&mut self, tally: &mut Tally) -> Result<()> {
        let before_ns = self.clock.now_ns();
        let mut waiting = VecDeque::from(std::mem::take(&mut self.requests));
        self.queue.submit(&mut waiting);
        self.queue.flush()?;
        tally.submit.saturating_record(self.clock.now_ns() - before_ns);
        self.requests = waiting.into();
        Ok(())
    }

    /// Counts what has ended. With `again`, another request begins in the place of each at once.
    #[inline(always)]
    fn note_completions(&mut self, now_ns: u64, again: bool, tally: &mut Tally) -> Result<()> {
        self.dial.add(self.completions.len());
        while let Some(Completion { tag, result, buffer }) = self.completions.pop() {
            let tag = tag as u32;
            let Some(buffer) = buffer else {
                self.note_sync(result, tally);
                continue;
            };
            let begun = &mut self.in_flight[tag as usize];
            match result {
                Ok(bytes) => {
                    self.latencies.record(now_ns - begun.start_ns);
                    tally.bytes += u64::from(bytes);
                    tally.short += u64::from(bytes < begun.request.block_bytes);
                }
                Err(error) => {
                    self.dial.take_back();
                    note_error(begun.request, error, tally);
                }
            }
            if let Some(book) = &self.book {
                tally.verified += u64::from(release(book, begun.request, result, &buffer)?);
            }
            if again {
                let planned = self.generator.next_request();
                *begun = InFlight { start_ns: now_ns, request: planned };
                add(&mut self.requests, tag, sized(buffer, planned), planned);
            } else {
                self.free.push((tag, buffer));
            }
        }
        Ok(())
    }

    #[cold]
    fn note_sync(&mut self, result: Result<u32, IoError>, tally: &mut Tally) {
        self.dial.take_back();
        match result {
            Ok(_) => tally.syncs += 1,
            Err(error) => {
                tally.errors += 1;
                tally.first_error.get_or_insert_with(|| format!("fsync: {error}"));
            }
        }
        self.free.extend(self.syncing.take());
    }
}

#[cold]
fn note_error(request: PlannedRequest, error: IoError, tally: &mut Tally) {
    tally.errors += 1;
    tally.first_error.get_or_insert_with(|| describe(request, error));
}

#[inline(always)]
fn add(requests: &mut Vec<Request>, tag: u32, buffer: Buffer, planned: PlannedRequest) {
    let PlannedRequest { is_read, offset, .. } = planned;
    // Each arm pushes for itself: one request made in two ways would be put together in memory and copied from there,
    // and the processor waits where it reads back in wide words what it has just written in narrow ones.
    if is_read {
        requests.push(Request::read(tag.into(), offset, buffer));
    } else {
        requests.push(Request::write(tag.into(), offset, buffer));
    }
}

/// The buffer, as long as the request's block.
#[inline(always)]
fn sized(mut buffer: Buffer, planned: PlannedRequest) -> Buffer {
    let sized = buffer.set_len(planned.block_bytes as usize);
    debug_assert!(sized.is_ok(), "the pool's buffers hold the largest block");
    buffer
}

fn describe(request: PlannedRequest, error: IoError) -> String {
    let what = if request.is_read { "read" } else { "write" };
    format!("{what} of {} bytes at offset {}: {error}", request.block_bytes, request.offset)
}

/// Claims the blocks of a request in the book and fills a write's buffer, or says that one of them is in use.
fn claim(book: &Generations, planned: PlannedRequest, buffer: &mut Buffer) -> bool {
    let bytes = u64::from(planned.block_bytes);
    if planned.is_read {
        return book.try_begin_read(planned.offset, bytes);
    }
    match book.try_begin_write(planned.offset, bytes) {
        None => false,
        Some(generation) => {
            book.fill(buffer, planned.offset, generation);
            true
        }
    }
}

/// Compares what was read with the book, or notes what was written, and gives the blocks back; says whether there was
/// something to compare.
fn release(book: &Generations, request: PlannedRequest, result: Result<u32, IoError>, buffer: &Buffer) -> Result<bool> {
    let PlannedRequest { is_read, offset, block_bytes } = request;
    let whole = result == Ok(block_bytes);
    if !is_read {
        book.end_write(offset, block_bytes.into(), whole);
        return Ok(false);
    }
    let known = whole && book.expected(offset) != Expected::Unwritten;
    let checked = if whole { book.check(buffer, offset) } else { Ok(()) };
    book.end_read(offset, block_bytes.into());
    checked.map(|()| known).map_err(|mismatch| Error::failed("verify", mismatch.to_string()))
}

/// When requests are due, with a rate: evenly spaced, whatever became of those before.
struct Schedule {
    begin_ns: u64,
    interval_ns: f64,
    started: u64,
}

impl Schedule {
    fn next_ns(&self) -> u64 {
        // With a rate next to nothing that is never.
        self.begin_ns.saturating_add((self.started as f64 * self.interval_ns) as u64)
    }

    /// How many requests were due before a time.
    fn due(&self, before_ns: u64) -> u64 {
        ((before_ns - self.begin_ns) as f64 / self.interval_ns).ceil() as u64
    }
}
