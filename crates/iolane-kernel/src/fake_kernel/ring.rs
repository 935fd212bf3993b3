//! A kernel below a ring: io_uring_enter(2), the cancelling of io_uring_register(2), and the submission thread. What it may do follows
//! io_uring/io_uring.c and io_uring/sqpoll.c; each kind of ring finds and posts its completions as those do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;

use ::io_uring::{IoUring, Submitter};
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::io_uring::{IoringEnterFlags, IoringFeatureFlags};

use super::chance::Chance;
use super::device::{Device, Flight, Kind, vectors};
use super::drill::{CALLS_MAX, FakeKernel};
use super::ring_memory::{NEED_WAKEUP, OVERFLOWN, RingMemory, Submission, TASKRUN};
use crate::ring::calls::RingCalls;

/// How a ring finds its completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finds {
    /// They are posted as they happen.
    AtOnce,
    /// They are posted when the ring is entered, and a flag says that there are some (DEFER_TASKRUN, COOP_TASKRUN).
    Deferred,
    /// They are posted when the ring is entered to poll (IOPOLL).
    Polled,
}

/// What a kernel does beside what it is asked to; rates in percent.
#[derive(Debug, Clone)]
pub(super) struct Habits {
    pub(super) finds: Finds,
    pub(super) sqpoll: bool,
    /// Whether a call takes a timeout (Linux 5.11).
    pub(super) ext_arg: bool,
    /// A call takes only a part of the entries.
    pub(super) short: u64,
    /// A call finds no memory for a request, and so do those after it until one has completed.
    pub(super) no_memory: u64,
    /// A call submits nothing while completions overflow (Linux before 6.0).
    pub(super) busy: bool,
    pub(super) interrupts: u64,
    /// A wait ends with its timeout, or early.
    pub(super) times_out: u64,
    /// A request ends when it is submitted.
    pub(super) inline: u64,
    /// A request ends with ECANCELED, though nobody asked.
    pub(super) gives_up: u64,
    /// A request that no worker begins ends with EAGAIN.
    pub(super) lacks_tags: u64,
    /// A request that a worker is to begin ends with ECANCELED: there can be no more threads.
    pub(super) lacks_threads: bool,
    /// A completion is posted twice.
    pub(super) doubles: u64,
    /// A completion of nothing is posted.
    pub(super) invents: u64,
    /// The submission thread goes to sleep after this many looks.
    pub(super) patience: u64,
    /// The submission thread ends.
    pub(super) thread_dies: bool,
    /// Share of requests that can be cancelled; `None` where nothing can (Linux before 6.0).
    pub(super) cancels: Option<u64>,
    /// Whether the completion ring is smaller than what may complete.
    pub(super) overflows: bool,
}

impl Habits {
    /// A kernel that does what it is asked to.
    pub(super) fn plain(finds: Finds, sqpoll: bool) -> Self {
        Self {
            finds,
            sqpoll,
            ext_arg: true,
            short: 0,
            no_memory: 0,
            busy: false,
            interrupts: 0,
            times_out: 0,
            inline: 0,
            gives_up: 0,
            lacks_tags: 0,
            lacks_threads: false,
            doubles: 0,
            invents: 0,
            patience: 3,
            thread_dies: false,
            cancels: Some(0),
            overflows: false,
        }
    }
}

/// The submission thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    Runs {
        idle: u64,
    },
    /// It has set the flag and looks at the ring once more.
    Dozes,
    Sleeps {
        woken: bool,
    },
    Ended,
}

pub(super) struct State {
    habits: Habits,
    chance: Chance,
    memory: RingMemory,
    pub(super) device: Device,
    /// Completions that wait until the ring is entered.
    unposted: VecDeque<(u64, i32)>,
    /// Completions that found the ring full.
    overflow: VecDeque<(u64, i32)>,
    thread: Thread,
    /// Entries that the submission thread has taken, whose places it has not given back.
    uncommitted: u32,
    out_of_memory: bool,
    /// The ring takes no call.
    is_broken: bool,
    /// Calls since the last completion.
    calls: u32,
    /// Completions since the call of the queue began.
    delivered: u32,
    refused: bool,
    depth: u32,
}

impl State {
    /// The program can see a completion: the calls before it were of use.
    fn deliver(&mut self, user_data: u64, result: i32) {
        self.memory.complete(user_data, result);
        self.calls = 0;
        self.delivered += 1;
        assert!(self.delivered < CALLS_MAX, "requests are submitted again for ever: {:?}", self.habits);
    }

    fn post(&mut self, user_data: u64, result: i32) {
        if !self.overflow.is_empty() || self.memory.room() == 0 {
            self.overflow.push_back((user_data, result));
            return self.memory.set_flag(OVERFLOWN, true);
        }
        self.deliver(user_data, result);
        if self.has_spare_room() && self.chance.strikes(self.habits.doubles) {
            self.memory.complete(user_data, result);
        }
    }

