//! Every path Linux offers to a disk, behind one API.
//!
//! Open a [`Target`], open a queue on an [`IoPath`] with [`open_queue`], then submit, flush and reap:
//!
//! ```
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
//! let mut requests: Vec<Request> =
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
//! The target is opened once and shared; each thread opens a queue of its own on it. A write is durable once a sync that
//! was submitted after its completion has completed:
//!
//! ```
//! use iolane::guard::WritePermit;
//! use iolane::{IoPath, Pages, Pool, QueueConfig, Request, Target, open_queue, probe};
//!
//! fn write_blocks(path: &IoPath, target: &Target, first: u64) -> iolane::Result<()> {
//!     let pool = Pool::new(8, 4096, Pages::Base)?;
//!     let depth = probe(path, target)?.depth_max.min(8);                // psync has one request in flight
//!     let mut queue = open_queue(path, target, &QueueConfig::new(depth).pool(&pool))?;
//!     let mut requests = Vec::new();
//!     for block in first..first + 8 {
//!         let mut buffer = pool.take().expect("the pool has 8 buffers");
//!         buffer.fill(block as u8);
//!         requests.push(Request::write(block, block * 4096, buffer));
//!     }
//!     let mut completions = Vec::new();
//!     while completions.len() < 8 {
//!         queue.submit(&mut requests);                                  // takes what fits
//!         queue.reap(1, &mut completions)?;                             // each has its tag, result and buffer
//!     }
//!     assert!(completions.iter().all(|completion| completion.result == Ok(4096)));
//!     queue.submit(&mut vec![Request::fdatasync(u64::MAX)]);
//!     queue.drain(&mut completions)?;
//!     assert!(completions.pop().is_some_and(|sync| sync.result.is_ok()));
//!     // The sync has succeeded: now the writes are durable.
//!     Ok(())
//! }
//!
//! # fn main() -> iolane::Result<()> {
//! # let file = std::env::temp_dir().join(format!("iolane-doc-write-{}", std::process::id()));
//! # std::fs::write(&file, vec![0u8; 1 << 16]).unwrap();
//! let target = Target::options().direct(false).write(WritePermit::request(&file)?).open(&file)?;
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
//! program can race with the device. A [`Blocking`], which threads share, reads and writes byte ranges by calls that block. A [`Buffers`] makes one request of buffers that are scattered in memory.
//! [`Pool::from_region`] makes a pool of memory that you own; an event loop waits on
//! [`Queue::event_fd`]; [`probe`] returns what a path can do on a target, or why it is unavailable and how to fix that.
//! The [`guide`] says which path to choose, what each of them is, and what each error means.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod auto;
mod blocking;
mod chunks;
pub mod guard;
pub mod guide;
#[cfg(doctest)]
mod must_not_compile;
pub mod nvme;

