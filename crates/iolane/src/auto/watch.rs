//! What `auto` measures on the path in use: completions, the time they took, and processor time, window by window. It counts every
//! completion, reads the time stamp counter once or twice in each call of the queue that belongs to the sample, and makes two system
//! calls at both ends of a window and at a look at it in between, three more at its beginning and where another thread may have had the core,
//! and some for the kernel's workers while paths are compared.

use std::thread::{self, ThreadId};

use iolane_core::io_workers::IoWorkers;
use iolane_core::thread_usage::ThreadUsage;
use iolane_policy::Window;

use super::clock::Clock;

/// Requests that a window has at least.
const IOS_MIN: u64 = 64;
/// Requests that it has at least for each in flight: a queue begins and ends in batches.
const IOS_EACH_MIN: u64 = 4;
/// How many times its length it is prolonged at most to have them.
const PROLONGED_MAX: u64 = 8;

/// A call of the sample that took this long had its core taken, or waited for a slow drive.
const GAP_NS: u64 = 500_000;

/// How long a window waits at most for such calls where another thread shares the core, and for how many. Threads take turns of some
/// milliseconds: a window that ends with one of them, like the one before, has whole turns, and not one more or less by chance. One turn
/// alone may be shorter than the others.
const GAPS_AWAITED_NS: u64 = 48_000_000;
const GAPS_MIN: u32 = 3;

/// A window is not judged while one such call makes up more than one part in this many of it: a device that once took milliseconds, or a virtual
/// machine that stood still, says little about the path. Where another thread shares the core, whole turns are awaited instead.
const DOMINATES: u64 = 4;

/// A new path is warm when a quarter of its window brings less than this multiple of what the quarter before brought, or after eight.
const GETS_FASTER: f64 = 1.1;
const WARM_UP_QUARTERS: u32 = 8;

/// Calls in the sample of a window, if there are as many, and how many are left out between two of them at most: more would save nothing, and
/// be slower to see that a window is over. Up to `DITHER` - 1 more are left out, at random, for a program whose calls repeat in a cycle: in
/// step with it, the sample would be of one kind of its calls.
const SAMPLE: u64 = 128;
const SKIPPED_MAX: u64 = 28;
const DITHER: u64 = 4;

/// Which calls belong to the sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sampling {
    /// Each of them: the window is there to compare paths.
    Every,
    /// Some, at regular intervals: the window is there to see that nothing changed.
    Some,
    /// All but this number after each, for tests.
    LeaveOut(u64),
}

/// Times are in ticks of the clock until a window ends.
pub(super) struct Watch {
    clock: Clock,
    begin: u64,
    window_ns: u64,
    /// A quarter of the window, when a look at it may show that it is hopeless; then its end.
    look_at: u64,
    looked: bool,
    /// If the path was opened for this window: its code and memory are in no cache yet.
    warm_up: Option<WarmUp>,
    /// What is measured begins at this time; 0 if it has begun.
    begins_at: u64,
    /// Such gaps so far, whether the last call of the sample was one, and until when some are awaited; 0 if none are.
    gaps: u32,
    is_after_gap: bool,
    gap: u64,
    longest_gap: u64,
    /// The time in such gaps with requests in flight, and without.
    gap_time: u64,
    idle_gap_time: u64,
    gap_awaited_until: u64,
    /// The moment up to which time in flight is counted.
    counted: u64,
    sampling: Sampling,
    /// Calls to leave out after each of the sample, and whether `counted` is of before some of them.
    stride: u64,
    dither: u64,
    is_stale: bool,
    /// Whether a call has begun with requests in flight. Otherwise each begins with none, and what was before it does not matter.
    mixes: bool,
    /// In the sample: calls, completions, time with requests in flight, and the number of them summed over it.
    calls: u64,
    sampled_ios: u64,
    busy: u64,
    in_flight_time: u64,
    /// Whether there was a time with none in flight.
    was_idle: bool,
    /// All completions.
    ios: u64,
    sampled_bytes: u64,
    samples: u64,
    usage_at_begin: ThreadUsage,
    /// The kernel's workers of the thread, and what they have used in this window. A request that would block its caller is carried out by one
    /// of them, while the caller waits for it or polls.
    workers: Option<IoWorkers>,
    workers_ns: u64,
    /// How long the thread had waited for a core when the window began.
    waited_at_begin: Option<u64>,
    /// On which the window began.
    thread: ThreadId,
    /// System calls that measuring took.
    pub(super) syscalls: u64,
    ios_min: u64,
}

