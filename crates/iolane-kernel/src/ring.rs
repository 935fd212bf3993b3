//! What `io_uring` and `io_uring_cmd` share: setting a ring up with the flags a path asks for and the free wins the kernel
//! offers, registering files and buffers, and the queue itself. How a request becomes an entry is `Encode`'s business.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ::io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use rustix::io_uring::{IoringEnterFlags, IoringRegisterOp, IoringSetupFlags, io_uring_params};

use iolane_core::capability::check_depth;
use iolane_core::{
    Buffer, Capabilities, Completion, CompletionMode, Error, ErrorKind, IoError, IoErrorKind, IoPath, Operation,
    Operations, Pages, Pool, Queue, QueueConfig, Request, Result, SubmissionMode, Target,
};

use crate::checks;
use crate::io_workers;
use crate::kernel::memory_lock_limit;
use iolane_core::Slots;

/// The most entries a submission ring can have (IORING_MAX_ENTRIES, io_uring/io_uring.h).
const ENTRIES_MAX: u32 = 32_768;

/// Entries of the submission ring per request in flight.
///
/// The kernel's submission thread posts the completions of a batch before it gives the batch's entries back
/// (io_uring/io_uring.c, io_submit_sqes: io_submit_state_end comes before io_commit_sqring). A caller that reaps those and
/// submits as many again finds the ring still full of the first, so there is room for both. Without the thread entries
/// are back when the call that submits returns.
const fn entries_per_request(path: &IoPath) -> u32 {
    match path.submission {
        SubmissionMode::Spoll => 2,
        SubmissionMode::Default => 1,
    }
}

/// Whether a queue of this path can have a descriptor to wait on.
///
/// Polled rings learn of nothing unless they are entered. A ring with DEFER_TASKRUN keeps what is done to itself until it
/// is entered, and wakes those alone who wait in there: poll(2) on its descriptor sleeps on (seen on Linux 6.18).
const fn offers_event_fd(path: &IoPath) -> bool {
    !matches!(path.completion, CompletionMode::Cpoll | CompletionMode::Hybrid) && !path.options.defer
}

/// Most requests in flight on a queue of this path.
const fn depth_max(path: &IoPath) -> u32 {
    ENTRIES_MAX / entries_per_request(path)
}

/// A registered buffer is 1 GiB at most (io_uring_register(2), IORING_REGISTER_BUFFERS).
pub(crate) const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// How many frames are registered each by itself; the kernel takes 16384 buffers, pieces included
/// (io_uring/rsrc.c, IORING_MAX_REG_BUFFERS).
const REGISTERED_FRAMES_MAX: usize = 16_000;

/// How an interface on a ring turns requests into submission entries and completion entries into results.
pub(crate) trait Encode: Sized + 'static {
    type Submission: squeue::EntryMarker;
    type Completion: cqueue::EntryMarker;

    /// Builds the ring; the default for rings that need no more than the library's own builder offers.
    fn build_ring(entries: u32, flags: &SetupFlags) -> io::Result<IoUring<Self::Submission, Self::Completion>> {
        flags.builder().build(entries)
    }

    /// What this kind of ring can do on the target with this path.
    fn operations(path: &IoPath, target: &Target) -> Operations;

    /// Largest read or write in bytes, if it is not the kernel that sees to larger ones.
    fn request_bytes_max(&self) -> Option<u64>;

    /// Most bytes of a pool to register as one buffer; a pool that is larger is registered as several.
    fn registered_bytes_max(&self) -> usize {
        REGISTERED_BYTES_MAX
    }

    /// The entry for a request, or the error it completes with if the path has no such entry.
    fn encode(&self, request: &Request, file: RingFile, buffer_index: Option<u16>)
    -> Result<Self::Submission, IoError>;

    /// The outcome of a request from its completion entry.
    fn result(entry: &Self::Completion, request: &Request) -> Result<u32, IoError>;

    /// What a completion entry carries back of its submission entry.
    fn user_data(entry: &Self::Completion) -> u64;
}

/// How entries name the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingFile {
    /// A descriptor, or the number of a file registered with the ring.
    pub(crate) fd: types::Fd,
    /// Which of them it is.
    pub(crate) flags: squeue::Flags,
    /// The first eight bytes of an entry for it, but for the opcode, which is the first of them.
    pub(crate) head: u64,
}

impl RingFile {
    pub(crate) fn descriptor(fd: RawFd) -> Self {
        Self::new(fd, squeue::Flags::empty())
    }

