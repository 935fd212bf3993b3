//! How a queue on a ring enters the kernel: to submit, to wait for completions, to wake the submission thread. Completions are
//! taken in `queue`.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::io_uring::{IoringEnterFlags, io_uring_getevents_arg, io_uring_ptr};

use iolane_core::{Error, Result};

use super::RingQueue;
use crate::ring::encode::Encode;

#[cold]
fn enter_failed(errno: Errno) -> Error {
    Error::system("io_uring_enter", errno)
}

impl<E: Encode> RingQueue<E> {
    #[inline(always)]
    pub(super) fn enter(&mut self, to_submit: u32, min_complete: u32, flags: IoringEnterFlags) -> Result<u32, Errno> {
        self.syscalls += 1;
        let (number, flags) = (self.enter_number, flags | self.enter_flags);
        // SAFETY: the number is our ring's descriptor, open as long as `self.ring`, or its index in this thread's table,
        // which the flag tells the kernel to use. The entries in the ring point to buffers and a file that `self` keeps.
        unsafe { rustix::io_uring::io_uring_enter(BorrowedFd::borrow_raw(number), to_submit, min_complete, flags) }
    }

    /// Submits the entries in the ring, and waits until `min` completions are there (or looks for some, if the ring needs a
    /// call for that).
    #[inline(always)]
    pub(super) fn enter_for(&mut self, min: usize) -> Result<()> {
        let mut flags = IoringEnterFlags::empty();
        if min > 0 || self.polls_completions || self.has_deferred_work() {
            flags |= IoringEnterFlags::GETEVENTS;
        }
        let entered = self.enter(self.unsubmitted, min as u32, flags);
        self.entered(entered)
    }

    /// What a call that submits all entries in the ring has achieved.
    #[inline(always)]
    fn entered(&mut self, entered: Result<u32, Errno>) -> Result<()> {
        match entered {
            Ok(taken) => {
                debug_assert!(taken <= self.unsubmitted, "the kernel takes no more entries than it is given");
                self.unsubmitted -= taken;
                Ok(())
            }
            // TIME: a timeout is over.
            Err(Errno::INTR | Errno::TIME) => Ok(()),
            // No memory for a request, or completions must be read first: completions of those in flight resolve both.
            Err(Errno::AGAIN | Errno::BUSY) if self.in_kernel() > 0 => Ok(()),
            Err(errno) => Err(enter_failed(errno)),
        }
    }

    /// Submits the entries in the ring, and waits until `min` completions are there or the timeout is over.
    pub(super) fn enter_within(&mut self, min: usize, timeout: Duration) -> Result<()> {
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        if !self.ring.params().is_feature_ext_arg() {
            // Before Linux 5.11 the call takes no timeout; the ring's descriptor is readable when completions wait.
            self.enter_for(0)?;
            self.syscalls += 1;
            // SAFETY: the descriptor is the ring's, open as long as `self` is borrowed.
            let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
            let _ = rustix::event::poll(&mut [PollFd::new(&ring, PollFlags::IN)], Some(&timeout));
            return Ok(());
        }
        self.syscalls += 1;
        let argument = io_uring_getevents_arg {
            ts: io_uring_ptr::new((&raw const timeout).cast_mut().cast()),
            ..io_uring_getevents_arg::default()
        };
        let flags = IoringEnterFlags::GETEVENTS | IoringEnterFlags::EXT_ARG | self.enter_flags;
        let (number, unsubmitted) = (self.enter_number, self.unsubmitted);
        // SAFETY: as for `enter`; the kernel reads the argument and the timeout during the call, and writes to neither.
        let entered = unsafe {
            let ring = BorrowedFd::borrow_raw(number);
            rustix::io_uring::io_uring_enter_arg(ring, unsubmitted, min as u32, flags, Some(&argument))
        };
        self.entered(entered)
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
        self.unsubmitted = 0;
        if !self.ring.submission().need_wakeup() {
            return Ok(());
        }
        match self.enter(0, 0, IoringEnterFlags::SQ_WAKEUP) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("io_uring_enter to wake the submission thread", errno)),
        }
    }
}
