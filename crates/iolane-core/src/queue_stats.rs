//! What a queue tells of itself at any time: how full it is, and how it got its requests to the kernel or device.

/// What a queue holds now, and has done since it was opened ([`Queue::stats`](crate::Queue::stats)). Reading it makes no system call.
///
/// Requests that the kernel passed to worker threads (io-wq) are not here: the kernel does not report them by ring. Threads named
/// `iou-wrk-*` in `/proc/self/task` show that there are some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Most requests in flight.
    pub depth: usize,
    /// Requests submitted and not yet reaped.
    pub in_flight: usize,
    /// Those of them that wait in the queue itself, because kernel and device have as many as they can take, because a barrier or the
    /// request before holds them up, or because the queue changes its path.
    pub held: usize,
    /// System calls since the queue was opened; `None` where the path cannot count its own.
    pub syscalls: Option<u64>,
    /// Batches since the queue was opened: how often requests were handed over together, by a system call, a doorbell, or to the
    /// submission thread. `None` where the path does not count them. Requests divided by batches is the mean batch.
    pub batches: Option<u64>,
}

impl QueueStats {
    /// Of a queue that holds nothing itself and counts no batches.
    pub fn new(depth: usize, in_flight: usize, syscalls: Option<u64>) -> Self {
        Self { depth, in_flight, held: 0, syscalls, batches: None }
    }

    /// The same with batches counted.
    #[must_use]
    pub fn batches(mut self, batches: Option<u64>) -> Self {
        self.batches = batches;
        self
    }

    /// The same with requests that the queue holds.
    #[must_use]
    pub fn held(mut self, held: usize) -> Self {
        self.held = held;
        self
    }
}