    /// The only file registered with the ring.
    pub(crate) fn registered() -> Self {
        Self::new(0, squeue::Flags::FIXED_FILE)
    }

    fn new(fd: RawFd, flags: squeue::Flags) -> Self {
        let [a, b, c, d] = fd.to_ne_bytes();
        Self { fd: types::Fd(fd), flags, head: u64::from_ne_bytes([0, flags.bits(), 0, 0, a, b, c, d]) }
    }
}

/// The flags of io_uring_setup(2) that iolane uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetupFlags {
    pub(crate) iopoll: bool,
    pub(crate) hybrid: bool,
    pub(crate) sqpoll_idle_ms: Option<u32>,
    pub(crate) sqpoll_cpu: Option<u32>,
    pub(crate) attach_to: Option<RawFd>,
    pub(crate) single_issuer: bool,
    pub(crate) defer_taskrun: bool,
    pub(crate) coop_taskrun: bool,
    pub(crate) submit_all: bool,
    pub(crate) no_sqarray: bool,
}

impl SetupFlags {
    /// The ring library's builder with these flags, but for `hybrid`, which it does not know.
    pub(crate) fn builder<S: squeue::EntryMarker, C: cqueue::EntryMarker>(&self) -> ::io_uring::Builder<S, C> {
        let mut builder = IoUring::<S, C>::builder();
        // A child of fork would share the rings' memory with us and corrupt them.
        builder.dontfork();
        if self.iopoll {
            builder.setup_iopoll();
        }
        if let Some(idle_ms) = self.sqpoll_idle_ms {
            builder.setup_sqpoll(idle_ms);
        }
        if let Some(cpu) = self.sqpoll_cpu {
            builder.setup_sqpoll_cpu(cpu);
        }
        if let Some(fd) = self.attach_to {
            builder.setup_attach_wq(fd);
        }
        if self.single_issuer {
            builder.setup_single_issuer();
        }
        if self.defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if self.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        // Without the flag a caller that never blocks would not learn that the kernel has work for it.
        if self.defer_taskrun || self.coop_taskrun {
            builder.setup_taskrun_flag();
        }
        if self.submit_all {
            builder.setup_submit_all();
        }
        if self.no_sqarray {
            builder.setup_no_sqarray();
        }
        builder
    }

    /// The flags the path names.
    fn named(path: &IoPath, config: &QueueConfig) -> Self {
        Self {
            iopoll: path.polls_completions(),
            hybrid: path.completion == CompletionMode::Hybrid,
            // 0 leaves the time to the kernel: one second (io_uring_setup(2), sq_thread_idle).
            sqpoll_idle_ms: path.polls_submissions().then_some(path.options.sq_idle_ms.unwrap_or(0)),
            sqpoll_cpu: config.spoll_cpu,
            single_issuer: path.options.defer,
            defer_taskrun: path.options.defer,
            coop_taskrun: path.options.coop,
            ..Self::default()
        }
    }

    /// The flags to try, the best first: those named, and the free wins of ever older kernels.
    fn ladder(path: &IoPath, config: &QueueConfig) -> Vec<Self> {
        let named = Self::named(path, config);
        if path.options.plain {
            return vec![named];
        }
        // The kernel's submission thread runs completions itself; deferring them to the caller is not for such rings.
        let own_completions = !path.polls_submissions();
        let linux_5_18 = Self { submit_all: true, ..named };
        let linux_5_19 = Self { coop_taskrun: own_completions, ..linux_5_18 };
        let linux_6_0 = Self { single_issuer: true, ..linux_5_19 };
        let defers = named.defer_taskrun
            || own_completions && !named.coop_taskrun && !(config.event_fd && offers_event_fd(path));
        let linux_6_1 = if defers { Self { coop_taskrun: false, defer_taskrun: true, ..linux_6_0 } } else { linux_6_0 };
        let linux_6_6 = Self { no_sqarray: true, ..linux_6_1 };
        vec![linux_6_6, linux_6_1, linux_6_0, linux_5_19, linux_5_18, named]
    }
}

