//! The loop that keeps one queue busy: it generates requests, submits them, reaps completions and records latencies.
//! Each thread of a run has one engine and decides when its phases begin. No phase allocates.

mod batches;
mod read_back;
mod syncs;
mod tally;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolane::{Buffer, Completion, Error, IoError, IoPath, Operations, Pool, Queue, Request, Result};

use crate::block_data::BlockData;
use crate::clock::Clock;
use crate::content::Verifier;
use crate::latencies::LatencyCounts;
use crate::pace::{Pace, Schedule};
use crate::progress::ThreadCounters;
use crate::workload::{PlannedRequest, RequestGenerator, Workload};

use batches::Batches;
pub(crate) use read_back::ReadBack;
use syncs::{EndedSync, Syncs};
pub use tally::{Submissions, Tally};

/// What a phase is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Submission and waiting are combined, as cheaply as the path can. Results come from this phase.
    Measure,
    /// Each batch is submitted by a call of its own, which is timed.
    TimeSubmission,
}

/// Length of a phase: it ends at whichever limit is reached first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) duration_ns: u64,
    /// Most bytes to request.
    pub(crate) bytes_max: u64,
}

impl Extent {
    /// A time limit only.
    pub(crate) fn of(duration_ns: u64) -> Self {
        Self { duration_ns, bytes_max: u64::MAX }
    }
}

/// The longest that an idle engine rests before it checks whether to stop.
const IDLE_NS_MAX: u64 = 100_000_000;

pub(crate) struct Engine<C> {
    queue: Box<dyn Queue>,
    clock: C,
    generator: RequestGenerator,
    /// Completions to wait for, at least.
    completions_min: usize,
    /// With a limit on submissions or completions.
    batches: Option<Batches>,
    /// With a rate: when requests are due.
    open_loop: Option<OpenLoop>,
    syncs: Option<Syncs>,
    /// With a think time: nanoseconds to wait after each request.
    think_ns: Option<u64>,
    /// Bytes that the phase may still request.
    bytes_left: u64,
    /// With --verify: the expected content of each block.
    verifier: Option<Verifier>,
    /// With writes that are not verified: what they hold.
    block_data: Option<BlockData>,
    /// Unused tags, with their buffers.
    free: Vec<(u32, Buffer)>,
    depth: usize,
    /// What is in flight, by tag.
    in_flight: Box<[InFlight]>,
    /// Whether a request may start as soon as another completes, with no other condition.
    unconditional: bool,
    requests: Vec<Request>,
    completions: Vec<Completion>,
    latencies: LatencyCounts,
    /// The writes of a mix, which are then not in `latencies`.
    writes: Option<LatencyCounts>,
    /// Progress that the sampler reads.
    counters: Arc<ThreadCounters>,
    /// A request that was drawn but overlaps one in flight; it is the next to start.
    held_back: Option<PlannedRequest>,
}

/// An open loop: its pace, and what tells the time of the device from that of this program.
struct OpenLoop {
    pace: Pace,
    service: LatencyCounts,
    lateness: LatencyCounts,
    /// Whether the thread waits for the next request to become due, and can start it at once.
    waits: bool,
}

#[derive(Clone, Copy)]
struct InFlight {
    start_ns: u64,
    /// With a rate: when it was handed to the queue.
    handed_ns: u64,
    request: PlannedRequest,
}

