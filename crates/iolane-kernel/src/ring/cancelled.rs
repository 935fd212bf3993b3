//! Requests that end as cancelled: those that the caller cancels, and those that the kernel gives up although nobody asked, which
//! are submitted again. `queue` notes both here.

use iolane_core::{Completion, IoError, Request, Slots};

/// How often a request is submitted again.
const TRIES_MAX: u32 = 64;

/// Some requests need a worker, a thread that the kernel starts for the submitting thread. When it fails to start one, because
/// a signal is pending or a limit of threads is reached, it tries three times and then ends the request with ECANCELED (io_uring/io-wq.c,
/// `io_should_retry_thread` and `WORKER_INIT_LIMIT`, since Linux 6.10 and in updates of older ones). Such a request never began, and is submitted
/// again as it was: it may need no worker now. Others end with EAGAIN, for want of tags of the device, and are submitted again for a worker
/// to begin.
#[derive(Default)]
pub(super) struct Cancelled {
    /// Slots of the requests that the caller has cancelled.
    asked: Vec<u32>,
    /// Slots of the requests that were submitted again, and how often.
    tried: Vec<(u32, u32)>,
    given_up: Vec<GivenUp>,
    /// Whether there is any of these: one look instead of three for each turn of the queue.
    is_any: bool,
}

/// A request that is to be submitted again.
pub(super) struct GivenUp {
    pub(super) request: Request,
    /// How often it was so far, this time included.
    pub(super) tries: u32,
    /// Whether a worker is to begin it.
    pub(super) by_worker: bool,
}

impl Cancelled {
    /// The caller cancels the request in a slot.
    pub(super) fn ask(&mut self, slot: u32) {
        self.asked.push(slot);
        self.is_any = true;
    }

    /// Takes a request that the kernel gave up, and was in this slot. Its completion; `None` if it is to be submitted again.
    /// With `by_worker` a worker begins it then.
    #[cold]
    pub(super) fn take(&mut self, slot: u32, request: Request, by_worker: bool) -> Option<Completion> {
        if self.asked.contains(&slot) {
            return Some(request.complete(Err(IoError::CANCELLED)));
        }
        let tries = self.tried.iter().find(|(tried, _)| *tried == slot).map_or(0, |(_, tries)| *tries);
        if tries == TRIES_MAX {
            // As the call reports it that starts a thread: clone(2).
            return Some(request.complete(Err(IoError::from_errno(libc::EAGAIN))));
        }
        self.given_up.push(GivenUp { request, tries: tries + 1, by_worker });
        self.is_any = true;
        None
    }

    /// Whether `again` has anything to do.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any
    }

    /// Forgets the slots whose requests ended, and returns those to submit again.
    pub(super) fn again(&mut self, slots: &Slots) -> Vec<GivenUp> {
        self.asked.retain(|slot| slots.get(*slot).is_some());
        self.tried.retain(|(slot, _)| slots.get(*slot).is_some());
        self.is_any = !(self.asked.is_empty() && self.tried.is_empty());
        std::mem::take(&mut self.given_up)
    }

    /// A request was submitted again, and is in this slot now.
    pub(super) fn submitted(&mut self, slot: u32, tries: u32) {
        self.tried.push((slot, tries));
        self.is_any = true;
    }
}
