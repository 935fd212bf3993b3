//! The clock by which `auto` measures: the time stamp counter, or the kernel's clock where there is none that serves. `watch` reads it in the calls
//! of a queue.

use std::sync::OnceLock;
use std::time::Instant;

use iolane_core::tsc::Tsc;

/// The clock of every queue: calibrating it takes 20 ms.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    Counter(&'static Tsc),
    /// Its ticks are nanoseconds.
    Kernel(Instant),
    /// The same, as a test sets them.
    #[cfg(test)]
    Set(&'static std::sync::atomic::AtomicU64),
}

impl Clock {
    pub(super) fn new() -> Self {
        static TSC: OnceLock<Option<Tsc>> = OnceLock::new();
        match TSC.get_or_init(Tsc::new) {
            Some(tsc) => Self::Counter(tsc),
            None => Self::Kernel(Instant::now()),
        }
    }

    #[inline(always)]
    pub(super) fn ticks(self) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.ticks(),
            Self::Kernel(begin) => begin.elapsed().as_nanos() as u64,
            #[cfg(test)]
            Self::Set(now) => now.load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    pub(super) fn ns_of(self, ticks: u64) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.ns_of(ticks),
            _ => ticks,
        }
    }

    pub(super) fn ticks_in(self, ns: u64) -> u64 {
        match self {
            Self::Counter(tsc) => tsc.ticks_in(ns),
            _ => ns,
        }
    }
}
