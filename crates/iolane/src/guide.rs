//! A guide in three parts: [choosing a path](choosing), [what each path is](paths), and [what each error means](errors). Text only; there is
//! nothing to call here.

/// # Choosing a path
///
/// A path decides what an I/O costs the processor and how long the program waits. Which one is best depends on the load, the drive, the
/// kernel and the cores to spare, so measure on the machine in question: `iolane advise --target FILE --bs 4k --depth 16` runs every path and names
/// the best with an interval. Without a measurement, begin here.
///
/// | the program | begin with | because |
/// |---|---|---|
/// | has loads or machines that differ | `auto` | it measures the others while it works, and follows the load |
/// | has one request in flight | `psync` | a queue adds instructions that one request cannot share: about 4,500 per I/O against 6,000 with `io_uring` (Linux 6.1, null_blk) |
/// | keeps several in flight | `io_uring`; `libaio` where io_uring is forbidden | one system call submits and reaps a batch |
/// | keeps many small ones in flight, on a drive with poll queues | `io_uring+iopoll,fixedbufs,fixedfiles` | no interrupts, no page pinning: about 3,400 instructions against 5,200 at depth 16 |
/// | has cores to spare and wants few system calls | `io_uring+sqpoll,fixedbufs,fixedfiles` | a kernel thread submits; with no core of its own for that thread it is the slowest path of all |
/// | sends NVMe commands | `io_uring_cmd` on `/dev/ngXnY` | no file system, no block layer, and no guard against other users but iolane's |
/// | owns a whole drive | `nvme` on `pci:BDF` | no kernel in the way; a core polls per thread |
///
/// In code, [`open_first`](crate::open_first) takes a list and opens the first that works, with the operations that the program needs:
///
/// ```
/// # fn main() -> iolane::Result<()> {
/// let paths = iolane::paths_of("io_uring+iopoll,fixedbufs,io_uring,libaio,psync")?;
/// assert_eq!(paths.len(), 4);
/// # Ok(())
/// # }
/// ```
///
/// Polled paths have no syncs, and keep a core busy while requests are in flight. [`probe`](crate::probe) returns what a path can do on a
/// target. A scheduler on the drive (`queue/scheduler` other than `none`) costs a request at depth 1 more than any choice of path wins.
pub mod choosing {}

/// # What each path is
///
/// A path is written `interface+submission+completion,options`, for example `io_uring+sqpoll+iopoll,fixedbufs`
/// ([`IoPath`](crate::IoPath)). [`interfaces`](crate::interfaces) lists those of this build, and `iolane probe` why one is unavailable.
///
/// ## `psync`
/// pread(2) and pwrite(2), or their v2 forms: one request at a time, carried out inside [`reap`](crate::Queue::reap). Depth 1. `psync+iopoll` polls for the completion
/// (RWF_HIPRI), up to Linux 5.18; later kernels ignore the flag, and the path is unavailable. Vectored, durable and atomic writes.
///
/// ## `posix_aio`
/// aio_read(3) and aio_write(3) of glibc, which carries requests out in threads of its own. Kept for comparison: its queues do not know how
/// many system calls those threads make, and it has no vectored, durable or atomic writes.
///
/// ## `libaio`
/// io_submit(2), with completions read from the ring that the kernel maps; io_getevents(2) only to wait. `getevents` fetches them by calls, as libaio's
/// own functions do. Asynchronous with O_DIRECT only: through the page cache io_submit itself waits. Vectored, durable and atomic
/// writes.
///
/// ## `io_uring`
/// io_uring(7). `+iopoll` polls the drive (it needs poll queues, O_DIRECT, and has no syncs); `+hybrid` sleeps for a part of the time
/// first (Linux 6.13); `+sqpoll` has a kernel thread submit. `fixedbufs` registers the pools of the
/// [`QueueConfig`](crate::QueueConfig), `fixedfiles` the targets; `defer` and `coop` choose when completions run; `plain` sets none of the flags that
/// newer kernels have. A polled ring keeps no more requests in the kernel than the drive has tags, and the rest in the queue
/// ([`QueueStats::held`](crate::QueueStats::held)). Vectored, durable and atomic writes; polled, those that are one command.
///
/// ## `io_uring_cmd`
/// NVMe commands through `/dev/ngXnY` (Linux 5.19), with `+iopoll` from 6.8, since earlier kernels may crash. Whole blocks, and no request larger than one command: the kernel
/// splits none. Vectored, durable and atomic writes.
///
/// ## `nvme`
/// iolane's user-space driver: the controller's queues and doorbells mapped over VFIO, for a controller that `iolane nvme bind` took from the
/// kernel. It polls; `nvme+int` sleeps until an interrupt. One target for each queue. Vectored, durable and atomic writes.
///
/// ## `auto`
/// A queue over the paths above that work on the target. It measures them while it carries requests and takes the best for the goal:
/// `auto,goal=latency`, `throughput` or `efficiency`. [`Queue::choices`](crate::Queue::choices) says what it chose and why.
///
/// ## `null`
/// Completes every request at once and moves no data: the cost of the program around the path.
///
/// ## `sim`
/// Simulated drives in virtual time, with latency, tags, ceilings and faults by seed ([`sim`](crate::sim)): for tests of programs.
pub mod paths {}

