//! The targets of a ring: how its entries name each of them, and the table of files registered with the ring (`fixedfiles`).
//! `queue` opens the first one and attaches others.

use std::os::fd::{AsRawFd, RawFd};

use ::io_uring::IoUring;

use iolane_core::{Error, IoPath, Operations, Result, Target, TargetId};

use super::encode::{Encode, RingFile};

/// What a queue keeps for one of its targets.
pub(crate) struct RingTarget<E> {
    pub(super) encode: E,
    pub(super) file: RingFile,
    /// The operations of the path on it; other requests are refused before the kernel sees them.
    pub(super) operations: Operations,
    /// Keeps the descriptor open while entries may name it.
    pub(super) target: Target,
}

impl<E: Encode> RingTarget<E> {
    pub(crate) fn new(path: &IoPath, target: &Target, id: TargetId) -> Result<Self> {
        let encode = E::for_target(path, target)?;
        let fd = target.require_fd(path.interface())?;
        let file = match path.options.fixed_files {
            true => RingFile::registered(id.place()),
            false => RingFile::descriptor(fd.as_raw_fd()),
        };
        let operations = encode.operations(path, target);
        Ok(Self { encode, file, operations, target: target.clone() })
    }
}

/// An index of the table without a file (io_uring_register(2), IORING_REGISTER_FILES).
const NO_FILE: RawFd = -1;

/// Registers a table for this number of files, of which the first is `target`. Others take their places later.
pub(super) fn register_files<E: Encode>(
    ring: &IoUring<E::Submission, E::Completion>,
    path: &IoPath,
    target: &Target,
    most: usize,
) -> Result<()> {
    let mut files = vec![NO_FILE; most];
    files[0] = target.require_fd(path.interface())?.as_raw_fd();
    ring.submitter().register_files(&files).map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE) => Error::exhausted(path.to_string(), format!("registering {most} files is over a limit"))
            .remedy("raise the limit of open files (ulimit -n), or make room for fewer targets"),
        _ => Error::system(format!("{path}: registering the target"), error),
    })
}

/// Puts a file into the place of `id`.
pub(super) fn register_file<E: Encode>(
    ring: &IoUring<E::Submission, E::Completion>,
    id: TargetId,
    target: &Target,
) -> Result<()> {
    let fd = target.fd().map_or(NO_FILE, |fd| fd.as_raw_fd());
    update::<E>(ring, id, fd).map_err(|error| Error::system(format!("registering {}", target.name()), error))
}

/// Removes the file from the place of `id`: the ring holds it open no longer.
pub(super) fn unregister_file<E: Encode>(
    ring: &IoUring<E::Submission, E::Completion>,
    id: TargetId,
) -> std::io::Result<()> {
    update::<E>(ring, id, NO_FILE)
}

fn update<E: Encode>(ring: &IoUring<E::Submission, E::Completion>, id: TargetId, fd: RawFd) -> std::io::Result<()> {
    ring.submitter().register_files_update(id.place() as u32, &[fd]).map(|_| ())
}
