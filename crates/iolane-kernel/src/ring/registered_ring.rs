//! A ring's place in its thread's table of registered rings, which saves the kernel a look-up of the descriptor per call.
//! `queue` registers when it opens and unregisters when it is dropped.

use std::os::fd::{AsRawFd, BorrowedFd};

use ::io_uring::{IoUring, cqueue, squeue};
use rustix::io_uring::IoringRegisterOp;

/// `struct io_uring_rsrc_update` (linux/io_uring.h), as the registration of rings uses it.
#[repr(C)]
struct RingUpdate {
    offset: u32,
    reserved: u32,
    fd: u64,
}

/// Adds the ring to the thread's table of registered rings (Linux 5.18, 16 places per thread), and returns its index; `None`
/// if the table is full or the kernel is older: then the descriptor serves as well.
pub(super) fn register_ring<S: squeue::EntryMarker, C: cqueue::EntryMarker>(ring: &IoUring<S, C>) -> Option<u32> {
    let mut update = RingUpdate { offset: u32::MAX, reserved: 0, fd: ring.as_raw_fd() as u64 };
    // SAFETY: the kernel reads and writes one `io_uring_rsrc_update` during the call (io_uring_register(2),
    // IORING_REGISTER_RING_FDS), and the descriptor is the ring's.
    let registered = unsafe {
        let fd = BorrowedFd::borrow_raw(ring.as_raw_fd());
        rustix::io_uring::io_uring_register(
            fd,
            IoringRegisterOp::RegisterRingFds,
            (&raw mut update).cast_const().cast(),
            1,
        )
    };
    (registered == Ok(1)).then_some(update.offset)
}

pub(super) fn unregister_ring<S: squeue::EntryMarker, C: cqueue::EntryMarker>(ring: &IoUring<S, C>, index: u32) {
    let mut update = RingUpdate { offset: index, reserved: 0, fd: 0 };
    // SAFETY: as in `register_ring`; the index is the one this thread was given for this ring.
    let _ = unsafe {
        let fd = BorrowedFd::borrow_raw(ring.as_raw_fd());
        rustix::io_uring::io_uring_register(
            fd,
            IoringRegisterOp::UnregisterRingFds,
            (&raw mut update).cast_const().cast(),
            1,
        )
    };
}
