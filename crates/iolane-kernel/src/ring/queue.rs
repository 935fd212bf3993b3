//! The queue on a ring: requests become entries, io_uring_enter(2) submits and waits, completions are taken from the ring.
//! `io_uring` and `io_uring_cmd` open it through `Encode`.

mod enter;
mod submit;
mod user_data;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use ::io_uring::IoUring;
use rustix::io::Errno;
use rustix::io_uring::IoringEnterFlags;

use iolane_core::capability::check_depth;
use iolane_core::targets::{check_detach, no_room_for};
use iolane_core::{
    Completion, Error, IoError, IoPath, Operation, Queue, QueueConfig, QueueStats, Request, Result, Slots, Target,
    TargetId, TargetKind, Targets,
};

use super::calls::{Linux, RingCalls};
use super::cancelled::{Cancelled, GivenUp};
use super::encode::Encode;
use super::flags::{depth_max, offers_event_fd};
use super::registered_buffers::{self, Frames, RegisteredPool};
use super::registered_ring::{register_ring, unregister_ring};
use super::ring_target::{RingTarget, register_file, register_files, unregister_file};
use super::setup::set_up;
use super::shared_thread::{SharedThread, open_sharing};
use crate::{checks, io_workers, psync};
use user_data::{take_refused, to_user_data};

/// Whether a queue stays with the thread that opened it.
pub(crate) trait Residence {
    const MOVES: bool;
}

/// The ring has one submitter, which the kernel checks (SINGLE_ISSUER), and is registered with its thread.
pub(crate) struct Stays(PhantomData<*const ()>);

/// Any thread may submit, one at a time.
pub(crate) struct Moves;

impl Residence for Stays {
    const MOVES: bool = false;
}

impl Residence for Moves {
    const MOVES: bool = true;
}

/// A queue on a ring.
pub(crate) struct RingQueue<E: Encode, R: Residence, K: RingCalls = Linux> {
    calls: K,
    ring: IoUring<E::Submission, E::Completion>,
    path: IoPath,
    targets: Targets<RingTarget<E>>,
    slots: Slots,
    /// Most requests in the ring and the kernel: the depth, or fewer on a polled path whose device has fewer tags.
    limit: usize,
    /// Requests beyond the limit, which follow as others complete. While there are some, ring and kernel are at the limit.
    held: VecDeque<Request>,
    /// Entries in the ring that were not submitted to the kernel yet.
    unsubmitted: u32,
    /// Looks at the completions of a submission thread that found none, since its last check.
    looks: u32,
    /// Requests that completed without the kernel, because the path has no entry for them.
    refused: Vec<Completion>,
    /// User data of refused requests that complete by a no-op.
    refused_in_ring: Vec<u64>,
    cancelled: Cancelled,
    registered: Vec<RegisteredPool>,
    /// The frames of the first pool, if they are registered.
    frames: Option<Frames>,
    /// The ring's index in the thread's table of registered rings.
    registered_ring: Option<u32>,
    /// What io_uring_enter(2) gets: that index with a flag, or the ring's descriptor.
    enter_number: RawFd,
    enter_flags: IoringEnterFlags,
    polls_submissions: bool,
    polls_completions: bool,
    event_fd: bool,
    syscalls: u64,
    /// Times that requests were handed over: by a call, or to the submission thread.
    batches: u64,
    // Held until the ring is closed.
    _shared: Option<Arc<SharedThread>>,
    _residence: PhantomData<R>,
}

/// Most requests in the kernel. A polled ring that has more in flight than the device has tags does not get a tag until it polls, and
/// finds each completion by a search of its own: on null_blk with 64 tags, depth 128 is five times slower than 64.
fn limit_of(path: &IoPath, target: &Target) -> usize {
    let tags = path.asks_for_polling().then(|| target.device_attribute("queue/nr_requests")).flatten();
    tags.map_or(usize::MAX, |tags| (tags as usize).max(1))
}

