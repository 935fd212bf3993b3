//! A kernel below libaio: io_setup(2), io_submit(2), io_getevents(2) and io_destroy(2), with the ring of completions that it maps. What it
//! may do follows fs/aio.c.

use std::cell::RefCell;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::chance::Chance;
use super::device::{Device, Flight, Kind, vectors};
use super::drill::{CALLS_MAX, FakeKernel};
use crate::libaio::context::{AioCalls, IoEvent, RING_MAGIC, RingHeader};

/// What a kernel does beside what it is asked to; rates in percent.
#[derive(Debug, Clone)]
pub(super) struct Habits {
    /// Whether the ring has the layout that user space knows.
    pub(super) known_layout: bool,
    /// A call takes only a part of the blocks.
    pub(super) short: u64,
    /// A call finds no room.
    pub(super) no_room: u64,
    /// A block is rejected.
    pub(super) rejects: u64,
    pub(super) interrupts: u64,
    /// A wait ends with its timeout.
    pub(super) times_out: u64,
    /// A request ends when it is submitted, as without O_DIRECT.
    pub(super) inline: u64,
    /// An event is there twice.
    pub(super) doubles: u64,
    /// An event of nothing is there.
    pub(super) invents: u64,
}

/// Marks an event that is there twice.
const DOUBLE: u64 = 1;

impl Habits {
    /// A kernel that does what it is asked to.
    pub(super) fn plain(known_layout: bool) -> Self {
        Self {
            known_layout,
            short: 0,
            no_room: 0,
            rejects: 0,
            interrupts: 0,
            times_out: 0,
            inline: 0,
            doubles: 0,
            invents: 0,
        }
    }
}

const HEADER_WORDS: usize = size_of::<RingHeader>() / 8;
const EVENT_WORDS: usize = size_of::<IoEvent>() / 8;

/// The mapped ring: its header and its events.
struct EventRing {
    memory: NonNull<[u64]>,
    events: u32,
}

impl EventRing {
    fn new(events: u32, known_layout: bool) -> Self {
        let words = vec![0u64; HEADER_WORDS + events as usize * EVENT_WORDS].into_boxed_slice();
        // SAFETY: a box is not null.
        let memory = unsafe { NonNull::new_unchecked(Box::into_raw(words)) };
        let header = RingHeader {
            id: 1,
            nr: events,
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            magic: if known_layout { RING_MAGIC } else { 1 },
            compat_features: 1,
            incompat_features: 0,
            header_length: size_of::<RingHeader>() as u32,
        };
        // SAFETY: the memory begins with room for a header.
        unsafe { memory.cast::<RingHeader>().write(header) };
        Self { memory, events }
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: the memory begins with the header; what changes in it is atomic.
        unsafe { self.memory.cast::<RingHeader>().as_ref() }
    }

    fn event(&self, index: u32) -> NonNull<IoEvent> {
        assert!(index < self.events, "an index of the ring");
        // SAFETY: the memory has room for this many events after the header.
        unsafe { self.memory.cast::<u64>().add(HEADER_WORDS).cast::<IoEvent>().add(index as usize) }
    }

    fn unread(&self) -> u32 {
        let (head, tail) = (self.header().head.load(Ordering::Acquire), self.header().tail.load(Ordering::Relaxed));
        assert!(head < self.events, "the program put the head beyond the ring");
        (tail + self.events - head) % self.events
    }

    /// Whether an event that is not read is that of a request.
    fn has_completions(&self, depth: u32) -> bool {
        let head = self.header().head.load(Ordering::Relaxed);
        (0..self.unread()).any(|distance| {
            // SAFETY: the tail has passed the place.
            let event = unsafe { self.event((head + distance) % self.events).read() };
            event.obj != DOUBLE && event.data < depth.into()
        })
    }

    fn room(&self) -> u32 {
        self.events - 1 - self.unread()
    }

    fn post(&self, event: IoEvent) {
        assert!(self.room() > 0, "the ring is full");
        let tail = self.header().tail.load(Ordering::Relaxed);
        // SAFETY: the program does not read the place before the tail has passed it.
        unsafe { self.event(tail).write(event) };
        self.header().tail.store((tail + 1) % self.events, Ordering::Release);
    }

    /// Removes events that repeat one that was read: once its slot has another request, nothing tells them apart.
    fn skip_doubles(&self) {
        while self.unread() > 0 {
            let next = self.event(self.header().head.load(Ordering::Relaxed));
            // SAFETY: the tail has passed the place.
            if unsafe { next.read() }.obj != DOUBLE {
                return;
            }
            self.read();
        }
    }