impl Watch {
    /// A window of this length; for a queue that changes its path at random, one that may have as few requests as `ios_min`.
    pub(super) fn new(window_ns: u64, ios_min: Option<u64>) -> Self {
        let mut watch = Self {
            clock: Clock::new(),
            begin: 0,
            window_ns,
            look_at: 0,
            looked: false,
            warm_up: None,
            begins_at: 0,
            gaps: 0,
            is_after_gap: false,
            gap: 0,
            longest_gap: 0,
            gap_time: 0,
            idle_gap_time: 0,
            gap_awaited_until: 0,
            counted: 0,
            sampling: Sampling::Every,
            stride: 0,
            dither: 1,
            is_stale: false,
            mixes: false,
            calls: 0,
            sampled_ios: 0,
            busy: 0,
            in_flight_time: 0,
            was_idle: false,
            ios: 0,
            sampled_bytes: 0,
            samples: 0,
            usage_at_begin: ThreadUsage::default(),
            workers: None,
            workers_ns: 0,
            waited_at_begin: None,
            thread: thread::current().id(),
            syscalls: 0,
            ios_min: ios_min.unwrap_or(IOS_MIN),
        };
        watch.gap = watch.clock.ticks_in(GAP_NS);
        // Windows of few requests decide nothing, and wait for nothing.
        watch.begin(window_ns, if ios_min.is_some() { Sampling::LeaveOut(0) } else { Sampling::Every });
        watch
    }

    /// Begins a window now.
    pub(super) fn begin(&mut self, window_ns: u64, sampling: Sampling) {
        let begin = self.clock.ticks();
        self.sampling = sampling;
        self.mixes &= sampling != Sampling::Every;
        self.stride = match sampling {
            Sampling::Every => 0,
            Sampling::LeaveOut(calls) => calls,
            Sampling::Some => self.stride_for(window_ns, begin),
        };
        (self.calls, self.sampled_ios, self.busy, self.in_flight_time) = (0, 0, 0, 0);
        (self.is_stale, self.was_idle, self.ios) = (false, false, 0);
        (self.sampled_bytes, self.samples, self.looked) = (0, 0, false);
        (self.gaps, self.gap_awaited_until) = (0, 0);
        (self.gap_time, self.idle_gap_time, self.longest_gap) = (0, 0, 0);
        let thread = thread::current().id();
        if thread != std::mem::replace(&mut self.thread, thread) {
            self.workers = None;
        }
        if self.decides() {
            self.look_at_workers();
            self.waited_at_begin = self.waited();
        }
        // What they have used so far belongs to other windows.
        self.workers_ns = 0;
        self.usage_at_begin = self.usage();
        self.begin = begin;
        self.counted = begin;
        self.window_ns = window_ns;
        self.look_at = begin + self.clock.ticks_in(window_ns / 4);
    }

    /// How many calls to leave out after each of the sample in a window of this length, if they come as often as in the window before.
    fn stride_for(&self, window_ns: u64, now: u64) -> u64 {
        let lasted_ns = self.clock.ns_of(now.saturating_sub(self.begin)).max(1);
        let calls = self.calls * (self.stride + 1);
        let expected = u128::from(calls) * u128::from(window_ns) / u128::from(lasted_ns);
        (expected as u64 / SAMPLE).min(SKIPPED_MAX)
    }

    /// Leaves the beginning of the window out that has just begun, for the path is new: quarters of it, until they bring no more.
    pub(super) fn warms_up(&mut self) {
        self.warm_up = Some(WarmUp { quarters_left: WARM_UP_QUARTERS, ios_per_tick: 0.0 });
    }

    /// Leaves this time at the beginning of the window out, in which the path before is still felt; 0 for none.
    pub(super) fn begins_after(&mut self, ns: u64) {
        self.begins_at = if ns > 0 { self.begin + self.clock.ticks_in(ns) } else { 0 };
    }

    /// Begins the window anew: what came before belongs to another path.
    pub(super) fn restart(&mut self) {
        self.begin(self.window_ns, self.sampling);
    }

    /// Requests completed in calls that were left out of the sample, if there were any.
    pub(super) fn counts(&mut self, ios: u64) {
        self.ios += ios;
        self.is_stale |= ios > 0;
    }

    /// Requests are submitted: samples the size of one of them, and leaves the time out in which there was none in flight.
    #[inline(always)]
    pub(super) fn submits(&mut self, bytes: usize, was_idle: bool) {
        self.sampled_bytes += bytes as u64;
        self.samples += 1;
        if was_idle {
            let now = self.clock.ticks();
            let passed = now.saturating_sub(self.counted);
            self.idle_gap_time += if passed > self.gap { passed } else { 0 };
            self.counted = now;
            self.was_idle = true;
            self.is_stale &= self.mixes;
        }
    }

