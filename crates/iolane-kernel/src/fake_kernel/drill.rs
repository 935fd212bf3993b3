//! Uses a queue above a fake kernel at random, and checks the contract of `Queue` (`iolane-contract`) and what the kernel's side shows: each
//! request has the outcome that the kernel gave it; no buffer comes back while the kernel may write it; no call goes on for ever; and a
//! dropped queue leaves nothing in flight.

use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use iolane_contract::{Contract, Owed};
use iolane_core::{Buffer, Buffers, Completion, IoError, Operation, Pages, Pool, Queue, Request};

use super::chance::Chance;
use super::device::{Device, content};

/// Calls of the fake kernel that complete nothing, within one call of the queue: more is a loop without end.
pub(super) const CALLS_MAX: u32 = 20_000;

/// The drill's side of a fake kernel.
pub(super) trait FakeKernel {
    /// The next call of the queue begins.
    fn begin_call(&self);

    /// Time passes outside the queue.
    fn tick(&self);

    fn with_device<T>(&self, look: impl FnOnce(&Device) -> T) -> T;

    /// Whether it has refused something since the call of the queue began, so that the queue may fail.
    fn has_refused(&self) -> bool;

    /// Whether it will take no further requests.
    fn has_failed(&self) -> bool;

    /// Whether the event descriptor of a queue with requests in flight is readable or will be.
    fn will_wake(&self, event_fd: BorrowedFd<'_>) -> bool;
}

const FRAMES: usize = 48;
const BYTES: usize = 512;
/// Fills buffers before they are read into.
const UNREAD: u8 = 0xa5;

/// Of a request, what its outcome is judged by.
struct What {
    reads: bool,
    is_sync: bool,
    is_unsupported: bool,
}

pub(super) struct Drill<K: FakeKernel> {
    kernel: K,
    chance: Chance,
    pool: Pool,
    contract: Contract<What>,
    waiting: Vec<Request>,
    ended: Vec<Completion>,
    /// Buffers that came back, with what they held then.
    kept: Vec<(Buffer, Vec<u8>)>,
    next_tag: u64,
    /// Whether the queue has said that the kernel has failed.
    has_noticed: bool,
}

impl<K: FakeKernel> Drill<K> {
    pub(super) fn new(seed: u64, kernel: K) -> Self {
        Self {
            kernel,
            chance: Chance::new(seed ^ 0xd211),
            pool: Pool::new(FRAMES, BYTES, Pages::Base).unwrap(),
            contract: Contract::default(),
            waiting: Vec::new(),
            ended: Vec::new(),
            kept: Vec::new(),
            next_tag: 0,
            has_noticed: false,
        }
    }

    /// Uses the queue for this many steps and drops it, in the middle of its work or idle.
    pub(super) fn run(mut self, queue: impl Queue, steps: u64) {
        // Not dropped where the drill fails: the queue would be in no state that its `drop` accepts.
        let mut queue = ManuallyDrop::new(queue);
        for _ in 0..steps {
            self.step(&mut *queue);
        }
        if self.kernel.has_failed() {
            self.see_failure(&mut *queue);
        } else if self.chance.strikes(70) {
            self.drain(&mut *queue);
        }
        self.kernel.begin_call();
        drop(ManuallyDrop::into_inner(queue));
        self.end();
    }