/// The combinations of modes and options that no kernel takes on a ring.
pub(crate) fn validate(path: &IoPath) -> Result<()> {
    let options = path.options;
    let spoll = path.polls_submissions();
    let refuse = |cause: &str| Err(checks::impossible(path, cause));
    if spoll && (options.defer || options.coop) {
        return refuse(
            "a ring with a submission thread runs its completions there; defer and coop are for rings without one",
        );
    }
    if options.defer && options.coop {
        return refuse("defer and coop are two answers to the same question; choose one");
    }
    if !spoll && options.share {
        return refuse("share is about the submission thread, which needs +spoll");
    }
    if !spoll && options.sq_idle_ms.is_some() {
        return refuse("sqidle is about the submission thread, which needs +spoll");
    }
    Ok(())
}

/// Opens a queue on the path and reads one block, to see that kernel and device really do what the path asks for.
pub(crate) fn probe<E: Encode>(path: &IoPath, target: &Target, encode: E) -> Result<Capabilities> {
    let pool = Pool::new(1, (target.block_bytes() as usize).max(4096), Pages::Base)?;
    let config = QueueConfig::new(1).pool(&pool);
    let request_bytes_max = encode.request_bytes_max();
    let mut queue = RingQueue::open(path, target, &config, encode)?;
    let mut buffer = pool.take().ok_or_else(|| Error::failed(path.to_string(), "the probe's buffer is gone"))?;
    buffer.set_len((target.block_bytes() as usize).max(512).min(target.bytes() as usize))?;
    let mut completions = Vec::new();
    queue.submit(&mut VecDeque::from([Request::read(0, 0, buffer)]));
    queue.reap(1, &mut completions)?;
    let what = format!("{path} on {}", target.name());
    match completions.first().map(|completion| completion.result) {
        Some(Ok(_)) => Ok(Capabilities {
            depth_max: depth_max(path),
            operations: E::operations(path, target),
            request_bytes_max,
            event_fd: offers_event_fd(path),
            unregistered_memory: (!path.options.fixed_buffers)
                .then_some("pages are pinned for each request with O_DIRECT, which fixedbufs does once"),
            note: None,
        }),
        Some(Err(error)) if error.kind() == IoErrorKind::NotSupported && path.polls_completions() => {
            Err(Error::unavailable(what, "the device or its file system does not poll for completions")
                .remedy("use a path without cpoll, or a drive with poll queues (nvme.poll_queues=N)"))
        }
        Some(Err(error)) => Err(Error::unavailable(what, format!("a read of its first block failed: {error}"))),
        None => Err(Error::failed(what, "a read of its first block never ended")),
    }
}

/// A queue on a ring.
pub(crate) struct RingQueue<E: Encode> {
    ring: IoUring<E::Submission, E::Completion>,
    encode: E,
    file: RingFile,
    slots: Slots,
    /// Entries in the ring that the kernel has not been told of.
    unsubmitted: u32,
    /// What the path can do here; the kernel never sees the rest.
    operations: Operations,
    /// Requests that ended without the kernel, for the path has no entry for them.
    refused: Vec<Completion>,
    registered: Vec<RegisteredPool>,
    /// The ring's number in the thread's table of registered rings, which saves the kernel a look-up per call.
    registered_ring: Option<u32>,
    /// What the kernel is entered with: that number and a flag that says so, or the ring's descriptor.
    enter_number: RawFd,
    enter_flags: IoringEnterFlags,
    polls_submissions: bool,
    polls_completions: bool,
    event_fd: bool,
    syscalls: u64,
    // Held until the ring is gone.
    _target: Target,
    _shared: Option<Arc<SharedThread>>,
    /// A ring with SINGLE_ISSUER answers the thread that made it alone.
    _not_send: PhantomData<*const ()>,
}

/// What an entry carries through the kernel: its slot, and above it the errno of a request that is refused.
#[inline]
fn to_user_data(slot: u32, refusal: Option<IoError>) -> u64 {
    let errno = refusal.map_or(0, IoError::errno) as u32;
    u64::from(errno) << 32 | u64::from(slot)
}

/// The end of a request that was refused; its user data is larger than any slot.
#[cold]
fn take_refused(slots: &mut Slots, user_data: u64) -> Option<Completion> {
    let request = slots.take(user_data & u64::from(u32::MAX))?;
    Some(request.complete(Err(IoError::from_errno((user_data >> 32) as i32))))
}

/// A pool registered with the ring: whole or in pieces, and where there is room each frame by itself.
struct RegisteredPool {
    pool: Pool,
    first_piece: u16,
    /// Bytes of the pool from one piece to the next: whole frames.
    piece_bytes: usize,
    /// Bytes from there that are registered: all, unless a frame alone is too large.
    covered_bytes: usize,
    /// The kernel finds its way to the pages of a buffer that is registered by itself in some 140 instructions less, as
    /// it need not look whether they lie side by side (block/blk-merge.c, bio_may_exceed_limits).
    first_frame: Option<u16>,
}

