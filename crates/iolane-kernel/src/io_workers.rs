//! Keeps a thread's io_uring workers alive between queues, by an unused ring that the thread holds open. `ring` calls it when a
//! queue is opened; the ring is closed when the thread ends.

use std::cell::OnceCell;

use ::io_uring::IoUring;

use crate::kernel::Release;

thread_local! {
    static KEPT: OnceCell<Option<IoUring>> = const { OnceCell::new() };
}

/// The kernel hands requests that it cannot carry out without waiting, such as those larger than one command of the device, to
/// workers of the submitting thread. When a thread closes its last ring, kernels with `io_wq_set_exit_on_idle`
/// (io_uring/io-wq.c; 7.2 and 6.18.38 are among them) end its workers. An ending worker takes no more work but still counts
/// as free, so that the first such requests of a ring opened at that moment wait forever. Seen on 7.2.12: sixteen reads
/// were queued to a worker that ended 1.7 ms later, and no other was started. A thread that keeps a ring open avoids this.
pub(crate) fn keep() {
    if !Release::current().at_least(6, 12) {
        return;
    }
    // Access fails in a thread that is ending, which opens no more queues.
    let _ = KEPT.try_with(|kept| {
        kept.get_or_init(|| IoUring::builder().dontfork().build(1).ok());
    });
}
