//! `io_uring_cmd`: NVMe commands passed through the generic character device `/dev/ngXnY` (Linux 5.19), bypassing file system
//! and block layer. The command layouts are those of the NVM command set; the queue is in `ring`.

use ::io_uring::{cqueue, opcode, squeue};

use iolane_core::nvme::opcode::{FLUSH, READ, WRITE, WRITE_ZEROES};
use iolane_core::nvme::{FORCE_UNIT_ACCESS, error_of_status};
use iolane_core::{
    AtomicWrites, Buffer, Capabilities, CompletionMode, Error, Interface, IoError, IoPath, Operation, Operations,
    Queue, QueueConfig, Request, Result, Target, TargetKind,
};

use crate::checks;
use crate::command_limits::CommandLimits;
use crate::kernel::Release;
use crate::nvme_ioctl::{self, NvmeCommand};
use crate::ring::{self, Encode, Moves, RingFile, RingQueue, Stays};

pub(crate) struct IoUringCmd;

impl Interface for IoUringCmd {
    fn name(&self) -> &'static str {
        "io_uring_cmd"
    }

    fn summary(&self) -> &'static str {
        "NVMe passthrough on /dev/ngXnY, bypassing file system and block layer"
    }

    fn paths(&self) -> Vec<IoPath> {
        let path = IoPath::new(self.name());
        vec![path.clone(), path.clone().registered(), path.clone().iopoll(), path.iopoll().registered()]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        ring::validate(path)?;
        if path.completion == CompletionMode::Hybrid {
            return Err(checks::impossible(path, "hybrid polling works on files and block devices only")
                .remedy("use io_uring+hybrid"));
        }
        Ok(())
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        let capabilities = ring::probe::<Commands>(path, target)?;
        Ok(capabilities.note(path.asks_for_polling().then(|| RESETS_CRASH.into())))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        self.validate(path)?;
        Ok(Box::new(RingQueue::<Commands, Stays>::open(path, target, config)?))
    }

    fn open_movable(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue + Send>> {
        self.validate(path)?;
        Ok(Box::new(RingQueue::<Commands, Moves>::open(path, target, config)?))
    }
}

/// Makes commands for one namespace.
struct Commands {
    namespace: u32,
    /// The kernel accepts writes of a privileged process on a descriptor that was opened for reading
    /// (drivers/nvme/host/ioctl.c, nvme_cmd_allowed); iolane refuses them.
    writable: bool,
    block_shift: u32,
    /// The most bytes of one command; passthrough commands are not split, and the kernel refuses a larger one.
    bytes_max: Option<u64>,
    registered_bytes_max: usize,
    /// Most pages of a vectored command, where the kernel copies none of its memory.
    pages_max: Option<usize>,
    /// The kernel knows nothing of atomic writes here: the drive's own word counts.
    atomic_writes: Option<AtomicWrites>,
}

/// The kernel's polling reads which queue a request is on twice, and takes no reference to the request (drivers/nvme/host/ioctl.c,
/// nvme_ns_chr_uring_cmd_iopoll; include/linux/blk-mq.h, blk_rq_is_poll). A reset that ends the request in between leaves it
/// none: seen on Debian's 6.12.118 as a null pointer in nvme_poll.
const RESETS_CRASH: &str =
    "the kernel may crash if the drive is reset or removed while passthrough commands are polled";

/// `NVME_URING_CMD_IO` (linux/nvme_ioctl.h): `_IOWR('N', 0x80, struct nvme_uring_cmd)`, 72 bytes.
const NVME_URING_CMD_IO: u32 = 0xc048_4e80;
/// `NVME_URING_CMD_IO_VEC`: the same with 0x81. The address is that of an array of vectors, and the length their number.
const NVME_URING_CMD_IO_VEC: u32 = 0xc048_4e81;

/// Before Linux 6.12 the kernel refuses a passthrough command with EINVAL if its registered buffer has more pages, from the
/// start of the data to the end of the buffer, than a command has segments (block/blk-map.c, blk_rq_map_user_bvec, until
/// commit be0e822bb3f5).
fn registered_bytes_max(target: &Target) -> usize {
    match target.device_attribute("queue/max_segments") {
        Some(segments) if !Release::current().at_least(6, 12) => segments as usize * rustix::param::page_size(),
        _ => ring::REGISTERED_BYTES_MAX,
    }
}

/// Most pages of a vectored command. Each may be a segment of its own. Where the drive takes segments that begin or end within a page
/// (Linux 6.17, with SGLs), the kernel hands them on as they are, and refuses more than a command has (block/blk-map.c); before, it
/// copies such memory into whole pages.
fn pages_max(target: &Target) -> Option<usize> {
    let is_handed_on = target.device_attribute("queue/virt_boundary_mask") == Some(0);
    let segments = target.device_attribute("queue/max_segments").filter(|_| is_handed_on)?;
    usize::try_from(segments).ok()
}

/// The pages that a buffer lies in.
fn pages_of(buffer: &Buffer) -> usize {
    let page = rustix::param::page_size();
    (buffer.address().addr() % page + buffer.len()).div_ceil(page)
}

