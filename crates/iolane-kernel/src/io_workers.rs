//! Keeps io_uring's workers of a thread from being lost, by a ring of the thread's own that is never used.
//! `ring` asks for it when a queue is opened; it is closed when the thread ends.

use std::cell::OnceCell;

use ::io_uring::IoUring;

use crate::kernel::Release;

thread_local! {
    static KEPT: OnceCell<Option<IoUring>> = const { OnceCell::new() };
}

/// Requests that the kernel cannot carry out without waiting, such as those larger than the device takes in one command, are
/// handed to workers of the thread that submitted them. When a thread closes its last ring, kernels that have
/// `io_wq_set_exit_on_idle` (io_uring/io-wq.c; 7.2 and 6.18.38 are among them) let its workers go. One that is
/// going takes no more work, yet counts as free: the first such requests of a ring that the thread opens right then wait for
/// ever. Seen on 7.2.12: sixteen reads were queued to a worker that ended 1.7 ms later, and no other was made. A thread whose
/// last ring is never closed is spared this.
pub(crate) fn keep() {
    if !Release::current().at_least(6, 12) {
        return;
    }
    // A thread that is ending has no place for it any more, and no time to meet the fault.
    let _ = KEPT.try_with(|kept| {
        kept.get_or_init(|| IoUring::builder().dontfork().build(1).ok());
    });
}
