//! An aio context: the system calls on it, and the ring that the kernel maps for its completions. `libaio` owns one per queue and makes
//! the calls through `AioCalls`, so that tests can put a kernel of their own below it; `Linux` is the one that programs get.

use std::sync::atomic::AtomicU32;

use rustix::io::Errno;

use iolane_core::{Error, IoPath, Result};

/// `struct io_event` (linux/aio_abi.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct IoEvent {
    pub(crate) data: u64,
    pub(crate) obj: u64,
    pub(crate) res: i64,
    pub(crate) res2: i64,
}

/// The head of the ring that io_setup maps into the process (fs/aio.c, `struct aio_ring`), followed by its events.
#[repr(C)]
pub(crate) struct RingHeader {
    pub(crate) id: u32,
    /// Number of events the ring holds.
    pub(crate) nr: u32,
    /// The next event to read; written by the reader.
    pub(crate) head: AtomicU32,
    /// The next event to be written; written by the kernel.
    pub(crate) tail: AtomicU32,
    pub(crate) magic: u32,
    pub(crate) compat_features: u32,
    pub(crate) incompat_features: u32,
    pub(crate) header_length: u32,
}

/// `AIO_RING_MAGIC` (fs/aio.c).
pub(crate) const RING_MAGIC: u32 = 0xa10a_10a1;

/// The kernel below a context.
///
/// # Safety
/// A context number that `setup` returns is the address of a `RingHeader`, readable and writable until `destroy`. When `destroy` returns,
/// nothing of the context is in flight.
pub(crate) unsafe trait AioCalls {
    /// io_setup(2): the number of a new context.
    fn setup(&mut self, depth: u32) -> Result<libc::c_ulong, Errno>;

    /// io_submit(2): how many of the blocks it took.
    ///
    /// # Safety
    /// The context is not destroyed. The blocks can be read; the memory and the files that they name stay until their completions are
    /// read.
    unsafe fn submit(&mut self, context: libc::c_ulong, blocks: &[*mut libc::iocb]) -> Result<usize, Errno>;

    /// io_getevents(2): how many events it wrote, at least `min` if no timeout or signal ends the wait.
    ///
    /// # Safety
    /// The context is not destroyed.
    unsafe fn events(
        &mut self,
        context: libc::c_ulong,
        min: usize,
        events: &mut [IoEvent],
        timeout: Option<&libc::timespec>,
    ) -> Result<usize, Errno>;

    /// io_destroy(2): waits for what is in flight.
    ///
    /// # Safety
    /// The context is not used after this.
    unsafe fn destroy(&mut self, context: libc::c_ulong);
}

/// The running kernel.
pub(crate) struct Linux;

/// What a system call has returned.
#[inline(always)]
fn returned(value: libc::c_long) -> Result<usize, Errno> {
    if value >= 0 {
        return Ok(value as usize);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

// SAFETY: the context number is the address at which the kernel mapped the ring into this process, at least one page long, until
// io_destroy (fs/aio.c, aio_setup_ring), which waits for everything in flight (fs/aio.c, io_destroy).
unsafe impl AioCalls for Linux {
    fn setup(&mut self, depth: u32) -> Result<libc::c_ulong, Errno> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: io_setup writes one context number to the pointer, which must hold 0 before (io_setup(2)).
        returned(unsafe { libc::syscall(libc::SYS_io_setup, libc::c_ulong::from(depth), &raw mut id) })?;
        Ok(id)
    }

    #[inline(always)]
    unsafe fn submit(&mut self, context: libc::c_ulong, blocks: &[*mut libc::iocb]) -> Result<usize, Errno> {
        // SAFETY: the caller answers for the blocks, which the kernel reads during the call.
        returned(unsafe { libc::syscall(libc::SYS_io_submit, context, blocks.len() as libc::c_long, blocks.as_ptr()) })
    }

    #[inline(always)]
    unsafe fn events(
        &mut self,
        context: libc::c_ulong,
        min: usize,
        events: &mut [IoEvent],
        timeout: Option<&libc::timespec>,
    ) -> Result<usize, Errno> {
        let timeout = timeout.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel writes at most `events.len()` events to `events` during the call, and reads the timeout.
        returned(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                min as libc::c_long,
                events.len() as libc::c_long,
                events.as_mut_ptr(),
                timeout,
            )
        })
    }

    unsafe fn destroy(&mut self, context: libc::c_ulong) {
        // SAFETY: the caller uses the context no more.
        unsafe { libc::syscall(libc::SYS_io_destroy, context) };
    }
}

/// An aio context of the kernel, destroyed when dropped; that waits for everything it has in flight.
pub(crate) struct Context<K: AioCalls> {
    calls: K,
    id: libc::c_ulong,
    /// The mapped ring, where reading it in user space is valid.
    pub(super) ring: Option<*const RingHeader>,
}

impl<K: AioCalls> Context<K> {
    pub(super) fn new(mut calls: K, path: &IoPath, depth: u32) -> Result<Self> {
        let id = calls.setup(depth).map_err(|errno| match errno {
            Errno::AGAIN => {
                Error::exhausted(path.to_string(), format!("fs.aio-max-nr leaves no room for {depth} requests"))
                    .remedy("raise it (sysctl fs.aio-max-nr=1048576) or lower the depth")
            }
            Errno::NOSYS => Error::unavailable(path.to_string(), "this kernel is built without aio (CONFIG_AIO)")
                .remedy("use io_uring or psync"),
            Errno::PERM => {
                Error::unavailable(path.to_string(), "not permitted, probably by a seccomp filter of a container")
                    .remedy("allow io_setup, io_submit, io_getevents and io_destroy in the filter")
            }
            _ => Error::system(format!("{path}: io_setup"), errno),
        })?;
        let header = std::ptr::with_exposed_provenance::<RingHeader>(id as usize);
        // SAFETY: `AioCalls` promises that the number is the address of the ring.
        let valid = unsafe { (*header).magic == RING_MAGIC && (*header).incompat_features == 0 && (*header).nr > 0 };
        Ok(Self { calls, id, ring: valid.then_some(header) })
    }

    /// io_submit(2).
    ///
    /// # Safety
    /// The blocks can be read; the memory and the files that they name stay until their completions are read, or the context is dropped.
    #[inline(always)]
    pub(super) unsafe fn submit(&mut self, blocks: &[*mut libc::iocb]) -> Result<usize, Errno> {
        // SAFETY: the context is destroyed only in `Drop`, and the caller answers for the blocks.
        unsafe { self.calls.submit(self.id, blocks) }
    }

    /// io_getevents(2).
    #[inline(always)]
    pub(super) fn events(
        &mut self,
        min: usize,
        events: &mut [IoEvent],
        timeout: Option<&libc::timespec>,
    ) -> Result<usize, Errno> {
        // SAFETY: the context is destroyed only in `Drop`.
        unsafe { self.calls.events(self.id, min, events, timeout) }
    }
}

impl<K: AioCalls> Drop for Context<K> {
    fn drop(&mut self) {
        // SAFETY: the context is ours and is not used after this. The call returns when nothing is in flight, so that the kernel
        // no longer uses the slots and their buffers, which are dropped next.
        unsafe { self.calls.destroy(self.id) };
    }
}
