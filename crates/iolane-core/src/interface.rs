//! The two traits that an interface to the disk implements: `Interface`, registered once, and `Queue`, one per thread.
//! The registries of `iolane-kernel` and `iolane-nvme` list the interfaces; the conformance suite checks the contract on
//! every registered path. Nothing here performs I/O.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::buffer::Pool;
use crate::capability::Capabilities;
use crate::choice::Choices;
use crate::error::{Error, Result};
use crate::path::IoPath;
use crate::path_memory::PathMemory;
use crate::queue_stats::QueueStats;
use crate::request::{Completion, Request};
use crate::target::{Target, TargetKind};
use crate::targets::TargetId;

/// Whether a queue that is kept busy makes system calls. The conformance suite compares it with the kernel's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyscallUse {
    /// At least one now and then, as most paths do.
    Required,
    /// None at all.
    None,
    /// Depends on the target, the memory or the timing.
    Varies,
}

/// An API to reach a disk. One value of it is registered; it keeps no state.
///
/// The methods with a default declare what help, surveys, charts and the conformance suite need to know, so that none of
/// them names an interface. The defaults suit a kernel interface on files and block devices.
pub trait Interface: Sync {
    /// The name that begins its paths, such as `io_uring`.
    fn name(&self) -> &'static str;

    /// One line for help, `probe` and the docs: what it is in the kernel.
    fn summary(&self) -> &'static str;

    /// The kind of target that only this interface reaches, if there is one: a simulated device, or a controller without a
    /// kernel driver. [`probe`](Self::probe) refuses every other target.
    fn own_target(&self) -> Option<TargetKind> {
        None
    }

    /// Whether a survey tries its paths on targets of this kind. A path that `probe` then refuses is listed with the
    /// reason; one that is never tried is not listed.
    fn reaches(&self, kind: TargetKind) -> bool {
        match self.own_target() {
            Some(own) => kind == own,
            None => kind.has_descriptor(),
        }
    }

    /// The paths of this interface with a row in `probe` and a place in a survey.
    fn paths(&self) -> Vec<IoPath>;

    /// Further paths for the conformance suite: options that have no row in [`paths`](Self::paths).
    fn option_variants(&self) -> Vec<IoPath> {
        Vec::new()
    }

    /// Whether completions of `path` are found by polling the device.
    fn polls_completions(&self, path: &IoPath) -> bool {
        path.asks_for_polling()
    }

    /// Whether its paths choose among those of other interfaces. A survey compares them only if they are named.
    fn chooses(&self) -> bool {
        false
    }

    /// Whether the calling thread carries requests out itself, one at a time, and is blocked meanwhile.
    fn is_blocking(&self) -> bool {
        false
    }

    /// Whether a queue of `path` that is kept busy makes system calls.
    fn syscall_use(&self, path: &IoPath) -> SyscallUse {
        if path.polls_submissions() { SyscallUse::None } else { SyscallUse::Required }
    }

    /// Whether `path` moves only memory of pools registered with the queue, and refuses any other buffer. Vectored requests and
    /// atomic writes may be of any memory all the same.
    fn requires_registered_memory(&self, path: &IoPath) -> bool {
        path.options.fixed_buffers
    }

    /// Whether the combination makes sense on any kernel.
    ///
    /// # Errors
    /// A usage error that names the reason.
    fn validate(&self, path: &IoPath) -> Result<()>;

    /// What the path can do on this target, here and now. Where the answer depends on kernel and device, it performs one
    /// small read.
    ///
    /// # Errors
    /// An `Unavailable` error with cause and remedy if the path does not work here. A path that the kernel accepts and
    /// ignores is unavailable.
    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities>;

    /// Opens a queue for the calling thread.
    ///
    /// # Errors
    /// `Usage` for a depth the path does not take, `Unavailable` as for `probe`, `Exhausted` when memory, locked
    /// memory or descriptors run out.
    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>>;

