//! The race between a program that submits an entry and a submission thread that goes to sleep, with two threads. The thread does what
//! io_uring/sqpoll.c does: it announces that it will sleep, looks at the ring once more behind a full barrier, and sleeps. The program
//! has to publish its entry before it looks at the announcement, behind a full barrier too; else both may miss each other.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use ::io_uring::Submitter;
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::io_uring::{IoringEnterFlags, IoringFeatureFlags};

use iolane_core::{IoPath, Pages, Pool, Queue, QueueConfig, Request, TargetId};

use super::chance::Chance;
use super::ring_memory::{NEED_WAKEUP, RingMemory};
use super::tests::{FakeEntries, setting, target};
use crate::ring::calls::RingCalls;
use crate::ring::ring_target::RingTarget;
use crate::ring::{Moves, RingQueue};

const RUNS: u32 = 0;
/// It is on the list of what a wake-up wakes (`prepare_to_wait`), and will look at the ring once more.
const PREPARED: u32 = 1;
/// It has looked, and runs only when it is woken.
const SLEEPS: u32 = 2;

struct Shared {
    memory: RingMemory,
    state: AtomicU32,
    is_over: AtomicBool,
}

impl Shared {
    /// The submission thread. It ends each request as soon as it has it.
    fn run(&self, seed: u64) {
        let mut chance = Chance::new(seed);
        while !self.is_over.load(Ordering::Acquire) {
            let entries = self.memory.submitted(0);
            for distance in 0..entries {
                self.memory.complete(self.memory.submission(distance).user_data, 512);
            }
            self.memory.consume(entries);
            if entries > 0 {
                continue;
            }
            self.state.store(PREPARED, Ordering::SeqCst);
            self.memory.set_flag(NEED_WAKEUP, true);
            fence(Ordering::SeqCst);
            // Most times it stays awake, so that the program submits at every point of this loop.
            let sleeps = self.memory.submitted(0) == 0
                && chance.strikes(12)
                && self.state.compare_exchange(PREPARED, SLEEPS, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            while sleeps && self.state.load(Ordering::SeqCst) == SLEEPS && !self.is_over.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            self.memory.set_flag(NEED_WAKEUP, false);
        }
    }

    /// Whether the thread sleeps although the ring has entries. After the program has handed them over, nobody will wake it.
    fn sleeps_over_entries(&self) -> bool {
        self.state.load(Ordering::SeqCst) == SLEEPS && self.memory.submitted(0) > 0
    }
}

struct Calls(Arc<Shared>);

impl RingCalls for Calls {
    /// Never: a check would hide a lost wake-up.
    const LOOKS_PER_CHECK: u32 = u32::MAX;

    unsafe fn enter(&mut self, _: RawFd, _: u32, _: u32, flags: IoringEnterFlags) -> Result<u32, Errno> {
        if self.0.is_over.load(Ordering::Acquire) {
            return Err(Errno::OWNERDEAD);
        }
        if flags.contains(IoringEnterFlags::SQ_WAKEUP) {
            self.0.state.store(RUNS, Ordering::SeqCst);
        }
        Ok(0)
    }

    unsafe fn enter_within(
        &mut self,
        _: RawFd,
        _: u32,
        _: u32,
        _: IoringEnterFlags,
        _: &Timespec,
    ) -> Result<u32, Errno> {
        Err(Errno::TIME)
    }

    fn poll(&mut self, _: BorrowedFd<'_>, _: &Timespec) {}

    fn cancel(&mut self, _: &Submitter<'_>, _: Option<u64>) -> io::Result<()> {
        Ok(())
    }

    fn relax(&mut self) {
        assert!(!self.0.sleeps_over_entries(), "the thread sleeps over entries");
        std::thread::yield_now();
    }
}

#[test]
fn a_submission_thread_that_goes_to_sleep_is_woken_for_an_entry_it_has_not_seen() {
    // Without the barrier one round in some 50,000 loses its wake-up.
    let rounds = (100 * setting("IOLANE_KERNEL_SEEDS", 1000)).min(2_000_000);
    let (memory, ring) = RingMemory::new(2, 4, IoringFeatureFlags::empty(), true);
    let shared = Arc::new(Shared { memory, state: AtomicU32::new(RUNS), is_over: AtomicBool::new(false) });
    let path = IoPath::new("io_uring").sqpoll();
    let first = RingTarget::new(&path, &target(), TargetId::FIRST).unwrap();
    let calls = Calls(shared.clone());
    let mut queue = RingQueue::<FakeEntries, Moves, Calls>::over(ring, calls, &path, first, &QueueConfig::new(1), 1);
    let pool = Pool::new(1, 512, Pages::Base).unwrap();
    let mut completions = Vec::new();
    std::thread::scope(|scope| {
        let thread = shared.clone();
        scope.spawn(move || thread.run(8));
        let over = EndsThread(&shared);
        for round in 0..rounds {
            let mut buffer = pool.take().unwrap();
            buffer.set_len(512).unwrap();
            queue.submit(&mut [Request::read(round, 0, buffer)].into());
            queue.flush().unwrap();
            let mut looks = 0;
            while shared.memory.unread() == 0 {
                assert!(!shared.sleeps_over_entries(), "the wake-up is lost in round {round}");
                looks += 1;
                // The other thread may have no processor.
                if looks > 1000 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            assert_eq!(queue.reap(1, &mut completions).unwrap(), 1);
            completions.clear();
        }
        drop(over);
    });
}

/// Ends the thread, also where the test fails.
struct EndsThread<'a>(&'a Shared);

impl Drop for EndsThread<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}