pub use blocking::Blocking;
pub use iolane_core::{
    AtomicWrites, AutoOptions, Buffer, Buffers, Capabilities, Chains, Change, Choices, Completion, CompletionMode,
    Deadlines, Error, ErrorKind, Goal, Interface, IoError, IoErrorKind, IoPath, KnownLoad, OTHER_INTERFACES, Operation,
    Operations, Pages, PathMemory, PathOptions, Pool, Queue, QueueConfig, QueueStats, Request, Result, SubmissionMode,
    SyscallUse, Target, TargetId, TargetKind, TargetOptions, WritePermission, did_you_mean,
};
pub use iolane_core::{capability, error, path, scheme, tsc, units};
#[doc(hidden)]
pub use iolane_core::{mountinfo, part_file, phase_mark};
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
/// `Usage` for a path that is malformed or of no known interface. Whether an interface takes the options shows when it is opened.
pub fn paths_of(list: &str) -> Result<Vec<IoPath>> {
    // A misspelt interface too, unless the part is an option of the path before it.
    let is_nearly_one = |part: &str| {
        let name = part.split('+').next().unwrap_or_default();
        !did_you_mean(name, interfaces().map(Interface::name)).is_empty()
    };
    let is_option = |part: &str| format!("io_uring,{part}").parse::<IoPath>().is_ok();
    let begins_a_path = |part: &str| {
        let is_one = part.parse::<IoPath>().is_ok_and(|path| interface_of(&path).is_ok());
        is_one || !is_option(part) && is_nearly_one(part)
    };
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

/// What a path can do on a target, here and now. Whether the target was opened for writing is another matter
/// ([`Target::writable`]).
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

/// A queue on the first path of a list that works here.
pub struct FirstQueue {
    /// The path.
    pub path: IoPath,
    /// The queue.
    pub queue: Box<dyn Queue>,
    /// Why the paths before it were passed over, for the program's log.
    pub passed_over: Vec<Error>,
}

/// Opens a queue on the first of these paths that works on this machine and target, and has the operations that the program
/// needs there (a path that polls has no syncs). A path that takes less than the depth gets the most that it takes.
///
/// ```
/// # use iolane::{Operations, Pages, Pool, QueueConfig, Target, open_first, paths_of};
/// # fn main() -> iolane::Result<()> {
/// # let file = std::env::temp_dir().join(format!("iolane-doc-first-{}", std::process::id()));
/// # std::fs::write(&file, [7; 4096]).unwrap();
/// let target = Target::options().direct(false).open(&file)?;
/// # std::fs::remove_file(&file).unwrap();
/// let pool = Pool::new(32, 4096, Pages::Base)?;
/// let (paths, config) = (paths_of("io_uring,libaio,psync")?, QueueConfig::new(32).pool(&pool));
/// let opened = open_first(&paths, Operations::READ, &target, &config)?;
/// for reason in &opened.passed_over {
///     eprintln!("{reason}");
/// }
/// assert!(opened.queue.depth() <= 32);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Usage` for an empty list; if none works, the errors of all.
pub fn open_first(paths: &[IoPath], needed: Operations, target: &Target, config: &QueueConfig) -> Result<FirstQueue> {
    let (path, queue, passed_over) = first_of(paths, |path| {
        let can = probe_for(path, needed, target)?;
        open_queue(path, target, &config.clone().depth(config.depth.min(can.depth_max)))
    })?;
    Ok(FirstQueue { path, queue, passed_over })
}

/// What a path can do on a target, if that is all that is needed.
fn probe_for(path: &IoPath, needed: Operations, target: &Target) -> Result<Capabilities> {
    let can = probe(path, target)?;
    if can.operations.contains(needed) {
        return Ok(can);
    }
    let missing = needed.without(can.operations);
    Err(Error::unavailable(path.to_string(), format!("it has no {missing} here"))
        .remedy("choose another path, such as io_uring or psync"))
}

/// What opens on the first path of a list, with that path and the reasons of those before it.
fn first_of<T>(paths: &[IoPath], open: impl Fn(&IoPath) -> Result<T>) -> Result<(IoPath, T, Vec<Error>)> {
    let mut passed_over = Vec::new();
    for path in paths {
        match open(path) {
            Ok(opened) => return Ok((path.clone(), opened, passed_over)),
            Err(error) => passed_over.push(error),
        }
    }
    Err(none_works(passed_over))
}

/// The error of a list of paths: the only one, or what all of them say.
fn none_works(mut passed_over: Vec<Error>) -> Error {
    match passed_over.len() {
        0 => Error::usage("an empty list of paths", "there is none to open"),
        1 => passed_over.remove(0),
        _ => {
            let causes: Vec<String> = passed_over.iter().map(Error::to_string).collect();
            Error::unavailable("a list of paths", format!("none of them works: {}", causes.join("; ")))
        }
    }
}

/// Opens a queue that may move between threads, with requests in flight, as the tasks of an async runtime do: on all
/// paths to the kernel. A ring gives up what needs one thread (SINGLE_ISSUER, DEFER_TASKRUN,
/// a registered ring), which costs a few percent.
///
/// When a thread ends, the kernel may cancel what its workers have not begun for it: a request that was submitted there then completes with
/// [`IoErrorKind::Cancelled`].
///
/// # Errors
/// As [`Interface::open_movable`].
pub fn open_movable_queue(path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
    interface_of(path)?.open_movable(path, target, config)
}