impl<C: Clock> Engine<C> {
    /// An engine on a queue. `pool` has a buffer for each request in flight; `pace` is that of this thread, with a rate.
    pub(crate) fn new(
        queue: Box<dyn Queue>,
        clock: C,
        workload: &Workload,
        generator: RequestGenerator,
        verifier: Option<Verifier>,
        pool: &Pool,
        pace: Option<Pace>,
    ) -> Result<Self> {
        assert_eq!(pace.is_some(), workload.rate.is_some(), "a rate has a pace");
        let depth = queue.depth();
        assert!(depth > 0, "a queue holds at least one request");
        // In reverse order, so that tag 0 is used first and a shallow load stays in few cache lines.
        let free: Vec<_> = (0..depth as u32).rev().filter_map(|tag| Some((tag, pool.take()?))).collect();
        if free.len() < depth {
            return Err(Error::exhausted("buffers", format!("{} for {depth} requests in flight", pool.frames())));
        }
        let nothing = PlannedRequest { is_read: true, offset: 0, block_bytes: 0 };
        let batches = Batches::of(workload);
        Ok(Self {
            clock,
            generator,
            completions_min: workload.batch_complete.map_or(1, |min| min as usize),
            open_loop: pace.map(OpenLoop::new),
            syncs: Syncs::of(workload),
            think_ns: workload.think_us.map(|think_us| think_us.saturating_mul(1000)),
            bytes_left: u64::MAX,
            unconditional: batches.is_none()
                && workload.rate.is_none()
                && workload.sync_every().is_none()
                && workload.think_us.is_none()
                && workload.bytes_max.is_none()
                && verifier.is_none(),
            batches,
            verifier,
            block_data: None,
            free,
            depth,
            in_flight: vec![InFlight { start_ns: 0, handed_ns: 0, request: nothing }; depth].into(),
            requests: Vec::with_capacity(depth),
            completions: Vec::with_capacity(depth),
            latencies: LatencyCounts::new(),
            writes: workload.access.is_mixed().then(LatencyCounts::new),
            counters: Arc::default(),
            held_back: None,
            queue,
        })
    }

    /// Renews the data of each write.
    pub(crate) fn with_block_data(self, block_data: Option<BlockData>) -> Self {
        Self { block_data, ..self }
    }

    /// Counts in these counters, so that a sampler can read them.
    pub(crate) fn with_counters(self, counters: Arc<ThreadCounters>) -> Self {
        counters.share(&self.latencies, self.writes.as_ref());
        Self { counters, ..self }
    }

