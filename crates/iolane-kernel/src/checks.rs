//! Checks that several interfaces make before they open: depth, options they do not have, access past the page cache.

use iolane_core::{CompletionMode, Error, IoPath, PathOptions, Result, SubmissionMode, Target, TargetKind};

/// Refuses a depth the path does not take.
pub(crate) fn depth(path: &IoPath, depth: u32, depth_max: u32) -> Result<()> {
    if depth == 0 {
        return Err(Error::usage(format!("{path}: depth 0"), "a queue has room for at least one request")
            .remedy(format!("choose 1 to {depth_max}")));
    }
    if depth > depth_max {
        let remedy = if depth_max == 1 { "use --threads for more requests at once" } else { "choose a smaller depth" };
        return Err(Error::usage(format!("{path}: depth {depth}"), format!("this path takes {depth_max} at most"))
            .remedy(remedy));
    }
    Ok(())
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
