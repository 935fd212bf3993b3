//! What a guest is told to do: written by the host into the initramfs as JSON, read there by process 1.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where process 1 finds its job.
pub const JOB_FILE: &str = "/lab/job.json";

/// Commands to run one after the other, and where their files go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Each is started when the one before it ended, however that did.
    pub commands: Vec<GuestCommand>,
    /// The folder they run in, the same inside and outside.
    pub folder: PathBuf,
    /// Files and folders that come back out when all commands ended.
    pub returns: Vec<PathBuf>,
}

/// A command inside the guest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestCommand {
    /// The program's place in the guest, and its arguments.
    pub words: Vec<String>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
}

impl GuestCommand {
    /// A command of these words.
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(words: I) -> Self {
        Self { words: words.into_iter().map(Into::into).collect(), environment: Vec::new() }
    }

    /// With a variable in its environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
}

/// What the guest finds beside the job: the modules to load, and the drives to wait for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) job: Job,
    /// In the order in which they are loaded, with their parameters.
    pub(crate) modules: Vec<(PathBuf, String)>,
    /// How many NVMe drives there are; they are called nvme0, nvme1 and so on.
    pub(crate) drives: usize,
}

/// Whether a path is one of `allowed`, or beneath one, and has no `..` that could lead out again.
pub(crate) fn is_within(path: &Path, allowed: &[PathBuf]) -> bool {
    use std::path::Component::{Normal, RootDir};
    path.components().all(|part| matches!(part, RootDir | Normal(_)))
        && allowed.iter().any(|place| path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_only_to_where_they_may() {
        let allowed = [PathBuf::from("/home/me/out"), PathBuf::from("/tmp/x.json")];
        for (path, within) in [
            ("/home/me/out/study.json", true),
            ("/home/me/out", true),
            ("/tmp/x.json", true),
            ("/home/me/outside", false),
            ("/home/me/out/../.bashrc", false),
            ("/etc/passwd", false),
            ("home/me/out/x", false),
        ] {
            assert_eq!(is_within(Path::new(path), &allowed), within, "{path}");
        }
    }
}
