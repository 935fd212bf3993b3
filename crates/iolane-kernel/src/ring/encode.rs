//! How an interface on a ring turns requests into entries: the trait that `io_uring` and `io_uring_cmd` implement, and how an
//! entry names the target. `queue` calls it for every request.

use std::io;
use std::os::fd::RawFd;

use ::io_uring::{IoUring, cqueue, squeue, types};

use iolane_core::{AtomicWrites, IoError, IoPath, Operations, Request, Result, Target};

use super::flags::SetupFlags;

/// A registered buffer is 1 GiB at most (io_uring_register(2), IORING_REGISTER_BUFFERS).
pub(crate) const REGISTERED_BYTES_MAX: usize = 1 << 30;

/// How an interface on a ring turns requests into submission entries and completion entries into results.
pub(crate) trait Encode: Sized + 'static {
    type Submission: squeue::EntryMarker;
    type Completion: cqueue::EntryMarker;

    /// Builds the ring. The default suits rings for which the io-uring crate's builder suffices.
    fn build_ring(entries: u32, flags: &SetupFlags) -> io::Result<IoUring<Self::Submission, Self::Completion>> {
        flags.builder().build(entries)
    }

    /// The entries for a target.
    ///
    /// # Errors
    /// `Unavailable` if the path does not work on it.
    fn for_target(path: &IoPath, target: &Target) -> Result<Self>;

    /// The operations of this kind of ring on the target with this path.
    fn operations(&self, path: &IoPath, target: &Target) -> Operations;

    /// The writes that are atomic on the target.
    fn atomic_writes(&self, target: &Target) -> Option<AtomicWrites> {
        target.atomic_writes()
    }

    /// Largest read or write in bytes, if the kernel does not split larger ones.
    fn request_bytes_max(&self) -> Option<u64>;

    /// Most bytes of a pool to register as one buffer; a larger pool is registered as several.
    fn registered_bytes_max(&self) -> usize {
        REGISTERED_BYTES_MAX
    }

    /// The entry for a request, or the error it completes with if the path has no such entry.
    fn encode(&self, request: &Request, file: RingFile, buffer_index: Option<u16>)
    -> Result<Self::Submission, IoError>;

    /// The outcome of a request from its completion entry.
    fn result(entry: &Self::Completion, request: &Request) -> Result<u32, IoError>;

    /// Whether the kernel ended the request before it began (ECANCELED).
    fn is_cancelled(entry: &Self::Completion) -> bool;

    /// Whether the kernel ended the request although another attempt may succeed: before it began, or for want of what the device has
    /// too few of at the moment (EAGAIN).
    #[inline(always)]
    fn is_given_up(entry: &Self::Completion) -> bool {
        Self::is_cancelled(entry)
    }

    /// The user data that a completion entry carries back.
    fn user_data(entry: &Self::Completion) -> u64;
}

/// How entries name the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingFile {
    /// A descriptor, or the index of a file registered with the ring.
    pub(crate) fd: types::Fd,
    /// Whether it is an index.
    pub(crate) flags: squeue::Flags,
    /// The first eight bytes of an entry for it, with 0 in place of the opcode.
    pub(crate) head: u64,
}

impl RingFile {
    pub(crate) fn descriptor(fd: RawFd) -> Self {
        Self::new(fd, squeue::Flags::empty())
    }

    /// A file registered with the ring, by its index.
    pub(crate) fn registered(index: usize) -> Self {
        Self::new(index as RawFd, squeue::Flags::FIXED_FILE)
    }

    /// The file of a request that a worker is to begin, which may wait.
    pub(crate) fn by_worker(self) -> Self {
        let flag = squeue::Flags::ASYNC;
        let head = self.head | u64::from_ne_bytes([0, flag.bits(), 0, 0, 0, 0, 0, 0]);
        Self { flags: self.flags | flag, head, ..self }
    }

    fn new(fd: RawFd, flags: squeue::Flags) -> Self {
        let [a, b, c, d] = fd.to_ne_bytes();
        Self { fd: types::Fd(fd), flags, head: u64::from_ne_bytes([0, flags.bits(), 0, 0, a, b, c, d]) }
    }
}
