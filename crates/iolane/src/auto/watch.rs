//! What `auto` measures on the path in use: completions, the time they took, and processor time, window by window. It reads the
//! time stamp counter once or twice for each call of the queue, and makes a system call at both ends of a window.

use std::sync::OnceLock;
use std::time::Instant;

use iolane_core::tsc::Tsc;
use iolane_policy::Window;
use rustix::time::{ClockId, clock_gettime};

/// Requests that a window has at least, and how many times its length it is prolonged at most to have them.
const IOS_MIN: u64 = 64;
const PROLONGED_MAX: u64 = 8;

/// Times are in ticks of the clock until a window ends.
pub(super) struct Watch {
    clock: Clock,
    begin: u64,
    window_ns: u64,
    /// A quarter of the window, when a look at it may show that it is hopeless; then its end.
    look_at: u64,
    looked: bool,
    /// The moment up to which time in flight is counted.
    counted: u64,
    /// Time with requests in flight, and the number of them summed over it.
    busy: u64,
    in_flight_time: u64,
    ios: u64,
    sampled_bytes: u64,
    samples: u64,
    cpu_begin_ns: u64,
    /// System calls that measuring took.
    pub(super) syscalls: u64,
    ios_min: u64,
}

/// The clock of every queue: calibrating it takes 20 ms.
#[derive(Clone, Copy)]
enum Clock {
    Counter(&'static Tsc),
    /// Its ticks are nanoseconds.
    Kernel(Instant),
}

impl Clock {
    fn new() -> Self {
        static TSC: OnceLock<Option<Tsc>> = OnceLock::new();
        match TSC.get_or_init(Tsc::new) {
            Some(tsc) => Self::Counter(tsc),
            None => Self::Kernel(Instant::now()),
        }
    }

    #[inline(always)]
    fn ticks(self) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.ticks(),
            Self::Kernel(begin) => begin.elapsed().as_nanos() as u64,
        }
    }

    fn ns_of(self, ticks: u64) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.ns_of(ticks),
            Self::Kernel(_) => ticks,
        }
    }

    fn ticks_in(self, ns: u64) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.ticks_in(ns),
            Self::Kernel(_) => ns,
        }
    }
}

impl Watch {
    /// A window of this length, which may have as few requests as `ios_min`.
    pub(super) fn new(window_ns: u64, ios_min: Option<u64>) -> Self {
        let mut watch = Self {
            clock: Clock::new(),
            begin: 0,
            window_ns,
            look_at: 0,
            looked: false,
            counted: 0,
            busy: 0,
            in_flight_time: 0,
            ios: 0,
            sampled_bytes: 0,
            samples: 0,
            cpu_begin_ns: 0,
            syscalls: 0,
            ios_min: ios_min.unwrap_or(IOS_MIN),
        };
        watch.begin(window_ns);
        watch
    }

    /// Begins a window now.
    pub(super) fn begin(&mut self, window_ns: u64) {
        (self.busy, self.in_flight_time, self.ios) = (0, 0, 0);
        (self.sampled_bytes, self.samples, self.looked) = (0, 0, false);
        self.cpu_begin_ns = self.cpu_ns();
        self.begin = self.clock.ticks();
        self.counted = self.begin;
        self.window_ns = window_ns;
        self.look_at = self.begin + self.clock.ticks_in(window_ns / 4);
    }

    /// Begins the window anew: what came before belongs to another path.
    pub(super) fn restart(&mut self) {
        self.begin(self.window_ns);
    }

    /// Requests are submitted: samples the size of one of them, and leaves the time out in which there was none in flight.
    #[inline(always)]
    pub(super) fn submits(&mut self, bytes: usize, was_idle: bool) {
        self.sampled_bytes += bytes as u64;
        self.samples += 1;
        if was_idle {
            self.counted = self.clock.ticks();
        }
    }

    /// Requests completed; until now, `in_flight` were in flight.
    #[inline(always)]
    pub(super) fn completes(&mut self, ios: usize, in_flight: usize) {
        let now = self.clock.ticks();
        // Counters of two processors may differ by a little.
        let passed = now.saturating_sub(self.counted);
        self.counted = now;
        self.ios += ios as u64;
        if in_flight > 0 {
            self.busy += passed;
            self.in_flight_time += passed * in_flight as u64;
        }
    }

    /// Whether to look at the window: it may have ended.
    #[inline(always)]
    pub(super) fn may_be_over(&self) -> bool {
        self.counted >= self.look_at
    }

    /// What was measured, if the window has ended; at a quarter of it, if `is_hopeless` says so. A window in which too little happened is
    /// prolonged.
    #[cold]
    pub(super) fn ended(&mut self, is_hopeless: impl Fn(&Window) -> bool) -> Option<Window> {
        let length = self.clock.ticks_in(self.window_ns);
        if !self.looked {
            self.looked = true;
            self.look_at = self.begin + length;
            if self.counted < self.look_at {
                let window = self.measured();
                return is_hopeless(&window).then_some(window);
            }
        }
        let is_long = self.counted - self.begin >= length * PROLONGED_MAX;
        if self.ios >= self.ios_min || self.ios > 0 && is_long {
            return Some(self.measured());
        }
        self.look_at = self.counted + length;
        None
    }

    fn measured(&mut self) -> Window {
        Window {
            ios: self.ios,
            busy_ns: self.clock.ns_of(self.busy),
            in_flight_ns: self.clock.ns_of(self.in_flight_time),
            cpu_ns: self.cpu_ns().saturating_sub(self.cpu_begin_ns),
            request_bytes: self.sampled_bytes / self.samples.max(1),
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

    /// Processor time of the calling thread.
    fn cpu_ns(&mut self) -> u64 {
        self.syscalls += 1;
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
