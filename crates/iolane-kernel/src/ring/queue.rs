//! The queue on a ring: requests become entries, io_uring_enter(2) submits and waits, completions are taken from the ring.
//! `io_uring` and `io_uring_cmd` open it through `Encode`.

mod enter;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use ::io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use rustix::io_uring::IoringEnterFlags;

use iolane_core::capability::check_depth;
use iolane_core::targets::{check_detach, no_room_for};
use iolane_core::{
    Buffer, Completion, Error, IoError, IoPath, Operation, Queue, QueueConfig, Request, Result, Slots, Target,
    TargetId, Targets,
};

use super::cancelled::Cancelled;
use super::encode::Encode;
use super::flags::{depth_max, offers_event_fd};
use super::registered_buffers::{self, RegisteredPool};
use super::registered_ring::{register_ring, unregister_ring};
use super::ring_target::{RingTarget, register_file, register_files, unregister_file};
use super::setup::set_up;
use super::shared_thread::{SharedThread, open_sharing};
use crate::{checks, io_workers};

/// A queue on a ring.
pub(crate) struct RingQueue<E: Encode> {
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
    /// Requests that completed without the kernel, because the path has no entry for them.
    refused: Vec<Completion>,
    cancelled: Cancelled,
    registered: Vec<RegisteredPool>,
    /// The ring's index in the thread's table of registered rings.
    registered_ring: Option<u32>,
    /// What io_uring_enter(2) gets: that index with a flag, or the ring's descriptor.
    enter_number: RawFd,
    enter_flags: IoringEnterFlags,
    polls_submissions: bool,
    polls_completions: bool,
    event_fd: bool,
    syscalls: u64,
    // Held until the ring is closed.
    _shared: Option<Arc<SharedThread>>,
    /// A ring with SINGLE_ISSUER takes calls only from the thread that made it.
    _not_send: PhantomData<*const ()>,
}

/// Most requests in the kernel. A polled ring that has more in flight than the device has tags does not get a tag until it polls, and
/// finds each completion by a search of its own: on null_blk with 64 tags, depth 128 is five times slower than 64.
fn limit_of(path: &IoPath, target: &Target) -> usize {
    let tags = path.asks_for_polling().then(|| target.device_attribute("queue/nr_requests")).flatten();
    tags.map_or(usize::MAX, |tags| (tags as usize).max(1))
}

/// The user data of an entry: its slot, and in the upper half the errno of a refused request.
#[inline]
fn to_user_data(slot: u32, refusal: Option<IoError>) -> u64 {
    let errno = refusal.map_or(0, IoError::errno) as u32;
    u64::from(errno) << 32 | u64::from(slot)
}

/// The completion of a refused request, whose user data is larger than any slot.
#[cold]
fn take_refused(slots: &mut Slots, user_data: u64) -> Option<Completion> {
    let request = slots.take(user_data & u64::from(u32::MAX))?;
    Some(request.complete(Err(IoError::from_errno((user_data >> 32) as i32))))
}

