//! The drills: seeds of random use and random kernels, and what they found, each by itself.

use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use std::time::Duration;

use ::io_uring::{cqueue, squeue};
use rustix::fs::MemfdFlags;

use iolane_core::{IoError, IoPath, Operations, Pages, Pool, Queue, QueueConfig, Request, Result, Target, TargetId};

use super::aio::{self, FakeAio};
use super::chance::Chance;
use super::device::Device;
use super::drill::{Drill, FakeKernel};
use super::ring::{FakeRing, Finds, Habits};
use crate::io_uring::Entries;
use crate::libaio::LibaioQueue;
use crate::ring::ring_target::RingTarget;
use crate::ring::{Encode, Moves, RingFile, RingQueue, Stays};

/// The entries of `io_uring`, for any target.
pub(super) struct FakeEntries(Entries);

impl Encode for FakeEntries {
    type Submission = squeue::Entry;
    type Completion = cqueue::Entry;

    fn for_target(_: &IoPath, _: &Target) -> Result<Self> {
        Ok(Self(Entries { unsplit: None }))
    }

    fn operations(&self, _: &IoPath, _: &Target) -> Operations {
        Operations::ALL.without(Operations::DISCARD).without(Operations::WRITE_ZEROES)
    }

    fn request_bytes_max(&self) -> Option<u64> {
        None
    }

    fn encode(&self, request: &Request, file: RingFile, index: Option<u16>) -> Result<squeue::Entry, IoError> {
        self.0.encode(request, file, index)
    }

    fn result(entry: &cqueue::Entry, request: &Request) -> Result<u32, IoError> {
        Entries::result(entry, request)
    }

    fn is_cancelled(entry: &cqueue::Entry) -> bool {
        Entries::is_cancelled(entry)
    }

    fn is_given_up(entry: &cqueue::Entry) -> bool {
        Entries::is_given_up(entry)
    }

    fn user_data(entry: &cqueue::Entry) -> u64 {
        Entries::user_data(entry)
    }
}

/// A file that nothing reads or writes.
pub(super) fn target() -> Target {
    static TARGET: LazyLock<Target> = LazyLock::new(|| {
        let file: OwnedFd = rustix::fs::memfd_create("target", MemfdFlags::CLOEXEC).unwrap();
        Target::from_file(file, "target").unwrap()
    });
    TARGET.clone()
}

fn path(habits: &Habits) -> IoPath {
    let mut path = IoPath::new("io_uring");
    if habits.sqpoll {
        path = path.sqpoll();
    }
    if habits.finds == Finds::Polled {
        path = path.iopoll();
    }
    path
}

/// The queue of a path above a ring of a fake kernel.
macro_rules! ring_queue {
    ($residence:ty, $habits:expr, $kernel:expr, $ring:expr, $config:expr, $limit:expr) => {{
        let path = path($habits);
        let first = RingTarget::new(&path, &target(), TargetId::FIRST).unwrap();
        RingQueue::<FakeEntries, $residence, FakeRing>::over($ring, $kernel, &path, first, $config, $limit)
    }};
}

/// The number in a variable of the environment.
pub(super) fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

fn for_each_seed(run: impl Fn(u64)) {
    let (first, seeds) = (setting("IOLANE_KERNEL_SEED", 1), setting("IOLANE_KERNEL_SEEDS", 1000));
    let mut failed = Vec::new();
    for seed in first..first + seeds {
        if std::panic::catch_unwind(AssertUnwindSafe(|| run(seed))).is_err() {
            println!("seed {seed}");
            failed.push(seed);
        }
        if (seed - first + 1).is_multiple_of(10_000) {
            println!("{} of {seeds} seeds, the last is {seed}", seed - first + 1);
        }
    }
    assert!(failed.is_empty(), "{} of {seeds} seeds failed: {failed:?}", failed.len());
}

const STEPS: u64 = 60;

fn depth(chance: &mut Chance) -> u32 {
    [1, 2, 3, 8, 16][chance.below(5) as usize]
}

fn device(chance: &mut Chance) -> Device {
    Device::new(chance.rate() / 3, chance.below(30))
}