impl RegisteredPool {
    /// The registered buffer for `buffer`, if any are registered. One that lies across two registered ones has none, and
    /// is used as memory that is not registered.
    fn find(pools: &[Self], buffer: &Buffer) -> Result<Option<u16>, IoError> {
        match pools.iter().find(|pool| pool.pool.owns(buffer)) {
            Some(pool) => Ok(pool.frame_of(buffer).or_else(|| pool.piece_of(buffer))),
            None if pools.is_empty() => Ok(None),
            None => Err(IoError::NOT_REGISTERED),
        }
    }

    /// The frame that covers all of `buffer`, if it is one of this pool's and frames are registered each by itself.
    #[inline(always)]
    fn frame_of(&self, buffer: &Buffer) -> Option<u16> {
        let first = self.first_frame?;
        let covered = self.pool.owns(buffer) && buffer.len() <= self.pool.frame_bytes();
        covered.then(|| first + buffer.frame() as u16)
    }

    fn piece_of(&self, buffer: &Buffer) -> Option<u16> {
        let start = buffer.offset_in_pool();
        let piece = start / self.piece_bytes;
        let end = start + buffer.len();
        (end <= piece * self.piece_bytes + self.covered_bytes).then_some(self.first_piece + piece as u16)
    }
}

#[cold]
fn enter_failed(errno: Errno) -> Error {
    Error::system("io_uring_enter", errno)
}

/// What to register for the pools, `bytes_max` at most as one buffer, and where in it each will be found.
fn registration(pools: &[Pool], bytes_max: usize, by_frame: bool) -> (Vec<libc::iovec>, Vec<RegisteredPool>) {
    let mut vectors = Vec::new();
    let registered = pools.iter().map(|pool| {
        let frame_bytes = pool.frame_bytes();
        let piece_bytes = (bytes_max / frame_bytes).max(1) * frame_bytes;
        let covered_bytes = piece_bytes.min(bytes_max);
        let first_piece = add_pieces(&mut vectors, pool, piece_bytes, covered_bytes);
        let by_frame = by_frame && frame_bytes <= bytes_max;
        let first_frame = by_frame.then(|| add_pieces(&mut vectors, pool, frame_bytes, frame_bytes));
        RegisteredPool { pool: pool.clone(), first_piece, piece_bytes, covered_bytes, first_frame }
    });
    let registered = registered.collect();
    (vectors, registered)
}

/// Adds a pool, cut into pieces, and says where the first of them is.
fn add_pieces(vectors: &mut Vec<libc::iovec>, pool: &Pool, piece_bytes: usize, covered_bytes: usize) -> u16 {
    let first = vectors.len() as u16;
    let (base, bytes) = pool.span();
    vectors.extend((0..bytes).step_by(piece_bytes).map(|start| libc::iovec {
        iov_base: base.as_ptr().wrapping_add(start).cast(),
        iov_len: covered_bytes.min(bytes - start),
    }));
    first
}

/// The submission thread that queues with `share` have in common: the descriptor of the ring that began it.
struct SharedThread(OwnedFd);

static SHARED_THREAD: Mutex<Weak<SharedThread>> = Mutex::new(Weak::new());

