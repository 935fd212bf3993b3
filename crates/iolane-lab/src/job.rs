//! What a guest does: written by `session` into the initramfs as JSON, read there by process 1 (`guest`). Data only.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub const JOB_FILE: &str = "/lab/job.json";

/// Commands to run one after the other, and the files to copy back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Each starts when the one before it ended, successfully or not.
    pub commands: Vec<GuestCommand>,
    /// Their current folder, with the same path on the host.
    pub folder: PathBuf,
    /// Files and folders that are copied back when all commands ended; nothing else is.
    pub returns: Vec<PathBuf>,
    /// Files of these that are not: they mean something only in the guest.
    pub stays: Vec<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestCommand {
    /// The program's path in the guest, and its arguments.
    pub words: Vec<String>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
    /// Whether its standard error ends with the kernel's warnings if it fails ([`crate::guest::KERNEL_LINE`]).
    pub tells_kernel_warnings: bool,
}

impl GuestCommand {
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(words: I) -> Self {
        Self { words: words.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    #[must_use]
    pub fn tells_kernel_warnings(mut self) -> Self {
        self.tells_kernel_warnings = true;
        self
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
}

/// The job, the modules to load, and the drives to wait for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) job: Job,
    /// In load order, with their parameters.
    pub(crate) modules: Vec<(PathBuf, String)>,
    /// Number of NVMe drives: nvme0, nvme1 and so on.
    pub(crate) drives: usize,
    /// The processors that share virtual time evenly from the first command on; 0 if nothing has to be done for it.
    pub(crate) shared_time_cpus: u32,
}
