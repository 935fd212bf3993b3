//! What the calling thread has used of the processor, and how often it was taken from it. `auto` looks at it at both ends of a window.

use std::mem::MaybeUninit;

/// Counters of the calling thread since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUsage {
    /// Processor time in user and kernel mode, in nanoseconds, to a microsecond.
    pub cpu_ns: u64,
    /// Times that the scheduler gave its core to another thread while it had work (involuntary context switches).
    pub preemptions: u64,
    /// Times that it slept (voluntary context switches).
    pub sleeps: u64,
}

impl ThreadUsage {
    /// What was used since an earlier look of the same thread.
    #[must_use]
    pub fn since(self, then: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(then.cpu_ns),
            preemptions: self.preemptions.saturating_sub(then.preemptions),
            sleeps: self.sleeps.saturating_sub(then.sleeps),
        }
    }

    /// The counters now (getrusage(2), RUSAGE_THREAD); zeroes on a kernel that refuses to tell.
    pub fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call writes one `rusage`, or nothing; all its fields are numbers, for which zero is a value.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Self {
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            preemptions: usage.ru_nivcsw as u64,
            sleeps: usage.ru_nvcsw as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_time_and_only_its_own() {
        let before = ThreadUsage::now();
        // Until the counter has moved by a millisecond, however long that takes on a machine that is busy.
        while ThreadUsage::now().cpu_ns < before.cpu_ns + 1_000_000 {
            std::hint::spin_loop();
        }
        let other = std::thread::spawn(ThreadUsage::now).join().unwrap();
        assert!(other.cpu_ns < ThreadUsage::now().cpu_ns, "{other:?}");
        assert!(ThreadUsage::now().preemptions >= before.preemptions);
    }
}