impl<E: Encode, R: Residence> RingQueue<E, R> {
    pub(crate) fn open(path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Self> {
        check_depth(path, config.depth, depth_max(path))?;
        if config.sqpoll_cpu.is_some() && !path.polls_submissions() {
            return Err(Error::usage(
                path.to_string(),
                "a cpu for the submission thread is given, and the path has no such thread",
            )
            .remedy("add +sqpoll"));
        }
        if R::MOVES && (path.options.defer || path.options.coop) {
            return Err(checks::impossible(path, "defer and coop are for a queue that stays with its thread"));
        }
        let first = RingTarget::<E>::new(path, target, TargetId::FIRST)?;
        let registered_bytes_max = first.encode.registered_bytes_max();
        io_workers::keep();
        let (ring, shared) = open_sharing(path, |attach_to| set_up::<E>(path, config, R::MOVES, attach_to))?;
        let limit = limit_of(path, target);
        let mut queue = Self::over(ring, Linux, path, first, config, limit);
        queue._shared = shared;
        if path.options.fixed_files {
            register_files::<E>(&queue.ring, path, target, queue.targets.most())?;
        }
        if path.options.fixed_buffers {
            queue.registered =
                registered_buffers::register::<E>(&queue.ring, path, &config.pools, registered_bytes_max)?;
            queue.frames = queue.registered.first().and_then(RegisteredPool::frames);
        }
        if !path.options.plain && !path.polls_submissions() && !R::MOVES {
            queue.registered_ring = register_ring(&queue.ring);
        }
        if let Some(index) = queue.registered_ring {
            (queue.enter_number, queue.enter_flags) = (index as RawFd, IoringEnterFlags::REGISTERED_RING);
        }
        Ok(queue)
    }
}

impl<E: Encode, R: Residence, K: RingCalls> RingQueue<E, R, K> {
    /// A queue on a ring that is set up, with `limit` requests at most in the kernel.
    pub(crate) fn over(
        ring: IoUring<E::Submission, E::Completion>,
        calls: K,
        path: &IoPath,
        first: RingTarget<E>,
        config: &QueueConfig,
        limit: usize,
    ) -> Self {
        Self {
            calls,
            path: path.clone(),
            targets: Targets::new(config.targets, first),
            slots: Slots::new(config.depth as usize),
            limit: limit.min(config.depth as usize),
            held: VecDeque::new(),
            unsubmitted: 0,
            looks: 0,
            refused: Vec::new(),
            refused_in_ring: Vec::new(),
            cancelled: Cancelled::default(),
            registered: Vec::new(),
            frames: None,
            registered_ring: None,
            enter_number: ring.as_raw_fd(),
            enter_flags: IoringEnterFlags::empty(),
            polls_submissions: path.polls_submissions(),
            polls_completions: path.asks_for_polling(),
            event_fd: config.event_fd && offers_event_fd(path),
            syscalls: 0,
            batches: 0,
            _shared: None,
            _residence: PhantomData,
            ring,
        }
    }

    /// Requests that were submitted to the kernel and not reaped.
    fn in_kernel(&self) -> usize {
        debug_assert!(self.unsubmitted as usize <= self.slots.in_flight(), "every entry in the ring has a slot");
        self.slots.in_flight() - self.unsubmitted as usize
    }

    /// How many more requests can be in flight.
    fn room(&self) -> usize {
        debug_assert!(self.in_flight() <= self.slots.depth(), "refused and held requests take room like others");
        self.slots.depth() - self.in_flight()
    }

    /// How many more requests can go to the ring.
    #[inline(always)]
    fn room_in_ring(&self) -> usize {
        debug_assert!(self.slots.in_flight() <= self.limit, "requests beyond the limit are held");
        debug_assert!(self.held.is_empty() || self.slots.in_flight() == self.limit, "held requests wait for room");
        self.limit - self.slots.in_flight()
    }

