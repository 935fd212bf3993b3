//! What `auto` measures on the path in use: completions, the time they took, and processor time, window by window. It reads the
//! time stamp counter once for each call of the queue, and makes a system call once a window.

use std::sync::OnceLock;
use std::time::Instant;

use iolane_core::tsc::Tsc;
use iolane_policy::Window;
use rustix::time::{ClockId, clock_gettime};

/// Requests that a window has at least, and how many times its length it is prolonged at most to have them.
const IOS_MIN: u64 = 64;
const PROLONGED_MAX: u64 = 8;

pub(super) struct Watch {
    clock: Clock,
    /// When the window began, and when it is to end, in nanoseconds of the clock.
    begin_ns: u64,
    end_ns: u64,
    window_ns: u64,
    /// The moment up to which time in flight is counted.
    counted_ns: u64,
    window: Window,
    sampled_bytes: u64,
    samples: u64,
    cpu_begin_ns: u64,
    /// System calls that measuring took.
    pub(super) syscalls: u64,
    ios_min: u64,
    /// Whether the window is over a quarter of its length, when a look at it may show that it is hopeless.
    looked: bool,
}

/// The clock of every queue: calibrating it takes 20 ms.
#[derive(Clone, Copy)]
enum Clock {
    Counter(&'static Tsc),
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
    fn now_ns(self) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.now_ns(),
            Self::Kernel(begin) => begin.elapsed().as_nanos() as u64,
        }
    }
}

impl Watch {
    /// A window of this length, which may have as few requests as `ios_min`.
    pub(super) fn new(window_ns: u64, ios_min: Option<u64>) -> Self {
        let mut watch = Self {
            clock: Clock::new(),
            begin_ns: 0,
            end_ns: 0,
            window_ns,
            counted_ns: 0,
            window: Window::default(),
            sampled_bytes: 0,
            samples: 0,
            cpu_begin_ns: 0,
            syscalls: 0,
            ios_min: ios_min.unwrap_or(IOS_MIN),
            looked: false,
        };
        watch.counted_ns = watch.clock.now_ns();
        watch.begin(window_ns);
        watch
    }

    /// Begins a window now.
    pub(super) fn begin(&mut self, window_ns: u64) {
        self.window = Window::default();
        (self.sampled_bytes, self.samples, self.looked) = (0, 0, false);
        self.cpu_begin_ns = self.cpu_ns();
        self.begin_ns = self.clock.now_ns();
        self.counted_ns = self.begin_ns;
        self.window_ns = window_ns;
        self.end_ns = self.begin_ns + window_ns;
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
            self.counted_ns = self.clock.now_ns();
        }
    }

    /// Requests completed; until now, `in_flight` were in flight.
    #[inline(always)]
    pub(super) fn completes(&mut self, ios: usize, in_flight: usize) {
        let now_ns = self.clock.now_ns();
        let passed_ns = now_ns.saturating_sub(self.counted_ns);
        self.counted_ns = now_ns;
        self.window.ios += ios as u64;
        if in_flight > 0 {
            self.window.busy_ns += passed_ns;
            self.window.in_flight_ns += passed_ns * in_flight as u64;
        }
    }

    /// Whether to look at the window: it may have ended.
    #[inline(always)]
    pub(super) fn may_be_over(&self) -> bool {
        let looks_ns = if self.looked { self.end_ns } else { self.end_ns - self.window_ns / 4 * 3 };
        self.counted_ns >= looks_ns
    }

    /// What was measured, if the window has ended; at a quarter of it, if `is_hopeless` says so. A window in which too little happened is
    /// prolonged.
    #[cold]
    pub(super) fn ended(&mut self, is_hopeless: impl Fn(&Window) -> bool) -> Option<Window> {
        if !self.looked {
            self.looked = true;
            if self.counted_ns < self.end_ns {
                let window = self.measured();
                return is_hopeless(&window).then_some(window);
            }
        }
        let lasted_ns = self.counted_ns - self.begin_ns;
        let is_long = lasted_ns >= self.window_ns * PROLONGED_MAX;
        if self.window.ios >= self.ios_min || self.window.ios > 0 && is_long {
            return Some(self.measured());
        }
        self.end_ns += self.window_ns;
        None
    }

    fn measured(&mut self) -> Window {
        let cpu_ns = self.cpu_ns().saturating_sub(self.cpu_begin_ns);
        Window { cpu_ns, request_bytes: self.sampled_bytes / self.samples.max(1), ..self.window }
    }

    /// Since the clock began, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Processor time of the calling thread.
    fn cpu_ns(&mut self) -> u64 {
        self.syscalls += 1;
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
