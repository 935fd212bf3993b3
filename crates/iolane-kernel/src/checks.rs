//! Checks that several interfaces make before they open: targets they reach, options they do not have, access past the
//! page cache; and which operations a target takes.

use iolane_core::{
    CompletionMode, Error, IoError, IoPath, Operation, Operations, PathOptions, Result, SubmissionMode, Target,
    TargetKind,
};

/// Refuses targets that take neither file nor block requests: made-up devices, and the generic device of a namespace.
pub(crate) fn file_or_block(path: &IoPath, target: &Target) -> Result<()> {
    target.require_fd(path.interface())?;
    if target.kind() == TargetKind::NvmeGeneric {
        return Err(Error::unavailable(
            format!("{path} on {}", target.name()),
            "a generic NVMe device takes passthrough commands alone",
        )
        .remedy("use its block device, or path io_uring_cmd"));
    }
    Ok(())
}

/// Refuses a request for an operation that the probe did not name: what one kernel or file system makes of it is not for
/// the caller to find out.
#[inline]
pub(crate) fn supported(operations: Operations, operation: &Operation) -> Result<(), IoError> {
    if operations.contains(Operations::of(operation)) { Ok(()) } else { Err(IoError::NOT_SUPPORTED) }
}

/// What fallocate(2) can do with ranges of a file. It cannot be asked without doing it, so the answer is that of the file
/// systems known to do it; an overlay hands on to one of them.
pub(crate) fn ranges_of_file(target: &Target) -> Operations {
    const TMPFS: i64 = 0x0102_1994;
    const OVERLAYFS: i64 = 0x794c_7630;
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const F2FS: i64 = 0xf2f5_2010;
    let found = target.fd().and_then(|fd| rustix::fs::fstatfs(fd).ok()).map(|found| found.f_type);
    match found {
        Some(EXT4 | XFS | BTRFS | F2FS | OVERLAYFS) => Operations::DISCARD.with(Operations::WRITE_ZEROES),
        Some(TMPFS) => Operations::DISCARD,
        _ => Operations::default(),
    }
}

/// A combination that no kernel allows, and why.
pub(crate) fn impossible(path: &IoPath, cause: &str) -> Error {
    Error::usage(path.to_string(), cause)
}

/// Refuses a kernel thread for submissions.
pub(crate) fn no_spoll(path: &IoPath) -> Result<()> {
    match path.submission {
        SubmissionMode::Default => Ok(()),
        SubmissionMode::Spoll => Err(impossible(path, "only io_uring has a kernel thread that polls for submissions")
            .remedy("use io_uring+spoll")),
    }
}

/// Refuses polling for completions, with the reason; `+int` names what a kernel interface does anyway.
pub(crate) fn no_polling(path: &IoPath, cause: &str) -> Result<()> {
    match path.completion {
        CompletionMode::Default | CompletionMode::Interrupt => Ok(()),
        CompletionMode::Cpoll | CompletionMode::Hybrid => Err(impossible(path, cause).remedy("use io_uring+cpoll")),
    }
}

/// Refuses options, all of which are io_uring's.
pub(crate) fn no_options(path: &IoPath) -> Result<()> {
    if path.options == PathOptions::default() {
        return Ok(());
    }
    let options = path.options.names().join(", ");
    Err(impossible(path, &format!("{} has no such option: {options}", path.interface()))
        .remedy("leave it out, or use io_uring"))
}

/// Refuses targets that polling for completions cannot work on: those in the page cache, and devices without poll queues.
pub(crate) fn pollable(path: &IoPath, target: &Target) -> Result<()> {
    let what = format!("{path} on {}", target.name());
    if !target.direct() {
        return Err(Error::unavailable(what, "the page cache cannot be polled").remedy("use --direct true"));
    }
    match target.device_attribute("queue/io_poll") {
        Some(0) => Err(Error::unavailable(what, "the device has no poll queues (queue/io_poll is 0)")
            .remedy("for NVMe boot with nvme.poll_queues=N, for null_blk load it with poll_queues=N")),
        Some(_) => Ok(()),
        None if target.kind() == TargetKind::File => {
            Err(Error::unavailable(what, "its file system is on no block device that could be polled")
                .remedy("choose a file on an NVMe drive"))
        }
        None => Ok(()),
    }
}
