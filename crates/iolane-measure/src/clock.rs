//! Where the engine's time comes from: the processor's time stamp counter, or the virtual clock of a simulated device.

use std::time::{Duration, Instant};

use iolane::sim::{SimClock, SimTurn};
use iolane::tsc::Tsc;

/// A clock the engine reads once per turn of its loop; it makes no system call.
pub(crate) trait Clock: Clone + Send {
    /// What a thread holds while it runs a phase.
    type Turn;

    /// Begins a phase of a thread, given its number and that of all threads.
    fn begin(&self, thread: usize, threads: usize) -> Self::Turn;

    /// Ends phases that wait for threads which could not be started.
    fn cancel(&self);

    /// Now, in nanoseconds since a fixed point.
    fn now_ns(&self) -> u64;

    /// Passes time when there is nothing to do: sleeps until about `wake_ns`, and spins briefly after that. Returns early, so
    /// that a caller who waits for `until_ns` calls it again. Returns whether it slept, with a system call.
    fn idle(&self, wake_ns: u64, until_ns: u64) -> bool;
}

/// The time stamp counter, read in user space and scaled to nanoseconds; the kernel's clock where there is none.
#[derive(Clone)]
pub(crate) enum RealClock {
    Counter(Tsc),
    Kernel(Instant),
}

impl RealClock {
    pub(crate) fn new() -> Self {
        Tsc::new().map_or_else(|| Self::Kernel(Instant::now()), Self::Counter)
    }
}

impl Clock for RealClock {
    type Turn = ();

    fn begin(&self, _thread: usize, _threads: usize) {}

    fn cancel(&self) {}

    #[inline]
    fn now_ns(&self) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.now_ns(),
            Self::Kernel(start) => start.elapsed().as_nanos() as u64,
        }
    }

    fn idle(&self, wake_ns: u64, _until_ns: u64) -> bool {
        let wait_ns = wake_ns.saturating_sub(self.now_ns());
        if wait_ns == 0 {
            std::hint::spin_loop();
            return false;
        }
        std::thread::sleep(Duration::from_nanos(wait_ns));
        true
    }
}

/// The clock of simulated devices. It advances when all threads of the run wait, so idling jumps ahead.
#[derive(Clone)]
pub(crate) struct VirtualClock(pub(crate) SimClock);

impl Clock for VirtualClock {
    type Turn = SimTurn;

    fn begin(&self, thread: usize, threads: usize) -> SimTurn {
        self.0.take_turns(thread, threads)
    }

    fn cancel(&self) {
        self.0.cancel_turns();
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn idle(&self, _wake_ns: u64, until_ns: u64) -> bool {
        self.0.wait_until(until_ns);
        false
    }
}
