//! What the tests of the programs in `examples/` share: finding a program, the paths that work here, and a folder for one test.

#![allow(dead_code, reason = "no test uses all of it")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use iolane::{Target, probe};

const PATHS: [&str; 4] = ["psync", "libaio", "io_uring", "posix_aio"];

/// Where cargo puts example programs: `examples`, next to the `deps` that this test is in.
pub(crate) fn example(name: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let program = this.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "{} is missing; build it: cargo build -p iolane --examples", program.display());
    Command::new(program)
}

pub(crate) fn skip(test: &str, reason: &dyn std::fmt::Display) {
    // Past the test harness, which swallows what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// A folder for one test, removed with all that is in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("examples-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, content).unwrap();
        file
    }

    /// The paths available on a file in this folder; the others print SKIPPED.
    pub(crate) fn paths(&self, test: &str) -> Vec<&'static str> {
        let file = self.file("probed", &[0; 4096]);
        let target = Target::options().direct(false).open(file).unwrap();
        let works = |path: &&str| {
            let probed = probe(&path.parse().unwrap(), &target);
            probed.inspect_err(|error| skip(test, error)).is_ok()
        };
        PATHS.into_iter().filter(works).collect()
    }

    /// Whether files in this folder can be opened with O_DIRECT.
    pub(crate) fn direct(&self, test: &str) -> bool {
        let opened = Target::open(self.file("probed", &[0; 4096]));
        opened.inspect_err(|error| skip(test, error)).is_ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
