//! What a path can do on a target: the answer of its interface's probe, which `probe`, surveys and tests read.

use std::fmt;

use crate::atomic_writes::AtomicWrites;
use crate::error::{Error, Result};
use crate::path::IoPath;
use crate::request::Operation;

/// A set of operations a path can carry out on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations(u16);

impl Operations {
    /// Read into a buffer.
    pub const READ: Self = Self(1);
    /// Write from a buffer.
    pub const WRITE: Self = Self(1 << 1);
    /// Make data and metadata durable.
    pub const FSYNC: Self = Self(1 << 2);
    /// Make data durable.
    pub const FDATASYNC: Self = Self(1 << 3);
    /// Discard a range: the device may drop its data.
    pub const DISCARD: Self = Self(1 << 4);
    /// Zero a range without transferring zeroes.
    pub const WRITE_ZEROES: Self = Self(1 << 5);
    /// Write from a buffer, durable when it completes.
    pub const DURABLE_WRITE: Self = Self(1 << 6);
    /// Read into several buffers, and write from several.
    pub const VECTORED: Self = Self(1 << 7);
    /// Write from a buffer, all of it or nothing whatever happens to the power.
    pub const ATOMIC_WRITE: Self = Self(1 << 8);
    /// Everything.
    pub const ALL: Self = Self(u16::MAX);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::READ, "read"),
        (Self::WRITE, "write"),
        (Self::DURABLE_WRITE, "durable-write"),
        (Self::ATOMIC_WRITE, "atomic-write"),
        (Self::VECTORED, "vectored"),
        (Self::FSYNC, "fsync"),
        (Self::FDATASYNC, "fdatasync"),
        (Self::DISCARD, "discard"),
        (Self::WRITE_ZEROES, "write-zeroes"),
    ];

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is in this set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set of just this operation: a vectored durable write is both vectored and a durable write.
    #[inline]
    pub const fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Read(_) => Self::READ,
            Operation::Write(_) => Self::WRITE,
            Operation::DurableWrite(_) => Self::DURABLE_WRITE,
            Operation::AtomicWrite(_) => Self::ATOMIC_WRITE,
            Operation::ReadVectored(_) | Operation::WriteVectored(_) => Self::VECTORED,
            Operation::DurableWriteVectored(_) => Self::VECTORED.with(Self::DURABLE_WRITE),
            Operation::Fsync => Self::FSYNC,
            Operation::Fdatasync => Self::FDATASYNC,
            Operation::Discard { .. } => Self::DISCARD,
            Operation::WriteZeroes { .. } => Self::WRITE_ZEROES,
        }
    }

    /// The operations' names.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().filter(|(one, _)| self.contains(*one)).map(|(_, name)| *name).collect()
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

/// Refuses a depth outside a path's limits.
///
/// # Errors
/// `Usage`, with the limits.
pub fn check_depth(path: &IoPath, depth: u32, depth_max: u32) -> Result<()> {
    if depth == 0 {
        return Err(Error::usage(format!("{path}: depth 0"), "a queue has room for at least one request")
            .remedy(format!("choose 1 to {depth_max}")));
    }
    if depth > depth_max {
        let remedy =
            if depth_max == 1 { "use more threads to have more requests in flight" } else { "choose a smaller depth" };
        return Err(Error::usage(
            format!("{path}: depth {depth}"),
            format!("this path supports a depth of at most {depth_max}"),
        )
        .remedy(remedy));
    }
    Ok(())
}

/// What a path can do on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Most requests in flight on one queue.
    pub depth_max: u32,
    /// The operations that requests may ask for.
    pub operations: Operations,
    /// Largest read or write in bytes, where no layer splits a request that is larger than one command of the device. A vectored one may
    /// have to be smaller: of as many pages as a command has segments.
    pub request_bytes_max: Option<u64>,
    /// The lengths of atomic writes, where `operations` has them.
    pub atomic_writes: Option<AtomicWrites>,
    /// Whether the queue offers a descriptor to wait on.
    pub event_fd: bool,
    /// The cost of memory that was not registered with the queue; `None` if there is none.
    pub unregistered_memory: Option<&'static str>,
    /// A remark for the reader of results about this path here.
    pub note: Option<String>,
}

impl Capabilities {
    /// Those of a path that has nothing else to tell.
    pub fn new(depth_max: u32, operations: Operations) -> Self {
        Self {
            depth_max,
            operations,
            request_bytes_max: None,
            atomic_writes: None,
            event_fd: false,
            unregistered_memory: None,
            note: None,
        }
    }

    /// Limits what a request moves.
    #[must_use]
    pub fn request_bytes_max(mut self, request_bytes_max: Option<u64>) -> Self {
        self.request_bytes_max = request_bytes_max;
        self
    }

    /// Tells the lengths of atomic writes.
    #[must_use]
    pub fn atomic_writes(mut self, atomic_writes: Option<AtomicWrites>) -> Self {
        self.atomic_writes = atomic_writes;
        self
    }

    /// Tells whether a queue offers a descriptor to wait on.
    #[must_use]
    pub fn event_fd(mut self, event_fd: bool) -> Self {
        self.event_fd = event_fd;
        self
    }

    /// Tells the cost of memory that was not registered.
    #[must_use]
    pub fn unregistered_memory(mut self, unregistered_memory: Option<&'static str>) -> Self {
        self.unregistered_memory = unregistered_memory;
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }
}