    /// Whether there is room for a completion too many. None may overflow for it where the submission thread ends, and what overflowed
    /// is lost.
    fn has_spare_room(&self) -> bool {
        self.memory.room() > if self.habits.thread_dies { self.depth } else { 0 }
    }

    /// A completion of nothing that was submitted.
    fn invent(&mut self) {
        if !self.has_spare_room() || !self.chance.strikes(self.habits.invents) {
            return;
        }
        let slot = self.chance.below(u64::from(self.depth) + 4);
        let user_data = match self.chance.below(3) {
            0 => u64::MAX - slot,
            1 => u64::from(self.depth) + slot,
            _ => (1000 + self.chance.below(200)) << 32 | slot,
        };
        self.memory.complete(user_data, -libc::ECANCELED);
    }

    /// A request has ended.
    fn ended(&mut self, flight: &Flight) {
        match self.habits.finds {
            Finds::AtOnce => {
                self.out_of_memory = false;
                self.post(flight.user_data, flight.result);
            }
            Finds::Deferred => {
                self.unposted.push_back((flight.user_data, flight.result));
                self.memory.set_flag(TASKRUN, true);
            }
            Finds::Polled => self.unposted.push_back((flight.user_data, flight.result)),
        }
    }

    /// What an entry with GETEVENTS finds.
    fn find(&mut self) {
        self.flush_overflow();
        for (user_data, result) in std::mem::take(&mut self.unposted) {
            self.out_of_memory = false;
            self.post(user_data, result);
        }
        self.memory.set_flag(TASKRUN, false);
    }

    fn flush_overflow(&mut self) {
        while self.memory.room() > 0
            && let Some((user_data, result)) = self.overflow.pop_front()
        {
            self.deliver(user_data, result);
        }
        self.memory.set_flag(OVERFLOWN, !self.overflow.is_empty());
    }

    fn tick(&mut self) {
        for flight in self.device.tick(&mut self.chance) {
            self.ended(&flight);
        }
        self.invent();
        if self.habits.sqpoll {
            self.step();
        }
    }

    /// The submission thread does one thing.
    fn step(&mut self) {
        let available = self.memory.submitted(self.uncommitted);
        match self.thread {
            Thread::Ended => {}
            _ if self.habits.thread_dies && self.chance.strikes(1) => self.end_thread(),
            Thread::Runs { .. } if self.uncommitted > 0 => {
                if self.chance.strikes(30) {
                    self.memory.consume(std::mem::take(&mut self.uncommitted));
                }
            }
            Thread::Runs { .. } if available > 0 => {
                self.uncommitted = self.part_of(available);
                self.take(self.uncommitted);
                self.thread = Thread::Runs { idle: 0 };
            }
            Thread::Runs { idle } if idle < self.habits.patience => self.thread = Thread::Runs { idle: idle + 1 },
            Thread::Runs { .. } => {
                self.memory.set_flag(NEED_WAKEUP, true);
                self.thread = Thread::Dozes;
            }
            Thread::Dozes if available == 0 => self.thread = Thread::Sleeps { woken: false },
            Thread::Dozes | Thread::Sleeps { woken: true } => {
                self.memory.set_flag(NEED_WAKEUP, false);
                self.thread = Thread::Runs { idle: 0 };
            }
            Thread::Sleeps { woken: false } => {}
        }
    }

    fn end_thread(&mut self) {
        self.memory.consume(std::mem::take(&mut self.uncommitted));
        self.thread = Thread::Ended;
        self.memory.set_flag(NEED_WAKEUP, true);
    }

    fn part_of(&mut self, entries: u32) -> u32 {
        if self.chance.strikes(self.habits.short) {
            return 1 + self.chance.below(entries.into()) as u32;
        }
        entries
    }

    /// Begins the requests of the first entries.
    fn take(&mut self, entries: u32) {
        for distance in 0..entries {
            let submission = self.memory.submission(distance);
            let flight = self.flight(&submission);
            let is_transfer = flight.kind != Kind::Other;
            let given_up = match () {
                () if self.chance.strikes(self.habits.gives_up) => Some(-libc::ECANCELED),
                () if submission.by_worker && self.habits.lacks_threads => Some(-libc::ECANCELED),
                () if is_transfer && !submission.by_worker && self.chance.strikes(self.habits.lacks_tags) => {
                    Some(-libc::EAGAIN)
                }
                () => None,
            };
            if let Some(result) = given_up {
                self.device.note(flight.offset, result);
                self.ended(&Flight { result, ..flight });
                continue;
            }
            self.device.begin(flight, &mut self.chance);
            if self.chance.strikes(self.habits.inline)
                && let Some(flight) = self.device.flights.pop()
            {
                self.device.end(&flight);
                self.ended(&flight);
            }
        }
    }

