//! `io_uring`: one call submits and waits; with `iopoll` and `hybrid` the kernel polls for completions, with `sqpoll` a kernel
//! thread takes the submissions and no call is needed. The entries for requests are here, the queue is in `ring`.

use std::io;

use ::io_uring::{IoUring, cqueue, opcode, squeue, types};

use iolane_core::{
    Buffer, Buffers, Capabilities, Interface, IoError, IoPath, Operation, Operations, PathOptions, Queue, QueueConfig,
    Request, Result, Target, TargetKind,
};

use crate::checks;
use crate::command_limits::CommandLimits;
use crate::kernel::Release;
use crate::ring::{self, Encode, Moves, RingFile, RingQueue, SetupFlags, Stays};

pub(crate) struct IoUringInterface;

impl Interface for IoUringInterface {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn summary(&self) -> &'static str {
        "rings shared with the kernel; one io_uring_enter submits and waits (iopoll: IOPOLL, sqpoll: SQPOLL, hybrid: sleep then poll)"
    }

    fn paths(&self) -> Vec<IoPath> {
        let path = IoPath::new(self.name());
        vec![
            path.clone(),
            path.clone().registered(),
            path.clone().iopoll(),
            path.clone().iopoll().registered(),
            path.clone().hybrid(),
            path.clone().sqpoll(),
            path.clone().sqpoll().registered(),
            path.clone().sqpoll().iopoll(),
            path.sqpoll().iopoll().registered(),
        ]
    }

    fn option_variants(&self) -> Vec<IoPath> {
        let path = IoPath::new(self.name());
        let with = |path: &IoPath, set: fn(&mut PathOptions)| {
            let mut path = path.clone();
            set(&mut path.options);
            path
        };
        let sqpoll = path.clone().sqpoll();
        vec![
            with(&path, |options| options.fixed_buffers = true),
            with(&path, |options| options.fixed_files = true),
            with(&path, |options| options.defer = true),
            with(&path, |options| options.coop = true),
            with(&path, |options| options.plain = true),
            with(&sqpoll, |options| options.sq_idle_ms = Some(20)),
            with(&sqpoll, |options| options.share = true),
        ]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        ring::validate(path)
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        let capabilities = ring::probe::<Entries>(path, target)?;
        let note = capabilities.request_bytes_max.map(|bytes| {
            format!(
                "requests of more than {bytes} bytes are refused: Linux before 6.5 may never complete such a polled one"
            )
        });
        Ok(capabilities.note(note))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        self.validate(path)?;
        Ok(Box::new(RingQueue::<Entries, Stays>::open(path, target, config)?))
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        self.validate(path)?;
        Ok(Box::new(RingQueue::<Entries, Moves>::open(path, target, config)?))
    }
}

fn reachable(path: &IoPath, target: &Target) -> Result<()> {
    checks::file_or_block(path, target)?;
    if path.asks_for_polling() { checks::pollable(path, target) } else { Ok(()) }
}

/// Makes entries for one target.
pub(crate) struct Entries {
    /// The largest polled request that the kernel completes, where it does not complete larger ones.
    pub(crate) unsplit: Option<CommandLimits>,
}

/// `struct io_uring_sqe` (linux/io_uring.h), as reads and writes use it. The io-uring crate's constructors for the four
/// opcodes cost 30 instructions more.
#[repr(C)]
struct Transfer {
    /// Opcode, flags, priority and file, as in the first eight bytes of the entry.
    head: u64,
    offset: u64,
    address: u64,
    /// Bytes, or vectors.
    length: u32,
    rw_flags: u32,
    user_data: u64,
    buffer_index: u16,
    rest: [u16; 11],
}

/// The entry for a read or a write; `opcodes` are those without and with a registered buffer.
#[inline(always)]
fn transfer(
    opcodes: (u8, u8),
    rw_flags: u32,
    buffer: &Buffer,
    offset: u64,
    file: RingFile,
    buffer_index: Option<u16>,
) -> Result<squeue::Entry, IoError> {
    let opcode = if buffer_index.is_some() { opcodes.1 } else { opcodes.0 };
    let memory = (buffer.address().expose_provenance() as u64, buffer.len() as u32);
    entry(opcode, rw_flags, memory, offset, file, buffer_index)
}