impl Commands {
    /// First block and number of blocks of a byte range, or `INVALID` if it is not a whole number of blocks.
    fn blocks(&self, offset: u64, bytes: u64) -> Result<(u64, u32), IoError> {
        let mask = (1u64 << self.block_shift) - 1;
        let count = bytes >> self.block_shift;
        if (offset | bytes) & mask != 0 || count == 0 || count > 1 << 16 {
            return Err(IoError::INVALID);
        }
        Ok((offset >> self.block_shift, count as u32))
    }
}

impl Encode for Commands {
    type Submission = squeue::Entry128;
    type Completion = cqueue::Entry32;

    fn for_target(path: &IoPath, target: &Target) -> Result<Self> {
        let what = format!("{path} on {}", target.name());
        if target.kind() != TargetKind::NvmeGeneric {
            return Err(Error::unavailable(
                what,
                "passthrough needs the generic character device of an NVMe namespace",
            )
            .remedy("name its /dev/ngXnY as the target"));
        }
        if path.asks_for_polling() {
            let release = Release::current();
            if !release.polls_passthrough_safely() {
                let cause = format!("polled passthrough can crash Linux before 6.8 (this is {})", release.text());
                return Err(Error::unavailable(what, cause).remedy("use io_uring+iopoll, or a newer kernel"));
            }
            checks::pollable(path, target)?;
        }
        let fd = target.require_fd(path.interface())?;
        let namespace = nvme_ioctl::namespace(fd, target.block_bytes(), target.name())?;
        let bytes_max = CommandLimits::of(target).map(|limits| limits.bytes_max);
        Ok(Self {
            namespace: namespace.identifier,
            writable: target.writable(),
            block_shift: namespace.block_bytes.trailing_zeros(),
            bytes_max,
            atomic_writes: nvme_ioctl::atomic_write_blocks(fd)
                .and_then(|blocks| namespace.atomic_writes(blocks, bytes_max.unwrap_or(u64::MAX))),
            registered_bytes_max: registered_bytes_max(target),
            pages_max: pages_max(target),
        })
    }

    fn operations(&self, path: &IoPath, _target: &Target) -> Operations {
        let transfers =
            Operations::READ.with(Operations::WRITE).with(Operations::DURABLE_WRITE).with(Operations::VECTORED);
        let always = match self.atomic_writes {
            Some(_) => transfers.with(Operations::ATOMIC_WRITE),
            None => transfers,
        };
        match path.asks_for_polling() {
            true => always,
            false => always.with(Operations::FSYNC).with(Operations::FDATASYNC).with(Operations::WRITE_ZEROES),
        }
    }

    fn atomic_writes(&self, _target: &Target) -> Option<AtomicWrites> {
        self.atomic_writes
    }

    fn request_bytes_max(&self) -> Option<u64> {
        self.bytes_max
    }

    fn registered_bytes_max(&self) -> usize {
        self.registered_bytes_max
    }

    #[inline]
    fn encode(
        &self,
        request: &Request,
        file: RingFile,
        buffer_index: Option<u16>,
    ) -> Result<squeue::Entry128, IoError> {
        use Operation::{DurableWrite, DurableWriteVectored};
        let is_durable = matches!(request.operation, DurableWrite(_) | DurableWriteVectored(_));
        if !self.writable && request.operation.changes_data() {
            return Err(IoError::READ_ONLY);
        }
        let mut command = NvmeCommand { namespace: self.namespace, ..NvmeCommand::default() };
        let (opcode, bytes) = match &request.operation {
            Operation::Read(buffer) => (READ, buffer.len() as u64),
            Operation::Write(buffer) | Operation::DurableWrite(buffer) => (WRITE, buffer.len() as u64),
            Operation::AtomicWrite(buffer) => {
                // A longer one is several writes to the drive, whatever its command.
                if !self.atomic_writes.is_some_and(|lengths| lengths.allow(request.offset, buffer.len())) {
                    return Err(IoError::INVALID);
                }
                (WRITE, buffer.len() as u64)
            }
            Operation::ReadVectored(buffers) => (READ, buffers.bytes() as u64),
            Operation::WriteVectored(buffers) | Operation::DurableWriteVectored(buffers) => {
                (WRITE, buffers.bytes() as u64)
            }
            Operation::WriteZeroes { bytes } => (WRITE_ZEROES, *bytes),
            Operation::Fsync | Operation::Fdatasync => (FLUSH, 0),
            _ => return Err(IoError::NOT_SUPPORTED),
        };
        command.opcode = opcode;
        if opcode != FLUSH {
            let (first, count) = self.blocks(request.offset, bytes)?;
            // Starting LBA in dwords 10 and 11, number of blocks less one in dword 12.
            let flags = if is_durable { FORCE_UNIT_ACCESS } else { 0 };
            command.dwords = [first as u32, (first >> 32) as u32, (count - 1) | flags, 0, 0, 0];
        }
        if let Some(buffer) = request.operation.buffer() {
            command.address = buffer.address().expose_provenance() as u64;
            command.data_bytes = buffer.len() as u32;
        }
        let kind = match request.operation.buffers() {
            None => NVME_URING_CMD_IO,
            Some(buffers) => {
                // Kernel and drive would count such memory in different ways.
                let mask = (1usize << self.block_shift) - 1;
                if buffers.iter().any(|buffer| buffer.len() & mask != 0) {
                    return Err(IoError::INVALID);
                }
                if self.pages_max.is_some_and(|most| buffers.iter().map(pages_of).sum::<usize>() > most) {
                    return Err(IoError::TOO_LARGE);
                }
                command.address = buffers.iovecs().as_ptr().expose_provenance() as u64;
                command.data_bytes = buffers.len() as u32;
                NVME_URING_CMD_IO_VEC
            }
        };
        let entry = opcode::UringCmd80::new(file.fd, kind).cmd(command.to_bytes()).buf_index(buffer_index);
        Ok(entry.build().flags(file.flags))
    }

