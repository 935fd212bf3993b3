//! Every path Linux offers to a disk, behind one API.
//!
//! Open a [`Target`], take a queue on an [`IoPath`] with [`open_queue`], then submit, flush and reap:
//!
//! ```
//! use std::collections::VecDeque;
//! use iolane::{Pages, Pool, QueueConfig, Request, Target, open_queue};
//!
//! # fn main() -> iolane::Result<()> {
//! # let file = std::env::temp_dir().join(format!("iolane-doc-{}", std::process::id()));
//! # std::fs::write(&file, vec![7u8; 1 << 16]).unwrap();
//! let target = Target::options().direct(false).open(&file)?;
//! # std::fs::remove_file(&file).unwrap();
//! let pool = Pool::new(32, 4096, Pages::Base)?;
//! let mut queue = open_queue(&"libaio".parse()?, &target, &QueueConfig::new(32))?;
//!
//! let mut requests: VecDeque<Request> =
//!     (0..16).filter_map(|block| Some(Request::read(block, block * 4096, pool.take()?))).collect();
//! queue.submit(&mut requests); // takes what fits; the rest stays in `requests`
//! let mut completions = Vec::new();
//! queue.drain(&mut completions)?; // or `reap(min, ..)`, as they come
//! for completion in completions {
//!     assert_eq!(completion.result, Ok(4096)); // each with its tag, its outcome and its buffer
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What a request owns cannot be touched before its completion hands it back, and dropping a queue waits for the kernel,
//! so no safe program can race with the device. Memory of your own is lent by [`Pool::from_region`]; an event loop waits
//! on [`Queue::event_fd`]; [`probe`] says what a path can do on a target, or why it cannot be had and what to do.
#![forbid(unsafe_code)]

pub mod guard;
pub mod nvme;

pub use iolane_core::*;
pub use iolane_kernel::sim;

/// Every interface there is: one registry, which feeds help, `probe`, the docs and the conformance suite.
pub fn interfaces() -> impl Iterator<Item = &'static dyn Interface> {
    iolane_kernel::INTERFACES.iter().chain(iolane_nvme::INTERFACES).copied()
}

/// The interface that a path names.
///
/// # Errors
/// `Usage` if there is none of that name; the remedy lists those there are.
pub fn interface_of(path: &IoPath) -> Result<&'static dyn Interface> {
    interfaces().find(|interface| interface.name() == path.interface()).ok_or_else(|| {
        let known: Vec<_> = interfaces().map(Interface::name).collect();
        let missing_here = path.interface() == "posix_aio";
        let cause =
            if missing_here { "this build has no glibc, whose part it is" } else { "there is no such interface" };
        Error::usage(format!("path {path}"), cause).remedy(format!("the interfaces are {}", known.join(", ")))
    })
}

/// What a path can do on a target, here and now.
///
/// # Errors
/// `Usage` for a path that cannot be, `Unavailable` with cause and remedy for one that cannot be had here.
pub fn probe(path: &IoPath, target: &Target) -> Result<Capabilities> {
    interface_of(path)?.probe(path, target)
}

/// Opens a queue on a path for the calling thread.
///
/// # Errors
/// As [`Interface::open`].
pub fn open_queue(path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
    interface_of(path)?.open(path, target, config)
}