    fn step(&mut self, queue: &mut impl Queue) {
        for _ in 0..self.chance.below(4) {
            self.kernel.tick();
        }
        let min = self.chance.below(queue.depth() as u64 + 2) as usize;
        self.kernel.begin_call();
        let choice = self.chance.below(8);
        let reaped = match choice {
            0 | 1 => {
                self.fill_waiting();
                self.contract.submit(queue, &mut self.waiting).unwrap();
                Ok(0)
            }
            2 => queue.flush().map(|()| 0),
            3 => {
                let tag = self.next_tag.saturating_sub(1 + self.chance.below(queue.depth() as u64 + 1));
                self.contract.cancel(queue, tag)
            }
            4 => self.contract.reap(queue, 0, &mut self.ended).unwrap(),
            5 => self.contract.reap_within(queue, min, Duration::from_millis(1), &mut self.ended).unwrap(),
            6 => self.contract.reap(queue, min, &mut self.ended).unwrap(),
            _ => {
                self.fill_waiting();
                self.contract.turn(queue, &mut self.waiting, min, &mut self.ended).unwrap()
            }
        };
        match reaped {
            Ok(_) => {
                let has_flushed = choice > 1 && choice != 3 && queue.in_flight() > 0;
                if has_flushed && let Some(event_fd) = queue.event_fd() {
                    assert!(
                        self.kernel.will_wake(event_fd),
                        "requests are in flight, and nothing will wake an event loop after {choice}"
                    );
                }
            }
            Err(error) => {
                assert!(self.kernel.has_refused(), "the kernel refused nothing, and the queue says: {error}");
                self.has_noticed |= self.kernel.has_failed();
            }
        }
        self.take_ended();
        self.contract.counts(queue, self.waiting.len()).unwrap();
    }

    fn buffer(&mut self, tag: u64) -> Option<Buffer> {
        let mut buffer = self.pool.take()?;
        buffer.set_len(BYTES).unwrap();
        match tag {
            u64::MAX => buffer.fill(UNREAD),
            tag => buffer.iter_mut().zip(content(tag * BYTES as u64)).for_each(|(place, byte)| *place = byte),
        }
        Some(buffer)
    }

    /// Makes a few requests.
    fn fill_waiting(&mut self) {
        for _ in 0..self.chance.below(12) {
            let Some(request) = self.request() else { return };
            self.waiting.push(request);
        }
    }

    fn request(&mut self) -> Option<Request> {
        let (tag, offset) = (self.next_tag, self.next_tag * BYTES as u64);
        let request = match self.chance.below(20) {
            0 => Request::fsync(tag),
            1 => Request::discard(tag, offset, 4096),
            2 => Request::read_vectored(
                tag,
                offset,
                Buffers::new(vec![self.buffer(u64::MAX)?, self.buffer(u64::MAX)?]).unwrap(),
            ),
            3 => {
                let (mut first, mut second) = (self.buffer(tag)?, self.buffer(tag)?);
                let bytes = first.iter_mut().chain(second.iter_mut());
                bytes.zip(content(offset)).for_each(|(place, byte)| *place = byte);
                Request::write_vectored(tag, offset, Buffers::new(vec![first, second]).unwrap())
            }
            4..=11 => Request::write(tag, offset, self.buffer(tag)?),
            _ => Request::read(tag, offset, self.buffer(u64::MAX)?),
        };
        self.next_tag += 1;
        let what = What {
            reads: matches!(request.operation, Operation::Read(_) | Operation::ReadVectored(_)),
            is_sync: matches!(request.operation, Operation::Fsync),
            is_unsupported: matches!(request.operation, Operation::Discard { .. }),
        };
        self.contract.asks(&request, what);
        Some(request)
    }

    fn take_ended(&mut self) {
        for completion in std::mem::take(&mut self.ended) {
            self.check(completion);
        }
        // Most go back to the pool at once.
        while !self.kept.is_empty() && (self.kept.len() > 12 || self.chance.strikes(40)) {
            let (buffer, then) = self.kept.swap_remove(self.chance.below(self.kept.len() as u64) as usize);
            assert!(*buffer == *then, "a buffer changed after it had come back");
        }
    }

    fn check(&mut self, completion: Completion) {
        let owed = self.contract.answers(&completion).unwrap();
        let Completion { tag, result, buffer, buffers, .. } = completion;
        let back: Vec<Buffer> = buffer.into_iter().chain(buffers.into_iter().flat_map(Buffers::into_vec)).collect();
        let offset = tag * BYTES as u64;
        self.kernel.with_device(|device| {
            assert!(owed.note.is_sync || !device.has(offset), "tag {tag} completes while the kernel has the request");
            let is_used = back.iter().any(|buffer| device.uses(buffer.as_ptr().addr()));
            assert!(!is_used, "tag {tag} comes back while the kernel may use its memory");
        });
        self.check_result(tag, result, &owed);
        if let (true, Ok(moved)) = (owed.note.reads, result) {
            let bytes = back.iter().flat_map(|buffer| buffer.iter().copied());
            assert!(bytes.take(moved as usize).eq(content(offset).take(moved as usize)), "tag {tag} has its data");
        }
        self.kept.extend(back.into_iter().map(|buffer| {
            let then = buffer.to_vec();
            (buffer, then)
        }));
    }