impl<E: Encode> RingQueue<E> {
    pub(crate) fn open(path: &IoPath, target: &Target, config: &QueueConfig, encode: E) -> Result<Self> {
        check_depth(path, config.depth, depth_max(path))?;
        if config.spoll_cpu.is_some() && !path.polls_submissions() {
            return Err(Error::usage(
                path.to_string(),
                "a cpu for the submission thread is given, and the path has none",
            )
            .remedy("add +spoll"));
        }
        let fd = target.require_fd(path.interface())?;
        io_workers::keep();
        // Locked while a shared thread is looked up and begun, so that two queues do not both begin one.
        let mut shared_thread = SHARED_THREAD.lock().unwrap_or_else(PoisonError::into_inner);
        let attach_to = path.options.share.then(|| shared_thread.upgrade()).flatten();
        let ring = set_up::<E>(path, config, attach_to.as_deref())?;
        let shared = match (path.options.share, attach_to) {
            (false, _) => None,
            (true, Some(thread)) => Some(thread),
            (true, None) => {
                let thread = Arc::new(SharedThread(duplicate(path, ring.as_raw_fd())?));
                *shared_thread = Arc::downgrade(&thread);
                Some(thread)
            }
        };
        drop(shared_thread);
        let mut queue = Self {
            registered: Vec::new(),
            file: RingFile::descriptor(fd.as_raw_fd()),
            slots: Slots::new(config.depth as usize),
            unsubmitted: 0,
            operations: E::operations(path, target),
            refused: Vec::new(),
            registered_ring: None,
            enter_number: ring.as_raw_fd(),
            enter_flags: IoringEnterFlags::empty(),
            polls_submissions: path.polls_submissions(),
            polls_completions: path.polls_completions(),
            event_fd: config.event_fd && offers_event_fd(path),
            syscalls: 0,
            _target: target.clone(),
            _shared: shared,
            _not_send: PhantomData,
            ring,
            encode,
        };
        if path.options.fixed_files {
            let files = [fd.as_raw_fd()];
            queue
                .ring
                .submitter()
                .register_files(&files)
                .map_err(|error| Error::system(format!("{path}: registering the target"), error))?;
            queue.file = RingFile::registered();
        }
        if path.options.fixed_buffers {
            queue.register_buffers(path, &config.pools)?;
        }
        if !path.options.plain && !path.polls_submissions() {
            queue.registered_ring = register_ring(&queue.ring);
        }
        if let Some(index) = queue.registered_ring {
            (queue.enter_number, queue.enter_flags) = (index as RawFd, IoringEnterFlags::REGISTERED_RING);
        }
        Ok(queue)
    }

