//! Every path Linux offers to a disk, behind one API.
//!
//! Open a [`Target`], open a queue on an [`IoPath`] with [`open_queue`], then submit, flush and reap:
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
//! Each thread opens a queue of its own on a shared target. A write is durable once a sync that was submitted after its
//! completion has completed:
//!
//! ```
//! use std::collections::VecDeque;
//! use iolane::{IoPath, Pages, Pool, QueueConfig, Request, Target, open_queue, probe};
//!
//! fn write_blocks(path: &IoPath, target: &Target, first: u64) -> iolane::Result<()> {
//!     let pool = Pool::new(8, 4096, Pages::Base)?;
//!     let depth = probe(path, target)?.depth_max.min(8);                // psync has one request in flight
//!     let mut queue = open_queue(path, target, &QueueConfig::new(depth).pool(&pool))?;
//!     let mut requests = VecDeque::new();
//!     for block in first..first + 8 {
//!         let mut buffer = pool.take().expect("the pool has 8 buffers");
//!         buffer.fill(block as u8);
//!         requests.push_back(Request::write(block, block * 4096, buffer));
//!     }
//!     let mut completions = Vec::new();
//!     while completions.len() < 8 {
//!         queue.submit(&mut requests);                                  // takes what fits
//!         queue.reap(1, &mut completions)?;                             // each has its tag, result and buffer
//!     }
//!     assert!(completions.iter().all(|completion| completion.result == Ok(4096)));
//!     queue.submit(&mut VecDeque::from([Request::fdatasync(u64::MAX)]));
//!     queue.drain(&mut completions)?;                                   // now the writes are durable
//!     assert!(completions.pop().is_some_and(|sync| sync.result.is_ok()));
//!     Ok(())
//! }
//!
//! # fn main() -> iolane::Result<()> {
//! # let file = std::env::temp_dir().join(format!("iolane-doc-write-{}", std::process::id()));
//! # std::fs::write(&file, vec![0u8; 1 << 16]).unwrap();
//! let target = Target::options().write(true).direct(false).open(&file)?;
//! # let written = std::fs::File::open(&file).unwrap();
//! # std::fs::remove_file(&file).unwrap();
//! let path: IoPath = "libaio".parse()?;
//! let (path, target) = (&path, &target);
//! std::thread::scope(|scope| {
//!     let threads = [0, 8].map(|first| scope.spawn(move || write_blocks(path, target, first)));
//!     threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
//! })?;
//! # let mut bytes = Vec::new();
//! # std::io::Read::read_to_end(&mut &written, &mut bytes).unwrap();
//! # assert!((0..16u8).all(|block| bytes[usize::from(block) * 4096] == block));
//! # Ok(())
//! # }
//! ```
//!
//! A program with many files attaches them to one queue, and each request names its file:
//!
//! ```
//! # use std::collections::VecDeque;
//! # use iolane::{Pages, Pool, QueueConfig, Request, Target, open_queue};
//! # fn main() -> iolane::Result<()> {
//! # let names = [1, 2].map(|n| std::env::temp_dir().join(format!("iolane-doc-{n}-{}", std::process::id())));
//! # names.iter().for_each(|name| std::fs::write(name, vec![7u8; 4096]).unwrap());
//! # let open = |name| Target::options().direct(false).open(name);
//! # let (log, table) = (open(&names[0])?, open(&names[1])?);
//! # names.iter().for_each(|name| std::fs::remove_file(name).unwrap());
//! let pool = Pool::new(2, 4096, Pages::Base)?;
//! let config = QueueConfig::new(2).pool(&pool).targets(1000);           // room for as many at a time
//! let mut queue = open_queue(&"libaio".parse()?, &log, &config)?;
//! let table = queue.attach(&table)?;                                    // closed by `queue.detach(table)`
//! let mut buffers = std::iter::from_fn(|| pool.take());
//! let of_log = buffers.next().map(|buffer| Request::read(1, 0, buffer));
//! let of_table = buffers.next().map(|buffer| Request::read(2, 0, buffer).on(table));
//! queue.submit(&mut of_log.into_iter().chain(of_table).collect());
//! # let mut completions = Vec::new();
//! # queue.drain(&mut completions)?;
//! # assert!(completions.len() == 2 && completions.iter().all(|completion| completion.result == Ok(4096)));
//! # Ok(())
//! # }
//! ```
//!
//! A request owns its buffer until its completion hands it back, and dropping a queue waits for the kernel, so no safe
//! program can race with the device. A [`Buffers`] makes one request of buffers that are scattered in memory.
//! [`Pool::from_region`] makes a pool of memory that you own; an event loop waits on
//! [`Queue::event_fd`]; [`probe`] returns what a path can do on a target, or why it is unavailable and how to fix that.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod auto;
pub mod guard;
pub mod nvme;

