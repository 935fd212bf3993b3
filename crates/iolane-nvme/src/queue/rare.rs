//! Vectored requests, what of them one command takes, and the rest in further ones; and atomic writes. They are apart from `queue`, whose
//! hot path they leave alone.

use iolane_core::nvme::FORCE_UNIT_ACCESS;
use iolane_core::{IoError, Operation, Request, Result};

use super::{NvmeQueue, of_blocks};
use crate::command::{Command, nvm};

impl NvmeQueue {
    /// As `take`. It is apart, for a command that a call returns passes through memory: 30 instructions of each request.
    #[cold]
    pub(super) fn take_rare(&mut self, request: Request) {
        let slot = self.slots.next();
        match self.check_rare(&request).and_then(|total| Ok((total, self.rare_command(&request, slot, 0)?))) {
            Ok((total, (command, moving))) => self.push(request, slot, total, command, moving),
            Err(error) => self.refuse(request, error),
        }
    }

    /// The bytes of a request, if each of its buffers is of whole blocks and of a pool that the controller reaches: a request of several
    /// commands does not end in its middle for one of them. A command of an atomic write carries all of it.
    #[cold]
    fn check_rare(&self, request: &Request) -> Result<u64, IoError> {
        let operation = &request.operation;
        match operation {
            _ if self.is_dead => return Err(IoError::from_errno(libc::ENODEV)),
            Operation::ReadVectored(_) => {}
            _ if !self.writable => return Err(IoError::READ_ONLY),
            Operation::AtomicWrite(buffer) => match self.atomic_writes {
                Some(lengths) if lengths.allow(request.offset, buffer.len()) => {}
                Some(_) => return Err(IoError::INVALID),
                None => return Err(IoError::NOT_SUPPORTED),
            },
            _ => {}
        }
        let mask = self.namespace.block_bytes as usize - 1;
        for buffer in operation.memory() {
            self.address_of(buffer)?;
            if buffer.len() & mask != 0 {
                return Err(IoError::INVALID);
            }
        }
        self.check_range(request, operation.bytes() as u64)
    }

    /// The command for the rest of a request: as much of its memory as one PRP list describes, from byte `moved` on. Where memory is not
    /// contiguous in pages, the request takes several commands, one after another.
    #[cold]
    pub(super) fn rare_command(&self, request: &Request, slot: u32, moved: u64) -> Result<(Command, u64), IoError> {
        let opcode = if matches!(request.operation, Operation::ReadVectored(_)) { nvm::READ } else { nvm::WRITE };
        let mut skipped = moved;
        let ranges = request.operation.memory().filter_map(|buffer| {
            let bytes = buffer.len() as u64;
            let begin = skipped.min(bytes);
            skipped -= begin;
            (begin < bytes).then(|| Ok((self.address_of(buffer)? + begin, bytes - begin)))
        });
        let ((flags, data), moving) = self.pointers.gather(slot, ranges, self.command_bytes_max)?;
        debug_assert!(moving & (u64::from(self.namespace.block_bytes) - 1) == 0, "each buffer is of whole blocks");
        let is_whole = moving == request.operation.bytes() as u64;
        debug_assert!(is_whole || !matches!(request.operation, Operation::AtomicWrite(_)), "it is one command");
        let mut dwords = of_blocks((request.offset + moved) >> self.block_shift, moving >> self.block_shift);
        if matches!(request.operation, Operation::DurableWriteVectored(_)) {
            dwords[2] |= FORCE_UNIT_ACCESS;
        }
        let command =
            Command { opcode, flags, data, dwords, namespace: self.namespace.identifier, ..Command::default() };
        Ok((command, moving))
    }
}
