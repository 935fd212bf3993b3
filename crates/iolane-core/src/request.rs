//! Requests, completions, and the outcome of a single request. A request owns its buffer or buffers while it is in flight; the
//! completion hands them back.

use std::fmt;

use crate::buffer::Buffer;
use crate::targets::TargetId;
use crate::vectored::Buffers;

/// The operation of a request. There may be more: a queue answers those that it does not know with
/// [`IoError::NOT_SUPPORTED`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Read `buffer.len()` bytes.
    Read(Buffer),
    /// Write `buffer.len()` bytes.
    Write(Buffer),
    /// The same, and durable when it completes, with the metadata needed to read it back (RWF_DSYNC, pwritev2(2); Force Unit Access,
    /// NVM Command Set Specification 1.0, section 3.2.6). It says nothing of other writes.
    DurableWrite(Buffer),
    /// Make everything written before and completed durable, metadata included.
    Fsync,
    /// The same for data and only the metadata needed to read it back.
    Fdatasync,
    /// The range is no longer needed; what a later read returns depends on the device.
    Discard {
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// The range reads as zeroes afterwards. A file does not become longer by it (FALLOC_FL_KEEP_SIZE, fallocate(2)).
    WriteZeroes {
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// Read `buffers.bytes()` bytes, into one buffer after the other (preadv2(2)).
    ReadVectored(Buffers),
    /// Write `buffers.bytes()` bytes, from one buffer after the other (pwritev2(2)).
    WriteVectored(Buffers),
    /// The same as `WriteVectored`, and durable when it completes, as a `DurableWrite` is.
    DurableWriteVectored(Buffers),
    /// Write `buffer.len()` bytes, of which a power cut leaves all or none (RWF_ATOMIC, pwritev2(2)). It is no more durable than
    /// another write.
    AtomicWrite(Buffer),
}

impl Operation {
    /// The buffer, if the operation has one, and one only.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read(buffer) | Self::Write(buffer) | Self::DurableWrite(buffer) | Self::AtomicWrite(buffer) => {
                Some(buffer)
            }
            _ => None,
        }
    }

    /// The buffers of a vectored operation.
    #[cold]
    pub fn into_buffers(self) -> Option<Buffers> {
        match self {
            Self::ReadVectored(buffers) | Self::WriteVectored(buffers) | Self::DurableWriteVectored(buffers) => {
                Some(buffers)
            }
            _ => None,
        }
    }

    /// The buffers of a vectored operation, where they are.
    pub fn buffers(&self) -> Option<&Buffers> {
        match self {
            Self::ReadVectored(buffers) | Self::WriteVectored(buffers) | Self::DurableWriteVectored(buffers) => {
                Some(buffers)
            }
            _ => None,
        }
    }

    /// Every buffer of the operation, one or several, in order.
    pub fn memory(&self) -> impl Iterator<Item = &Buffer> {
        self.buffer().into_iter().chain(self.buffers().into_iter().flatten())
    }

    /// Whether it may change what the target holds: all but reads and syncs.
    #[inline]
    pub fn changes_data(&self) -> bool {
        !matches!(self, Self::Read(_) | Self::ReadVectored(_) | Self::Fsync | Self::Fdatasync)
    }

    /// The buffer, where it is.
    #[inline]
    pub fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Read(buffer) | Self::Write(buffer) | Self::DurableWrite(buffer) | Self::AtomicWrite(buffer) => {
                Some(buffer)
            }
            _ => None,
        }
    }

    /// Bytes that a read or a write moves if it is not cut short; 0 for operations that move no data.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Read(buffer) | Self::Write(buffer) | Self::DurableWrite(buffer) | Self::AtomicWrite(buffer) => {
                buffer.len()
            }
            Self::ReadVectored(buffers) | Self::WriteVectored(buffers) | Self::DurableWriteVectored(buffers) => {
                buffers.bytes()
            }
            Self::Fsync | Self::Fdatasync | Self::Discard { .. } | Self::WriteZeroes { .. } => 0,
        }
    }
}

