//! Setting a ring up: tries the sets of flags until the kernel takes one, and explains why it takes none. Called by `queue`.

use std::io;
use std::os::fd::RawFd;

use ::io_uring::IoUring;

use iolane_core::{CompletionMode, Error, ErrorKind, IoPath, QueueConfig, Result};

use super::encode::Encode;
use super::flags::{SetupFlags, entries_per_request};
use crate::kernel::{Release, memory_lock_limit};

/// Sets a ring up with the best flags that this kernel takes, for a queue that `moves` between threads or stays, attached to the submission thread of another ring if given.
pub(super) fn set_up<E: Encode>(
    path: &IoPath,
    config: &QueueConfig,
    moves: bool,
    attach_to: Option<RawFd>,
) -> Result<IoUring<E::Submission, E::Completion>> {
    let mut refusal = io::Error::from_raw_os_error(libc::EINVAL);
    for mut flags in SetupFlags::ladder(path, config, moves) {
        flags.attach_to = attach_to;
        match E::build_ring(config.depth * entries_per_request(path), &flags) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = error,
            Err(error) => return Err(set_up_error(path, error)),
        }
    }
    let since = [
        (path.completion == CompletionMode::Hybrid, "HYBRID_IOPOLL came with Linux 6.13"),
        (path.options.defer, "DEFER_TASKRUN came with Linux 6.1"),
        (path.options.coop, "COOP_TASKRUN came with Linux 5.19"),
    ];
    match since.iter().find(|(asked, _)| *asked) {
        Some((_, cause)) => Err(Error::unavailable(
            path.to_string(),
            format!("this kernel ({}) does not support it: {cause}", Release::current().text()),
        )
        .remedy("leave it out, or use a newer kernel")),
        None => Err(match config.sqpoll_cpu {
            Some(cpu) => {
                let cause = format!(
                    "the kernel refuses a submission thread on cpu {cpu}: it does not exist, or is not in the cpuset of this process"
                );
                Error::unavailable(path.to_string(), cause).remedy("choose another cpu, or leave it out")
            }
            None => Error::system(format!("{path}: io_uring_setup"), refusal),
        }),
    }
}

fn set_up_error(path: &IoPath, error: io::Error) -> Error {
    let what = path.to_string();
    let disabled = || std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    match error.raw_os_error() {
        Some(libc::ENOSYS) => Error::unavailable(what, "this kernel has no io_uring")
            .remedy("it came with Linux 5.1; use libaio or psync"),
        Some(libc::EPERM) => match disabled().trim() {
            setting @ ("1" | "2") => {
                Error::unavailable(what, format!("io_uring is disabled (kernel.io_uring_disabled is {setting})"))
                    .remedy("sysctl kernel.io_uring_disabled=0")
            }
            _ if path.polls_submissions() && !Release::current().at_least(5, 13) => {
                Error::unavailable(what, "a submission thread needs privileges before Linux 5.13").remedy("run as root")
            }
            _ => Error::unavailable(
                what,
                "not permitted, probably by a seccomp filter (containers often forbid io_uring)",
            )
            .remedy("allow io_uring_setup, io_uring_enter and io_uring_register in the filter"),
        },
        Some(libc::ENOMEM) => {
            Error::exhausted(what, format!("no memory for the ring (locked-memory limit {})", memory_lock_limit()))
                .remedy("lower the depth or raise the limit (ulimit -l)")
        }
        _ => {
            let error = Error::system(format!("{what}: io_uring_setup"), error);
            if error.kind() == ErrorKind::Unavailable { error.with_kind(ErrorKind::Failed) } else { error }
        }
    }
}