    fn check_result(&self, tag: u64, result: Result<u32, IoError>, owed: &Owed<What>) {
        /// As often as a ring submits a request that the kernel gave up, and once before.
        const TRIES: u32 = 65;
        let outcome = self.kernel.with_device(|device| device.outcome(tag * BYTES as u64));
        let (ended, tries) = outcome.unzip();
        let failed = ended.filter(|result| *result < 0).map(|result| -result);
        let is_right = match result.map_err(IoError::errno) {
            // A call that found no room had it, and it was cancelled before the next.
            Err(libc::ECANCELED) => {
                owed.asked_to_cancel && matches!(failed, None | Some(libc::ECANCELED | libc::EAGAIN))
            }
            _ if owed.note.is_unsupported => result == Err(IoError::NOT_SUPPORTED) && outcome.is_none(),
            Err(libc::EAGAIN) if failed == Some(libc::ECANCELED) => tries >= Some(TRIES),
            // The kernel does not know which sync is which.
            Err(errno) if owed.note.is_sync => [libc::EIO, libc::EAGAIN, libc::EINVAL].contains(&errno),
            Ok(moved) if owed.note.is_sync => moved == 0,
            Err(errno) => failed == Some(errno),
            Ok(moved) => ended == Some(moved as i32),
        };
        assert!(is_right, "tag {tag} ended with {result:?}, and the kernel ended it with {outcome:?}");
    }

    fn drain(&mut self, queue: &mut impl Queue) {
        while queue.in_flight() > 0 && !self.kernel.has_failed() {
            self.kernel.begin_call();
            if let Err(error) = self.contract.reap(queue, usize::MAX, &mut self.ended).unwrap() {
                assert!(self.kernel.has_refused(), "the kernel refused nothing: {error}");
            }
            self.take_ended();
        }
        match self.kernel.has_failed() {
            true => self.see_failure(queue),
            false => self.contract.counts(queue, self.waiting.len()).unwrap(),
        }
    }

    /// A kernel that has failed still completes what it has taken; then each look at a queue with requests in flight must show the
    /// failure in the end.
    fn see_failure(&mut self, queue: &mut impl Queue) {
        for _ in 0..1000 {
            self.kernel.tick();
            self.kernel.begin_call();
            self.has_noticed |= queue.reap(0, &mut self.ended).is_err();
            self.take_ended();
        }
        let begun = self.contract.owed().iter().find(|(tag, owed)| {
            let ended = self.kernel.with_device(|device| device.outcome(**tag * BYTES as u64));
            !owed.note.is_sync && ended.is_some_and(|(result, _)| ![-libc::ECANCELED, -libc::EAGAIN].contains(&result))
        });
        assert!(begun.is_none(), "tag {} completed, and the queue keeps it", begun.unwrap().0);
        assert!(self.has_noticed || queue.in_flight() == 0, "the queue does not notice that the kernel has failed");
    }

    /// After the queue was dropped.
    fn end(mut self) {
        let has_failed = self.kernel.has_failed();
        assert!(
            has_failed || self.kernel.with_device(|device| device.flights.is_empty()),
            "a dropped queue leaves requests in flight"
        );
        for _ in 0..50 {
            self.kernel.tick();
        }
        self.waiting.clear();
        let kept = self.kept.len();
        for (buffer, then) in self.kept.drain(..) {
            assert!(*buffer == *then, "a buffer changed after it had come back");
        }
        let free: Vec<Buffer> = std::iter::from_fn(|| self.pool.take()).collect();
        assert!(has_failed || free.len() == FRAMES, "{} buffers are lost, {kept} were kept", FRAMES - free.len());
        for buffer in &free {
            let is_used = self.kernel.with_device(|device| device.uses(buffer.as_ptr().addr()));
            assert!(!is_used, "a buffer is free while the kernel may use it");
        }
    }
}