    /// Opens a queue that may move to another thread between two calls, with requests in flight: the task of an async runtime,
    /// for example. It may cost more for each request than one that stays with its thread.
    ///
    /// # Errors
    /// As [`open`](Self::open); `Unavailable` if the path has no such queues, as the default says.
    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        let _ = (target, config);
        Err(Error::unavailable(path.to_string(), "its queues belong to the thread that opens them")
            .remedy("open one in each thread, or use io_uring, libaio or psync"))
    }
}

/// Interfaces that other crates add: the library lists them after its own, and nothing else has to name them.
/// The element is a `&dyn Interface` in a static with the attribute `#[linkme::distributed_slice(OTHER_INTERFACES)]`; the example
/// `own_backend` has one.
#[linkme::distributed_slice]
pub static OTHER_INTERFACES: [&'static dyn Interface];

/// How to open a queue.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueConfig {
    /// Most requests in flight.
    pub depth: u32,
    /// Pools to register with the queue, for paths with `fixedbufs` and drivers that map memory.
    pub pools: Vec<Pool>,
    /// The cpu of the kernel's submission thread (`+sqpoll`); the scheduler's choice if `None`.
    pub sqpoll_cpu: Option<u32>,
    /// Whether [`Queue::event_fd`] will be used; on some paths it costs time per request.
    pub event_fd: bool,
    /// Most targets at a time, the one it is opened with among them; 1 by default ([`Queue::attach`]).
    pub targets: u32,
    /// Most completions that one system call fetches, at least 1, where a path fetches them by a call (`libaio,getevents`);
    /// as many as there are if `None`. Other paths ignore it.
    pub completions_per_call: Option<u32>,
    /// What earlier queues have learnt, for a queue that chooses among paths (`auto`), which adds to it. Other paths ignore it.
    pub memory: Option<PathMemory>,
}

impl QueueConfig {
    /// A queue of this depth, with nothing else set.
    pub fn new(depth: u32) -> Self {
        Self {
            depth,
            pools: Vec::new(),
            sqpoll_cpu: None,
            event_fd: false,
            targets: 1,
            completions_per_call: None,
            memory: None,
        }
    }

    /// The same with another depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Registers a pool.
    #[must_use]
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.pools.push(pool.clone());
        self
    }

    /// Places the kernel's submission thread.
    #[must_use]
    pub fn sqpoll_cpu(mut self, cpu: Option<u32>) -> Self {
        self.sqpoll_cpu = cpu;
        self
    }

    /// Makes room for this number of targets at a time, the one that the queue is opened with among them.
    #[must_use]
    pub fn targets(mut self, most: u32) -> Self {
        self.targets = most;
        self
    }

    /// Limits the completions that one system call fetches.
    #[must_use]
    pub fn completions_per_call(mut self, most: Option<u32>) -> Self {
        self.completions_per_call = most;
        self
    }

    /// Begins with what other queues have learnt, and shares with them what this one learns.
    #[must_use]
    pub fn memory(mut self, memory: &PathMemory) -> Self {
        self.memory = Some(memory.clone());
        self
    }

    /// Asks for a descriptor to wait on ([`Queue::event_fd`]).
    #[must_use]
    pub fn event_fd(mut self) -> Self {
        self.event_fd = true;
        self
    }
}

/// One thread's submission and completion pair, on the target that it was opened with and on those attached later.
///
/// A queue belongs to the thread that opened it (it is neither `Send` nor `Sync`), unless it was opened as one that
/// [moves](Interface::open_movable). The hot calls allocate nothing,
/// take no lock, read no clock, and cost one dynamic dispatch per batch.
///
/// Dropping a queue stops the kernel or device first (cancel, drain), then frees what was in flight.
pub trait Queue {
    /// Takes requests from the front until the queue is full or none is left, and returns how many it took.
    /// A full queue is not an error: the requests not taken stay with the caller, in order, moved to the front. Requests may stay in
    /// user space until [`flush`](Self::flush) or [`reap`](Self::reap).
    ///
    /// A request the path cannot carry out is taken too, and completes with its error.
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize;

