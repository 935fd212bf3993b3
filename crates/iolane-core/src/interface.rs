//! The two traits a way to the disk implements: `Interface`, registered once, and `Queue`, one per thread.
//! Their contract is what the conformance suite checks on every registered path.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use crate::buffer::Pool;
use crate::capability::Capabilities;
use crate::error::Result;
use crate::path::IoPath;
use crate::request::{Completion, Request};
use crate::target::{Target, TargetKind};

/// An API to reach a disk by. One value of it is registered; it keeps no state of its own.
pub trait Interface: Sync {
    /// The name that begins its paths, such as `io_uring`.
    fn name(&self) -> &'static str;

    /// One line for help, `probe` and the docs: what it is in the kernel.
    fn summary(&self) -> &'static str;

    /// Whether it is meant for targets of this kind at all; what the kernel does not know has an interface of its own.
    fn reaches(&self, kind: TargetKind) -> bool {
        !matches!(kind, TargetKind::Null | TargetKind::Sim | TargetKind::NvmeController)
    }

    /// The paths of this interface that are worth a row in `probe` and a place in a survey.
    fn paths(&self) -> Vec<IoPath>;

    /// Whether the combination makes sense on any kernel at all.
    ///
    /// # Errors
    /// A usage error that names the reason.
    fn validate(&self, path: &IoPath) -> Result<()>;

    /// What the path can do on this target, here and now. Tries the real thing where it can: for a path that
    /// depends on kernel and device, one small read.
    ///
    /// # Errors
    /// An `Unavailable` error with cause and remedy if the path cannot be had.
    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities>;

    /// Opens a queue for the calling thread.
    ///
    /// # Errors
    /// `Usage` for a depth the path does not take, `Unavailable` as for `probe`, `Exhausted` when memory, locked
    /// memory or descriptors run out.
    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>>;
}

/// How to open a queue.
#[derive(Debug, Clone)]
pub struct QueueConfig {
    /// Most requests in flight.
    pub depth: u32,
    /// Pools to register with the queue, for paths with `fixedbufs` and drivers that map memory.
    pub pools: Vec<Pool>,
    /// The cpu of the kernel's submission thread (`+spoll`); the scheduler's choice if `None`.
    pub spoll_cpu: Option<u32>,
    /// Whether [`Queue::event_fd`] will be used; some paths pay per request for it.
    pub event_fd: bool,
}

impl QueueConfig {
    /// A queue of this depth, with nothing else set.
    pub fn new(depth: u32) -> Self {
        Self { depth, pools: Vec::new(), spoll_cpu: None, event_fd: false }
    }

    /// Registers a pool.
    #[must_use]
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.pools.push(pool.clone());
        self
    }

    /// Places the kernel's submission thread.
    #[must_use]
    pub fn spoll_cpu(mut self, cpu: Option<u32>) -> Self {
        self.spoll_cpu = cpu;
        self
    }

    /// Asks for a descriptor to wait on.
    #[must_use]
    pub fn event_fd(mut self) -> Self {
        self.event_fd = true;
        self
    }
}

/// One thread's submission and completion pair on one target.
///
/// A queue belongs to the thread that opened it (it is neither `Send` nor `Sync`). The hot calls allocate nothing,
/// take no lock, read no clock, and cost one dynamic dispatch per batch.
///
/// Dropping a queue stops the kernel or device first (cancel, drain), then frees what was in flight.
pub trait Queue {
    /// Takes requests from the front until the queue is full or none is left, and says how many it took.
    /// Full is an answer, not an error: what was not taken stays with the caller. Nothing need reach the
    /// kernel before [`flush`](Self::flush) or [`reap`](Self::reap).
    ///
    /// A request the path cannot carry out is taken too, and completes with its error.
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize;

    /// Hands what was submitted to the kernel or device: one system call or doorbell where the path has one.
    ///
    /// # Errors
    /// A failure of the queue itself; requests not handed over stay submitted, and may be flushed again.
    fn flush(&mut self) -> Result<()>;

    /// Appends at least `min` completions, or as many as are in flight if that is fewer, and says how many.
    /// `min = 0` never blocks. Flushes first, so that `submit` and `reap` together cost one system call where the
    /// path allows it.
    ///
    /// # Errors
    /// A failure of the queue itself; requests' own failures are in their completions.
    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize>;

    /// Submits and reaps: what a loop that keeps a queue busy does once per turn, in one dynamic dispatch.
    ///
    /// Such a loop asks for as much as there is room for, so nothing is left waiting, and a vector will do, which is the
    /// quicker to fill and to empty. What was not taken all the same stays in it.
    ///
    /// # Errors
    /// As [`reap`](Self::reap).
    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let mut waiting = VecDeque::from(std::mem::take(requests));
        self.submit(&mut waiting);
        *requests = waiting.into();
        self.reap(min, completions)
    }

    /// Waits for everything in flight.
    ///
    /// # Errors
    /// As [`reap`](Self::reap).
    fn drain(&mut self, completions: &mut Vec<Completion>) -> Result<()> {
        while self.in_flight() > 0 {
            self.reap(self.in_flight(), completions)?;
        }
        Ok(())
    }

    /// Most requests in flight.
    fn depth(&self) -> usize;

    /// Requests submitted and not yet reaped.
    fn in_flight(&self) -> usize;

    /// System calls this queue made since it was opened, or `None` where the path cannot count its own
    /// (glibc's POSIX aio makes them out of sight).
    fn syscalls(&self) -> Option<u64>;

    /// A descriptor that polls readable when completions wait, for epoll and event loops; `None` where the path has none
    /// or it was not asked for in [`QueueConfig`].
    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
