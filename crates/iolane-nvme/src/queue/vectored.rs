//! Vectored requests: what of them one command takes, and the rest in further ones. Apart from `queue`, whose hot path they leave alone.

use iolane_core::{IoError, Operation, Request, Result};

use super::{NvmeQueue, of_blocks};
use crate::command::{Command, nvm};

impl NvmeQueue {
    /// The same for a vectored request. It is apart, for a command that a call returns passes through memory: 30 instructions of each request.
    #[cold]
    pub(super) fn take_vectored(&mut self, request: Request) {
        let slot = self.slots.next();
        match self.check_vectored(&request).and_then(|total| Ok((total, self.vectored(&request, slot, 0)?))) {
            Ok((total, (command, moving))) => self.push(request, slot, total, command, moving),
            Err(error) => self.refuse(request, error),
        }
    }

    /// The bytes of a vectored request, if each of its buffers is of whole blocks and of a pool that the controller reaches: a request of
    /// several commands does not end in its middle for one of them.
    #[cold]
    fn check_vectored(&self, request: &Request) -> Result<u64, IoError> {
        let buffers = match &request.operation {
            _ if self.is_dead => return Err(IoError::from_errno(libc::ENODEV)),
            Operation::ReadVectored(buffers) => buffers,
            Operation::WriteVectored(buffers) if self.writable => buffers,
            Operation::WriteVectored(_) => return Err(IoError::READ_ONLY),
            _ => return Err(IoError::NOT_SUPPORTED),
        };
        let mask = self.namespace.block_bytes as usize - 1;
        for buffer in buffers.iter() {
            self.address_of(buffer)?;
            if buffer.len() & mask != 0 {
                return Err(IoError::INVALID);
            }
        }
        self.check_range(request, buffers.bytes() as u64)
    }

    /// The command for the rest of a vectored request: as many of its buffers as one PRP list describes, from byte `moved` on. Where
    /// memory is not contiguous in pages, the request takes several commands, one after another.
    #[cold]
    pub(super) fn vectored(&self, request: &Request, slot: u32, moved: u64) -> Result<(Command, u64), IoError> {
        let (opcode, buffers) = match &request.operation {
            Operation::ReadVectored(buffers) => (nvm::READ, buffers),
            Operation::WriteVectored(buffers) => (nvm::WRITE, buffers),
            _ => return Err(IoError::NOT_SUPPORTED),
        };
        let mut skipped = moved;
        let ranges = buffers.iter().filter_map(|buffer| {
            let bytes = buffer.len() as u64;
            let begin = skipped.min(bytes);
            skipped -= begin;
            (begin < bytes).then(|| Ok((self.address_of(buffer)? + begin, bytes - begin)))
        });
        let ((flags, data), moving) = self.pointers.gather(slot, ranges, self.command_bytes_max)?;
        debug_assert!(moving & (u64::from(self.namespace.block_bytes) - 1) == 0, "each buffer is of whole blocks");
        let blocks = of_blocks((request.offset + moved) >> self.block_shift, moving >> self.block_shift);
        let command =
            Command { opcode, flags, data, dwords: blocks, namespace: self.namespace.identifier, ..Command::default() };
        Ok((command, moving))
    }
}
