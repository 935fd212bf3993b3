//! How a queue on a ring puts requests into it: entries for those that the path has, refusals for the others. `queue` calls it with as
//! many requests as there is room for; nothing here enters the kernel.

use ::io_uring::{opcode, squeue};

use iolane_core::{Buffer, Completion, IoError, Operation, Request, Slots, TargetId};

use super::user_data::to_user_data;
use super::{Residence, RingQueue};
use crate::checks;
use crate::ring::calls::RingCalls;
use crate::ring::encode::Encode;
use crate::ring::registered_buffers::RegisteredPool;

impl<E: Encode, R: Residence, K: RingCalls> RingQueue<E, R, K> {
    /// Puts requests into the ring; the caller has checked that there is room for them.
    #[inline(always)]
    pub(super) fn submit_all(&mut self, requests: impl Iterator<Item = Request>) {
        match self.frames {
            Some(frames) => self.submit_each(requests, |buffer| frames.index_of(buffer).map(Some)),
            None => {
                let needs_no_search = self.registered.is_empty();
                self.submit_each(requests, |_| needs_no_search.then_some(None));
            }
        }
    }

    /// The loop of `submit_all`, compiled once without registered buffers and once with. `find` returns the index of a
    /// buffer, or `None` if that takes a longer search.
    #[inline(always)]
    fn submit_each(
        &mut self,
        mut requests: impl Iterator<Item = Request>,
        find: impl Fn(&Buffer) -> Option<Option<u16>>,
    ) {
        loop {
            let first = self.targets.first();
            let mut submission = self.ring.submission();
            let rare = loop {
                let Some(request) = requests.next() else { return };
                let target = if request.target == TargetId::FIRST { first } else { self.targets.get(request.target) };
                if let Operation::Read(buffer) | Operation::Write(buffer) = &request.operation
                    && let Some(index) = find(buffer)
                    && let Some(target) = target
                    && let Ok(entry) = target.encode.encode(&request, target.file, index)
                {
                    match push::<E>(&mut submission, &mut self.slots, entry, request, None) {
                        Ok(()) => self.unsubmitted += 1,
                        Err(refused) => self.refused.push(refused),
                    }
                } else {
                    break request;
                }
            };
            drop(submission);
            self.submit_rare(rare, false);
        }
    }

    /// Submits requests other than reads and writes in a frame of the first pool, and refuses those that have no entry. It is
    /// apart from the loop in `submit_each` to keep that short. `by_worker` has a worker begin it, which may wait where the submitting
    /// thread may not.
    #[cold]
    pub(super) fn submit_rare(&mut self, request: Request, by_worker: bool) {
        let (entry, refusal) = match self.rare_entry(&request, by_worker) {
            Ok(entry) => (entry, None),
            // An event loop sleeps until the ring's descriptor is readable; a no-op makes it readable.
            Err(error) if self.event_fd => (opcode::Nop::new().build().into(), Some(error)),
            Err(error) => return self.refused.push(request.complete(Err(error))),
        };
        let user_data = to_user_data(self.slots.next(), refusal);
        if let Err(refused) = push::<E>(&mut self.ring.submission(), &mut self.slots, entry, request, refusal) {
            return self.refused.push(refused);
        }
        self.unsubmitted += 1;
        if refusal.is_some() {
            self.refused_in_ring.push(user_data);
        }
    }

    fn rare_entry(&self, request: &Request, by_worker: bool) -> Result<E::Submission, IoError> {
        let target = self.targets.get(request.target).ok_or(IoError::NOT_ATTACHED)?;
        checks::supported(target.operations, &request.operation)?;
        let index = match request.operation.buffer() {
            Some(buffer) => RegisteredPool::find(&self.registered, buffer)?,
            None => None,
        };
        let file = if by_worker { target.file.by_worker() } else { target.file };
        target.encode.encode(request, file, index)
    }
}

/// Puts an entry into the ring and its request into a slot; if the ring is full, the error is the request with its outcome.
#[inline(always)]
fn push<E: Encode>(
    submission: &mut squeue::SubmissionQueue<'_, E::Submission>,
    slots: &mut Slots,
    mut entry: E::Submission,
    request: Request,
    refusal: Option<IoError>,
) -> Result<(), Completion> {
    let slot = slots.insert(request);
    squeue::EntryMarker::set_user_data(&mut entry, to_user_data(slot, refusal));
    // SAFETY: the entry points to a buffer in the queue's slots and to a file that it keeps open; both stay until the
    // completion is taken, and the queue's `Drop` waits for it.
    match unsafe { submission.push(&entry) } {
        Ok(()) => Ok(()),
        Err(_) => Err(take_back(slots, slot)),
    }
}

/// A request whose entry found the ring full. The ring has room for all that the kernel may have and all that is in it, so that only
/// a submission thread that breaks its own order does this.
#[cold]
fn take_back(slots: &mut Slots, slot: u32) -> Completion {
    let request = slots.take(slot.into()).expect("the request is in the slot that it was put into");
    request.complete(Err(IoError::from_errno(libc::EBUSY)))
}