    /// Requests completed; until now, `in_flight` were in flight. How many calls may be left out of the sample now; what completes in them is
    /// for `counts`.
    #[inline(always)]
    pub(super) fn completes(&mut self, ios: usize, in_flight: usize) -> u64 {
        let now = self.clock.ticks();
        // Counters of two processors may differ by a little.
        let passed = now.saturating_sub(self.counted);
        self.counted = now;
        self.is_after_gap = passed > self.gap;
        self.gaps += u32::from(self.is_after_gap);
        self.calls += 1;
        self.ios += ios as u64;
        if self.is_stale {
            (self.is_stale, self.mixes) = (false, true);
            return 0;
        }
        self.sampled_ios += ios as u64;
        if in_flight > 0 {
            if self.is_after_gap {
                self.gap_time += passed;
                self.longest_gap = self.longest_gap.max(passed);
            }
            self.busy += passed;
            self.in_flight_time += passed * in_flight as u64;
        }
        self.stride + self.dithered()
    }

    /// How many calls more to leave out.
    #[inline(always)]
    fn dithered(&mut self) -> u64 {
        if self.stride == 0 || self.sampling != Sampling::Some {
            return 0;
        }
        // The multiplier of PCG; the high bits of such a sequence look random.
        self.dither = self.dither.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.dither >> 32) % DITHER
    }

    /// Whether to look at the window: it may have ended, or the clock went back, as the counter of a machine does that slept.
    #[inline(always)]
    pub(super) fn may_be_over(&self) -> bool {
        self.counted.wrapping_sub(self.begin) >= self.look_at.wrapping_sub(self.begin)
    }

    /// What was measured, if the window has ended; at a quarter of it, if `is_hopeless` says so. A window in which too little happened is
    /// prolonged.
    #[cold]
    pub(super) fn ended(&mut self, is_hopeless: impl Fn(&Window) -> bool) -> Option<Window> {
        if self.counted < self.begin {
            self.begins_at = 0;
            self.restart();
            return None;
        }
        let has_whole_turns = self.is_after_gap && self.gaps >= GAPS_MIN;
        if self.counted < self.gap_awaited_until {
            return has_whole_turns.then(|| self.measured());
        }
        if self.counted < self.begins_at {
            self.look_at = self.begins_at;
            return None;
        }
        let has_begun = std::mem::take(&mut self.begins_at) == 0;
        if !has_begun || self.is_warming_up() {
            self.restart();
            return None;
        }
        let length = self.clock.ticks_in(self.window_ns);
        let used = self.used();
        let is_disturbed = self.decides() && self.is_disturbed(used);
        let passed = self.counted - self.begin;
        let is_of_one_gap = self.decides() && !is_disturbed && self.longest_gap * DOMINATES > passed;
        let is_hopeless = |window: &Window| !is_disturbed && !is_of_one_gap && is_hopeless(window);
        if !self.looked {
            self.looked = true;
            self.look_at = self.begin + length;
            if self.counted < self.look_at {
                let window = self.window(used);
                return is_hopeless(&window).then_some(window);
            }
        }
        if is_disturbed && self.gap_awaited_until == 0 && !has_whole_turns {
            self.gap_awaited_until = self.counted + self.clock.ticks_in(GAPS_AWAITED_NS);
            return None;
        }
        let is_long = passed >= length * PROLONGED_MAX;
        let in_flight = self.in_flight_time / self.busy.max(1);
        let enough = if self.decides() { self.ios_min.max(IOS_EACH_MIN * in_flight) } else { self.ios_min };
        let window = self.window(used);
        if self.ios >= enough && !is_of_one_gap || self.ios > 0 && is_long || is_hopeless(&window) {
            return Some(window);
        }
        self.look_at = self.counted + length;
        None
    }

    /// Whether the quarter that has passed belongs to the warm-up.
    fn is_warming_up(&mut self) -> bool {
        let Some(WarmUp { quarters_left, ios_per_tick }) = self.warm_up.take() else { return false };
        let now = self.ios as f64 / (self.counted - self.begin).max(1) as f64;
        if quarters_left > 1 && now > ios_per_tick * GETS_FASTER {
            self.warm_up = Some(WarmUp { quarters_left: quarters_left - 1, ios_per_tick: now });
        }
        true
    }

    fn measured(&mut self) -> Window {
        let used = self.used();
        self.window(used)
    }

    /// The window, in which the thread has used this much; `None` if it began on another thread.
    fn window(&mut self, used: Option<ThreadUsage>) -> Window {
        let passed = self.counted.saturating_sub(self.begin);
        // Without a break, all the time was busy; otherwise it was for each completion as long as in the sample.
        let is_of_sample = (self.was_idle || self.stride == 0) && (self.sampled_ios > 0 || self.ios == 0);
        let busy = match is_of_sample {
            true => scaled(self.busy_with_its_share_of_gaps(used), self.ios, self.sampled_ios).min(passed),
            false => passed,
        };
        let busy_ns = self.clock.ns_of(busy);
        // That of another thread says nothing. A queue that moves is taken to keep a processor busy, whatever the path.
        let cpu_ns = used.map_or(busy_ns, |used| used.cpu_ns + self.workers_ns);
        Window {
            ios: self.ios,
            busy_ns,
            in_flight_ns: self.clock.ns_of(scaled(self.in_flight_time, busy, self.busy)),
            cpu_ns,
            request_bytes: self.sampled_bytes / self.samples.max(1),
            carried_elsewhere: 0,
        }
    }

    /// Time with requests in flight. Where another thread had the core at times, and this one never slept, chance decided whether a request
    /// was in flight then: of that time it gets the share that it has of the rest.
    fn busy_with_its_share_of_gaps(&mut self, used: Option<ThreadUsage>) -> u64 {
        let busy = self.busy.saturating_sub(self.gap_time);
        let gaps = self.gap_time + self.idle_gap_time;
        let rest = self.counted.saturating_sub(self.begin).saturating_sub(gaps);
        let never_slept = used.is_some_and(|used| used.sleeps == 0);
        match self.stride == 0 && busy > 0 && gaps > 0 && never_slept && self.is_disturbed(used) {
            true => busy + scaled(busy, gaps, rest),
            false => self.busy,
        }
    }

    /// The time in nanoseconds since an earlier one, both of `now`.
    pub(super) fn since_ns(&self, then: u64) -> u64 {
        self.clock.ns_of(self.now().saturating_sub(then))
    }

    /// The clock.
    pub(super) fn now(&self) -> u64 {
        self.clock.ticks()
    }

    /// Whether another thread had the core in this window while this one had work, for a tenth of it or more. Without a gap none had: the
    /// thread slept, and a worker of the kernel that works for it was woken on its core.
    fn is_disturbed(&mut self, used: Option<ThreadUsage>) -> bool {
        if self.gaps == 0 && self.idle_gap_time == 0 {
            return false;
        }
        let passed_ns = self.clock.ns_of(self.counted.saturating_sub(self.begin));
        let Some(used) = used.filter(|used| used.preemptions > 0) else { return false };
        let waited_ns = match (self.waited_at_begin, self.waited()) {
            (Some(then), Some(now)) => now.saturating_sub(then),
            // The time in which it slept is not known apart.
            _ => passed_ns.saturating_sub(used.cpu_ns),
        };
        waited_ns > passed_ns / 10
    }

    /// What the thread has used since the window began; `None` if that was another thread.
    fn used(&mut self) -> Option<ThreadUsage> {
        let is_same = thread::current().id() == self.thread;
        let used = is_same.then(|| self.usage().since(self.usage_at_begin))?;
        if self.decides() {
            self.look_at_workers();
        }
        Some(used)
    }

    /// Whether what is measured decides about the path.
    pub(super) fn decides(&self) -> bool {
        !matches!(self.sampling, Sampling::LeaveOut(_))
    }

    /// Adds what the workers of the thread have used since the last look. New ones are looked for while paths are compared.
    fn look_at_workers(&mut self) {
        let workers = self.workers.get_or_insert_with(IoWorkers::of_this_thread);
        if self.sampling == Sampling::Every {
            workers.find();
        }
        self.workers_ns += workers.used_ns();
        self.syscalls += workers.take_syscalls();
    }

    /// How long the thread has waited for a core since it began, in nanoseconds.
    fn waited(&mut self) -> Option<u64> {
        let waited = ThreadUsage::waited_ns();
        // Where the kernel does not tell, opening fails.
        self.syscalls += if waited.is_some() { ThreadUsage::SYSCALLS_OF_WAITED } else { 1 };
        waited
    }

    fn usage(&mut self) -> ThreadUsage {
        self.syscalls += ThreadUsage::SYSCALLS;
        ThreadUsage::now()
    }
}

/// The beginning of the first window of a path.
#[derive(Clone, Copy)]
struct WarmUp {
    quarters_left: u32,
    /// Of the quarter before.
    ios_per_tick: f64,
}

/// A sum over a sample, for the whole.
fn scaled(sum: u64, whole: u64, sample: u64) -> u64 {
    if sample == 0 { sum } else { (u128::from(sum) * u128::from(whole) / u128::from(sample)) as u64 }
}

#[cfg(test)]
mod tests;
