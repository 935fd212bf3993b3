//! Submission and completion queue entries, as host and controller exchange them (NVMe Base Specification 2.0, section
//! 3.3.3; NVM Command Set Specification 1.0, section 3). Used by driver and model.

use iolane_core::IoError;
use iolane_core::nvme::error_of_status;

/// A submission queue entry of 64 bytes (figure 87 "Common Command Format").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct Command {
    /// Opcode.
    pub opcode: u8,
    /// Bits 7:6 are the type of [`data`](Self::data): [`PSDT_PRP`] or [`PSDT_SGL`].
    pub flags: u8,
    /// Command identifier, which the completion returns.
    pub identifier: u16,
    /// Namespace identifier.
    pub namespace: u32,
    /// Command dwords 2 and 3.
    pub dwords_2_3: [u32; 2],
    /// Metadata pointer.
    pub metadata: u64,
    /// Data pointer: two PRP entries, or one SGL descriptor.
    pub data: [u64; 2],
    /// Command dwords 10 to 15.
    pub dwords: [u32; 6],
}

const _: () = assert!(size_of::<Command>() == 64);

impl Command {
    /// Set Features (section 5.27).
    pub(crate) fn set_feature(identifier: u32, value: u32) -> Self {
        let dwords = [identifier, value, 0, 0, 0, 0];
        Self { opcode: admin::SET_FEATURES, dwords, ..Self::default() }
    }

    /// Delete I/O Submission Queue or Delete I/O Completion Queue, by the opcode (sections 5.6 and 5.7).
    pub(crate) fn delete_queue(opcode: u8, identifier: u16) -> Self {
        Self { opcode, dwords: [identifier.into(), 0, 0, 0, 0, 0], ..Self::default() }
    }
}

/// `flags`: the data pointer holds PRP entries.
pub const PSDT_PRP: u8 = 0;
/// `flags`: the data pointer holds an SGL descriptor; metadata, if any, is one buffer.
pub const PSDT_SGL: u8 = 1 << 6;

/// A completion queue entry of 16 bytes (figure 90 "Common Completion Queue Entry Layout"), as four dwords; the last one is
/// written with, or after, the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompletionEntry {
    /// Dword 0: the result of the command.
    pub result: u32,
    /// Dword 2, lower half: submission queue head pointer.
    pub submission_head: u16,
    /// Dword 2, upper half: submission queue identifier.
    pub submission_queue: u16,
    /// Dword 3, lower half: command identifier.
    pub identifier: u16,
    /// Dword 3, upper half without the phase: status field.
    pub status: Status,
    /// Dword 3, bit 16: phase tag, inverted each time the ring wraps.
    pub phase: bool,
}

impl CompletionEntry {
    /// Parses the dwords in memory.
    #[inline]
    pub fn from_dwords(dwords: [u32; 4]) -> Self {
        Self {
            result: dwords[0],
            submission_head: dwords[2] as u16,
            submission_queue: (dwords[2] >> 16) as u16,
            identifier: dwords[3] as u16,
            status: Status((dwords[3] >> 17) as u16),
            phase: dwords[3] >> 16 & 1 == 1,
        }
    }

    /// The dwords in memory.
    pub fn to_dwords(self) -> [u32; 4] {
        let status_and_phase = u32::from(self.status.0) << 1 | u32::from(self.phase);
        [
            self.result,
            0,
            u32::from(self.submission_queue) << 16 | u32::from(self.submission_head),
            status_and_phase << 16 | u32::from(self.identifier),
        ]
    }
}

/// The status field of 15 bits (section 3.3.3.2.1): code in bits 7:0, type in bits 10:8, do-not-retry in bit 14.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u16);

impl Status {
    /// Successful completion.
    pub const SUCCESS: Self = Self(0);
    /// Invalid command opcode.
    pub const INVALID_OPCODE: Self = Self(0x001);
    /// Invalid field in command.
    pub const INVALID_FIELD: Self = Self(0x002);
    /// Command aborted by an Abort command.
    pub const ABORT_REQUESTED: Self = Self(0x007);
    /// Command aborted because its submission queue was deleted.
    pub const QUEUE_DELETED: Self = Self(0x008);
    /// Invalid namespace or format.
    pub const INVALID_NAMESPACE: Self = Self(0x00b);
    /// LBA out of range.
    pub const LBA_OUT_OF_RANGE: Self = Self(0x080);
    /// Invalid queue identifier (command specific to Create and Delete queue).
    pub const INVALID_QUEUE: Self = Self(0x101);
    /// Unrecovered read error.
    pub const UNRECOVERED_READ: Self = Self(0x281);

    /// Whether the command succeeded.
    #[inline]
    pub fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }

    /// The status as a result.
    ///
    /// # Errors
    /// Any status except success.
    #[inline]
    pub fn check(self) -> Result<(), IoError> {
        if self.is_success() { Ok(()) } else { Err(self.error()) }
    }

    #[cold]
    fn error(self) -> IoError {
        error_of_status(self.0)
    }
}

/// Opcodes of admin commands (figure 138).
pub mod admin {
    pub use iolane_core::nvme::IDENTIFY;

    /// Delete I/O Submission Queue.
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    /// Create I/O Submission Queue.
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Delete I/O Completion Queue.
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    /// Create I/O Completion Queue.
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Doorbell Buffer Config.
    pub const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
}

pub use iolane_core::nvme::opcode as nvm;

pub use iolane_core::nvme::identify;

/// Feature identifiers (figure 317).
pub mod feature {
    /// Volatile Write Cache.
    pub const VOLATILE_WRITE_CACHE: u32 = 0x06;
    /// Number of Queues.
    pub const NUMBER_OF_QUEUES: u32 = 0x07;
    /// Interrupt Coalescing.
    pub const INTERRUPT_COALESCING: u32 = 0x08;
}

/// Log page identifiers (figure 202).
pub mod log_page {
    /// Error information: 64 bytes an entry.
    pub const ERROR: u32 = 0x01;
    /// SMART and health information, 512 bytes.
    pub const SMART: u32 = 0x02;
}