    fn register_buffers(&mut self, path: &IoPath, pools: &[Pool]) -> Result<()> {
        if pools.is_empty() {
            return Err(Error::usage(path.to_string(), "fixedbufs registers pools, and none was given")
                .remedy("pass the pool in QueueConfig"));
        }
        if let Some(pool) = pools.iter().find(|pool| pool.frame_bytes() > REGISTERED_BYTES_MAX) {
            let cause = format!("{pool:?} has buffers larger than the 1 GiB that the kernel registers");
            return Err(Error::usage(path.to_string(), cause).remedy("use smaller buffers, or leave fixedbufs out"));
        }
        let frames: usize = pools.iter().map(Pool::frames).sum();
        let mut outcome = Ok(());
        // Each frame beside the whole counts twice against the limit of locked memory; it is done without if need be.
        for by_frame in [frames <= REGISTERED_FRAMES_MAX, false] {
            let (vectors, registered) = registration(pools, self.encode.registered_bytes_max(), by_frame);
            // SAFETY: the pools' memory outlives the registration: `registered` holds them, and is kept until after the ring
            // is dropped. The kernel touches it only for requests, which own their buffer.
            outcome = unsafe { self.ring.submitter().register_buffers(&vectors) };
            if outcome.is_ok() {
                self.registered = registered;
                break;
            }
        }
        outcome.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOMEM) => Error::exhausted(
                format!("{path}: registering buffers"),
                format!("they are locked in memory, and the limit is {}", memory_lock_limit()),
            )
            .remedy("raise it (ulimit -l), lower --depth or --bs, or leave fixedbufs out"),
            _ => Error::system(format!("{path}: registering buffers"), error),
        })
    }

    #[inline(always)]
    fn enter(&mut self, to_submit: u32, min_complete: u32, flags: IoringEnterFlags) -> Result<u32, Errno> {
        self.syscalls += 1;
        let (number, flags) = (self.enter_number, flags | self.enter_flags);
        // SAFETY: the number is our ring's descriptor, open as long as `self.ring`, or its index in this thread's table,
        // which the flag tells the kernel to use. The entries in the ring point to buffers and a file that `self` keeps.
        unsafe { rustix::io_uring::io_uring_enter(BorrowedFd::borrow_raw(number), to_submit, min_complete, flags) }
    }

    /// Hands over what was submitted, and waits until `min` completions are in the ring (or looks for some, if the ring
    /// needs a call for that).
    #[inline(always)]
    fn enter_for(&mut self, min: usize) -> Result<()> {
        let mut flags = IoringEnterFlags::empty();
        if min > 0 || self.polls_completions || self.has_deferred_work() {
            flags |= IoringEnterFlags::GETEVENTS;
        }
        match self.enter(self.unsubmitted, min as u32, flags) {
            Ok(taken) => {
                self.unsubmitted -= taken;
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            // No memory for the request, or completions to be read first: those in flight will help.
            Err(Errno::AGAIN | Errno::BUSY) if self.in_kernel() > 0 => Ok(()),
            Err(errno) => Err(enter_failed(errno)),
        }
    }

    /// Whether the kernel holds completions back until we enter (IORING_SQ_TASKRUN, IORING_SQ_CQ_OVERFLOW).
    #[inline]
    fn has_deferred_work(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Requests that the kernel was told of and has not completed.
    fn in_kernel(&self) -> usize {
        self.slots.in_flight() - self.unsubmitted as usize
    }

    /// How many requests more can be in flight.
    fn room(&self) -> usize {
        self.slots.depth() - self.in_flight()
    }

    /// Waits for the kernel's threads without entering the kernel: that is the system call which the path avoids.
    #[inline(never)]
    fn reap_by_thread(&mut self, min: usize, mut count: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.unsubmitted > 0 {
            self.wake()?;
        }
        loop {
            count += self.take_completions(completions);
            if count >= min {
                return Ok(count);
            }
            std::hint::spin_loop();
        }
    }

    /// Wakes the kernel's submission thread if it sleeps.
    #[inline(never)]
    fn wake(&mut self) -> Result<()> {
        self.unsubmitted = 0;
        if !self.ring.submission().need_wakeup() {
            return Ok(());
        }
        match self.enter(0, 0, IoringEnterFlags::SQ_WAKEUP) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("io_uring_enter to wake the submission thread", errno)),
        }
    }

    #[inline(always)]
    fn take_completions(&mut self, completions: &mut Vec<Completion>) -> usize {
        let mut count = 0;
        for entry in self.ring.completion() {
            let user_data = E::user_data(&entry);
            let completion = match self.slots.take(user_data) {
                Some(request) => {
                    let result = E::result(&entry, &request);
                    request.complete(result)
                }
                None => match take_refused(&mut self.slots, user_data) {
                    Some(completion) => completion,
                    None => continue,
                },
            };
            completions.push(completion);
            count += 1;
        }
        count
    }

    /// Submits as many as there is room for, of more than that.
    #[cold]
    fn submit_some(&mut self, requests: &mut Vec<Request>) {
        let room = self.room();
        self.submit_all(requests.drain(..room));
    }

    /// Puts requests into the ring; the caller has seen that there is room for them.
    #[inline(always)]
    fn submit_all(&mut self, requests: impl Iterator<Item = Request>) {
        if self.registered.is_empty() {
            self.submit_each(requests, |_, _| Some(None));
        } else {
            self.submit_each(requests, |pools, buffer| pools.first()?.frame_of(buffer).map(Some));
        }
    }

    /// The loop of `submit_all`, made once without registered buffers and once with. `find` says which a buffer is, or
    /// `None` if that takes a longer look.
    #[inline(always)]
    fn submit_each(
        &mut self,
        requests: impl Iterator<Item = Request>,
        find: impl Fn(&[RegisteredPool], &Buffer) -> Option<Option<u16>>,
    ) {
        let mut submission = self.ring.submission();
        for request in requests {
            if let Operation::Read(buffer) | Operation::Write(buffer) = &request.operation
                && let Some(index) = find(&self.registered, buffer)
                && let Ok(entry) = self.encode.encode(&request, self.file, index)
            {
                push::<E>(&mut submission, &mut self.slots, entry, request, None);
                self.unsubmitted += 1;
            } else {
                drop(submission);
                self.submit_rare(request);
                submission = self.ring.submission();
            }
        }
    }

    /// Submits what is neither read nor written or lies in no frame of the first pool, and ends what has no entry. Apart
    /// from the loop in `submit_each`, which is short without it.
    #[cold]
    fn submit_rare(&mut self, request: Request) {
        let index = match &request.operation {
            Operation::Read(buffer) | Operation::Write(buffer) => RegisteredPool::find(&self.registered, buffer),
            operation => checks::supported(self.operations, operation).map(|()| None),
        };
        let (entry, refusal) = match index.and_then(|index| self.encode.encode(&request, self.file, index)) {
            Ok(entry) => (entry, None),
            // An event loop sleeps until the ring's descriptor is readable; an entry that does nothing makes it so.
            Err(error) if self.event_fd => (opcode::Nop::new().build().into(), Some(error)),
            Err(error) => return self.refused.push(request.complete(Err(error))),
        };
        push::<E>(&mut self.ring.submission(), &mut self.slots, entry, request, refusal);
        self.unsubmitted += 1;
    }
}