fn ring_habits(chance: &mut Chance) -> Habits {
    let sqpoll = chance.strikes(35);
    let thread_dies = sqpoll && chance.strikes(20);
    let finds = match chance.below(3) {
        // The submission thread looks for completions itself.
        _ if sqpoll => Finds::AtOnce,
        0 => Finds::AtOnce,
        1 => Finds::Deferred,
        _ => Finds::Polled,
    };
    Habits {
        finds,
        sqpoll,
        ext_arg: chance.strikes(80),
        short: chance.rate(),
        no_memory: chance.rate(),
        busy: chance.strikes(30),
        interrupts: chance.rate(),
        times_out: chance.rate(),
        inline: chance.rate(),
        gives_up: if chance.strikes(5) { 100 } else { chance.rate() / 2 },
        lacks_tags: chance.rate(),
        lacks_threads: chance.strikes(10),
        doubles: chance.rate(),
        invents: chance.rate() / 3,
        patience: chance.below(6),
        thread_dies,
        cancels: if chance.strikes(20) { None } else { Some(chance.rate()) },
        // What overflowed is lost with the submission thread.
        overflows: !thread_dies && chance.strikes(25),
    }
}

fn ring_drill(seed: u64, habits: Habits, mut chance: Chance) {
    let depth = depth(&mut chance);
    let (kernel, ring) = FakeRing::new(seed, depth, habits.clone(), device(&mut chance));
    let drill = Drill::new(seed, kernel.clone());
    let mut config = QueueConfig::new(depth);
    if chance.strikes(30) {
        config = config.event_fd();
    }
    // A polled path has no more requests in the kernel than the device has tags.
    let limit = match habits.finds {
        Finds::Polled if chance.strikes(50) => 1 + chance.below(depth.into()) as usize,
        _ => usize::MAX,
    };
    match chance.strikes(25) {
        true => drill.run(ring_queue!(Moves, &habits, kernel, ring, &config, limit), STEPS),
        false => drill.run(ring_queue!(Stays, &habits, kernel, ring, &config, limit), STEPS),
    }
}

#[test]
fn each_request_on_a_ring_completes_once_whatever_the_kernel_does() {
    for_each_seed(|seed| {
        let mut chance = Chance::new(seed);
        let habits = ring_habits(&mut chance);
        ring_drill(seed, habits, chance);
    });
}

#[test]
fn each_request_on_libaio_completes_once_whatever_the_kernel_does() {
    for_each_seed(|seed| {
        let mut chance = Chance::new(seed);
        let habits = aio::Habits {
            known_layout: chance.strikes(70),
            short: chance.rate(),
            no_room: chance.rate(),
            rejects: chance.rate() / 3,
            interrupts: chance.rate(),
            times_out: chance.rate(),
            inline: chance.rate(),
            doubles: chance.rate(),
            invents: chance.rate() / 3,
        };
        let kernel = FakeAio::new(seed, habits, device(&mut chance));
        let mut config = QueueConfig::new(depth(&mut chance));
        if chance.strikes(30) {
            config = config.event_fd();
        }
        if chance.strikes(30) {
            config = config.completions_per_call(Some(1 + chance.below(4) as u32));
        }
        let mut path = IoPath::new("libaio");
        path.options.getevents = chance.strikes(30);
        let queue = LibaioQueue::over(kernel.clone(), &path, &target(), &config).unwrap();
        Drill::new(seed, kernel).run(queue, STEPS);
    });
}

/// A queue of this depth above a kernel, with a pool of buffers.
macro_rules! plain_ring {
    ($habits:expr, $device:expr, $depth:expr) => {{
        let habits = $habits;
        let (kernel, ring) = FakeRing::new(1, $depth, habits.clone(), $device);
        let config = QueueConfig::new($depth).event_fd();
        (kernel.clone(), ring_queue!(Stays, &habits, kernel, ring, &config, usize::MAX))
    }};
}

fn reads(pool: &Pool, tags: std::ops::Range<u64>) -> Vec<Request> {
    let read = |tag| {
        let mut buffer = pool.take().unwrap();
        buffer.set_len(512).unwrap();
        Request::read(tag, tag * 512, buffer)
    };
    tags.map(read).collect()
}

fn pool() -> Pool {
    Pool::new(8, 512, Pages::Base).unwrap()
}

/// Longer than any test.
const NEVER: u64 = 1 << 40;