/// # What each error means
///
/// There are two kinds. An [`Error`](crate::Error) is a failure of a call: opening, attaching, flushing. An [`IoError`](crate::IoError) is the result of one
/// request, in its [`Completion`](crate::Completion); the queue goes on.
///
/// ## Of a call
///
/// | [`ErrorKind`](crate::ErrorKind) | meaning | what a program does |
/// |---|---|---|
/// | `Usage` | the arguments are not valid: an unknown path, a depth of 0, a permit for a target that is not among those that may be written | correct the program or its settings |
/// | `Unavailable` | the path or target does not work on this machine, or the target is in use; the remedy says what to do | take the next path ([`open_first`](crate::open_first) does) |
/// | `Exhausted` | a limit was reached: locked memory, descriptors, room in the queue | free some, or raise the limit |
/// | `Failed` | the operation was tried and failed; `source` has the cause of the kernel | report it |
///
/// A queue whose `flush` or `reap` returned an error keeps its requests; handle the completions that were appended before the error.
/// Call again once. If that fails too, drop the queue and open another: the outcome of its requests is then unknown. Dropping waits for
/// the kernel, so no buffer is freed that a device may still write.
///
/// ## Of a request
///
/// After any error a write may have been carried out in full, in part or not at all: treat its blocks as unknown.
///
/// | [`IoErrorKind`](crate::IoErrorKind) | meaning | what a program does |
/// |---|---|---|
/// | `Media` | the drive could not read or write these blocks | take another copy; do not trust the blocks |
/// | `NoSpace` | no space, or a limit of the file | stop writing; reads still work, and a part of the write may be there |
/// | `Invalid` | offset, length or buffer is not aligned, is outside of the target, or is too large for the path | see the alignment and request size of [`Capabilities`](crate::Capabilities) |
/// | `NotSupported` | this path or target has no such operation | ask [`probe`](crate::probe) before |
/// | `NotRegistered` | the buffer is of a pool that the queue was not opened with | name the pool in the configuration |
/// | `NotAttached` | the request names a target that is not attached | attach it; numbers are never used twice |
/// | `Cancelled` | cancelled by the program, by the failure of a request before it in a chain, by a reset of the drive, or because the thread that submitted it on a movable queue has ended | after a reset its outcome is unknown; otherwise it ended before it began. Submit it again if it is still wanted |
/// | `NotPermitted` | the target was opened for reading, its file system is read-only, or its file is sealed against writes (F_SEAL_WRITE, fcntl(2)) | open it for writing, or stop writing |
/// | `DeviceGone` | the drive was removed, or does not come back from a reset | final: close the queue and the target |
/// | `TimedOut` | the drive did not answer in time | on `nvme` go on: the driver has aborted the command or reset the drive. On paths of the kernel close the queue, which may wait as long as the drive is silent |
/// | `Other` | any other errno ([`IoError::errno`](crate::IoError::errno)) | see errno(3) |
///
/// Fewer bytes than asked for are a result and not an error. A sync that failed says that writes before it may be lost; later syncs do
/// not report them again (fsync(2)), so a program that relies on them must stop, and recover from its log.
pub mod errors {}

#[cfg(test)]
mod tests {
    /// The guide is text, which no compiler holds against the code.
    const TEXT: &str = include_str!("guide.rs");

    #[test]
    fn every_interface_has_a_section() {
        for interface in crate::interfaces() {
            assert!(TEXT.contains(&format!("/// ## `{}`\n", interface.name())), "{}", interface.name());
        }
    }

    #[test]
    fn every_kind_of_error_has_a_row() {
        let core =
            |file: &str| std::fs::read_to_string(format!("{}/../iolane-core/src/{file}", env!("CARGO_MANIFEST_DIR")));
        for (file, name) in [("error.rs", "enum ErrorKind {"), ("request.rs", "enum IoErrorKind {")] {
            let text = core(file).unwrap();
            let (_, body) = text.split_once(name).unwrap();
            let (body, _) = body.split_once("\n}").unwrap();
            let variants: Vec<&str> =
                body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty()).collect();
            assert!(variants.len() >= 4, "{variants:?}");
            for variant in variants {
                let row = format!("/// | `{}` |", variant.trim_end_matches(','));
                assert!(TEXT.contains(&row), "{row}");
            }
        }
    }
}
