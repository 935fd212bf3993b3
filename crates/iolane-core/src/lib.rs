//! The types that all other crates share: paths, targets, requests, completions, buffers, capabilities, errors, and the
//! two traits that an interface to the disk implements.
//!
//! Nothing here performs I/O on a target's data; `iolane-kernel` and `iolane-nvme` do.
#![warn(missing_docs)]

pub mod atomic_writes;
pub mod buffer;
pub mod capability;
pub mod chains;
pub mod choice;
mod claims;
pub mod deadlines;
pub mod did_you_mean;
pub mod error;
pub mod goal;
pub mod interface;
pub mod io_workers;
pub mod lease;
pub mod loop_device;
mod mapping;
pub mod mountinfo;
pub mod nvme;
pub mod open_files;
pub mod part_file;
pub mod path;
pub mod path_memory;
pub mod phase_mark;
pub mod queue_stats;
pub mod request;
pub mod scheme;
pub mod slots;
pub mod target;
pub mod targets;
pub mod thread_usage;
pub mod tsc;
pub mod units;
pub mod vectored;

pub use atomic_writes::AtomicWrites;
pub use buffer::{Buffer, Pages, Pool};
pub use capability::{Capabilities, Operations};
pub use chains::Chains;
pub use choice::{Change, Choices};
pub use deadlines::Deadlines;
pub use did_you_mean::did_you_mean;
pub use error::{Error, ErrorKind, Result};
pub use goal::Goal;
pub use interface::{Interface, OTHER_INTERFACES, Queue, QueueConfig, SyscallUse};
pub use path::{AutoOptions, CompletionMode, IoPath, PathOptions, SubmissionMode};
pub use path_memory::{KnownLoad, PathMemory};
pub use queue_stats::QueueStats;
pub use request::{Completion, IoError, IoErrorKind, Operation, Request};
pub use slots::Slots;
pub use target::{Target, TargetKind, TargetOptions, WritePermission};
pub use targets::{TargetId, Targets};
pub use vectored::Buffers;

/// The atomics of the processor; tests put others in their place.
mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}