/// The entry that moves memory: its address with its length in bytes, or the address and the number of its vectors.
#[inline(always)]
fn entry(
    opcode: u8,
    rw_flags: u32,
    (address, length): (u64, u32),
    offset: u64,
    file: RingFile,
    buffer_index: Option<u16>,
) -> Result<squeue::Entry, IoError> {
    // The kernel reads -1 as the file's own position (io_uring_enter(2)), which no request asks for.
    if offset == u64::MAX {
        return Err(IoError::INVALID);
    }
    let transfer = Transfer {
        head: file.head | u64::from_ne_bytes([opcode, 0, 0, 0, 0, 0, 0, 0]),
        offset,
        address,
        length,
        rw_flags,
        user_data: 0,
        buffer_index: buffer_index.unwrap_or(0),
        rest: [0; 11],
    };
    // SAFETY: both types are the kernel's `struct io_uring_sqe`, and all bytes are initialised.
    Ok(unsafe { std::mem::transmute::<Transfer, squeue::Entry>(transfer) })
}

/// Entries for everything but reads and writes of one buffer, which are `encode`'s. It is apart from `encode`, which is compiled into the loop over requests.
#[cold]
fn rare(operation: &Operation, offset: u64, file: RingFile) -> Result<squeue::Entry, IoError> {
    // Vectors of registered memory are Linux 6.15's (IORING_OP_READV_FIXED), so that the memory may be any.
    let vectored = |opcode, rw_flags, buffers: &Buffers| {
        let iovecs = buffers.iovecs();
        let vectors = (iovecs.as_ptr().expose_provenance() as u64, iovecs.len() as u32);
        entry(opcode, rw_flags, vectors, offset, file, None)
    };
    let entry = match operation {
        // Transfers of one buffer are `encode`'s.
        // The kernel refuses one from a registered buffer (generic_atomic_write_valid in fs/read_write.c takes no bvec).
        Operation::AtomicWrite(buffer) => {
            return transfer(WRITE_CODES, libc::RWF_ATOMIC as u32, buffer, offset, file, None);
        }
        Operation::ReadVectored(buffers) => return vectored(opcode::Readv::CODE, 0, buffers),
        Operation::WriteVectored(buffers) => return vectored(opcode::Writev::CODE, 0, buffers),
        Operation::DurableWriteVectored(buffers) => {
            return vectored(opcode::Writev::CODE, libc::RWF_DSYNC as u32, buffers);
        }
        Operation::Fsync => opcode::Fsync::new(file.fd).build(),
        Operation::Fdatasync => opcode::Fsync::new(file.fd).flags(types::FsyncFlags::DATASYNC).build(),
        Operation::Discard { bytes } => {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(file.fd, *bytes).offset(offset).mode(mode).build()
        }
        Operation::WriteZeroes { bytes } => {
            let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(file.fd, *bytes).offset(offset).mode(mode).build()
        }
        _ => return Err(IoError::NOT_SUPPORTED),
    };
    Ok(entry.flags(file.flags))
}

/// Without and with a registered buffer.
const WRITE_CODES: (u8, u8) = (opcode::Write::CODE, opcode::WriteFixed::CODE);

impl Encode for Entries {
    type Submission = squeue::Entry;
    type Completion = cqueue::Entry;

    fn build_ring(entries: u32, flags: &SetupFlags) -> io::Result<IoUring> {
        if flags.hybrid { ring::build_hybrid(entries, flags) } else { flags.builder().build(entries) }
    }

    fn for_target(path: &IoPath, target: &Target) -> Result<Self> {
        reachable(path, target)?;
        let splits = !path.asks_for_polling() || Release::current().splits_polled_requests();
        Ok(Self { unsplit: if splits { None } else { CommandLimits::of(target) } })
    }

    fn operations(&self, path: &IoPath, target: &Target) -> Operations {
        if path.asks_for_polling() {
            // A polled ring takes only requests whose completion is polled for (io_uring_setup(2), IORING_SETUP_IOPOLL). Where a
            // durable write takes a flush as well, that is not.
            let always = Operations::READ.with(Operations::WRITE).with(checks::atomic_writes(target));
            // Where the kernel splits no polled request, one of scattered memory would have to be split whatever its size: memory of an
            // NVMe command has no gaps within a page (PRP entries, NVM Express Base Specification 2.0, section 4.1.1).
            // Files on Linux 5.10 are no different: a request of 1,024 buffers ended with EAGAIN on xfs.
            let release = Release::current();
            let is_split =
                release.at_least(6, 5) || release.splits_polled_requests() && target.kind() == TargetKind::Block;
            let always = if is_split { always.with(Operations::VECTORED) } else { always };
            let is_one_command = target.kind() == TargetKind::Block && target.device_attribute("queue/fua") == Some(1);
            return if is_one_command { always.with(Operations::DURABLE_WRITE) } else { always };
        }
        let always = checks::transfers_and_syncs(target);
        if target.kind() == TargetKind::File {
            return always.with(checks::ranges_of_file(target));
        }
        // fallocate(2) punches a hole in a block device only if the device itself can zero the range.
        let zeroes_by_device = target.device_attribute("queue/write_zeroes_unmap_max_bytes").unwrap_or(0) > 0
            || target.device_attribute("queue/write_zeroes_max_bytes").unwrap_or(0) > 0;
        let always = always.with(Operations::WRITE_ZEROES);
        if zeroes_by_device { always.with(Operations::DISCARD) } else { always }
    }

