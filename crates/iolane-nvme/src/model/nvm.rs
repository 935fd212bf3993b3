//! The I/O commands of the model and their effect on a namespace (NVM Command Set Specification 1.0, section 3.2). Called by
//! `engine`.

use std::ptr::NonNull;

use iolane_core::nvme::FORCE_UNIT_ACCESS;

use super::engine::Engine;
use super::pointers::Origin;
use crate::command::{Command, PSDT_PRP, Status, nvm};

/// A range of Dataset Management: context attributes, length in blocks, first block.
const RANGE_BYTES: usize = 16;

/// Dataset Management, dword 11: the ranges are no longer needed.
const DEALLOCATE: u32 = 1 << 2;

impl Engine {
    /// Carries out an I/O command.
    pub(super) fn carry_out(&mut self, origin: Origin, command: &Command) -> Result<u32, Status> {
        if command.flags & 0xc0 != PSDT_PRP && !self.config.sgl {
            self.dma.command_violation(origin, "an SGL, which this controller does not take");
            return Err(Status::INVALID_FIELD);
        }
        if command.opcode == nvm::FLUSH && command.namespace == u32::MAX {
            return Ok(0);
        }
        let disk = self.disk_index(command.namespace)?;
        self.counts.forced += u64::from(command.opcode == nvm::WRITE && command.dwords[2] & FORCE_UNIT_ACCESS != 0);
        match command.opcode {
            nvm::FLUSH => Ok(0),
            nvm::READ | nvm::WRITE => self.transfer(origin, command, disk),
            nvm::WRITE_ZEROES => {
                let (offset, bytes) = self.range(disk, first_block(command), block_count(command))?;
                self.disks[disk].zero(offset, bytes);
                Ok(0)
            }
            nvm::DATASET_MANAGEMENT => self.manage(origin, command, disk),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The disk of an active namespace.
    pub(super) fn disk_index(&self, namespace: u32) -> Result<usize, Status> {
        let index = (namespace as usize).wrapping_sub(1);
        if index < self.disks.len() { Ok(index) } else { Err(Status::INVALID_NAMESPACE) }
    }

    /// Offset and length in bytes of a range of blocks within the disk.
    fn range(&self, disk: usize, first: u64, count: u64) -> Result<(u64, u64), Status> {
        let config = self.disks[disk].config;
        let end = first.checked_add(count).filter(|end| *end <= config.blocks);
        let block_bytes = u64::from(config.block_bytes);
        end.map(|_| (first * block_bytes, count * block_bytes)).ok_or(Status::LBA_OUT_OF_RANGE)
    }

    fn transfer(&mut self, origin: Origin, command: &Command, disk: usize) -> Result<u32, Status> {
        let (offset, bytes) = self.range(disk, first_block(command), block_count(command))?;
        let most = self.config.transfer_pages_log2;
        if most > 0 && bytes > 4096 << most {
            self.dma.command_violation(origin, &format!("{bytes} bytes, and MDTS allows {}", 4096u64 << most));
            return Err(Status::INVALID_FIELD);
        }
        if !self.config.moves_data {
            return Ok(0);
        }
        let disk = &mut self.disks[disk];
        let mut at = offset;
        let part = |memory: NonNull<u8>, length: usize| {
            // SAFETY: the memory is in a live mapping, which the driver keeps until it is unmapped. The command is in flight, so
            // by the contract of `Transport::map` nothing else accesses what is written here, and nothing writes what is read.
            unsafe {
                match command.opcode {
                    nvm::READ => disk.read(at, memory, length),
                    _ => disk.write(at, memory, length),
                }
            }
            at += length as u64;
            Ok(())
        };
        self.dma.walk(origin, command, bytes as usize, part)?;
        Ok(0)
    }

    fn manage(&mut self, origin: Origin, command: &Command, disk: usize) -> Result<u32, Status> {
        let mut list = [0; 256 * RANGE_BYTES];
        let list = &mut list[..((command.dwords[0] & 0xff) as usize + 1) * RANGE_BYTES];
        self.fetch(origin, command, list)?;
        let ranges = list.chunks_exact(RANGE_BYTES).map(|range| {
            let count = u32::from_le_bytes(range[4..8].try_into().expect("4 bytes"));
            (u64::from_le_bytes(range[8..].try_into().expect("8 bytes")), u64::from(count))
        });
        for (first, count) in ranges.clone() {
            self.range(disk, first, count)?;
        }
        if command.dwords[1] & DEALLOCATE != 0 {
            for (first, count) in ranges {
                let (offset, bytes) = self.range(disk, first, count)?;
                self.disks[disk].zero(offset, bytes);
            }
        }
        Ok(0)
    }

    /// Copies the data of a command from the driver.
    fn fetch(&mut self, origin: Origin, command: &Command, data: &mut [u8]) -> Result<(), Status> {
        let mut done = 0;
        let bytes = data.len();
        self.dma.walk(origin, command, bytes, |memory, length| {
            let to = NonNull::from(&mut data[done..done + length]).cast();
            // SAFETY: as in `transfer`, and the destination belongs to the model.
            unsafe { to.copy_from_nonoverlapping(memory, length) };
            done += length;
            Ok(())
        })
    }

    /// Copies the data of a command to the driver.
    pub(super) fn give(&mut self, origin: Origin, command: &Command, data: &[u8]) -> Result<(), Status> {
        let mut done = 0;
        self.dma.walk(origin, command, data.len(), |memory, length| {
            let from = NonNull::from(&data[done..done + length]).cast();
            // SAFETY: as in `transfer`, and the source belongs to the model.
            unsafe { memory.copy_from_nonoverlapping(from, length) };
            done += length;
            Ok(())
        })
    }
}

fn first_block(command: &Command) -> u64 {
    u64::from(command.dwords[0]) | u64::from(command.dwords[1]) << 32
}

fn block_count(command: &Command) -> u64 {
    u64::from(command.dwords[2] & 0xffff) + 1
}