#[inline(always)]
fn push<E: Encode>(
    submission: &mut squeue::SubmissionQueue<'_, E::Submission>,
    slots: &mut Slots,
    mut entry: E::Submission,
    request: Request,
    refusal: Option<IoError>,
) {
    let slot = slots.insert(request);
    squeue::EntryMarker::set_user_data(&mut entry, to_user_data(slot, refusal));
    // SAFETY: the entry points to a buffer in the queue's slots and to a file that it keeps open; both stay until the
    // completion is taken, and the queue's `Drop` waits for it.
    let pushed = unsafe { submission.push(&entry) };
    debug_assert!(pushed.is_ok(), "the ring has at least as many entries as there are slots");
}

impl<E: Encode> Queue for RingQueue<E> {
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
        let count = requests.len().min(self.room());
        self.submit_all(requests.drain(..count));
        count
    }

    fn flush(&mut self) -> Result<()> {
        if self.polls_submissions {
            return if self.unsubmitted > 0 { self.wake() } else { Ok(()) };
        }
        while self.unsubmitted > 0 {
            let before = self.unsubmitted;
            let completed_before = self.in_kernel();
            self.enter_for(0)?;
            // Out of the kernel's room for now: the rest goes over when something was reaped.
            if self.unsubmitted == before && completed_before > 0 {
                break;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let mut count = self.refused.len();
        if count > 0 {
            completions.append(&mut self.refused);
        }
        if self.polls_submissions {
            return self.reap_by_thread(min, count, completions);
        }
        // Entered before the ring is looked at if there is something to hand over, or the kernel must be asked to look.
        let mut enters =
            self.unsubmitted > 0 || self.in_kernel() > 0 && (self.polls_completions || self.has_deferred_work());
        loop {
            if enters {
                self.enter_for(min.saturating_sub(count))?;
            }
            count += self.take_completions(completions);
            if count >= min {
                return Ok(count);
            }
            enters = true;
        }
    }

    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if requests.len() <= self.room() {
            self.submit_all(requests.drain(..));
        } else {
            self.submit_some(requests);
        }
        self.reap(min, completions)
    }

    fn depth(&self) -> usize {
        self.slots.depth()
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight() + self.refused.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is the ring's, open as long as `self` is borrowed.
        self.event_fd.then(|| unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }
}

impl<E: Encode> Drop for RingQueue<E> {
    /// Closing a ring does not wait for what it has in flight (io_uring_setup(2)), and the kernel may go on writing to the
    /// buffers. So everything the kernel was told of is cancelled where it can be, and waited for where it cannot,
    /// before the fields are dropped. Entries it was not told of die with the ring.
    fn drop(&mut self) {
        let told = |queue: &Self| if queue.polls_submissions { queue.slots.in_flight() } else { queue.in_kernel() };
        if told(self) > 0 && !self.polls_completions {
            // Best effort: since Linux 6.0, and for requests that have not reached the device.
            let _ =
                self.ring.submitter().register_sync_cancel(Some(types::Timespec::new()), types::CancelBuilder::any());
        }
        let mut ended = Vec::with_capacity(self.slots.depth());
        if self.polls_submissions {
            let _ = self.wake();
        }
        while told(self) > 0 {
            self.take_completions(&mut ended);
            ended.clear();
            if told(self) == 0 {
                break;
            }
            match self.enter(0, 1, IoringEnterFlags::GETEVENTS) {
                Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                Err(_) => {
                    // The ring is beyond repair and the kernel may still write: better to lose the memory than to share it.
                    std::mem::forget(std::mem::replace(&mut self.slots, Slots::new(0)));
                    break;
                }
            }
        }
        if let Some(index) = self.registered_ring {
            unregister_ring(&self.ring, index);
        }
    }
}

/// Sets a ring up with the best flags that this kernel takes.
fn set_up<E: Encode>(
    path: &IoPath,
    config: &QueueConfig,
    attach_to: Option<&SharedThread>,
) -> Result<IoUring<E::Submission, E::Completion>> {
    let mut refusal = io::Error::from_raw_os_error(libc::EINVAL);
    for mut flags in SetupFlags::ladder(path, config) {
        flags.attach_to = attach_to.map(|thread| thread.0.as_raw_fd());
        match E::build_ring(config.depth * entries_per_request(path), &flags) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = error,
            Err(error) => return Err(set_up_error(path, error)),
        }
    }
    let since = [
        (path.completion == CompletionMode::Hybrid, "HYBRID_IOPOLL came with Linux 6.13"),
        (path.options.defer, "DEFER_TASKRUN came with Linux 6.1"),
        (path.options.coop, "COOP_TASKRUN came with Linux 5.19"),
        (config.spoll_cpu.is_some(), "the cpu for its submission thread may not exist"),
    ];
    match since.iter().find(|(asked, _)| *asked) {
        Some((_, cause)) => Err(Error::unavailable(
            path.to_string(),
            format!("this kernel ({}) does not take it: {cause}", crate::kernel::Release::current().text()),
        )
        .remedy("leave it out, or use a newer kernel")),
        None => Err(Error::system(format!("{path}: io_uring_setup"), refusal)),
    }
}