/// One request: an operation at a byte offset of a target, and the caller's tag that its completion will carry.
#[derive(Debug)]
pub struct Request {
    /// The caller's number, which the queue does not interpret.
    pub tag: u64,
    /// The offset on the target in bytes; not used by `Fsync` and `Fdatasync`.
    pub offset: u64,
    /// The operation.
    pub operation: Operation,
    /// Which of the queue's targets it is for: the one that the queue was opened with, by default.
    pub target: TargetId,
}

impl Request {
    /// An operation at `offset` of the target that the queue was opened with.
    #[inline]
    pub fn new(tag: u64, offset: u64, operation: Operation) -> Self {
        Self { tag, offset, operation, target: TargetId::FIRST }
    }

    /// The same on another of the queue's targets ([`Queue::attach`](crate::Queue::attach)).
    #[must_use]
    #[inline]
    pub fn on(self, target: TargetId) -> Self {
        Self { target, ..self }
    }

    /// Reads `buffer.len()` bytes at `offset`.
    pub fn read(tag: u64, offset: u64, buffer: Buffer) -> Self {
        Self::new(tag, offset, Operation::Read(buffer))
    }

    /// Writes `buffer.len()` bytes at `offset`.
    pub fn write(tag: u64, offset: u64, buffer: Buffer) -> Self {
        Self::new(tag, offset, Operation::Write(buffer))
    }

    /// Writes `buffer.len()` bytes at `offset`, durable when it completes. Where a path has it
    /// ([`DURABLE_WRITE`](crate::Operations::DURABLE_WRITE)), it saves the sync after a single write.
    pub fn durable_write(tag: u64, offset: u64, buffer: Buffer) -> Self {
        Self::new(tag, offset, Operation::DurableWrite(buffer))
    }

    /// Writes `buffer.len()` bytes at `offset`, of which a power cut leaves all or none, so that a page needs no second copy
    /// (a double-write buffer, or full pages in a log). Where a path has it ([`ATOMIC_WRITE`](crate::Operations::ATOMIC_WRITE)),
    /// [`Capabilities::atomic_writes`](crate::Capabilities::atomic_writes) tells the lengths; another length, or an offset that is no
    /// multiple of the length, is [`INVALID`](IoError::INVALID). A sync makes it durable.
    pub fn atomic_write(tag: u64, offset: u64, buffer: Buffer) -> Self {
        Self::new(tag, offset, Operation::AtomicWrite(buffer))
    }

    /// Reads `buffers.bytes()` bytes at `offset` into the buffers, in their order, where a path has it
    /// ([`VECTORED`](crate::Operations::VECTORED)).
    pub fn read_vectored(tag: u64, offset: u64, buffers: Buffers) -> Self {
        Self::new(tag, offset, Operation::ReadVectored(buffers))
    }

    /// Writes `buffers.bytes()` bytes at `offset` from the buffers, in their order, where a path has it
    /// ([`VECTORED`](crate::Operations::VECTORED)): adjacent blocks that are scattered in memory, as one request.
    pub fn write_vectored(tag: u64, offset: u64, buffers: Buffers) -> Self {
        Self::new(tag, offset, Operation::WriteVectored(buffers))
    }

    /// Writes the buffers as [`write_vectored`](Self::write_vectored) does, durable when it completes, where a path has
    /// both [`VECTORED`](crate::Operations::VECTORED) and [`DURABLE_WRITE`](crate::Operations::DURABLE_WRITE): a
    /// record of a log with its header, body and padding in separate memory.
    pub fn durable_write_vectored(tag: u64, offset: u64, buffers: Buffers) -> Self {
        Self::new(tag, offset, Operation::DurableWriteVectored(buffers))
    }

    /// Makes completed writes durable, metadata included (fsync(2)).
    pub fn fsync(tag: u64) -> Self {
        Self::new(tag, 0, Operation::Fsync)
    }

    /// Makes completed writes durable (fdatasync(2)).
    pub fn fdatasync(tag: u64) -> Self {
        Self::new(tag, 0, Operation::Fdatasync)
    }

