//! `posix_aio`: glibc's aio_read and aio_write (aio(7)), a pool of threads in this process that make blocking calls. glibc
//! serves one descriptor with one thread at a time, so a deeper queue does not make I/O on one target parallel.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;

use iolane_core::capability::check_depth;
use iolane_core::targets::{check_detach, no_room_for};
use iolane_core::{
    Capabilities, Completion, Error, Interface, IoError, IoPath, Operation, Operations, Queue, QueueConfig, Request,
    Result, Slots, Target, TargetId, Targets,
};

use crate::checks;
use crate::control_blocks::ControlBlocks;

pub(crate) struct PosixAio;

/// glibc scans all control blocks on each wait, so a deeper queue costs more than it gains.
const DEPTH_MAX: u32 = 4096;

impl Interface for PosixAio {
    fn name(&self) -> &'static str {
        "posix_aio"
    }

    fn summary(&self) -> &'static str {
        "glibc aio_read/aio_write: blocking calls in a pool of user-space threads"
    }

    fn paths(&self) -> Vec<IoPath> {
        vec![IoPath::new(self.name())]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        checks::no_options(path)?;
        checks::no_sqpoll(path)?;
        checks::no_polling(path, "its threads make plain blocking calls, which do not poll")
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        checks::file_or_block(path, target)?;
        Ok(Capabilities::new(
            DEPTH_MAX,
            Operations::ALL
                .without(Operations::DURABLE_WRITE)
                .without(Operations::ATOMIC_WRITE)
                .without(Operations::VECTORED)
                .without(Operations::DISCARD)
                .without(Operations::WRITE_ZEROES),
        )
        .note(Some("glibc serves one descriptor with one thread at a time".into())))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        self.probe(path, target)?;
        check_depth(path, config.depth, DEPTH_MAX)?;
        let depth = config.depth as usize;
        Ok(Box::new(PosixAioQueue {
            path: path.clone(),
            targets: Targets::new(config.targets, target.clone()),
            slots: Slots::new(depth),
            // SAFETY: an aiocb is integers and pointers, for which zero is a value.
            blocks: unsafe { ControlBlocks::zeroed(depth) },
            pending: Vec::with_capacity(depth),
            started: Vec::with_capacity(depth),
            refused: Vec::new(),
        }))
    }
}

struct PosixAioQueue {
    path: IoPath,
    targets: Targets<Target>,
    slots: Slots,
    /// The control block of each slot; glibc's threads read and write those of started requests.
    blocks: ControlBlocks<libc::aiocb>,
    /// Slots submitted and not yet started.
    pending: Vec<u32>,
    /// Slots handed to glibc.
    started: Vec<u32>,
    /// Requests that never started.
    refused: Vec<Completion>,
}

impl PosixAioQueue {
    /// The descriptor of the target that the request in a slot names.
    fn descriptor_of(&self, slot: u32) -> Option<RawFd> {
        Some(self.targets.get(self.slots.get(slot)?.target)?.fd()?.as_raw_fd())
    }

    /// Fills in the control block of a pending request and hands it to glibc.
    fn start(&mut self, slot: u32, operation: Start) -> i32 {
        let fd = self.descriptor_of(slot).unwrap_or(-1);
        let block = self.blocks.at(slot);
        debug_assert!(!self.started.contains(&slot), "glibc must not have the block it is about to be given");
        // SAFETY: the slot is pending, so glibc does not use the block yet. The buffer it points to stays in `self.slots`
        // until glibc says that the request is done; `Drop` waits for that.
        unsafe {
            *block = std::mem::zeroed();
            (*block).aio_fildes = fd;
            (*block).aio_sigevent.sigev_notify = libc::SIGEV_NONE;
            match operation {
                Start::Read { address, bytes, offset } => {
                    ((*block).aio_buf, (*block).aio_nbytes, (*block).aio_offset) =
                        (address.cast(), bytes, offset as i64);
                    libc::aio_read(block)
                }
                Start::Write { address, bytes, offset } => {
                    ((*block).aio_buf, (*block).aio_nbytes, (*block).aio_offset) =
                        (address.cast(), bytes, offset as i64);
                    libc::aio_write(block)
                }
                Start::Sync(how) => libc::aio_fsync(how, block),
            }
        }
    }

    /// Appends the completions of requests that are done, and returns how many.
    fn take_done(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let mut index = 0;
        while index < self.started.len() {
            let slot = self.started[index];
            let block = self.blocks.at(slot);
            // SAFETY: the block belongs to a started request; aio_error may be asked at any time (aio_error(3)).
            let errno = unsafe { libc::aio_error(block) };
            if errno == libc::EINPROGRESS {
                index += 1;
                continue;
            }
            // SAFETY: the request is done, and this is the one call of aio_return it gets (aio_return(3)).
            let returned = unsafe { libc::aio_return(block) };
            let result = if errno == 0 { IoError::check(returned as i64) } else { Err(IoError::from_errno(errno)) };
            self.started.swap_remove(index);
            debug_assert!(self.slots.get(slot).is_some(), "a started request keeps its slot");
            if let Some(request) = self.slots.take(slot.into()) {
                completions.push(request.complete(result));
            }
        }
        completions.len() - before
    }

