//! What a path does, without what it costs: who submits, how a completion is found, and which of it takes a system call.

use iolane_core::error::{Error, Result};
use iolane_core::{CompletionMode, IoPath, SubmissionMode};

/// How requests reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// By a system call.
    Call,
    /// By a kernel thread that polls the ring.
    Thread,
    /// By a register of the device.
    Doorbell,
}

/// How completions are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// An interrupt, on the core that submitted the request, wakes the thread.
    Interrupt,
    /// Whoever waits looks at the device.
    Poll,
}

/// What a path does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// How requests reach the device.
    pub submission: Submission,
    /// How completions are found.
    pub completion: Completion,
    /// Whether completions are taken by a system call, although they have arrived.
    pub reaps_by_call: bool,
    /// Whether the call that submits always waits.
    pub blocks: bool,
    /// Whether the call that submits can wait too.
    pub joins: bool,
}

impl Behaviour {
    /// That of a path.
    ///
    /// # Errors
    /// `Usage` if the model knows none: POSIX aio, whose threads are glibc's, the hybrid wait, and paths that only exist here.
    pub fn of(path: &IoPath) -> Result<Self> {
        let polls = match path.completion {
            CompletionMode::Default => path.interface() == "nvme",
            CompletionMode::Interrupt => false,
            CompletionMode::Iopoll => true,
            CompletionMode::Hybrid => return Err(unknown(path)),
        };
        let submission = match (path.interface(), path.submission) {
            ("io_uring" | "io_uring_cmd", SubmissionMode::Sqpoll) => Submission::Thread,
            ("io_uring" | "io_uring_cmd" | "libaio" | "psync", SubmissionMode::Default) => Submission::Call,
            ("nvme", SubmissionMode::Default) => Submission::Doorbell,
            _ => return Err(unknown(path)),
        };
        Ok(Self {
            submission,
            completion: if polls { Completion::Poll } else { Completion::Interrupt },
            reaps_by_call: path.interface() == "libaio" && path.options.getevents,
            blocks: path.interface() == "psync",
            joins: submission == Submission::Call && path.interface() != "libaio",
        })
    }
}

fn unknown(path: &IoPath) -> Error {
    Error::usage(format!("predicting path {path}"), "the model does not know how it behaves")
        .remedy("choose psync, libaio, io_uring, io_uring_cmd or nvme")
}