    /// Discards a range of `bytes` at `offset`.
    pub fn discard(tag: u64, offset: u64, bytes: u64) -> Self {
        Self::new(tag, offset, Operation::Discard { bytes })
    }

    /// Zeroes a range of `bytes` at `offset`, without a transfer of zeroes. It does not make a file longer, as a write does.
    pub fn write_zeroes(tag: u64, offset: u64, bytes: u64) -> Self {
        Self::new(tag, offset, Operation::WriteZeroes { bytes })
    }

    /// The completion of this request with the given outcome and the request's buffer or buffers.
    #[inline]
    pub fn complete(self, result: Result<u32, IoError>) -> Completion {
        let tag = self.tag;
        match self.operation {
            Operation::Read(buffer) | Operation::Write(buffer) | Operation::DurableWrite(buffer) => {
                Completion { tag, result, buffer: Some(buffer), buffers: None }
            }
            operation => rare_completion(tag, operation, result),
        }
    }

    /// The same, appended to others. Each arm appends for itself: one completion that is made in two ways would be built in memory first.
    #[inline(always)]
    pub fn complete_into(self, result: Result<u32, IoError>, completions: &mut Vec<Completion>) {
        let tag = self.tag;
        match self.operation {
            Operation::Read(buffer) | Operation::Write(buffer) | Operation::DurableWrite(buffer) => {
                completions.push(Completion { tag, result, buffer: Some(buffer), buffers: None });
            }
            operation => completions.push(rare_completion(tag, operation, result)),
        }
    }
}

/// That of a request whose operation is not among those that every load has.
#[cold]
fn rare_completion(tag: u64, operation: Operation, result: Result<u32, IoError>) -> Completion {
    match operation {
        Operation::AtomicWrite(buffer) => Completion { tag, result, buffer: Some(buffer), buffers: None },
        operation => Completion { tag, result, buffer: None, buffers: operation.into_buffers() },
    }
}

/// The completion of one request ([`Request::complete`]).
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// The tag of the request.
    pub tag: u64,
    /// Bytes read or written (fewer than requested is not an error; 0 for operations without a buffer), or why it failed.
    pub result: Result<u32, IoError>,
    /// The request's buffer, if it has one.
    pub buffer: Option<Buffer>,
    /// The buffers of a vectored request.
    pub buffers: Option<Buffers>,
}

/// Outside the range of the kernel's error numbers, which end at 4095 (`MAX_ERRNO` in linux/err.h), so that no kernel returns them.
const NOT_REGISTERED: i32 = 4096;
const NOT_ATTACHED: i32 = 4097;

/// Why one request failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IoError {
    errno: i32,
}

/// The category of one request's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoErrorKind {
    /// The device or file could not read or write the data (EIO, ENODATA, EILSEQ).
    Media,
    /// No space left, or a limit of the file (ENOSPC, EDQUOT, EFBIG).
    NoSpace,
    /// Offset, length or buffer not aligned as the target requires, a range outside the target (EINVAL), or a request larger
    /// than the path takes here (E2BIG).
    Invalid,
    /// The path or target does not support this operation (EOPNOTSUPP, ENOSYS).
    NotSupported,
    /// The buffer is from a pool that is not registered with this queue.
    NotRegistered,
    /// The request names a target that is not attached to this queue.
    NotAttached,
    /// The request was cancelled by [`Queue::cancel`](crate::Queue::cancel), or its drive was reset (ECANCELED).
    Cancelled,
    /// The target does not permit it (EBADF, EPERM, EROFS, EACCES).
    NotPermitted,
    /// The device is gone (ENODEV, ENXIO, ESHUTDOWN).
    DeviceGone,
    /// The device did not answer in time (ETIMEDOUT, ETIME).
    TimedOut,
    /// Anything else; see [`IoError::errno`].
    Other,
}