    /// Waits until one of the started requests is done, or a timeout is over.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let list: Vec<*const libc::aiocb> =
            self.started.iter().map(|slot| self.blocks.at(*slot).cast_const()).collect();
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the list holds pointers to control blocks of started requests; it and the timeout are read during the call.
        if unsafe { libc::aio_suspend(list.as_ptr(), list.len() as i32, timeout) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            // EAGAIN: the timeout is over.
            Some(libc::EINTR | libc::EAGAIN) => Ok(()),
            _ => Err(Error::system("posix_aio: aio_suspend", error)),
        }
    }
}

/// The arguments of a request for glibc.
enum Start {
    Read { address: *mut u8, bytes: usize, offset: u64 },
    Write { address: *mut u8, bytes: usize, offset: u64 },
    Sync(i32),
}

impl Start {
    fn of(request: &Request) -> Option<Self> {
        let offset = request.offset;
        Some(match &request.operation {
            Operation::Read(buffer) => Self::Read { address: buffer.address(), bytes: buffer.len(), offset },
            Operation::Write(buffer) => Self::Write { address: buffer.address(), bytes: buffer.len(), offset },
            Operation::Fsync => Self::Sync(libc::O_SYNC),
            Operation::Fdatasync => Self::Sync(libc::O_DSYNC),
            // aio_write(3) has neither flags nor vectors.
            _ => return None,
        })
    }
}

// SAFETY: glibc's requests belong to the process, and any thread may ask for them (aio(7)). The pointers lead into `blocks` and into
// buffers of the slots, which the queue owns and which do not move with it.
unsafe impl Send for PosixAioQueue {}

impl Queue for PosixAioQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = requests.len().min(self.slots.depth() - self.in_flight());
        for request in requests.drain(..count) {
            match Start::of(&request) {
                _ if self.targets.get(request.target).is_none() => {
                    self.refused.push(request.complete(Err(IoError::NOT_ATTACHED)));
                }
                None => self.refused.push(request.complete(Err(IoError::NOT_SUPPORTED))),
                Some(_) => {
                    let slot = self.slots.insert(request);
                    self.pending.push(slot);
                }
            }
        }
        count
    }

    fn flush(&mut self) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut handed_over = 0;
        for slot in &pending {
            let Some(operation) = self.slots.get(*slot).and_then(Start::of) else { continue };
            if self.start(*slot, operation) == 0 {
                self.started.push(*slot);
                handed_over += 1;
                continue;
            }
            let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
            if errno == Errno::AGAIN && !self.started.is_empty() {
                // glibc has no room: requests in flight will make some.
                break;
            }
            if let Some(request) = self.slots.take((*slot).into()) {
                self.refused.push(request.complete(Err(errno.into())));
            }
            handed_over += 1;
        }
        pending.drain(..handed_over);
        self.pending = pending;
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let mut count = 0;
        loop {
            if !self.pending.is_empty() {
                self.flush()?;
            }
            count += self.refused.len();
            completions.append(&mut self.refused);
            count += self.take_done(completions);
            if count >= min {
                return Ok(count);
            }
            self.wait(None)?;
        }
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let count = self.reap(0, completions)?;
        if count >= min {
            return Ok(count);
        }
        self.wait(Some(timeout))?;
        Ok(count + self.take_done(completions))
    }

    /// Those that were not handed over. To cancel one of several requests that glibc has on a descriptor (aio_cancel(3)) can leave the
    /// others without a thread: they never completed with glibc 2.36.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let mut count = 0;
        for slot in self.slots.tagged(tag) {
            let Some(place) = self.pending.iter().position(|pending| *pending == slot) else { continue };
            self.pending.remove(place);
            if let Some(request) = self.slots.take(slot.into()) {
                self.refused.push(request.complete(Err(IoError::CANCELLED)));
                count += 1;
            }
        }
        Ok(count)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        checks::file_or_block(&self.path, target)?;
        self.targets.attach(target.clone()).map_err(|target| no_room_for(&target, self.targets.most()))
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        check_detach(&self.targets, target, self.slots.targets())?;
        self.targets.detach(target);
        Ok(())
    }

    fn depth(&self) -> usize {
        self.slots.depth()
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight() + self.refused.len()
    }

    /// glibc's threads make them, where they cannot be counted.
    fn syscalls(&self) -> Option<u64> {
        None
    }
}

impl Drop for PosixAioQueue {
    /// Waits for all that glibc's threads have: they write to the buffers, and to cancel one could leave those of another queue on the
    /// same descriptor without a thread (see `cancel`).
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while !self.started.is_empty() {
            if self.take_done(&mut ended) == 0 && self.wait(None).is_err() {
                // The wait failed: the memory is leaked rather than shared with glibc's threads.
                std::mem::forget(std::mem::replace(&mut self.slots, Slots::new(0)));
                // SAFETY: no block is zeroed.
                let none = unsafe { ControlBlocks::zeroed(0) };
                std::mem::forget(std::mem::replace(&mut self.blocks, none));
                return;
            }
        }
    }
}