    fn read(&self) -> Option<IoEvent> {
        let head = self.header().head.load(Ordering::Relaxed);
        if self.unread() == 0 {
            return None;
        }
        // SAFETY: the tail has passed the place.
        let event = unsafe { self.event(head).read() };
        self.header().head.store((head + 1) % self.events, Ordering::Release);
        Some(event)
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        // SAFETY: the memory is that of the box in `new`, and the queue above it is gone.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

struct State {
    habits: Habits,
    chance: Chance,
    ring: Option<EventRing>,
    device: Device,
    depth: u32,
    is_destroyed: bool,
    /// What blocks name to be made readable (IOCB_FLAG_RESFD).
    event_fd: Option<RawFd>,
    calls: u32,
    refused: bool,
}

impl State {
    fn ring(&self) -> &EventRing {
        assert!(!self.is_destroyed, "the context is destroyed");
        self.ring.as_ref().expect("a context was made")
    }

    /// Room for events beyond those of the requests in flight.
    fn spare_room(&self) -> usize {
        (self.ring().room() as usize).saturating_sub(self.device.flights.len())
    }

    fn post(&self, event: IoEvent) {
        self.ring().post(event);
        if let Some(event_fd) = self.event_fd {
            // SAFETY: the queue keeps the descriptor until the context is destroyed.
            let event_fd = unsafe { BorrowedFd::borrow_raw(event_fd) };
            rustix::io::write(event_fd, &1u64.to_ne_bytes()).unwrap();
        }
    }

    /// A request has ended; the ring keeps room for this many others that have.
    fn ended(&mut self, flight: &Flight, others: usize) {
        let event = IoEvent { data: flight.user_data, obj: 0, res: flight.result.into(), res2: 0 };
        self.post(event);
        if self.spare_room() > others && self.chance.strikes(self.habits.doubles) {
            self.post(IoEvent { obj: DOUBLE, ..event });
        }
    }

    fn tick(&mut self) {
        if self.is_destroyed {
            return;
        }
        let mut ended = self.device.tick(&mut self.chance);
        while let Some(flight) = ended.pop() {
            self.ended(&flight, ended.len());
        }
        if self.spare_room() > 0 && self.chance.strikes(self.habits.invents) {
            let slot = self.chance.below(4);
            let data = if self.chance.strikes(50) { u64::MAX - slot } else { u64::from(self.depth) + slot };
            self.post(IoEvent { data, obj: 0, res: -5, res2: 0 });
        }
    }

    fn count_call(&mut self) {
        self.calls += 1;
        assert!(self.calls < CALLS_MAX, "the queue makes no progress: {:?}", self.habits);
        self.tick();
    }

    fn submit(&mut self, blocks: &[*mut libc::iocb]) -> Result<usize, Errno> {
        self.count_call();
        assert!(!blocks.is_empty(), "a call for no block");
        if self.chance.strikes(self.habits.interrupts) {
            return Err(Errno::INTR);
        }
        let most = match self.chance.strikes(self.habits.short) {
            true => 1 + self.chance.below(blocks.len() as u64) as usize,
            false => blocks.len(),
        };
        for (taken, block) in blocks[..most].iter().enumerate() {
            // SAFETY: the queue's blocks can be read during the call.
            let flight = unsafe { self.flight(&**block) };
            let refusal = match () {
                () if self.spare_room() == 0 || self.chance.strikes(self.habits.no_room) => Some(Errno::AGAIN),
                () if self.chance.strikes(self.habits.rejects) => Some(Errno::INVAL),
                () => None,
            };
            match refusal {
                Some(_) if taken > 0 => return Ok(taken),
                Some(errno) => {
                    self.refused = true;
                    // A request that finds no room waits for those that the kernel has.
                    if errno != Errno::AGAIN
                        || self.device.flights.is_empty() && !self.ring().has_completions(self.depth)
                    {
                        self.device.note(flight.offset, -errno.raw_os_error());
                    }
                    return Err(errno);
                }
                None => {}
            }
            self.device.begin(flight, &mut self.chance);
            if self.chance.strikes(self.habits.inline)
                && let Some(flight) = self.device.flights.pop()
            {
                self.device.end(&flight);
                self.ended(&flight, 0);
            }
        }
        Ok(most)
    }

    /// # Safety
    /// What the block names can be read.
    unsafe fn flight(&mut self, block: &libc::iocb) -> Flight {
        let memory = || vec![(block.aio_buf as usize, block.aio_nbytes as usize)];
        // SAFETY: the queue keeps the vectors with the request.
        let scattered = || unsafe { vectors(block.aio_buf, (block.aio_nbytes as usize).min(1024)) };
        let (kind, ranges) = match block.aio_lio_opcode {
            0 => (Kind::Read, memory()),
            1 => (Kind::Write, memory()),
            2 | 3 => (Kind::Other, Vec::new()),
            7 => (Kind::Read, scattered()),
            8 => (Kind::Write, scattered()),
            opcode => panic!("a block with opcode {opcode}"),
        };
        let offset = if kind == Kind::Other { u64::MAX } else { block.aio_offset as u64 };
        assert!(block.aio_data < self.depth.into(), "data {:#x} names no slot", block.aio_data);
        let is_free = self.device.flights.iter().all(|other| other.user_data != block.aio_data);
        assert!(is_free, "the slot is in use");
        self.event_fd = (block.aio_flags & 1 == 1).then_some(block.aio_resfd as RawFd);
        Flight { user_data: block.aio_data, kind, ranges, offset, ticks: 0, result: 0 }
    }

    fn events(&mut self, min: usize, events: &mut [IoEvent], timed: bool) -> Result<usize, Errno> {
        self.count_call();
        assert!(min <= events.len(), "a wait for more events than there is room for");
        let mut count = 0;
        for _ in 0..CALLS_MAX {
            while count < events.len()
                && let Some(event) = self.ring().read()
            {
                events[count] = event;
                count += 1;
            }
            self.ring().skip_doubles();
            if count >= min || timed && self.chance.strikes(self.habits.times_out) {
                return Ok(count);
            }
            if self.chance.strikes(self.habits.interrupts) {
                return if count > 0 { Ok(count) } else { Err(Errno::INTR) };
            }
            self.tick();
        }
        panic!("a wait for {min} events that never come: {:?}", self.habits);
    }
}

/// A handle of the kernel: one is below the queue, the drill has the other.
#[derive(Clone)]
pub(super) struct FakeAio(Rc<RefCell<State>>);

impl FakeAio {
    pub(super) fn new(seed: u64, habits: Habits, device: Device) -> Self {
        let chance = Chance::new(seed ^ 0x5eed);
        let state = State {
            habits,
            chance,
            ring: None,
            device,
            depth: 0,
            is_destroyed: false,
            event_fd: None,
            calls: 0,
            refused: false,
        };
        Self(Rc::new(RefCell::new(state)))
    }
}

// SAFETY: the number is the address of an `EventRing`, which lives as long as the state. `destroy` ends what is in flight.
unsafe impl AioCalls for FakeAio {
    fn setup(&mut self, depth: u32) -> Result<libc::c_ulong, Errno> {
        let mut state = self.0.borrow_mut();
        let events = depth + 2 + state.chance.below(u64::from(depth) + 1) as u32;
        let ring = EventRing::new(events, state.habits.known_layout);
        let address = ring.memory.as_ptr().cast::<u8>().expose_provenance();
        (state.ring, state.depth) = (Some(ring), depth);
        Ok(address as libc::c_ulong)
    }

    unsafe fn submit(&mut self, _: libc::c_ulong, blocks: &[*mut libc::iocb]) -> Result<usize, Errno> {
        self.0.borrow_mut().submit(blocks)
    }

    unsafe fn events(
        &mut self,
        _: libc::c_ulong,
        min: usize,
        events: &mut [IoEvent],
        timeout: Option<&libc::timespec>,
    ) -> Result<usize, Errno> {
        self.0.borrow_mut().events(min, events, timeout.is_some())
    }

    unsafe fn destroy(&mut self, _: libc::c_ulong) {
        let mut state = self.0.borrow_mut();
        state.ring();
        for flight in std::mem::take(&mut state.device.flights) {
            state.device.end(&flight);
        }
        state.is_destroyed = true;
    }
}

impl FakeKernel for FakeAio {
    fn begin_call(&self) {
        let mut state = self.0.borrow_mut();
        (state.calls, state.refused) = (0, false);
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

    /// It has no thread that could end.
    fn has_failed(&self) -> bool {
        false
    }

    fn will_wake(&self, event_fd: BorrowedFd<'_>) -> bool {
        let mut events = [PollFd::new(&event_fd, PollFlags::IN)];
        let is_readable = rustix::event::poll(&mut events, Some(&Timespec::default())).unwrap() > 0;
        let state = self.0.borrow();
        is_readable || !state.ring().has_completions(state.depth) && !state.device.flights.is_empty()
    }
}
