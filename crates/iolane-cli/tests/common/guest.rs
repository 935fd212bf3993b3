//! Guests for the tests that need one: whether they can run here, their parts, and the output of their commands.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolane_lab::cache::Cache;
use iolane_lab::{Accelerator, Drive, Ended, Events, GuestCommand, Job, Kernel, KernelSource, Lab, Machine, Stream};

use super::{Folder, IOLANE, command, has};

/// The kernel of most guests.
pub(crate) const KERNEL: &str = "6.1";

/// Why no guest can run here; `None` if one can.
pub(crate) fn trouble() -> Option<&'static str> {
    static TROUBLE: LazyLock<Option<String>> = LazyLock::new(|| {
        if !has("qemu-system-x86_64") {
            return Some("QEMU is not installed; as root: apt-get install qemu-system-x86".into());
        }
        let folder = Folder::new();
        // Fetching takes longer than the time limit of a command in these tests.
        let fetched = command(&folder, ["lab", "fetch", KERNEL]).output().unwrap();
        (!fetched.status.success()).then(|| String::from_utf8_lossy(&fetched.stderr).trim().replace('\n', "; "))
    });
    TROUBLE.as_deref()
}

/// Continues where guests can run; otherwise prints a SKIPPED line and returns.
#[allow(unused_macros, reason = "not every test binary has guests")]
macro_rules! guest_or_skip {
    ($test:literal) => {
        if let Some(why) = $crate::common::guest::trouble() {
            return $crate::common::skipped($test, why);
        }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use guest_or_skip;

/// A guest whose process 1 is the program, with a shell and these drives.
pub(crate) fn lab(cache: &Cache, drives: Vec<Drive>) -> Lab<'_> {
    Lab {
        machine: Machine::new(1, "1g".parse().unwrap(), drives),
        kernel: Kernel::find(&KernelSource::Debian(KERNEL.into()), cache, &mut |_| {}).unwrap(),
        iolane: IOLANE.into(),
        files: Vec::new(),
        programs: vec![("/bin/sh".into(), "/bin/sh".into())],
        modules: &[],
        accelerator: Some(Accelerator::Tcg),
        plugin: None,
        timeout: Duration::from_secs(600),
        cache,
    }
}

/// Runs commands in a guest, one after the other.
pub(crate) fn run(lab: &Lab<'_>, commands: Vec<GuestCommand>) -> (iolane::Result<()>, Heard) {
    let mut heard = Heard::default();
    let job = Job { commands, folder: PathBuf::from("/"), ..Job::default() };
    let outcome = lab.run(&job, &mut heard, &AtomicBool::new(false));
    (outcome, heard)
}

/// A command of the guest's shell.
pub(crate) fn shell(script: &str) -> GuestCommand {
    GuestCommand::new(["/bin/sh", "-c", script])
}

/// The output and the exit states of a guest's commands.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Standard output and standard error of each command.
    pub(crate) said: Vec<[String; 2]>,
    pub(crate) ends: Vec<Ended>,
}

impl Heard {
    pub(crate) fn stdout(&self, command: usize) -> &str {
        self.said.get(command).map_or("", |[stdout, _]| stdout)
    }

    pub(crate) fn stderr(&self, command: usize) -> &str {
        self.said.get(command).map_or("", |[_, stderr]| stderr)
    }
}

impl Events for Heard {
    fn note(&mut self, _line: &str) {}

    fn up(&mut self, _release: &str, _accelerator: Accelerator, _took: Duration) {}

    fn output(&mut self, command: usize, stream: Stream, bytes: &[u8]) {
        if self.said.len() <= command {
            self.said.resize_with(command + 1, Default::default);
        }
        let index = if stream == Stream::Output { 0 } else { 1 };
        self.said[command][index].push_str(&String::from_utf8_lossy(bytes));
    }

    fn ended(&mut self, _command: usize, how: Ended) {
        self.ends.push(how);
    }
}
