//! The calls of the standard library that carry a request out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use iolane::{Completion, IoError, Operation, Request};

/// Carries a request out by the calls of the standard library.
pub(super) fn carry_out(file: &File, mut request: Request) -> Completion {
    let offset = request.offset;
    let result = match &mut request.operation {
        Operation::Read(buffer) => file.read_exact_at(buffer, offset).map(|()| buffer.len() as u32),
        Operation::Write(buffer) => file.write_all_at(buffer, offset).map(|()| buffer.len() as u32),
        Operation::Fdatasync => file.sync_data().map(|()| 0),
        _ => Err(io::ErrorKind::Unsupported.into()),
    };
    request.complete(result.map_err(|error| io_error(&error)))
}

pub(super) fn io_error(error: &io::Error) -> IoError {
    error.raw_os_error().map_or(IoError::NOT_SUPPORTED, IoError::from_errno)
}