    #[inline]
    fn result(entry: &cqueue::Entry32, request: &Request) -> Result<u32, IoError> {
        match entry.result() {
            0 => Ok(request.operation.bytes() as u32),
            // The driver cancelled the command because its drive did not answer or was reset (drivers/nvme/host/ioctl.c,
            // NVME_REQ_CANCELLED); there was no signal.
            errno if errno == -libc::EINTR => Err(IoError::from_errno(libc::ECANCELED)),
            errno @ ..0 => Err(IoError::from_errno(-errno)),
            status => Err(error_of_status(status as u16)),
        }
    }

    fn is_cancelled(entry: &cqueue::Entry32) -> bool {
        entry.result() == -libc::ECANCELED
    }

    #[inline]
    fn user_data(entry: &cqueue::Entry32) -> u64 {
        entry.user_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_core::{Buffers, Pages, Pool};
    use proptest::prelude::*;

    fn commands(block_shift: u32) -> Commands {
        let registered_bytes_max = ring::REGISTERED_BYTES_MAX;
        let writable = false;
        Commands {
            namespace: 1,
            writable,
            block_shift,
            bytes_max: None,
            registered_bytes_max,
            pages_max: None,
            atomic_writes: None,
        }
    }

    proptest! {
        #[test]
        fn ranges_are_whole_blocks_or_invalid(shift in 9u32..16, offset in 0u64..1 << 44, bytes in 0u64..1 << 32) {
            let commands = commands(shift);
            let size = 1u64 << shift;
            match commands.blocks(offset, bytes) {
                Ok((first, count)) => prop_assert_eq!((first * size, u64::from(count) * size), (offset, bytes)),
                Err(error) => {
                    prop_assert_eq!(error, IoError::INVALID);
                    prop_assert!(offset % size != 0 || bytes % size != 0 || bytes == 0 || bytes / size > 65_536);
                }
            }
        }
    }

    #[test]
    fn a_target_opened_for_reading_is_not_written_even_where_the_kernel_would() {
        let commands = commands(9);
        let buffer = Pool::new(1, 4096, Pages::Base).unwrap().take().unwrap();
        for request in [Request::write(0, 0, buffer), Request::write_zeroes(0, 0, 4096)] {
            let refused = commands.encode(&request, RingFile::descriptor(0), None);
            assert_eq!(refused.err(), Some(IoError::READ_ONLY));
        }
    }

    #[test]
    fn a_vectored_request_of_more_pages_than_a_command_has_segments_is_too_large() {
        let pool = Pool::new(4, 8192, Pages::Base).unwrap();
        let read = |lengths: &[usize]| {
            let part = |bytes: &usize| {
                let mut buffer = pool.take().unwrap();
                buffer.set_len(*bytes).unwrap();
                buffer
            };
            Request::read_vectored(0, 0, Buffers::new(lengths.iter().map(part).collect()).unwrap())
        };
        let limited = Commands { pages_max: Some(3), ..commands(9) };
        let encode = |commands: &Commands, lengths: &[usize]| {
            commands.encode(&read(lengths), RingFile::descriptor(0), None).map(drop)
        };
        assert_eq!(encode(&limited, &[512, 4096, 512]), Ok(()));
        assert_eq!(encode(&limited, &[512, 8192]), Ok(()));
        assert_eq!(encode(&limited, &[512, 8192, 512]), Err(IoError::TOO_LARGE));
        assert_eq!(encode(&commands(9), &[512, 8192, 512, 4096]), Ok(()));
        assert_eq!(encode(&commands(12), &[4096, 512]), Err(IoError::INVALID));
    }

    #[test]
    fn a_range_that_is_not_whole_blocks_is_refused_before_it_reaches_the_device() {
        let commands = commands(12);
        let buffer = Pool::new(1, 4096, Pages::Base).unwrap().take().unwrap();
        let refused = commands.encode(&Request::read(0, 512, buffer), RingFile::descriptor(0), None);
        assert_eq!(refused.err(), Some(IoError::INVALID));
    }
}