impl<E: Encode> RingQueue<E> {
    pub(crate) fn open(path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Self> {
        check_depth(path, config.depth, depth_max(path))?;
        if config.sqpoll_cpu.is_some() && !path.polls_submissions() {
            return Err(Error::usage(
                path.to_string(),
                "a cpu for the submission thread is given, and the path has no such thread",
            )
            .remedy("add +sqpoll"));
        }
        let first = RingTarget::<E>::new(path, target, TargetId::FIRST)?;
        let registered_bytes_max = first.encode.registered_bytes_max();
        io_workers::keep();
        let (ring, shared) = open_sharing(path, |attach_to| set_up::<E>(path, config, attach_to))?;
        let mut queue = Self {
            registered: Vec::new(),
            path: path.clone(),
            targets: Targets::new(config.targets, first),
            slots: Slots::new(config.depth as usize),
            limit: limit_of(path, target).min(config.depth as usize),
            held: VecDeque::new(),
            unsubmitted: 0,
            refused: Vec::new(),
            cancelled: Cancelled::default(),
            registered_ring: None,
            enter_number: ring.as_raw_fd(),
            enter_flags: IoringEnterFlags::empty(),
            polls_submissions: path.polls_submissions(),
            polls_completions: path.asks_for_polling(),
            event_fd: config.event_fd && offers_event_fd(path),
            syscalls: 0,
            _shared: shared,
            _not_send: PhantomData,
            ring,
        };
        if path.options.fixed_files {
            register_files::<E>(&queue.ring, path, target, queue.targets.most())?;
        }
        if path.options.fixed_buffers {
            queue.registered =
                registered_buffers::register::<E>(&queue.ring, path, &config.pools, registered_bytes_max)?;
        }
        if !path.options.plain && !path.polls_submissions() {
            queue.registered_ring = register_ring(&queue.ring);
        }
        if let Some(index) = queue.registered_ring {
            (queue.enter_number, queue.enter_flags) = (index as RawFd, IoringEnterFlags::REGISTERED_RING);
        }
        Ok(queue)
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
        if self.unsubmitted > 0 {
            self.wake()?;
        }
        loop {
            count += self.take_completions(completions);
            if count >= min {
                return Ok(count);
            }
            // Held requests that took the place of others.
            if self.unsubmitted > 0 {
                self.wake()?;
            }
            std::hint::spin_loop();
        }
    }

    #[inline(always)]
    fn take_completions(&mut self, completions: &mut Vec<Completion>) -> usize {
        let mut count = 0;
        for entry in self.ring.completion() {
            let user_data = E::user_data(&entry);
            let completion = match self.slots.take(user_data) {
                Some(request) => {
                    let result = E::result(&entry, &request);
                    if result.is_err() && E::is_cancelled(&entry) {
                        match self.cancelled.take(user_data as u32, request) {
                            Ok(()) => continue,
                            Err((request, error)) => request.complete(Err(error)),
                        }
                    } else {
                        request.complete(result)
                    }
                }
                None => match take_refused(&mut self.slots, user_data) {
                    Some(completion) => completion,
                    None => continue,
                },
            };
            completions.push(completion);
            count += 1;
        }
        if !self.held.is_empty() || !self.cancelled.is_empty() {
            self.submit_rest();
        }
        count
    }

    /// Submits what the kernel gave up, and held requests that others made room for.
    #[cold]
    fn submit_rest(&mut self) {
        let again = self.cancelled.again(&self.slots);
        let hands_over = !again.is_empty();
        for (request, tries) in again {
            let slot = self.slots.next();
            self.submit_all(std::iter::once(request));
            self.cancelled.submitted(slot, tries);
        }
        self.submit_held();
        if hands_over {
            // The caller may sleep until a completion comes. An error shows at its next call.
            let _ = self.flush();
        }
    }

    /// Takes what the kernel has completed, and submits nothing.
    fn discard_completions(&mut self) {
        for entry in self.ring.completion() {
            self.slots.take(E::user_data(&entry) & u64::from(u32::MAX));
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
        while self.slots.in_flight() < self.limit
            && let Some(request) = self.held.pop_front()
        {
            self.submit_all(std::iter::once(request));
        }
    }

    /// Puts requests into the ring; the caller has checked that there is room for them.
    #[inline(always)]
    fn submit_all(&mut self, requests: impl Iterator<Item = Request>) {
        if self.registered.is_empty() {
            self.submit_each(requests, |_, _| Some(None));
        } else {
            self.submit_each(requests, |pools, buffer| pools.first()?.frame_of(buffer).map(Some));
        }
    }

    /// The loop of `submit_all`, compiled once without registered buffers and once with. `find` returns the index of a
    /// buffer, or `None` if that takes a longer search.
    #[inline(always)]
    fn submit_each(
        &mut self,
        requests: impl Iterator<Item = Request>,
        find: impl Fn(&[RegisteredPool], &Buffer) -> Option<Option<u16>>,
    ) {
        let mut submission = self.ring.submission();
        for request in requests {
            if let Operation::Read(buffer) | Operation::Write(buffer) = &request.operation
                && let Some(index) = find(&self.registered, buffer)
                && let Some(target) = self.targets.get(request.target)
                && let Ok(entry) = target.encode.encode(&request, target.file, index)
            {
                push::<E>(&mut submission, &mut self.slots, entry, request, None);
                self.unsubmitted += 1;
            } else {
                drop(submission);
                self.submit_rare(request);
                submission = self.ring.submission();
            }
        }
    }

    /// Submits requests other than reads and writes in a frame of the first pool, and refuses those that have no entry. It is
    /// apart from the loop in `submit_each` to keep that short.
    #[cold]
    fn submit_rare(&mut self, request: Request) {
        let (entry, refusal) = match self.rare_entry(&request) {
            Ok(entry) => (entry, None),
            // An event loop sleeps until the ring's descriptor is readable; a no-op makes it readable.
            Err(error) if self.event_fd => (opcode::Nop::new().build().into(), Some(error)),
            Err(error) => return self.refused.push(request.complete(Err(error))),
        };
        push::<E>(&mut self.ring.submission(), &mut self.slots, entry, request, refusal);
        self.unsubmitted += 1;
    }

    fn rare_entry(&self, request: &Request) -> Result<E::Submission, IoError> {
        let target = self.targets.get(request.target).ok_or(IoError::NOT_ATTACHED)?;
        checks::supported(target.operations, &request.operation)?;
        let index = match request.operation.buffer() {
            Some(buffer) => RegisteredPool::find(&self.registered, buffer)?,
            None => None,
        };
        target.encode.encode(request, target.file, index)
    }
}

#[inline(always)]
fn push<E: Encode>(
    submission: &mut squeue::SubmissionQueue<'_, E::Submission>,
    slots: &mut Slots,
    mut entry: E::Submission,
    request: Request,
    refusal: Option<IoError>,
) {
    let slot = slots.insert(request);
    squeue::EntryMarker::set_user_data(&mut entry, to_user_data(slot, refusal));
    // SAFETY: the entry points to a buffer in the queue's slots and to a file that it keeps open; both stay until the
    // completion is taken, and the queue's `Drop` waits for it.
    let pushed = unsafe { submission.push(&entry) };
    debug_assert!(pushed.is_ok(), "the ring has at least as many entries as there are slots");
}

impl<E: Encode> Queue for RingQueue<E> {
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
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
                return Ok(count);
            }
            enters = true;
        }
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.polls_submissions || self.polls_completions {
            return self.reap(0, completions);
        }
        let min = min.min(self.in_flight());
        let mut count = self.refused.len();
        completions.append(&mut self.refused);
        count += self.take_completions(completions);
        if count < min {
            self.enter_within(min - count, timeout)?;
            count += self.take_completions(completions);
        } else {
            self.flush()?;
        }
        Ok(count)
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
            let request = types::CancelBuilder::user_data(to_user_data(slot, None));
            let asked = self.ring.submitter().register_sync_cancel(Some(types::Timespec::new()), request);
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

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is the ring's, open as long as `self` is borrowed.
        self.event_fd.then(|| unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }
}

impl<E: Encode> Drop for RingQueue<E> {
    /// Closing a ring does not wait for requests in flight (io_uring_setup(2)), and the kernel may go on writing to their
    /// buffers. So all that was submitted to the kernel is cancelled if possible, and waited for otherwise, before the fields
    /// are dropped. Entries that were not submitted are discarded with the ring.
    fn drop(&mut self) {
        self.held.clear();
        let submitted =
            |queue: &Self| if queue.polls_submissions { queue.slots.in_flight() } else { queue.in_kernel() };
        if submitted(self) > 0 && !self.polls_completions {
            // Best effort: since Linux 6.0, and for requests that have not reached the device.
            let _ =
                self.ring.submitter().register_sync_cancel(Some(types::Timespec::new()), types::CancelBuilder::any());
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
        debug_assert!(submitted(self) == 0 || self.slots.depth() == 0, "the kernel writes to no buffer any more");
        if let Some(index) = self.registered_ring {
            unregister_ring(&self.ring, index);
        }
    }
}