    /// Runs until `extent` is reached or `stop` is set, and then until every request has completed; counts into `tally`.
    ///
    /// # Errors
    /// If the queue fails, or --verify finds wrong content. Failed requests are counted, not returned.
    pub(crate) fn run(&mut self, phase: Phase, extent: Extent, stop: &AtomicBool, tally: &mut Tally) -> Result<()> {
        assert_eq!(self.free.len(), self.depth, "a phase begins with nothing in flight");
        let syscalls_before = self.queue.syscalls();
        let paths_before = self.paths();
        let begin_ns = self.clock.now_ns();
        let end_ns = begin_ns + extent.duration_ns;
        let mut now_ns = begin_ns;
        self.bytes_left = extent.bytes_max;
        // When the think time is over.
        let mut resume_ns = begin_ns;
        let mut schedule = self.open_loop.as_mut().map(|open_loop| open_loop.pace.begin(begin_ns));
        let is_time = |now_ns: u64| now_ns < end_ns && !stop.load(Ordering::Relaxed);
        let mut goes_on = is_time(now_ns);
        let (unconditional, has_batches) = (self.unconditional, self.batches.is_some());
        loop {
            // A thread thinks between its writes, not before their sync.
            if goes_on && !self.free.is_empty() && (now_ns >= resume_ns || self.sync_is_due()) {
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
            if !busy && (schedule.is_some() || now_ns < resume_ns) {
                let (next_ns, wake_ns) = schedule
                    .as_ref()
                    .map_or((resume_ns, resume_ns), |schedule| (schedule.next_ns(), schedule.wake_ns()));
                let latest_ns = end_ns.min(now_ns + IDLE_NS_MAX);
                tally.sleeps += u64::from(self.clock.idle(wake_ns.min(latest_ns), next_ns.min(latest_ns)));
                self.set_waits(true);
                now_ns = self.clock.now_ns();
                goes_on = is_time(now_ns);
                continue;
            }
            if phase == Phase::TimeSubmission && !self.requests.is_empty() {
                self.submit_timed(tally)?;
            }
            let open = schedule.as_ref().filter(|_| goes_on);
            let wait_ns = open.map_or(0, |schedule| self.wait_ns(schedule, now_ns, end_ns));
            // With a rate, waiting without an end would delay requests that become due meanwhile.
            let min = if open.is_some() { 0 } else { self.completions_min };
            let has_nothing_else_to_do = wait_ns > 0 || self.requests.is_empty();
            loop {
                match wait_ns {
                    _ if has_batches => self.turn_in_batches(min, wait_ns)?,
                    0 => self.queue.turn(&mut self.requests, min, &mut self.completions)?,
                    _ => self.turn_within(wait_ns)?,
                };
                self.set_waits(has_nothing_else_to_do && self.completions.is_empty());
                now_ns = self.clock.now_ns();
                goes_on = is_time(now_ns);
                self.note_completions(now_ns, goes_on && unconditional, tally)?;
                // While completions start new requests themselves, the outer loop has nothing to do.
                if !(goes_on && unconditional) || phase == Phase::TimeSubmission {
                    break;
                }
            }
            goes_on = goes_on && self.bytes_left > 0;
            if let Some(think_ns) = self.think_ns {
                resume_ns = now_ns.saturating_add(think_ns);
            }
        }
        if let Some(syncs) = &mut self.syncs {
            syncs.end_phase();
        }
        assert!(self.requests.is_empty(), "a phase ends with nothing in flight");
        self.move_latencies_to(tally);
        tally.ios = tally.latency.len();
        tally.window_ns = (begin_ns, now_ns);
        // Requests due after the byte limit was reached are not late: they were not wanted.
        let schedule = schedule.filter(|_| self.bytes_left > 0);
        tally.late = schedule.map_or(0, |schedule| schedule.late(end_ns.min(now_ns)));
        tally.choices.extend(self.queue.choices());
        tally.paths = self.paths();
        for (path, ios) in &mut tally.paths {
            let before = paths_before.iter().find(|(known, _)| known == path).map_or(0, |(_, ios)| *ios);
            *ios -= before;
        }
        tally.paths.retain(|(_, ios)| *ios > 0);
        tally.syscalls = self.queue.syscalls().zip(syscalls_before).map(|(after, before)| after - before);
        Ok(())
    }

    /// Whether the unused buffers, which hold what was read last, hold nothing but zeroes.
    pub(crate) fn holds_only_zeroes(&self) -> bool {
        self.free.iter().all(|(_, buffer)| buffer.iter().all(|byte| *byte == 0))
    }

    /// The operations that a workload needs of a path.
    pub(crate) fn required_operations(workload: &Workload) -> Operations {
        let mut required = Operations::default();
        if workload.access.reads() {
            required = required.with(Operations::READ);
        }
        if workload.access.writes() {
            required = required.with(Operations::WRITE);
        }
        if let Some(syncs) = Syncs::of(workload) {
            required = required.with(syncs.operation());
        }
        required
    }

    /// The paths of a queue that chooses, with the requests that completed on each since it was opened.
    fn paths(&self) -> Vec<(IoPath, u64)> {
        self.queue.choices().map_or_else(Vec::new, |choices| choices.used)
    }

    /// Prepares a request for every free tag; all of them start now.
    fn refill(&mut self, now_ns: u64) {
        while !self.free.is_empty() && self.prepare(now_ns, now_ns) {}
    }

    /// Prepares the requests that are due, as far as tags are free. Each starts at the time it was due, even if that is
    /// past; a sync, which is no request of the schedule, as soon as it is due.
    fn refill_due(&mut self, now_ns: u64, schedule: &mut Schedule) {
        loop {
            if self.sync_is_due() {
                self.prepare(now_ns, now_ns);
            }
            let due_ns = schedule.next_ns();
            if self.free.is_empty() || due_ns > now_ns {
                return;
            }
            if !self.prepare(due_ns, now_ns) {
                return;
            }
            if let Some(open_loop) = &mut self.open_loop {
                open_loop.pace.advance(schedule);
                if open_loop.waits {
                    open_loop.lateness.record(now_ns - due_ns);
                }
            }
        }
    }

    /// With a rate: notes whether the thread waits for the next request to become due.
    fn set_waits(&mut self, waits: bool) {
        if let Some(open_loop) = &mut self.open_loop {
            open_loop.waits = waits && !self.free.is_empty();
        }
    }

    /// How long to wait for a completion until another request can start: until shortly before it is due, or while all tags
    /// are in flight until the phase ends. 0 to look without waiting.
    fn wait_ns(&self, schedule: &Schedule, now_ns: u64, end_ns: u64) -> u64 {
        let until_ns = if self.free.is_empty() { end_ns } else { schedule.wake_ns().min(end_ns) };
        until_ns.saturating_sub(now_ns).min(IDLE_NS_MAX)
    }

    /// Submits, and waits for a completion for `wait_ns` at most.
    fn turn_within(&mut self, wait_ns: u64) -> Result<usize> {
        self.submit();
        self.queue.reap_within(1, Duration::from_nanos(wait_ns), &mut self.completions)
    }

    /// Submits batch by batch, and hands out as many completions as are allowed at once. Those that are left over are handed
    /// out before others are fetched.
    fn turn_in_batches(&mut self, min: usize, wait_ns: u64) -> Result<usize> {
        while !self.requests.is_empty() && self.submit() > 0 {
            self.queue.flush()?;
        }
        let Some(batches) = &mut self.batches else { return Ok(0) };
        let fetched = batches.fetched();
        if fetched == 0 || fetched < min {
            match wait_ns {
                0 => self.queue.reap(min - fetched.min(min), &mut self.completions)?,
                _ => self.queue.reap_within(1, Duration::from_nanos(wait_ns), &mut self.completions)?,
            };
        }
        Ok(batches.hand_out(&mut self.completions))
    }

    /// Hands the queue the requests of one submission, and returns how many it took; the others stay prepared.
    fn submit(&mut self) -> usize {
        let Some(batches) = &mut self.batches else { return self.queue.submit(&mut self.requests) };
        let batch = batches.next(&mut self.requests);
        // Requests that were prepared together are submitted one batch after the other.
        let now_ns = self.clock.now_ns();
        for request in &*batch {
            let begun = &mut self.in_flight[request.tag as usize];
            begun.handed_ns = now_ns;
            if self.open_loop.is_none() {
                begun.start_ns = now_ns;
            }
        }
        let taken = self.queue.submit(batch);
        self.requests.splice(..0, batch.drain(..));
        taken
    }

    /// Moves the latencies of a phase to its tally.
    fn move_latencies_to(&mut self, tally: &mut Tally) {
        self.latencies.move_to(&mut tally.latency);
        if let Some(writes) = &self.writes {
            writes.move_to(&mut tally.writes);
            let _ = tally.latency.add(&tally.writes);
        }
        if let Some(OpenLoop { service, lateness, .. }) = &self.open_loop {
            service.move_to(&mut tally.service);
            lateness.move_to(&mut tally.lateness);
        }
    }

    /// Prepares one request. Returns false if it cannot: no tag is free, no bytes are left, or the request drawn overlaps
    /// one in flight.
    #[inline(never)]
    fn prepare(&mut self, start_ns: u64, handed_ns: u64) -> bool {
        let Some((tag, buffer)) = self.free.pop() else { return false };
        if let Some(syncs) = self.syncs.as_mut().filter(|syncs| syncs.is_due()) {
            self.requests.push(syncs.begin(tag, buffer, start_ns));
            return true;
        }
        let planned = self.held_back.take().unwrap_or_else(|| self.generator.next_request());
        let Some(bytes_left) = self.bytes_left.checked_sub(planned.block_bytes.into()) else {
            self.bytes_left = 0;
            self.free.push((tag, buffer));
            return false;
        };
        let mut buffer = sized(buffer, planned);
        if let Some(verifier) = &self.verifier
            && !verifier.begin(planned, &mut buffer)
        {
            self.held_back = Some(planned);
            self.free.push((tag, buffer));
            return false;
        }
        self.bytes_left = bytes_left;
        if let Some(syncs) = self.syncs.as_mut().filter(|_| !planned.is_read) {
            syncs.begin_write();
        }
        self.in_flight[tag as usize] = InFlight { start_ns, handed_ns, request: planned };
        add(&mut self.requests, &mut self.block_data, tag, buffer, planned);
        true
    }

    fn submit_timed(&mut self, tally: &mut Tally) -> Result<()> {
        loop {
            let before_ns = self.clock.now_ns();
            let taken = self.submit();
            self.queue.flush()?;
            tally.submissions.record(taken, self.clock.now_ns() - before_ns);
            if self.requests.is_empty() || taken == 0 {
                return Ok(());
            }
        }
    }

    /// Counts completions. With `again`, each is replaced by a new request at once.
    #[inline(always)]
    fn note_completions(&mut self, now_ns: u64, again: bool, tally: &mut Tally) -> Result<()> {
        self.counters.add(self.completions.len());
        while let Some(Completion { tag, result, buffer, .. }) = self.completions.pop() {
            let tag = tag as u32;
            let Some(buffer) = buffer else {
                self.note_sync(now_ns, result, tally);
                continue;
            };
            debug_assert!(self.free.len() < self.depth, "a completion of tag {tag} with nothing in flight");
            let begun = &mut self.in_flight[tag as usize];
            match result {
                Ok(bytes) => {
                    match &self.writes {
                        Some(writes) if !begun.request.is_read => writes.record(now_ns - begun.start_ns),
                        _ => self.latencies.record(now_ns - begun.start_ns),
                    }
                    if let Some(open_loop) = &self.open_loop {
                        open_loop.service.record(now_ns - begun.handed_ns);
                    }
                    tally.bytes += u64::from(bytes);
                    tally.short += u64::from(bytes < begun.request.block_bytes);
                }
                Err(error) => {
                    self.counters.uncount();
                    note_error(begun.request, error, tally);
                }
            }
            if let Some(verifier) = &self.verifier {
                tally.verified += u64::from(verifier.end(begun.request, result, &buffer)?);
            }
            if again {
                let planned = self.generator.next_request();
                // Without a rate nothing asks when it was handed over.
                (begun.start_ns, begun.request) = (now_ns, planned);
                add(&mut self.requests, &mut self.block_data, tag, sized(buffer, planned), planned);
            } else {
                if let Some(syncs) = self.syncs.as_mut().filter(|_| result.is_ok() && !begun.request.is_read) {
                    syncs.end_write(begun.start_ns);
                }
                self.free.push((tag, buffer));
            }
        }
        Ok(())
    }

    #[cold]
    fn note_sync(&mut self, now_ns: u64, result: Result<u32, IoError>, tally: &mut Tally) {
        self.counters.uncount();
        let Some(EndedSync { tag, buffer, sync_ns, commit_ns }) =
            self.syncs.as_mut().and_then(|syncs| syncs.end(now_ns))
        else {
            return;
        };
        self.free.push((tag, buffer));
        match result {
            Ok(_) => {
                tally.syncs.saturating_record(sync_ns);
                if let Some(commit_ns) = commit_ns {
                    tally.commits.saturating_record(commit_ns);
                }
            }
            Err(error) => {
                tally.errors += 1;
                tally.first_error.get_or_insert_with(|| format!("sync: {error}"));
            }
        }
    }

    fn sync_is_due(&self) -> bool {
        self.syncs.as_ref().is_some_and(Syncs::is_due)
    }
}

#[cold]
fn note_error(request: PlannedRequest, error: IoError, tally: &mut Tally) {
    tally.errors += 1;
    tally.first_error.get_or_insert_with(|| describe(request, error));
}

#[inline(always)]
fn add(
    requests: &mut Vec<Request>,
    block_data: &mut Option<BlockData>,
    tag: u32,
    mut buffer: Buffer,
    planned: PlannedRequest,
) {
    let PlannedRequest { is_read, offset, .. } = planned;
    // Each arm pushes its own request. A single push of a request made in two ways would build it in memory and copy it,
    // and the processor stalls when it reads in wide words what it has just written in narrow ones.
    if is_read {
        requests.push(Request::read(tag.into(), offset, buffer));
    } else {
        if let Some(block_data) = block_data {
            block_data.renew(&mut buffer);
        }
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

impl OpenLoop {
    fn new(pace: Pace) -> Self {
        Self { pace, service: LatencyCounts::new(), lateness: LatencyCounts::new(), waits: false }
    }
}