impl IoError {
    /// The path or target does not support this operation.
    pub const NOT_SUPPORTED: Self = Self::from_errno(libc::EOPNOTSUPP);
    /// The range or the buffer is invalid for the target.
    pub const INVALID: Self = Self::from_errno(libc::EINVAL);
    /// The buffer is from a pool that is not registered with this queue.
    pub const NOT_REGISTERED: Self = Self::from_errno(NOT_REGISTERED);
    /// The request names a target that is not attached to this queue.
    pub const NOT_ATTACHED: Self = Self::from_errno(NOT_ATTACHED);
    /// The request was cancelled.
    pub const CANCELLED: Self = Self::from_errno(libc::ECANCELED);
    /// The request is larger than the path takes here.
    pub const TOO_LARGE: Self = Self::from_errno(libc::E2BIG);
    /// The target was opened for reading only.
    pub const READ_ONLY: Self = Self::from_errno(libc::EBADF);

    /// From an `errno` value, positive as in `errno.h`.
    pub const fn from_errno(errno: i32) -> Self {
        Self { errno }
    }

    /// From a kernel result where negative values are `-errno`.
    ///
    /// # Errors
    /// The negated value as an [`IoError`], if it is negative.
    #[inline]
    pub fn check(result: i64) -> Result<u32, Self> {
        if result >= 0 { Ok(result as u32) } else { Err(Self::from_errno(-result as i32)) }
    }

    /// The `errno` value (errno(3)); 4096 for [`NOT_REGISTERED`](Self::NOT_REGISTERED) and 4097 for
    /// [`NOT_ATTACHED`](Self::NOT_ATTACHED), which no kernel returns.
    pub const fn errno(self) -> i32 {
        self.errno
    }

    /// The category of the failure.
    pub const fn kind(self) -> IoErrorKind {
        match self.errno {
            libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO => IoErrorKind::Media,
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoErrorKind::NoSpace,
            libc::EINVAL | libc::E2BIG => IoErrorKind::Invalid,
            libc::EOPNOTSUPP | libc::ENOSYS => IoErrorKind::NotSupported,
            NOT_REGISTERED => IoErrorKind::NotRegistered,
            NOT_ATTACHED => IoErrorKind::NotAttached,
            libc::ECANCELED => IoErrorKind::Cancelled,
            libc::EBADF | libc::EPERM | libc::EROFS | libc::EACCES => IoErrorKind::NotPermitted,
            libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN => IoErrorKind::DeviceGone,
            libc::ETIMEDOUT | libc::ETIME => IoErrorKind::TimedOut,
            _ => IoErrorKind::Other,
        }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let likely = match self.kind() {
            IoErrorKind::Media => "the device could not read or write the data",
            IoErrorKind::NoSpace => "no space is left on the target",
            IoErrorKind::Invalid if *self == Self::TOO_LARGE => {
                "the request is larger than this path takes on this kernel and device; probe reports the limit"
            }
            IoErrorKind::Invalid => {
                "offset, length or buffer is not aligned to the target's block size, or out of its range"
            }
            IoErrorKind::NotSupported => "this path or target does not support the operation",
            IoErrorKind::NotRegistered => {
                return f.write_str("the buffer is from a pool that is not registered with this queue");
            }
            IoErrorKind::NotAttached => {
                return f.write_str("the request names a target that is not attached to this queue");
            }
            IoErrorKind::Cancelled => "the request was cancelled",
            IoErrorKind::NotPermitted => "the target was not opened for that operation",
            IoErrorKind::DeviceGone => "the device is gone",
            IoErrorKind::TimedOut => "the device did not answer in time",
            IoErrorKind::Other => {
                return f.write_str(&crate::error::describe(&std::io::Error::from_raw_os_error(self.errno)));
            }
        };
        write!(f, "{likely} (errno {})", self.errno)
    }
}

impl fmt::Debug for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoError({self})")
    }
}

impl std::error::Error for IoError {}

/// For programs whose own errors are `std::io`'s: the error of that `errno`, or one with the text where no kernel has a number.
impl From<IoError> for std::io::Error {
    fn from(error: IoError) -> Self {
        match error.errno {
            NOT_REGISTERED | NOT_ATTACHED => Self::new(std::io::ErrorKind::InvalidInput, error),
            errno => Self::from_raw_os_error(errno),
        }
    }
}

impl From<rustix::io::Errno> for IoError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::from_errno(errno.raw_os_error())
    }
}