#[test]
fn a_completion_that_looks_like_a_refusal_gives_back_no_buffer_that_the_kernel_has() {
    let (kernel, mut queue) = plain_ring!(Habits::plain(Finds::AtOnce, false), Device::new(0, 9), 2);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..1));
    queue.flush().unwrap();
    kernel.invent((libc::EOPNOTSUPP as u64) << 32);
    assert_eq!(queue.reap(0, &mut completions).unwrap(), 0);
    assert_eq!(queue.reap(1, &mut completions).unwrap(), 1);
    assert_eq!(completions[0].result, Ok(512));
}

#[test]
fn a_ring_that_has_no_memory_for_a_request_looks_for_completions_all_the_same() {
    for finds in [Finds::AtOnce, Finds::Deferred, Finds::Polled] {
        for timed in [false, true] {
            let habits = Habits { no_memory: 100, ..Habits::plain(finds, false) };
            let (_, mut queue) = plain_ring!(habits, Device::new(0, 9), 4);
            let (pool, mut completions) = (pool(), Vec::new());
            let mut requests = reads(&pool, 0..4);
            let mut first: Vec<Request> = requests.drain(..2).collect();
            queue.submit(&mut first);
            queue.flush().unwrap();
            queue.submit(&mut requests);
            match timed {
                false => assert_eq!(queue.reap(4, &mut completions).unwrap(), 4),
                true => {
                    let looks =
                        (0..100).map(|_| queue.reap_within(4, Duration::from_secs(1), &mut completions).unwrap());
                    assert_eq!(looks.sum::<usize>(), 4, "{finds:?}");
                }
            }
        }
    }
}

#[test]
fn a_look_that_waits_for_nothing_finds_what_the_kernel_posts_only_to_who_enters() {
    for finds in [Finds::Deferred, Finds::Polled] {
        let (kernel, mut queue) = plain_ring!(Habits::plain(finds, false), Device::new(0, 9), 4);
        let (pool, mut completions) = (pool(), Vec::new());
        queue.submit(&mut reads(&pool, 0..4));
        queue.flush().unwrap();
        let look = |_| {
            kernel.tick();
            queue.reap_within(0, Duration::from_secs(1), &mut completions).unwrap()
        };
        assert_eq!((0..100).map(look).sum::<usize>(), 4, "{finds:?}");
    }
}

#[test]
fn a_held_request_that_is_refused_comes_back_from_the_wait_for_it() {
    let habits = Habits::plain(Finds::Polled, false);
    let (kernel, ring) = FakeRing::new(1, 2, habits.clone(), Device::new(0, 9));
    let mut queue = ring_queue!(Stays, &habits, kernel, ring, &QueueConfig::new(2), 1);
    let (pool, mut completions) = (pool(), Vec::new());
    let mut requests = reads(&pool, 0..1);
    requests.push(Request::discard(1, 0, 512));
    queue.submit(&mut requests);
    assert_eq!(queue.reap(2, &mut completions).unwrap(), 2);
    let results: Vec<_> = completions.iter().map(|completion| completion.result).collect();
    assert_eq!(results, [Ok(512), Err(IoError::NOT_SUPPORTED)]);
}

#[test]
fn completions_that_found_the_ring_full_reach_a_queue_that_makes_no_call_to_wait() {
    let habits = Habits { overflows: true, ..Habits::plain(Finds::AtOnce, true) };
    let (kernel, mut queue) = plain_ring!(habits, Device::new(0, 0), 8);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..8));
    queue.flush().unwrap();
    (0..100).for_each(|_| kernel.tick());
    assert_eq!(queue.reap(8, &mut completions).unwrap(), 8);
}

#[test]
fn what_a_submission_thread_completed_before_it_ended_comes_back_with_the_error() {
    let (kernel, mut queue) = plain_ring!(Habits::plain(Finds::AtOnce, true), Device::new(0, 0), 4);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..2));
    queue.flush().unwrap();
    (0..100).for_each(|_| kernel.tick());
    kernel.end_thread();
    queue.submit(&mut reads(&pool, 2..3));
    let error = queue.reap(3, &mut completions).unwrap_err().to_string();
    assert!(error.contains("submission thread"), "{error}");
    assert_eq!((completions.len(), queue.in_flight()), (2, 1));
    assert!(queue.reap(0, &mut completions).is_err(), "the next call says so again");
}

