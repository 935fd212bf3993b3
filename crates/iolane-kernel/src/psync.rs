//! `psync`: one blocking system call per request, as most programs do it; the model for a new interface.
//! `psync+cpoll` adds RWF_HIPRI (preadv2(2)), which kernels before 5.19 honour by polling the device.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use iolane_core::capability::check_depth;
use iolane_core::{
    Capabilities, Completion, CompletionMode, Error, Interface, IoError, IoPath, Operation, Operations, Queue,
    QueueConfig, Request, Result, Target, TargetKind,
};

use crate::checks;
use crate::kernel::Release;

pub(crate) struct Psync;

impl Interface for Psync {
    fn name(&self) -> &'static str {
        "psync"
    }

    fn summary(&self) -> &'static str {
        "blocking pread/pwrite, one system call per request (cpoll: preadv2 with RWF_HIPRI)"
    }

    fn paths(&self) -> Vec<IoPath> {
        let path = IoPath::new(self.name());
        vec![path.clone(), path.cpoll()]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        checks::no_options(path)?;
        checks::no_spoll(path)?;
        match path.completion {
            CompletionMode::Cpoll => Ok(()),
            _ => {
                checks::no_polling(path, "sleeping first and polling then was a setting of the device, until Linux 6.4")
            }
        }
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        checks::file_or_block(path, target)?;
        if path.polls_completions() {
            polled_reads(path, target)?;
        }
        let always = Operations::ALL.without(Operations::DISCARD).without(Operations::WRITE_ZEROES);
        let operations = match target.kind() {
            TargetKind::File => always.with(checks::ranges_of_file(target)),
            _ if target.device_attribute("queue/discard_max_bytes").unwrap_or(0) > 0 => Operations::ALL,
            _ => Operations::ALL.without(Operations::DISCARD),
        };
        Ok(Capabilities {
            depth_max: 1,
            operations,
            request_bytes_max: None,
            event_fd: false,
            unregistered_memory: None,
            note: None,
        })
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        let capabilities = self.probe(path, target)?;
        check_depth(path, config.depth, capabilities.depth_max)?;
        Ok(Box::new(PsyncQueue {
            target: target.clone(),
            hipri: path.polls_completions(),
            operations: capabilities.operations,
            state: State::Idle,
            syscalls: 0,
        }))
    }
}

/// Refuses `psync+cpoll` where the flag is accepted and does nothing: its figures would be those of `psync`.
fn polled_reads(path: &IoPath, target: &Target) -> Result<()> {
    checks::pollable(path, target)?;
    let release = Release::current();
    if release.polls_blocking_reads() {
        return Ok(());
    }
    Err(Error::unavailable(
        format!("{path} on {}", target.name()),
        format!(
            "accepted, not polled: since Linux 5.19 RWF_HIPRI is ignored on blocking calls (this is {})",
            release.text()
        ),
    )
    .remedy("use io_uring+cpoll"))
}

struct PsyncQueue {
    target: Target,
    hipri: bool,
    operations: Operations,
    state: State,
    syscalls: u64,
}

/// The one request there can be.
enum State {
    Idle,
    Submitted(Request),
    Done(Completion),
}

impl PsyncQueue {
    /// Carries the request out, however long it blocks.
    #[inline(always)]
    fn perform(&mut self, mut request: Request) -> Completion {
        if !matches!(request.operation, Operation::Read(_) | Operation::Write(_))
            && let Err(error) = checks::supported(self.operations, &request.operation)
        {
            return request.complete(Err(error));
        }
        self.syscalls += 1;
        let Some(fd) = self.target.fd() else {
            return request.complete(Err(IoError::NOT_SUPPORTED));
        };
        let offset = request.offset;
        let result = match &mut request.operation {
            Operation::Read(buffer) if !self.hipri => retry_on_intr(|| rustix::io::pread(fd, &mut buffer[..], offset)),
            Operation::Write(buffer) if !self.hipri => retry_on_intr(|| rustix::io::pwrite(fd, buffer, offset)),
            operation => rare_call(fd, self.target.kind(), offset, operation),
        };
        request.complete(result.map(|bytes| bytes as u32).map_err(IoError::from))
    }
}

/// Everything but plain reads and writes.
#[inline(never)]
fn rare_call(fd: BorrowedFd<'_>, kind: TargetKind, offset: u64, operation: &mut Operation) -> Result<usize, Errno> {
    retry_on_intr(|| match operation {
        // preadv2(2) takes -1 for the file's own position, which no request means.
        Operation::Read(_) | Operation::Write(_) if offset == u64::MAX => Err(Errno::INVAL),
        Operation::Read(buffer) => {
            rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::HIPRI)
        }
        Operation::Write(buffer) => rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], offset, ReadWriteFlags::HIPRI),
        Operation::Fsync => rustix::fs::fsync(fd).map(|()| 0),
        Operation::Fdatasync => rustix::fs::fdatasync(fd).map(|()| 0),
        Operation::Discard { bytes } if kind == TargetKind::Block => discard(fd, offset, *bytes).map(|()| 0),
        Operation::Discard { bytes } => {
            rustix::fs::fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, *bytes)
                .map(|()| 0)
        }
        Operation::WriteZeroes { bytes } => {
            rustix::fs::fallocate(fd, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, offset, *bytes)
                .map(|()| 0)
        }
    })
}

/// BLKDISCARD (linux/fs.h): `_IO(0x12, 119)`, with offset and length in bytes.
fn discard(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<(), Errno> {
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [offset, bytes];
    // SAFETY: BLKDISCARD reads two u64 from the pointer during the call, and `range` holds them.
    match unsafe { libc::ioctl(fd.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

impl Queue for PsyncQueue {
    #[inline]
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
        if !matches!(self.state, State::Idle) {
            return 0;
        }
        match requests.pop_front() {
            None => 0,
            Some(request) => {
                self.state = State::Submitted(request);
                1
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        if let State::Submitted(request) = std::mem::replace(&mut self.state, State::Idle) {
            self.state = State::Done(self.perform(request));
        }
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        // Done even for `min = 0`: there is no one else who would carry the request out.
        let completion = match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => return Ok(0),
            State::Submitted(request) => self.perform(request),
            State::Done(completion) => completion,
        };
        completions.push(completion);
        Ok(1)
    }

    /// Without a stay in between, where nothing waits already.
    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if !matches!(self.state, State::Idle) {
            return self.reap(min, completions);
        }
        if requests.is_empty() {
            return Ok(0);
        }
        completions.push(self.perform(requests.remove(0)));
        Ok(1)
    }

    fn depth(&self) -> usize {
        1
    }

    fn in_flight(&self) -> usize {
        usize::from(!matches!(self.state, State::Idle))
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}