    /// Hands the submitted requests to the kernel or device: one system call or doorbell where the path has one.
    ///
    /// # Errors
    /// A failure of the queue itself; requests not handed over stay submitted and can be flushed again.
    fn flush(&mut self) -> Result<()>;

    /// Appends at least `min` completions, or as many as are in flight if that is fewer, and returns how many.
    /// `min = 0` waits for nothing; a blocking interface, such as `psync`, still carries out what was submitted. Flushes first, so that `submit` and `reap` together cost one system call where the
    /// path allows it.
    ///
    /// # Errors
    /// A failure of the queue itself; the failure of a request is in its completion. Completions found before it are appended.
    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize>;

    /// As [`reap`](Self::reap), but waits for `timeout` at most: it then returns with fewer completions than `min`, or none. It
    /// may return earlier, for example after a signal.
    ///
    /// The thread sleeps in the kernel meanwhile. A path that polls has nothing to sleep on: it looks once and returns, which
    /// is what the default does.
    ///
    /// # Errors
    /// As [`reap`](Self::reap).
    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let _ = (min, timeout);
        self.reap(0, completions)
    }

    /// Submits and reaps in one dynamic dispatch: one iteration of a loop that keeps a queue busy.
    ///
    /// Requests that were not taken stay with the caller, as in [`submit`](Self::submit).
    ///
    /// # Errors
    /// As [`reap`](Self::reap).
    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.submit(requests);
        self.reap(min, completions)
    }

    /// Adds a target, and returns the number by which requests name it ([`Request::on`]). The queue was opened with room for it
    /// ([`QueueConfig::targets`]). Numbers are never given twice.
    ///
    /// # Errors
    /// `Unavailable` if the path does not work on this target, or has one target for each queue, as the default says;
    /// `Exhausted` if there is no room.
    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        Err(Error::unavailable(format!("target {}", target.name()), "a queue of this path has one target")
            .remedy("open a queue for each target, or use a path of the kernel"))
    }

    /// Removes a target. Later requests that name it complete with [`IoError::NOT_ATTACHED`](crate::IoError::NOT_ATTACHED).
    ///
    /// # Errors
    /// `Usage` if it is not attached, or has requests in flight; it stays attached then.
    fn detach(&mut self, target: TargetId) -> Result<()> {
        let _ = target;
        Err(Error::usage("detaching a target", "a queue of this path has one target").remedy("drop the queue"))
    }

    /// Asks to end the requests in flight that have this tag, and returns how many may end early. Each of them completes once all
    /// the same: with [`IoErrorKind::Cancelled`](crate::IoErrorKind::Cancelled), or as if nothing had been asked, and with its buffer.
    ///
    /// What was not handed over ends at once. What the kernel has ends where it can: `io_uring` ends, since Linux 6.0, what waits for
    /// a thread or a lock. A drive carries out what it was given. The default can end nothing.
    ///
    /// # Errors
    /// A failure of the queue itself.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let _ = tag;
        Ok(0)
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
    /// (glibc's POSIX aio makes them in threads of its own).
    fn syscalls(&self) -> Option<u64>;

    /// How full it is, and how it got its requests to the kernel or device: for metrics and for tuning depth and batches.
    fn stats(&self) -> QueueStats {
        QueueStats::new(self.depth(), self.in_flight(), self.syscalls())
    }

    /// The paths that a queue which chooses among them (`auto`) has used, and why; `None` for a queue of one path.
    fn choices(&self) -> Option<Choices> {
        None
    }

    /// A descriptor that polls readable when completions wait, for epoll and event loops; `None` where the path has none
    /// or it was not asked for in [`QueueConfig`].
    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Its [`stats`](Queue::stats): what every path can tell.
impl fmt::Debug for dyn Queue + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// As for a queue that stays with its thread.
impl fmt::Debug for dyn Queue + Send + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}