#[test]
fn looks_that_wait_for_nothing_notice_that_the_submission_thread_has_ended_and_buffers_it_has_stay_taken() {
    let (kernel, mut queue) = plain_ring!(Habits::plain(Finds::AtOnce, true), Device::new(0, NEVER), 1);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..1));
    queue.flush().unwrap();
    (0..10).for_each(|_| kernel.tick());
    kernel.end_thread();
    assert!((0..1000).any(|_| queue.reap(0, &mut completions).is_err()));
    drop(queue);
    assert_eq!(kernel.with_device(|device| device.flights.len()), 1);
    assert_eq!(std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len(), 7);
}

#[test]
fn a_ring_that_fails_when_it_is_dropped_leaves_the_buffers_of_its_requests_taken() {
    let (kernel, mut queue) = plain_ring!(Habits::plain(Finds::AtOnce, false), Device::new(0, NEVER), 2);
    let pool = pool();
    queue.submit(&mut reads(&pool, 0..1));
    queue.flush().unwrap();
    queue.submit(&mut reads(&pool, 1..2));
    kernel.break_ring();
    drop(queue);
    assert_eq!(std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len(), 6);
}

#[test]
fn entries_that_a_call_left_in_the_ring_are_submitted_before_the_last_completion_comes_back() {
    let habits = Habits { short: 100, inline: 100, ..Habits::plain(Finds::AtOnce, false) };
    let (kernel, mut queue) = plain_ring!(habits, Device::new(0, 0), 4);
    an_event_loop_is_woken_for_whatever_is_in_flight(&kernel, &mut queue);
}

fn an_event_loop_is_woken_for_whatever_is_in_flight(kernel: &impl FakeKernel, queue: &mut impl Queue) {
    let (pool, mut completions) = (pool(), Vec::new());
    for _ in 0..50 {
        queue.submit(&mut reads(&pool, 0..4));
        queue.reap(0, &mut completions).unwrap();
        assert!(queue.in_flight() == 0 || kernel.will_wake(queue.event_fd().unwrap()));
        queue.drain(&mut completions).unwrap();
        completions.clear();
    }
}

#[test]
fn a_request_that_finds_the_ring_full_is_refused_and_the_others_complete() {
    let habits = Habits::plain(Finds::AtOnce, false);
    let (kernel, ring) = FakeRing::new(1, 2, habits.clone(), Device::new(0, 9));
    // A queue that is deeper than its ring.
    let mut queue = ring_queue!(Stays, &habits, kernel, ring, &QueueConfig::new(4), usize::MAX);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..4));
    assert_eq!(queue.reap(4, &mut completions).unwrap(), 4);
    let refused = completions.iter().filter(|completion| completion.result == Err(IoError::from_errno(libc::EBUSY)));
    assert_eq!(refused.count(), 2);
}

#[test]
fn a_request_that_the_kernel_gives_up_is_submitted_64_times_more() {
    let habits = Habits { gives_up: 100, ..Habits::plain(Finds::AtOnce, false) };
    let (kernel, mut queue) = plain_ring!(habits, Device::new(0, 0), 1);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..1));
    assert_eq!(queue.reap(1, &mut completions).unwrap(), 1);
    assert_eq!(completions[0].result, Err(IoError::from_errno(libc::EAGAIN)));
    assert_eq!(kernel.with_device(|device| device.outcome(0)), Some((-libc::ECANCELED, 65)));
}

#[test]
fn a_transfer_that_gets_no_tags_is_begun_by_a_worker() {
    let habits = Habits { lacks_tags: 100, ..Habits::plain(Finds::AtOnce, false) };
    let (kernel, mut queue) = plain_ring!(habits, Device::new(0, 0), 4);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..4));
    assert_eq!(queue.reap(4, &mut completions).unwrap(), 4);
    assert!(completions.iter().all(|completion| completion.result == Ok(512)), "{completions:?}");
    assert_eq!(kernel.with_device(|device| device.outcome(0)), Some((512, 2)));
}

#[test]
fn where_no_worker_can_be_started_a_transfer_waits_for_tags_without_one() {
    let habits = Habits { lacks_tags: 60, lacks_threads: true, ..Habits::plain(Finds::AtOnce, false) };
    let (_, mut queue) = plain_ring!(habits, Device::new(0, 0), 8);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..8));
    assert_eq!(queue.reap(8, &mut completions).unwrap(), 8);
    assert!(completions.iter().all(|completion| completion.result == Ok(512)), "{completions:?}");
}

