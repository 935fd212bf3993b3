//! What the calling thread has used of the processor, and how often it was taken from it. `auto` looks at it at both ends of a window.

use std::mem::MaybeUninit;

use rustix::fs::{Mode, OFlags};

/// System calls of closing a descriptor: where Rust's library checks for undefined behaviour, it first asks whether the descriptor is open (fcntl(2),
/// `debug_assert_fd_is_open` in std).
pub(crate) const CLOSE_SYSCALLS: u64 = if cfg!(debug_assertions) { 2 } else { 1 };

/// Counters of the calling thread since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUsage {
    /// Processor time in user and kernel mode, in nanoseconds.
    pub cpu_ns: u64,
    /// Times that the scheduler gave its core to another thread while it had work (involuntary context switches).
    pub preemptions: u64,
    /// Times that it slept (voluntary context switches).
    pub sleeps: u64,
}

impl ThreadUsage {
    /// System calls of a look.
    pub const SYSCALLS: u64 = 2;

    /// System calls of `waited_ns`: opened, read, and closed.
    pub const SYSCALLS_OF_WAITED: u64 = 2 + CLOSE_SYSCALLS;

    /// How long the calling thread has waited for a core since it began, with work and without a core, in nanoseconds; `None` on a kernel that does
    /// not tell. Source: /proc/PID/schedstat, Documentation/scheduler/sched-stats.rst.
    pub fn waited_ns() -> Option<u64> {
        let mut text = [0; 64];
        let file =
            rustix::fs::open(c"/proc/thread-self/schedstat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let read = rustix::io::read(&file, &mut text).ok()?;
        // Time on a core, time waiting for one, and turns.
        str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// What was used since an earlier look of the same thread.
    #[must_use]
    pub fn since(self, then: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(then.cpu_ns),
            preemptions: self.preemptions.saturating_sub(then.preemptions),
            sleeps: self.sleeps.saturating_sub(then.sleeps),
        }
    }

    /// The counters now; zeroes on a kernel that refuses to tell.
    pub fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // Processor time in getrusage(2), RUSAGE_THREAD, is of the last tick of the scheduler, 1 to 10 ms ago; this clock is of now.
        let cpu_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
        // SAFETY: the call writes one structure, or nothing; all its fields are numbers, for which zero is a value.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        Self { cpu_ns, preemptions: usage.ru_nivcsw as u64, sleeps: usage.ru_nvcsw as u64 }
    }
}

/// What a clock shows, in nanoseconds (clock_gettime(2)); `None` if the kernel does not have it.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one structure, or fails.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works until the thread's time has moved, and says by how much.
    fn step_ns() -> u64 {
        let before = ThreadUsage::now();
        loop {
            let moved = ThreadUsage::now().since(before).cpu_ns;
            if moved > 0 {
                return moved;
            }
            std::hint::spin_loop();
        }
    }

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

    #[test]
    fn a_thread_that_shares_its_core_waits_for_it_and_one_that_sleeps_does_not() {
        if ThreadUsage::waited_ns().is_none() {
            return println!("SKIPPED time without a core: this kernel has no schedstat");
        }
        // Other programs may keep it waiting when it wakes up, and not each time.
        let waited_in_a_sleep = |_| {
            let before = ThreadUsage::waited_ns().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            ThreadUsage::waited_ns().unwrap() - before
        };
        let least = (0..20).map(waited_in_a_sleep).min();
        assert!(least < Some(20_000_000), "{least:?} ns");
        let core = rustix::thread::sched_getcpu();
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        let pinned = || {
            rustix::thread::sched_setaffinity(None, &set).unwrap();
            while ThreadUsage::now().cpu_ns < 100_000_000 {
                std::hint::spin_loop();
            }
            ThreadUsage::waited_ns().unwrap()
        };
        let waited = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(pinned));
            threads.map(|thread| thread.join().unwrap())
        });
        // One of them has to wait for most of what the other takes.
        assert!(waited.into_iter().max() > Some(50_000_000), "{waited:?} ns");
    }

    #[test]
    fn processor_time_is_of_now_and_not_of_the_last_tick() {
        // A tick comes every millisecond at most; a step may begin just before one.
        let mut steps: Vec<u64> = (0..101).map(|_| step_ns()).collect();
        steps.sort_unstable();
        assert!(steps[50] < 500_000, "{} ns", steps[50]);
    }
}
