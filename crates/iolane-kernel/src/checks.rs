//! Checks that several interfaces make before they open a queue: the targets they reach, the options they lack, direct I/O; and
//! the operations that a target takes.

use iolane_core::{
    CompletionMode, Error, IoError, IoPath, Operation, Operations, PathOptions, Result, SubmissionMode, Target,
    TargetKind,
};

/// Refuses targets other than files and block devices: simulated devices, and the generic device of a namespace.
pub(crate) fn file_or_block(path: &IoPath, target: &Target) -> Result<()> {
    target.require_fd(path.interface())?;
    if target.kind() == TargetKind::NvmeGeneric {
        return Err(Error::unavailable(
            format!("{path} on {}", target.name()),
            "a generic NVMe device takes only passthrough commands",
        )
        .remedy("use its block device, or path io_uring_cmd"));
    }
    Ok(())
}

/// Refuses an operation that the probe did not name, so that the outcome does not depend on the kernel or the file system.
#[inline]
pub(crate) fn supported(operations: Operations, operation: &Operation) -> Result<(), IoError> {
    if operations.contains(Operations::of(operation)) { Ok(()) } else { Err(IoError::NOT_SUPPORTED) }
}

/// All operations that kernel interfaces have on this target, except those on ranges.
pub(crate) fn transfers_and_syncs(target: &Target) -> Operations {
    let always = Operations::ALL.without(Operations::DISCARD).without(Operations::WRITE_ZEROES);
    always.without(Operations::ATOMIC_WRITE).with(atomic_writes(target))
}

/// The operation, if the target has atomic writes.
pub(crate) fn atomic_writes(target: &Target) -> Operations {
    if target.atomic_writes().is_some() { Operations::ATOMIC_WRITE } else { Operations::default() }
}

/// The range operations of fallocate(2) on a file. No call reports them, so they are those of the file systems known to have
/// them; an overlay passes them on to one of these.
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

/// The error of a combination that no kernel allows.
pub(crate) fn impossible(path: &IoPath, cause: &str) -> Error {
    Error::usage(path.to_string(), cause)
}

/// Refuses `+sqpoll`.
pub(crate) fn no_sqpoll(path: &IoPath) -> Result<()> {
    match path.submission {
        SubmissionMode::Default => Ok(()),
        SubmissionMode::Sqpoll => Err(impossible(path, "only io_uring has a kernel thread that polls for submissions")
            .remedy("use io_uring+sqpoll")),
    }
}

/// Refuses polling for completions, with the reason. `+int` is what a kernel interface does by default.
pub(crate) fn no_polling(path: &IoPath, cause: &str) -> Result<()> {
    match path.completion {
        CompletionMode::Default | CompletionMode::Interrupt => Ok(()),
        CompletionMode::Iopoll | CompletionMode::Hybrid => Err(impossible(path, cause).remedy("use io_uring+iopoll")),
    }
}

/// Refuses all options.
pub(crate) fn no_options(path: &IoPath) -> Result<()> {
    only_options(path, PathOptions::default())
}

/// Refuses options other than those in `allowed`.
pub(crate) fn only_options(path: &IoPath, allowed: PathOptions) -> Result<()> {
    let allowed = allowed.names();
    let refused: Vec<String> = path.options.names().into_iter().filter(|name| !allowed.contains(name)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let options = refused.join(", ");
    let owner = match options.as_str() {
        "getevents" => "libaio",
        "restless" | "nosqpoll" | "noexplore" => "auto",
        option if option.starts_with("goal=") || option.starts_with("cores=") => "auto",
        _ => "io_uring",
    };
    Err(impossible(path, &format!("{} has no such option: {options}", path.interface()))
        .remedy(format!("leave it out, or use {owner}")))
}

/// Refuses targets on which polling for completions does not work: those in the page cache, and devices without poll queues.
pub(crate) fn pollable(path: &IoPath, target: &Target) -> Result<()> {
    let what = format!("{path} on {}", target.name());
    if !target.direct() {
        return Err(Error::unavailable(what, "polling needs O_DIRECT, and it is opened through the page cache")
            .remedy("set direct to true"));
    }
    match target.device_attribute("queue/io_poll") {
        Some(0) => Err(Error::unavailable(what, "the device has no poll queues (queue/io_poll is 0)")
            .remedy("boot with nvme.poll_queues=N or virtio_blk.poll_queues=N; load null_blk with poll_queues=N")),
        Some(_) => Ok(()),
        None if target.kind() == TargetKind::File => {
            Err(Error::unavailable(what, "its file system has no block device to poll")
                .remedy("choose a file on an NVMe drive"))
        }
        None => Ok(()),
    }
}
