//! The part of NVMe that several crates use: passthrough sends its commands through the kernel, the user-space driver to the
//! controller.

mod fields;
mod namespace;

pub use fields::{u16_at, u32_at};
pub use namespace::{AtomicBlocks, IDENTIFY_BYTES, Namespace};

use crate::request::IoError;

/// Identify, an admin command (NVMe Base Specification 2.0, figure 138). With dword 10 zero it returns the data of a namespace.
pub const IDENTIFY: u8 = 0x06;

/// Which data structure Identify returns: CNS, in dword 10 (NVMe Base Specification 2.0, figure 274).
pub mod identify {
    /// The namespace's data structure.
    pub const NAMESPACE: u32 = 0x00;
    /// The controller's data structure.
    pub const CONTROLLER: u32 = 0x01;
    /// The identifiers of active namespaces, in order.
    pub const ACTIVE_NAMESPACES: u32 = 0x02;
}

/// The most blocks of a write that a power cut leaves whole or undone on any namespace of a controller, by its Identify data:
/// AWUPF, which is one less (NVMe Base Specification 2.0, figure 275). A namespace may have more:
/// [`Namespace::atomic_writes`].
pub fn atomic_write_blocks(controller: &[u8; IDENTIFY_BYTES]) -> u32 {
    u32::from(u16_at(controller, 528)) + 1
}

/// Opcodes (NVM Command Set Specification 1.0, figure 25 "Opcodes for NVM Commands").
pub mod opcode {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// Force Unit Access, bit 30 of dword 12 of a write: it completes when the data is on the medium (NVM Command Set Specification 1.0,
/// section 3.2.6).
pub const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// The error for a status other than success, as the kernel's block layer translates it (drivers/nvme/host/core.c,
/// nvme_error_status), so that a failure reads the same on each path; codes from the NVMe Base Specification 2.0, section 3.3.3.2.1 "Status Field".
pub fn error_of_status(status: u16) -> IoError {
    const TYPE_AND_CODE: u16 = 0x7ff;
    IoError::from_errno(match status & TYPE_AND_CODE {
        0x001 => libc::EOPNOTSUPP,             // invalid command opcode
        0x002 | 0x00b | 0x080 => libc::EINVAL, // invalid field, invalid namespace or format, LBA out of range
        0x081 => libc::ENOSPC,                 // capacity exceeded
        0x007 | 0x008 => libc::ECANCELED,      // abort requested, submission queue deleted
        0x182 => libc::EROFS,                  // attempted write to read-only range
        _ => libc::EIO,
    })
}