    fn request_bytes_max(&self) -> Option<u64> {
        self.unsplit.as_ref().map(|limits| limits.bytes_max)
    }

    #[inline(always)]
    fn encode(&self, request: &Request, file: RingFile, buffer_index: Option<u16>) -> Result<squeue::Entry, IoError> {
        let (buffer, opcodes, rw_flags) = match &request.operation {
            Operation::Read(buffer) => (buffer, (opcode::Read::CODE, opcode::ReadFixed::CODE), 0),
            Operation::Write(buffer) => (buffer, WRITE_CODES, 0),
            Operation::DurableWrite(buffer) => (buffer, WRITE_CODES, libc::RWF_DSYNC as u32),
            operation => return rare(operation, request.offset, file),
        };
        if let Some(limits) = &self.unsplit
            && !limits.holds(request.offset, buffer.len() as u64)
        {
            return Err(IoError::TOO_LARGE);
        }
        transfer(opcodes, rw_flags, buffer, request.offset, file, buffer_index)
    }

    #[inline]
    fn result(entry: &cqueue::Entry, _request: &Request) -> Result<u32, IoError> {
        IoError::check(entry.result().into())
    }

    fn is_cancelled(entry: &cqueue::Entry) -> bool {
        entry.result() == -libc::ECANCELED
    }

    /// A transfer of several bios is begun without waiting for tags of the device. If one of them gets none, the kernel ends all with EAGAIN
    /// from the interrupt of another, where it cannot begin it again (io_uring/rw.c, io_rw_should_reissue).
    #[inline(always)]
    fn is_given_up(entry: &cqueue::Entry) -> bool {
        let result = entry.result();
        result < 0 && matches!(-result, libc::ECANCELED | libc::EAGAIN)
    }

    #[inline]
    fn user_data(entry: &cqueue::Entry) -> u64 {
        entry.user_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_the_entries_that_the_io_uring_crate_makes() {
        let buffer = iolane_core::Pool::new(1, 4096, iolane_core::Pages::Base).unwrap().take().unwrap();
        let (address, bytes) = (buffer.address(), buffer.len() as u32);
        // SAFETY: an entry is 64 bytes, all of them initialised.
        let words = |entry: squeue::Entry| unsafe { std::mem::transmute::<squeue::Entry, [u64; 8]>(entry) };
        let ours = |file, index| {
            words(transfer((opcode::Read::CODE, opcode::ReadFixed::CODE), 0, &buffer, 8192, file, index).unwrap())
        };
        let plain = opcode::Read::new(types::Fd(7), address, bytes).offset(8192).build();
        assert_eq!(ours(RingFile::descriptor(7), None), words(plain));
        let registered = opcode::ReadFixed::new(types::Fixed(0), address, bytes, 5).offset(8192).build();
        assert_eq!(ours(RingFile::registered(0), Some(5)), words(registered));
        let durable = opcode::Write::new(types::Fd(7), address, bytes).offset(8192).rw_flags(libc::RWF_DSYNC).build();
        let entries = Entries { unsplit: None };
        let request = Request::durable_write(0, 8192, buffer);
        assert_eq!(words(entries.encode(&request, RingFile::descriptor(7), None).unwrap()), words(durable));
    }

    #[test]
    fn combinations_that_no_kernel_takes_are_refused_with_the_reason() {
        for (path, cause) in [
            ("io_uring+sqpoll,defer", "submission thread runs"),
            ("io_uring+sqpoll,coop", "submission thread runs"),
            ("io_uring,defer,coop", "choose one"),
            ("io_uring,share", "needs +sqpoll"),
            ("io_uring,sqidle=5", "needs +sqpoll"),
        ] {
            let error = IoUringInterface.validate(&path.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(cause), "{path}: {error}");
        }
        for path in IoUringInterface.paths() {
            assert!(IoUringInterface.validate(&path).is_ok(), "{path}");
        }
    }
}