pub use iolane_core::{
    Buffer, Buffers, Capabilities, Chains, Change, Choices, Completion, CompletionMode, Deadlines, Error, ErrorKind,
    Goal, Interface, IoError, IoErrorKind, IoPath, OTHER_INTERFACES, Operation, Operations, Pages, PathOptions, Pool,
    Queue, QueueConfig, Request, Result, SubmissionMode, SyscallUse, Target, TargetId, TargetKind, TargetOptions,
    did_you_mean,
};
pub use iolane_core::{capability, error, path, scheme, tsc, units};
pub use iolane_kernel::sim;

/// Every interface there is: one registry, from which help, `probe`, surveys, charts and the conformance suite are fed.
pub fn interfaces() -> impl Iterator<Item = &'static dyn Interface> {
    let ours = iolane_kernel::INTERFACES.iter().chain(iolane_nvme::INTERFACES).chain(auto::INTERFACES);
    ours.chain(OTHER_INTERFACES.iter()).copied()
}

/// The interface that a path names.
///
/// # Errors
/// `Usage` if there is none of that name; the remedy lists the names.
pub fn interface_of(path: &IoPath) -> Result<&'static dyn Interface> {
    interfaces().find(|interface| interface.name() == path.interface()).ok_or_else(|| {
        let known: Vec<_> = interfaces().map(Interface::name).collect();
        let missing_here = path.interface() == "posix_aio";
        let cause = if missing_here {
            "it is part of glibc, and this build uses another C library"
        } else {
            "there is no such interface"
        };
        let meant = did_you_mean(path.interface(), known.iter().copied());
        Error::usage(format!("path {path}"), cause).remedy(format!("{meant}the interfaces are {}", known.join(", ")))
    })
}

/// The paths of a list separated by commas: `libaio,io_uring+sqpoll,fixedbufs,psync` is three. What names an interface begins
/// a path; what does not is an option of the path before it.
///
/// # Errors
/// `Usage` for a path that is invalid or of no known interface.
pub fn paths_of(list: &str) -> Result<Vec<IoPath>> {
    let begins_a_path = |part: &str| part.parse::<IoPath>().is_ok_and(|path| interface_of(&path).is_ok());
    let mut texts: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim) {
        match texts.last_mut() {
            Some(last) if !begins_a_path(part) => *last = format!("{last},{part}"),
            _ => texts.push(part.into()),
        }
    }
    let path = |text: &String| -> Result<IoPath> {
        let path: IoPath = text.parse()?;
        interface_of(&path).map(|_| path)
    };
    texts.iter().map(path).collect()
}

/// Whether completions of a path are found by polling: asked for by the path, or the way of its interface.
pub fn polls_completions(path: &IoPath) -> bool {
    interface_of(path).map_or(path.asks_for_polling(), |interface| interface.polls_completions(path))
}

/// What a path can do on a target, here and now.
///
/// # Errors
/// `Usage` for an invalid path, `Unavailable` with cause and remedy for one that does not work here.
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