    /// Waits for completions without a system call, which is what the path is for.
    #[inline(never)]
    fn reap_by_thread(&mut self, min: usize, mut count: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        loop {
            let checked = self.check_thread();
            // What the thread has completed is returned, whether or not it goes on.
            let found = self.take_completions(completions);
            checked?;
            count += found;
            self.looks = if found > 0 { 0 } else { self.looks.saturating_add(1) };
            if count >= min {
                return Ok(count);
            }
            self.calls.relax();
        }
    }

    /// Wakes the thread for entries that it may not have seen. After many looks that found nothing it is woken all the same: one
    /// that has ended is an error (EOWNERDEAD), and completions that found the ring full come only with a call.
    fn check_thread(&mut self) -> Result<()> {
        let is_due = self.looks >= K::LOOKS_PER_CHECK && self.slots.in_flight() > 0;
        if self.unsubmitted == 0 && !is_due {
            return Ok(());
        }
        self.wake()?;
        if is_due {
            self.looks = 0;
            if self.has_deferred_work() {
                self.enter_for(0)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn take_completions(&mut self, completions: &mut Vec<Completion>) -> usize {
        let (before, polls) = (completions.len(), self.polls_completions);
        for entry in self.ring.completion() {
            let user_data = E::user_data(&entry);
            // A polled request that has to be split ends with EAGAIN in a worker as well, which would try for ever.
            if E::is_given_up(&entry)
                && (E::is_cancelled(&entry) || !polls)
                && let Some(request) = self.slots.take(user_data)
            {
                completions.extend(self.cancelled.take(user_data as u32, request, !E::is_cancelled(&entry)));
                continue;
            }
            let Some(request) = self.slots.take(user_data) else {
                completions.extend(take_refused(&mut self.slots, &mut self.refused_in_ring, user_data));
                continue;
            };
            let result = E::result(&entry, &request);
            if polls && result == Ok(0) {
                completions.push(complete_empty(&self.targets, request, &mut self.syscalls));
                continue;
            }
            request.complete_into(result, completions);
        }
        let mut count = completions.len() - before;
        if !self.held.is_empty() || !self.cancelled.is_empty() {
            count += self.submit_rest(completions);
        }
        count
    }

    /// Submits what the kernel gave up, and held requests that others made room for. Appends those that are refused, and returns how
    /// many: a caller that waits for them would wait for ever.
    #[cold]
    fn submit_rest(&mut self, completions: &mut Vec<Completion>) -> usize {
        let again = self.cancelled.again(&self.slots);
        let hands_over = !again.is_empty();
        for GivenUp { request, tries, by_worker } in again {
            let slot = self.slots.next();
            self.submit_rare(request, by_worker);
            self.cancelled.submitted(slot, tries);
        }
        self.submit_held();
        if hands_over {
            // The caller may sleep until a completion comes. An error shows at its next call.
            let _ = self.flush();
        }
        let refused = self.refused.len();
        completions.append(&mut self.refused);
        refused
    }

    /// Submits the entries that the last call left in the ring: the completions that are returned may be the last that could bring the
    /// caller back.
    #[inline(always)]
    fn before_returning(&mut self, count: usize) -> Result<usize> {
        if self.unsubmitted > 0 {
            self.flush()?;
        }
        Ok(count)
    }

    /// Takes what the kernel has completed, and submits nothing.
    fn discard_completions(&mut self) {
        for entry in self.ring.completion() {
            let user_data = E::user_data(&entry);
            if self.slots.take(user_data).is_none() {
                take_refused(&mut self.slots, &mut self.refused_in_ring, user_data);
            }
        }
    }

    /// Submits the first of too many requests, as many as there is room for; those that the ring has no room for are held.
    #[cold]
    fn submit_some(&mut self, requests: &mut Vec<Request>) {
        let room = self.room().min(requests.len());
        self.held.extend(requests.drain(..room));
        self.submit_held();
    }

    /// Puts held requests into the ring while there is room.
    #[cold]
    fn submit_held(&mut self) {
        // Those that are refused leave room for others.
        while !self.held.is_empty() && self.slots.in_flight() < self.limit {
            let count = (self.limit - self.slots.in_flight()).min(self.held.len());
            let mut held = std::mem::take(&mut self.held);
            self.submit_all(held.drain(..count));
            self.held = held;
        }
    }
}

/// Completes a polled request that moved no byte. A read of a file is repeated by a blocking call: either it begins beyond the end, or the
/// kernel lost its bytes. A part that needs no device, such as a hole before the end of the file, is read at once; the rest is begun anew,
/// finds the end, and its 0 bytes are taken for the whole (io_complete_rw_iopoll, until `io_uring/rw: preserve partial result for iopoll` of
/// June 2026).
#[cold]
fn complete_empty<E>(targets: &Targets<RingTarget<E>>, mut request: Request, syscalls: &mut u64) -> Completion {
    let is_read = matches!(request.operation, Operation::Read(_) | Operation::ReadVectored(_));
    let file = targets.get(request.target).map(|of| &of.target).filter(|of| of.kind() == TargetKind::File);
    let result = match file {
        Some(file) if is_read && request.operation.bytes() > 0 => {
            *syscalls += 1;
            psync::read(file, &mut request)
        }
        _ => Ok(0),
    };
    request.complete(result)
}

impl<E: Encode, R: Residence, K: RingCalls> Queue for RingQueue<E, R, K> {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.room());
        if count <= self.room_in_ring() {
            self.submit_all(requests.drain(..count));
        } else {
            self.held.extend(requests.drain(..count));
            self.submit_held();
        }
        count
    }

    fn flush(&mut self) -> Result<()> {
        if self.polls_submissions {
            return if self.unsubmitted > 0 { self.wake() } else { Ok(()) };
        }
        while self.unsubmitted > 0 {
            let before = self.unsubmitted;
            let completed_before = self.in_kernel();
            self.enter_for(0)?;
            // The kernel has no room: the rest is submitted after the next reap.
            if self.unsubmitted == before && completed_before > 0 {
                break;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let mut count = self.refused.len();
        if count > 0 {
            completions.append(&mut self.refused);
        }
        if self.polls_submissions {
            return self.reap_by_thread(min, count, completions);
        }
        let mut enters = self.unsubmitted > 0;
        // The kernel may add completions only when it is entered. Those that an earlier call found come first.
        if !enters && self.in_kernel() > 0 && (self.polls_completions || self.has_deferred_work()) {
            count += self.take_completions(completions);
            if count > 0 && count >= min {
                return Ok(count);
            }
            enters = true;
        }
        loop {
            if enters {
                // Not for held requests, which the kernel does not have.
                self.enter_for(min.saturating_sub(count).min(self.slots.in_flight()))?;
            }
            count += self.take_completions(completions);
            if count >= min {
                return self.before_returning(count);
            }
            enters = true;
        }
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.polls_submissions || self.polls_completions {
            return self.reap(0, completions);
        }
        let min = min.min(self.in_flight());
        if min == 0 {
            // It looks where the kernel posts completions only to whom enters the ring.
            return self.reap(0, completions);
        }
        let mut count = self.refused.len();
        completions.append(&mut self.refused);
        count += self.take_completions(completions);
        if count < min {
            self.enter_within(min - count, timeout)?;
            count += self.take_completions(completions);
        }
        self.before_returning(count)
    }

    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if requests.len() + self.refused.len() <= self.room_in_ring() {
            self.submit_all(requests.drain(..));
        } else {
            self.submit_some(requests);
        }
        self.reap(min, completions)
    }

    /// Those that the queue holds itself, and since Linux 6.0 those that wait for a thread or a lock in the kernel
    /// (io_uring_register(2), IORING_REGISTER_SYNC_CANCEL). A polled ring has none of these.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let held = std::mem::take(&mut self.held);
        let (cancelled, rest): (VecDeque<Request>, VecDeque<Request>) =
            held.into_iter().partition(|held| held.tag == tag);
        self.held = rest;
        let mut count = cancelled.len();
        self.refused.extend(cancelled.into_iter().map(|request| request.complete(Err(IoError::CANCELLED))));
        let slots = self.slots.tagged(tag);
        if self.polls_completions || slots.is_empty() {
            return Ok(count);
        }
        self.flush()?;
        for slot in slots {
            self.cancelled.ask(slot);
            self.syscalls += 1;
            let asked = self.calls.cancel(&self.ring.submitter(), Some(to_user_data(slot, None)));
            // Ended, or about to end: the time to wait for that is none.
            count += usize::from(match asked {
                Ok(()) => true,
                Err(error) => error.raw_os_error() == Some(libc::ETIME),
            });
        }
        Ok(count)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        let id = self.targets.next().ok_or_else(|| no_room_for(target, self.targets.most()))?;
        let attached = RingTarget::new(&self.path, target, id)?;
        if self.path.options.fixed_files {
            self.syscalls += 1;
            register_file::<E>(&self.ring, id, target)?;
        }
        // Never below what is in the ring already.
        self.limit = limit_of(&self.path, target).max(self.slots.in_flight()).min(self.limit);
        self.targets.attach(attached).map_err(|_| no_room_for(target, self.targets.most()))
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        check_detach(
            &self.targets,
            target,
            self.slots.targets().chain(self.held.iter().map(|request| request.target)),
        )?;
        if self.path.options.fixed_files {
            self.syscalls += 1;
            unregister_file::<E>(&self.ring, target).map_err(|error| Error::system("unregistering a target", error))?;
        }
        self.targets.detach(target);
        Ok(())
    }

    fn depth(&self) -> usize {
        self.slots.depth()
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight() + self.held.len() + self.refused.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }

    fn stats(&self) -> QueueStats {
        QueueStats::new(self.depth(), self.in_flight(), self.syscalls())
            .batches(Some(self.batches))
            .held(self.held.len())
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is the ring's, open as long as `self` is borrowed.
        self.event_fd.then(|| unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }
}

impl<E: Encode, R: Residence, K: RingCalls> Drop for RingQueue<E, R, K> {
    /// Closing a ring does not wait for requests in flight (io_uring_setup(2)), and the kernel may go on writing to their
    /// buffers. So all that was submitted to the kernel is cancelled if possible, and waited for otherwise, before the fields
    /// are dropped. Entries that were not submitted are discarded with the ring.
    fn drop(&mut self) {
        self.held.clear();
        let submitted =
            |queue: &Self| if queue.polls_submissions { queue.slots.in_flight() } else { queue.in_kernel() };
        if submitted(self) > 0 && !self.polls_completions {
            // Best effort: since Linux 6.0, and for requests that have not reached the device.
            let _ = self.calls.cancel(&self.ring.submitter(), None);
        }
        if self.polls_submissions {
            let _ = self.wake();
        }
        while submitted(self) > 0 {
            self.discard_completions();
            if submitted(self) == 0 {
                break;
            }
            match self.enter(0, 1, IoringEnterFlags::GETEVENTS) {
                Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                Err(_) => {
                    // The ring is unusable and the kernel may still write: the memory is leaked rather than shared.
                    std::mem::forget(std::mem::replace(&mut self.slots, Slots::new(0)));
                    break;
                }
            }
        }
        debug_assert!(self.slots.depth() == 0 || submitted(self) == 0, "the kernel writes to no buffer any more");
        if let Some(index) = self.registered_ring {
            unregister_ring(&self.ring, index);
        }
        if self.path.options.fixed_files {
            // The kernel takes a closed ring apart later (io_uring/io_uring.c, io_ring_exit_work), and its files with it: for tens of
            // milliseconds they would be open, and locked if they were.
            let _ = self.ring.submitter().unregister_files();
        }
    }
}
