//! Where the threads of a run wait for the coordinator between phases, so that all measure at the same time, and so that
//! counters are read while no thread of the run works. The I/O path never comes here.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::progress::Sampler;

/// A barrier with a coordinator: it does its own work when all threads have arrived, before any of them goes on.
pub(super) struct PhaseBarrier {
    threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that wait for the coordinator.
    arrived: usize,
    /// Times the coordinator has released the threads.
    releases: usize,
    /// A thread failed to prepare: the others need not measure.
    failed: bool,
    /// The coordinator will not come: not all threads could be started.
    cancelled: bool,
}

impl PhaseBarrier {
    pub(super) fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the coordinator releases the threads. Returns false if one of them has failed.
    pub(super) fn wait(&self, failed: bool) -> bool {
        let mut state = self.state();
        if state.cancelled {
            return false;
        }
        state.arrived += 1;
        assert!(state.arrived <= self.threads, "{} threads arrived of {}", state.arrived, self.threads);
        state.failed |= failed;
        let releases = state.releases;
        self.changed.notify_all();
        let waited = self.changed.wait_while(state, |state| state.releases == releases && !state.cancelled);
        !waited.unwrap_or_else(PoisonError::into_inner).failed
    }

    /// Releases the threads that wait and those that arrive later, as if one had failed.
    pub(super) fn cancel(&self) {
        let mut state = self.state();
        (state.failed, state.cancelled) = (true, true);
        self.changed.notify_all();
    }

    /// Waits for all threads to arrive, sampling ten times a second meanwhile; then calls `between` and releases them.
    pub(super) fn coordinate<T>(&self, sampler: &mut Sampler<'_>, between: impl FnOnce() -> T) -> T {
        let mut state = self.state();
        while state.arrived < self.threads {
            let next_in = sampler.next_in(Instant::now());
            let waited = self.changed.wait_timeout_while(state, next_in, |state| state.arrived < self.threads);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                sampler.sample(Instant::now());
            }
        }
        drop(state);
        let result = between();
        let mut state = self.state();
        assert_eq!(state.arrived, self.threads, "a thread went on before its release");
        state.arrived = 0;
        state.releases += 1;
        self.changed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::progress::RunProgress;

    #[test]
    fn no_thread_goes_on_while_the_coordinator_does_its_own_work() {
        const PHASES: usize = 50;
        let (barrier, in_phase) = (PhaseBarrier::new(3), AtomicUsize::new(0));
        let progress = RunProgress::default();
        let mut sampler = Sampler::new(&[], &progress, Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..PHASES {
                        in_phase.fetch_add(1, Ordering::SeqCst);
                        assert!(barrier.wait(false));
                    }
                });
            }
            for phase in 1..=PHASES {
                let arrived = barrier.coordinate(&mut sampler, || in_phase.load(Ordering::SeqCst));
                assert_eq!(arrived, 3 * phase);
            }
        });
    }

    #[test]
    fn every_thread_learns_that_one_has_failed() {
        let barrier = PhaseBarrier::new(3);
        let progress = RunProgress::default();
        let mut sampler = Sampler::new(&[], &progress, Instant::now());
        std::thread::scope(|scope| {
            let spawn = |failed| {
                let barrier = &barrier;
                scope.spawn(move || barrier.wait(failed))
            };
            let threads = [false, true, false].map(spawn);
            barrier.coordinate(&mut sampler, || {});
            assert!(threads.into_iter().all(|thread| !thread.join().unwrap()));
        });
    }

    #[test]
    fn a_cancelled_barrier_holds_nobody() {
        let barrier = PhaseBarrier::new(3);
        std::thread::scope(|scope| {
            let early = scope.spawn(|| barrier.wait(false));
            barrier.cancel();
            assert!(!early.join().unwrap());
        });
        for _ in 0..4 {
            assert!(!barrier.wait(false), "nor those that arrive later, however often");
        }
    }
}
