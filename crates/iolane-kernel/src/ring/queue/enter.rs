//! How a queue on a ring enters the kernel: to submit, to wait for completions, to wake the submission thread. Completions are
//! taken in `queue`.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::io_uring::IoringEnterFlags;

use iolane_core::{Error, Result};

use super::{Residence, RingQueue};
use crate::io_workers;
use crate::ring::calls::RingCalls;
use crate::ring::encode::Encode;

#[cold]
fn enter_failed(errno: Errno) -> Error {
    Error::system("io_uring_enter", errno)
}

/// More than a century.
const LONGEST_WAIT: Duration = Duration::from_secs(1 << 32);

impl<E: Encode, R: Residence, K: RingCalls> RingQueue<E, R, K> {
    #[inline(always)]
    pub(super) fn enter(&mut self, to_submit: u32, min_complete: u32, flags: IoringEnterFlags) -> Result<u32, Errno> {
        self.syscalls += 1;
        let (number, flags) = (self.enter_number, flags | self.enter_flags);
        // SAFETY: the number is our ring's descriptor, open as long as `self.ring`, or its index in this thread's table,
        // which the flag tells the kernel to use. The entries in the ring point to buffers and a file that `self` keeps.
        unsafe { self.calls.enter(number, to_submit, min_complete, flags) }
    }

    /// Submits the entries in the ring, and waits until `min` completions are there (or looks for some, if the ring needs a
    /// call for that).
    #[inline(always)]
    pub(super) fn enter_for(&mut self, min: usize) -> Result<()> {
        self.keep_workers();
        let mut flags = IoringEnterFlags::empty();
        if min > 0 || self.polls_completions || self.has_deferred_work() {
            flags |= IoringEnterFlags::GETEVENTS;
        }
        let entered = self.enter(self.unsubmitted, min as u32, flags);
        self.entered(entered, min, None)
    }

    /// A thread that submits has the workers of what it submits, so a queue that moves needs them kept in each.
    #[inline(always)]
    fn keep_workers(&self) {
        if R::MOVES && self.unsubmitted > 0 {
            io_workers::keep();
        }
    }

    /// What a call that submits all entries in the ring, and waits for `min` completions, has achieved.
    #[inline(always)]
    fn entered(&mut self, entered: Result<u32, Errno>, min: usize, timeout: Option<&Timespec>) -> Result<()> {
        match entered {
            Ok(taken) => {
                debug_assert!(taken <= self.unsubmitted, "the kernel takes no more entries than it is given");
                self.unsubmitted -= taken;
                self.batches += u64::from(taken > 0);
                Ok(())
            }
            // TIME: a timeout is over.
            Err(Errno::INTR | Errno::TIME) => Ok(()),
            // No memory for a request, or completions must be read first: completions of those in flight resolve both.
            Err(Errno::AGAIN | Errno::BUSY) if self.in_kernel() > 0 => self.find_completions(min.min(1), timeout),
            Err(errno) => Err(enter_failed(errno)),
        }
    }

    /// Has the kernel look for completions and submit nothing. A call that fails to submit does not look for them
    /// (io_uring/io_uring.c, io_uring_enter), and on a ring that polls or defers its completions nothing else does.
    #[cold]
    fn find_completions(&mut self, min: usize, timeout: Option<&Timespec>) -> Result<()> {
        let entered = match timeout {
            Some(timeout) => self.enter_timed(0, min, timeout),
            None => self.enter(0, min as u32, IoringEnterFlags::GETEVENTS),
        };
        match entered {
            Ok(_) | Err(Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY) => Ok(()),
            Err(errno) => Err(enter_failed(errno)),
        }
    }

    /// Submits the entries in the ring, and waits until `min` completions are there or the timeout is over.
    pub(super) fn enter_within(&mut self, min: usize, timeout: Duration) -> Result<()> {
        self.keep_workers();
        // The kernel adds it to the time, and an overflow there is a timeout that is over.
        let timeout = Timespec::try_from(timeout.min(LONGEST_WAIT)).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        if !self.ring.params().is_feature_ext_arg() {
            // Before Linux 5.11 the call takes no timeout; the ring's descriptor is readable when completions wait.
            self.enter_for(0)?;
            self.syscalls += 1;
            // SAFETY: the descriptor is the ring's, open as long as `self` is borrowed.
            let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
            self.calls.poll(ring, &timeout);
            return Ok(());
        }
        let entered = self.enter_timed(self.unsubmitted, min, &timeout);
        self.entered(entered, min, Some(&timeout))
    }

    fn enter_timed(&mut self, to_submit: u32, min: usize, timeout: &Timespec) -> Result<u32, Errno> {
        self.syscalls += 1;
        let flags = IoringEnterFlags::GETEVENTS | self.enter_flags;
        // SAFETY: as for `enter`.
        unsafe { self.calls.enter_within(self.enter_number, to_submit, min as u32, flags, timeout) }
    }

    /// Whether the kernel holds completions back until we enter (IORING_SQ_TASKRUN, IORING_SQ_CQ_OVERFLOW).
    #[inline]
    pub(super) fn has_deferred_work(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Wakes the kernel's submission thread if it sleeps.
    #[inline(never)]
    pub(super) fn wake(&mut self) -> Result<()> {
        debug_assert!(self.polls_submissions, "only a submission thread sleeps");
        while self.ring.submission().need_wakeup() {
            match self.enter(0, 0, IoringEnterFlags::SQ_WAKEUP) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                // The entries stay counted as not submitted, so that the next call tries again.
                Err(errno) => return Err(Error::system("io_uring_enter to wake the submission thread", errno)),
            }
        }
        self.batches += u64::from(self.unsubmitted > 0);
        self.unsubmitted = 0;
        Ok(())
    }
}
