//! Status codes of the model beyond those of [`Status`] (NVMe Base Specification 2.0, figures 94 to 97).

use crate::command::Status;

/// Command identifier conflict.
pub(super) const IDENTIFIER_CONFLICT: Status = Status(0x003);
/// Data transfer error.
pub(super) const DATA_TRANSFER: Status = Status(0x004);
/// Command sequence error.
pub(super) const SEQUENCE: Status = Status(0x00c);
/// Data SGL length invalid.
pub(super) const INVALID_SGL_LENGTH: Status = Status(0x00f);
/// SGL descriptor type invalid.
pub(super) const INVALID_SGL_TYPE: Status = Status(0x011);
/// PRP offset invalid.
pub(super) const INVALID_PRP_OFFSET: Status = Status(0x013);
/// Completion queue invalid.
pub(super) const INVALID_COMPLETION_QUEUE: Status = Status(0x100);
/// Invalid queue size.
pub(super) const INVALID_QUEUE_SIZE: Status = Status(0x102);
/// Asynchronous event request limit exceeded.
pub(super) const TOO_MANY_EVENT_REQUESTS: Status = Status(0x105);
/// Invalid interrupt vector.
pub(super) const INVALID_VECTOR: Status = Status(0x108);
/// Invalid log page.
pub(super) const INVALID_LOG_PAGE: Status = Status(0x109);
/// Invalid queue deletion: submission queues still complete to it.
pub(super) const INVALID_QUEUE_DELETION: Status = Status(0x10c);