fn set_up_error(path: &IoPath, error: io::Error) -> Error {
    let what = path.to_string();
    let disabled = || std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Error::unavailable(what, "this kernel has no io_uring")
            .remedy("it came with Linux 5.1; use libaio or psync"),
        Some(libc::EPERM) => match disabled().trim() {
            setting @ ("1" | "2") => {
                Error::unavailable(what, format!("io_uring is disabled (kernel.io_uring_disabled is {setting})"))
                    .remedy("sysctl kernel.io_uring_disabled=0")
            }
            _ if path.polls_submissions() => {
                Error::unavailable(what, "a submission thread needs privileges before Linux 5.11").remedy("run as root")
            }
            _ => Error::unavailable(
                what,
                "not permitted, probably by a seccomp filter (containers often forbid io_uring)",
            )
            .remedy("allow io_uring_setup, io_uring_enter and io_uring_register in the filter"),
        },
        Some(libc::ENOMEM) => {
            Error::exhausted(what, format!("no memory for the ring (locked-memory limit {})", memory_lock_limit()))
                .remedy("lower the depth or raise the limit (ulimit -l)")
        }
        _ => {
            let error = Error::system(format!("{what}: io_uring_setup"), error);
            if error.kind() == ErrorKind::Unavailable { error.with_kind(ErrorKind::Failed) } else { error }
        }
    }
}

fn duplicate(path: &IoPath, fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: the descriptor belongs to a ring that the caller holds.
    rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 0)
        .map_err(|errno| Error::system(format!("{path}: dup"), errno))
}

/// `struct io_uring_rsrc_update` (linux/io_uring.h), as the registration of rings uses it.
#[repr(C)]
struct RingUpdate {
    offset: u32,
    reserved: u32,
    fd: u64,
}

/// Puts the ring into the thread's table of registered rings (Linux 5.18, 16 places a thread); without a place, or
/// before, the descriptor serves as well.
fn register_ring<S: squeue::EntryMarker, C: cqueue::EntryMarker>(ring: &IoUring<S, C>) -> Option<u32> {
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

fn unregister_ring<S: squeue::EntryMarker, C: cqueue::EntryMarker>(ring: &IoUring<S, C>, index: u32) {
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

/// Sets up a ring with HYBRID_IOPOLL (Linux 6.13), a flag that the ring library's builder lacks. A ring without it tells
/// what the builder makes of all the others.
pub(crate) fn build_hybrid(entries: u32, flags: &SetupFlags) -> io::Result<IoUring> {
    const IORING_SETUP_HYBRID_IOPOLL: u32 = 1 << 17;
    let without: IoUring = flags.builder().build(entries)?;
    // SAFETY: both types are the kernel's `struct io_uring_params`, one of them behind a transparent wrapper.
    let mut params =
        unsafe { std::mem::transmute::<::io_uring::Parameters, io_uring_params>(without.params().clone()) };
    drop(without);
    params.flags |= IoringSetupFlags::from_bits_retain(IORING_SETUP_HYBRID_IOPOLL);
    // SAFETY: the kernel reads the flags, and fills in the rest, during the call.
    let fd = unsafe { rustix::io_uring::io_uring_setup(entries, &mut params) }?;
    // SAFETY: as above for the type. The descriptor is new and handed over to the ring, with the parameters that the
    // kernel filled in for it.
    unsafe {
        IoUring::from_fd(fd.into_raw_fd(), std::mem::transmute::<io_uring_params, ::io_uring::Parameters>(params))
    }
}