    fn flight(&self, submission: &Submission) -> Flight {
        let Submission { opcode, offset, address, length, user_data, .. } = *submission;
        let memory = || vec![(address as usize, length as usize)];
        // SAFETY: the queue keeps the vectors with the request.
        let scattered = || unsafe { vectors(address, length as usize) };
        let (kind, ranges, offset) = match opcode {
            // No-op and fsync name no offset.
            0 | 3 => (Kind::Other, Vec::new(), u64::MAX),
            1 => (Kind::Read, scattered(), offset),
            2 => (Kind::Write, scattered(), offset),
            22 => (Kind::Read, memory(), offset),
            23 => (Kind::Write, memory(), offset),
            _ => panic!("an entry with opcode {opcode}"),
        };
        assert!(opcode == 0 || user_data < self.depth.into(), "user data {user_data:#x} names no slot");
        assert!(self.device.flights.iter().all(|other| other.user_data != user_data), "the slot is in use");
        Flight { user_data, kind, ranges, offset, ticks: 0, result: 0 }
    }

    fn fail(&mut self, errno: Errno) -> Result<u32, Errno> {
        self.refused |= errno != Errno::INTR && errno != Errno::TIME;
        Err(errno)
    }

    fn count_call(&mut self) {
        self.calls += 1;
        // A test that has failed drops its queue, which makes calls.
        assert!(
            self.calls < CALLS_MAX || std::thread::panicking(),
            "the queue makes no progress: {:?} {:?}",
            self.habits,
            self.thread
        );
    }

    fn enter(&mut self, to_submit: u32, min: u32, flags: IoringEnterFlags, timed: bool) -> Result<u32, Errno> {
        // A test that has failed drops its queue: that is to leak what it has in flight, not to fail again.
        if self.is_broken || std::thread::panicking() {
            return self.fail(Errno::BADFD);
        }
        self.count_call();
        self.tick();
        let gets_events = flags.contains(IoringEnterFlags::GETEVENTS);
        if self.habits.sqpoll {
            return self.enter_with_thread(to_submit, min, flags, timed);
        }
        let mut taken = 0;
        if to_submit > 0 {
            assert!(to_submit <= self.memory.submitted(0), "more entries are submitted than there are");
            if self.habits.busy && self.overflow.len() > self.memory.room() as usize {
                return self.fail(Errno::BUSY);
            }
            let has_some = !self.device.flights.is_empty() || !self.unposted.is_empty();
            self.out_of_memory = has_some && (self.out_of_memory || self.chance.strikes(self.habits.no_memory));
            if self.out_of_memory {
                return self.fail(Errno::AGAIN);
            }
            taken = self.part_of(to_submit);
            self.take(taken);
            self.memory.consume(taken);
            // A call that submits less than it was asked to does not wait.
            if taken < to_submit {
                return Ok(taken);
            }
        }
        match gets_events {
            false => Ok(taken),
            true => match self.wait(min, timed) {
                Err(errno) if taken == 0 => self.fail(errno),
                _ => Ok(taken),
            },
        }
    }

    fn enter_with_thread(
        &mut self,
        to_submit: u32,
        min: u32,
        flags: IoringEnterFlags,
        timed: bool,
    ) -> Result<u32, Errno> {
        if self.thread == Thread::Ended {
            return self.fail(Errno::OWNERDEAD);
        }
        if let Thread::Sleeps { woken } = &mut self.thread
            && flags.contains(IoringEnterFlags::SQ_WAKEUP)
        {
            *woken = true;
        }
        if self.chance.strikes(self.habits.interrupts) {
            return self.fail(Errno::INTR);
        }
        match flags.contains(IoringEnterFlags::GETEVENTS) {
            false => Ok(to_submit),
            true => self.wait(min, timed).map(|()| to_submit),
        }
    }

    fn wait(&mut self, min: u32, timed: bool) -> Result<(), Errno> {
        // A ring that polls looks at what it has before it polls (io_uring/io_uring.c, io_iopoll_check).
        if self.habits.finds == Finds::Polled {
            self.flush_overflow();
            if self.memory.unread() > 0 {
                return Ok(());
            }
        }
        for _ in 0..CALLS_MAX {
            self.find();
            if self.memory.unread() >= min.min(self.memory.cq_entries()) {
                return Ok(());
            }
            if self.chance.strikes(self.habits.interrupts) {
                return Err(Errno::INTR);
            }
            if timed && self.chance.strikes(self.habits.times_out) {
                return Err(Errno::TIME);
            }
            if self.thread == Thread::Ended && self.device.flights.is_empty() {
                return Err(Errno::INTR);
            }
            self.tick();
        }
        panic!("a wait for {min} completions that never come: {:?} {:?}", self.habits, self.thread);
    }