#[test]
fn a_polled_transfer_that_gets_no_tags_ends_with_eagain() {
    let habits = Habits { lacks_tags: 100, ..Habits::plain(Finds::Polled, false) };
    let (_, mut queue) = plain_ring!(habits, Device::new(0, 0), 1);
    let (pool, mut completions) = (pool(), Vec::new());
    queue.submit(&mut reads(&pool, 0..1));
    assert_eq!(queue.reap(1, &mut completions).unwrap(), 1);
    assert_eq!(completions[0].result, Err(IoError::from_errno(libc::EAGAIN)));
}

#[test]
fn a_polled_read_of_a_file_that_ends_with_no_byte_is_repeated_by_a_blocking_call() {
    let file: OwnedFd = rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::pwrite(&file, &[7; 700], 0).unwrap();
    let file = Target::from_file(file, "file").unwrap();
    let results_of = |finds| {
        let habits = Habits::plain(finds, false);
        let (kernel, ring) = FakeRing::new(1, 4, habits.clone(), Device::losing_reads());
        let path = path(&habits);
        let first = RingTarget::new(&path, &file, TargetId::FIRST).unwrap();
        let config = QueueConfig::new(4);
        let mut queue =
            RingQueue::<FakeEntries, Stays, FakeRing>::over(ring, kernel, &path, first, &config, usize::MAX);
        let (pool, mut completions) = (pool(), Vec::new());
        queue.submit(&mut reads(&pool, 0..3));
        queue.reap(3, &mut completions).unwrap();
        completions.sort_by_key(|completion| completion.tag);
        completions
    };
    let polled = results_of(Finds::Polled);
    let results: Vec<_> = polled.iter().map(|completion| completion.result).collect();
    assert_eq!(results, [Ok(512), Ok(188), Ok(0)]);
    assert_eq!(polled[1].buffer.as_ref().unwrap()[..188], [7; 188]);
    assert!(results_of(Finds::AtOnce).iter().all(|completion| completion.result == Ok(0)));
}

/// A queue on libaio above a kernel.
fn aio_queue(habits: aio::Habits, device: Device, config: &QueueConfig) -> (FakeAio, LibaioQueue<FakeAio>) {
    let kernel = FakeAio::new(1, habits, device);
    let queue = LibaioQueue::over(kernel.clone(), &IoPath::new("libaio"), &target(), config).unwrap();
    (kernel, queue)
}

#[test]
fn events_of_no_request_are_not_counted() {
    for known_layout in [false, true] {
        let habits = aio::Habits { invents: 100, ..aio::Habits::plain(known_layout) };
        let (_, mut queue) = aio_queue(habits, Device::new(0, 9), &QueueConfig::new(4));
        let (pool, mut completions) = (pool(), Vec::new());
        queue.submit(&mut reads(&pool, 0..4));
        assert_eq!(queue.reap(4, &mut completions).unwrap(), 4);
        assert_eq!(completions.len(), 4);
    }
}

#[test]
fn no_event_stays_behind_when_the_event_descriptor_is_reset() {
    for known_layout in [false, true] {
        let config = QueueConfig::new(4).event_fd().completions_per_call(Some(1));
        let (kernel, mut queue) = aio_queue(aio::Habits::plain(known_layout), Device::new(0, 0), &config);
        let (pool, mut completions) = (pool(), Vec::new());
        queue.submit(&mut reads(&pool, 0..4));
        queue.flush().unwrap();
        (0..10).for_each(|_| kernel.tick());
        queue.reap(0, &mut completions).unwrap();
        assert!(queue.in_flight() == 0 || kernel.will_wake(queue.event_fd().unwrap()), "layout known: {known_layout}");
    }
}

#[test]
fn requests_that_found_no_room_are_handed_over_before_the_last_completion_comes_back() {
    let habits = aio::Habits { short: 100, no_room: 50, inline: 100, ..aio::Habits::plain(true) };
    let (kernel, mut queue) = aio_queue(habits, Device::new(0, 0), &QueueConfig::new(4).event_fd());
    an_event_loop_is_woken_for_whatever_is_in_flight(&kernel, &mut queue);
}
