//! The system calls that a queue on a ring makes once the ring is set up. `queue` makes them through `RingCalls`, so that tests can
//! put a kernel of their own below it; `Linux` is the one that programs get, and costs nothing.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use ::io_uring::{Submitter, types};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::io_uring::{IoringEnterFlags, io_uring_getevents_arg, io_uring_ptr};

/// The kernel below a ring.
pub(crate) trait RingCalls {
    /// After how many looks at the completions without a call a look at the submission thread is due.
    const LOOKS_PER_CHECK: u32;

    /// io_uring_enter(2).
    ///
    /// # Safety
    /// `ring` is the descriptor of an open ring, or its index in this thread's table if the flags say so. The entries submitted point to
    /// memory and files that stay until their completions are read.
    unsafe fn enter(
        &mut self,
        ring: RawFd,
        to_submit: u32,
        min_complete: u32,
        flags: IoringEnterFlags,
    ) -> Result<u32, Errno>;

    /// The same with a timeout (IORING_ENTER_EXT_ARG, Linux 5.11).
    ///
    /// # Safety
    /// As for `enter`.
    unsafe fn enter_within(
        &mut self,
        ring: RawFd,
        to_submit: u32,
        min_complete: u32,
        flags: IoringEnterFlags,
        timeout: &Timespec,
    ) -> Result<u32, Errno>;

    /// Waits until the ring's descriptor is readable or the timeout is over (poll(2)).
    fn poll(&mut self, ring: BorrowedFd<'_>, timeout: &Timespec);

    /// Asks to end the requests with this user data, or all of them (IORING_REGISTER_SYNC_CANCEL, Linux 6.0), without waiting.
    fn cancel(&mut self, ring: &Submitter<'_>, user_data: Option<u64>) -> io::Result<()>;

    /// Between two looks at the completions without a call.
    fn relax(&mut self);
}

/// The running kernel.
pub(crate) struct Linux;

impl RingCalls for Linux {
    /// Some tens of milliseconds, after which a look at the thread costs nothing that counts.
    const LOOKS_PER_CHECK: u32 = 1 << 20;

    #[inline(always)]
    unsafe fn enter(
        &mut self,
        ring: RawFd,
        to_submit: u32,
        min_complete: u32,
        flags: IoringEnterFlags,
    ) -> Result<u32, Errno> {
        // SAFETY: the caller answers for the ring and its entries; an index is passed as the descriptor that it stands for, and only to
        // this call.
        unsafe { rustix::io_uring::io_uring_enter(BorrowedFd::borrow_raw(ring), to_submit, min_complete, flags) }
    }

    unsafe fn enter_within(
        &mut self,
        ring: RawFd,
        to_submit: u32,
        min_complete: u32,
        flags: IoringEnterFlags,
        timeout: &Timespec,
    ) -> Result<u32, Errno> {
        let argument = io_uring_getevents_arg {
            ts: io_uring_ptr::new(std::ptr::from_ref(timeout).cast_mut().cast()),
            ..io_uring_getevents_arg::default()
        };
        let flags = flags | IoringEnterFlags::EXT_ARG;
        // SAFETY: as in `enter`; the kernel reads the argument and the timeout during the call, and writes to neither.
        unsafe {
            let ring = BorrowedFd::borrow_raw(ring);
            rustix::io_uring::io_uring_enter_arg(ring, to_submit, min_complete, flags, Some(&argument))
        }
    }

    fn poll(&mut self, ring: BorrowedFd<'_>, timeout: &Timespec) {
        // What woke it shows in the ring.
        let _ = rustix::event::poll(&mut [PollFd::new(&ring, PollFlags::IN)], Some(timeout));
    }

    fn cancel(&mut self, ring: &Submitter<'_>, user_data: Option<u64>) -> io::Result<()> {
        let which = user_data.map_or_else(types::CancelBuilder::any, types::CancelBuilder::user_data);
        ring.register_sync_cancel(Some(types::Timespec::new()), which)
    }

    #[inline(always)]
    fn relax(&mut self) {
        std::hint::spin_loop();
    }
}