    fn cancel(&mut self, user_data: Option<u64>) -> io::Result<()> {
        self.count_call();
        self.tick();
        let Some(cancels) = self.habits.cancels else { return Err(Errno::INVAL.into()) };
        let mut outcome = Err(Errno::NOENT);
        for index in (0..self.device.flights.len()).rev() {
            if user_data.is_some_and(|wanted| self.device.flights[index].user_data != wanted) {
                continue;
            }
            // A request that the device has goes on.
            outcome = Err(if self.chance.strikes(50) { Errno::TIME } else { Errno::ALREADY });
            if !self.chance.strikes(cancels) {
                continue;
            }
            outcome = Ok(());
            let flight = Flight { result: -libc::ECANCELED, ..self.device.flights.swap_remove(index) };
            self.device.note(flight.offset, flight.result);
            self.ended(&flight);
        }
        outcome.map_err(io::Error::from)
    }
}

/// A handle of the kernel: one is below the queue, the drill has the other.
#[derive(Clone)]
pub(super) struct FakeRing(Rc<RefCell<State>>);

impl FakeRing {
    /// A kernel and the program's side of its ring.
    pub(super) fn new(seed: u64, depth: u32, habits: Habits, device: Device) -> (Self, IoUring) {
        let chance = Chance::new(seed ^ 0x5eed);
        let sq_entries = depth.next_power_of_two() * if habits.sqpoll { 2 } else { 1 };
        // Two completions per entry, as io_uring_setup(2) makes it.
        let cq_entries = if habits.overflows { 2 } else { sq_entries * 2 };
        let features = if habits.ext_arg { IoringFeatureFlags::EXT_ARG } else { IoringFeatureFlags::empty() };
        let (memory, ring) = RingMemory::new(sq_entries, cq_entries, features, habits.sqpoll);
        let state = State {
            habits,
            chance,
            memory,
            device,
            unposted: VecDeque::new(),
            overflow: VecDeque::new(),
            thread: Thread::Runs { idle: 0 },
            uncommitted: 0,
            out_of_memory: false,
            is_broken: false,
            calls: 0,
            delivered: 0,
            refused: false,
            depth,
        };
        (Self(Rc::new(RefCell::new(state))), ring)
    }
}

impl FakeRing {
    /// Posts a completion of nothing.
    pub(super) fn invent(&self, user_data: u64) {
        self.0.borrow().memory.complete(user_data, 0);
    }

    /// Every later call fails.
    pub(super) fn break_ring(&self) {
        self.0.borrow_mut().is_broken = true;
    }

    /// The submission thread ends.
    pub(super) fn end_thread(&self) {
        self.0.borrow_mut().end_thread();
    }
}

impl RingCalls for FakeRing {
    const LOOKS_PER_CHECK: u32 = 64;

    unsafe fn enter(&mut self, _: RawFd, to_submit: u32, min: u32, flags: IoringEnterFlags) -> Result<u32, Errno> {
        self.0.borrow_mut().enter(to_submit, min, flags, false)
    }

    unsafe fn enter_within(
        &mut self,
        _: RawFd,
        to_submit: u32,
        min: u32,
        flags: IoringEnterFlags,
        _timeout: &Timespec,
    ) -> Result<u32, Errno> {
        self.0.borrow_mut().enter(to_submit, min, flags, true)
    }

    fn poll(&mut self, _: BorrowedFd<'_>, _: &Timespec) {
        self.0.borrow_mut().count_call();
        self.0.borrow_mut().tick();
    }

    fn cancel(&mut self, _: &Submitter<'_>, user_data: Option<u64>) -> io::Result<()> {
        self.0.borrow_mut().cancel(user_data)
    }

    fn relax(&mut self) {
        self.0.borrow_mut().count_call();
        self.0.borrow_mut().tick();
    }
}

impl FakeKernel for FakeRing {
    fn begin_call(&self) {
        let mut state = self.0.borrow_mut();
        (state.calls, state.delivered, state.refused) = (0, 0, false);
    }

    fn tick(&self) {
        self.0.borrow_mut().tick();
    }

    fn with_device<T>(&self, look: impl FnOnce(&Device) -> T) -> T {
        look(&self.0.borrow().device)
    }

    fn has_refused(&self) -> bool {
        self.0.borrow().refused
    }

    fn has_failed(&self) -> bool {
        self.0.borrow().thread == Thread::Ended
    }

    fn will_wake(&self, _: BorrowedFd<'_>) -> bool {
        let state = self.0.borrow();
        let has_some = !state.device.flights.is_empty() || !state.unposted.is_empty() || !state.overflow.is_empty();
        has_some || state.memory.unread() > 0 || state.habits.sqpoll && state.memory.submitted(state.uncommitted) > 0
    }
}
