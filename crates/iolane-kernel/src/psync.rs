//! `psync`: one blocking system call per request, as most programs do it. Copy this file to add an interface that blocks;
//! the queue is in `blocking`. `psync+iopoll` adds RWF_HIPRI (preadv2(2)), with which kernels before 5.19 poll the device.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use iolane_core::capability::check_depth;
use iolane_core::{
    Buffers, Capabilities, CompletionMode, Error, Interface, IoError, IoPath, Operation, Operations, Queue,
    QueueConfig, Request, Result, Target, TargetKind,
};

use crate::blocking::{Blocking, Transfer, sync_or_deallocate};
use crate::checks;
use crate::kernel::Release;

pub(crate) struct Psync;

impl Interface for Psync {
    fn name(&self) -> &'static str {
        "psync"
    }

    fn summary(&self) -> &'static str {
        "blocking pread/pwrite, one system call per request (iopoll: preadv2 with RWF_HIPRI)"
    }

    fn paths(&self) -> Vec<IoPath> {
        let path = IoPath::new(self.name());
        vec![path.clone(), path.iopoll()]
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        checks::no_options(path)?;
        checks::no_sqpoll(path)?;
        match path.completion {
            CompletionMode::Iopoll => Ok(()),
            _ => checks::no_polling(
                path,
                "hybrid polling of blocking calls was a setting of the device (queue/io_poll_delay) until Linux 6.4",
            ),
        }
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        checks::file_or_block(path, target)?;
        if path.asks_for_polling() {
            polled_reads(path, target)?;
        }
        Ok(Capabilities::new(1, operations(target)).atomic_writes(target.atomic_writes()))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        Ok(self.open_movable(path, target, config)?)
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        check_depth(path, config.depth, self.probe(path, target)?.depth_max)?;
        let call = Call { path: path.clone(), hipri: path.asks_for_polling(), syscalls: 0 };
        Ok(Box::new(Blocking::open(call, target, config)?))
    }
}

fn operations(target: &Target) -> Operations {
    let always = checks::transfers_and_syncs(target);
    match target.kind() {
        TargetKind::File => always.with(checks::ranges_of_file(target)),
        _ if target.device_attribute("queue/discard_max_bytes").unwrap_or(0) > 0 => {
            always.with(Operations::DISCARD).with(Operations::WRITE_ZEROES)
        }
        _ => always.with(Operations::WRITE_ZEROES),
    }
}

/// Refuses `psync+iopoll` where the kernel accepts the flag and ignores it: the figures would be those of `psync`.
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
    .remedy("use io_uring+iopoll"))
}

/// Makes the system calls.
struct Call {
    path: IoPath,
    hipri: bool,
    syscalls: u64,
}

impl Transfer for Call {
    type Target = Target;

    fn target(&self, target: &Target) -> Result<(Target, Operations)> {
        let capabilities = Psync.probe(&self.path, target)?;
        Ok((target.clone(), capabilities.operations))
    }

    #[inline(always)]
    fn transfer(&mut self, target: &Target, request: &mut Request) -> Result<u32, IoError> {
        self.syscalls += 1;
        let Some(fd) = target.fd() else { return Err(IoError::NOT_SUPPORTED) };
        let offset = request.offset;
        let result = match &mut request.operation {
            Operation::Read(buffer) if !self.hipri => retry_on_intr(|| rustix::io::pread(fd, &mut buffer[..], offset)),
            Operation::Write(buffer) if !self.hipri => retry_on_intr(|| rustix::io::pwrite(fd, buffer, offset)),
            operation => rare_call(fd, target.kind(), (offset, self.hipri), operation),
        };
        result.map(|bytes| bytes as u32).map_err(IoError::from)
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}

/// Carries out a read on the calling thread.
#[cold]
pub(crate) fn read(target: &Target, request: &mut Request) -> Result<u32, IoError> {
    debug_assert!(matches!(request.operation, Operation::Read(_) | Operation::ReadVectored(_)), "{request:?}");
    let Some(fd) = target.fd() else { return Err(IoError::NOT_SUPPORTED) };
    let bytes = rare_call(fd, target.kind(), (request.offset, false), &mut request.operation)?;
    Ok(bytes as u32)
}

/// Everything except plain reads and writes.
#[inline(never)]
fn rare_call(
    fd: BorrowedFd<'_>,
    kind: TargetKind,
    (offset, hipri): (u64, bool),
    operation: &mut Operation,
) -> Result<usize, Errno> {
    let polled = if hipri { ReadWriteFlags::HIPRI } else { ReadWriteFlags::empty() };
    retry_on_intr(|| match &mut *operation {
        // preadv2(2) reads -1 as the file's own position, which no request asks for.
        operation if offset == u64::MAX && moves_data(operation) => Err(Errno::INVAL),
        Operation::Read(buffer) => rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, polled),
        Operation::Write(buffer) => rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], offset, polled),
        Operation::DurableWrite(buffer) => {
            rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], offset, polled | ReadWriteFlags::DSYNC)
        }
        Operation::AtomicWrite(buffer) => {
            let atomic = ReadWriteFlags::from_bits_retain(libc::RWF_ATOMIC as u32);
            rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], offset, polled | atomic)
        }
        Operation::ReadVectored(buffers) => vectored(libc::SYS_preadv2, fd, buffers, (offset, polled)),
        Operation::WriteVectored(buffers) => vectored(libc::SYS_pwritev2, fd, buffers, (offset, polled)),
        Operation::DurableWriteVectored(buffers) => {
            vectored(libc::SYS_pwritev2, fd, buffers, (offset, polled | ReadWriteFlags::DSYNC))
        }
        operation => sync_or_deallocate(fd, kind, offset, operation).map(|()| 0),
    })
}

fn moves_data(operation: &Operation) -> bool {
    operation.memory().next().is_some()
}

/// preadv2(2) or pwritev2(2), by number: the C library may lack them, and rustix takes slices of another type.
fn vectored(
    number: libc::c_long,
    fd: BorrowedFd<'_>,
    buffers: &mut Buffers,
    (offset, flags): (u64, ReadWriteFlags),
) -> Result<usize, Errno> {
    let iovecs = buffers.iovecs();
    // The offset goes in two words, of which the second is ignored where the first holds all of it.
    let (low, high) = (offset as libc::c_ulong, (offset >> 32) as libc::c_ulong);
    // SAFETY: during the call the kernel reads the vectors, and reads or writes what they name: the bytes of buffers to which nothing
    // else has access, for they are borrowed exclusively.
    let moved = unsafe {
        libc::syscall(number, fd.as_raw_fd(), iovecs.as_ptr(), iovecs.len(), low, high, flags.bits() as libc::c_int)
    };
    usize::try_from(moved).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
