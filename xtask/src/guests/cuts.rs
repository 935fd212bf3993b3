//! Power cuts in guests: the drives whose writes QEMU records, the programs that write to them, and the check of the records on the host,
//! which crates/iolane/tests/power_cuts describes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use iolane_core::units::Bytes;
use iolane_lab::{Attached, Drive, GuestCommand, Kernel};

use super::cut_counts::CutCounts;
use super::steps::Step;
use crate::child::program;
use crate::packages::{self, Package};
use crate::tally::{End, Listener, Tally};

/// The programs in the guest: the examples on drives, and a study on file systems.
pub(super) const EXAMPLES: &str = "/bin/power_cuts";
pub(super) const STUDY: &str = "/bin/study_power_cuts";
/// The file systems, each with the package of the host that makes it in the guest.
const FILE_SYSTEMS: [(&str, Package); 2] = [
    ("ext4", Package { name: "e2fsprogs", program: "mkfs.ext4", needed_by: "power cuts on ext4" }),
    ("xfs", Package { name: "xfsprogs", program: "mkfs.xfs", needed_by: "power cuts on xfs" }),
];
/// What the guest loads for them.
const MODULES: &[&str] = &["virtio_blk", "crc32c_generic", "ext4", "xfs"];
const RECORD_STUDY: &str = "what_a_study_writes_is_recorded";
const CHECK_STUDY: &str = "a_study_goes_on_after_a_power_cut_with_all_that_was_acknowledged";
/// A mount takes as long as some ten recoveries of an example.
const CUTS_PER_MOUNT: u64 = 4;
const RECORD: &str = "what_the_examples_commit_is_recorded";
const CHECK: &str = "what_was_acknowledged_is_there_after_each_power_cut_and_nothing_in_part";
/// Room for three runs of 8 MiB on each path.
const DRIVE_BYTES: Bytes = Bytes(1 << 30);

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuts {
    /// Cuts of each run: of an example on a path.
    pub(crate) per_run: u64,
    pub(crate) seed: u64,
    /// Whether a study on file systems is cut, too.
    pub(crate) file_systems: bool,
    /// The paths through the kernel's driver; all of them if `None`.
    pub(crate) paths: Option<&'static str>,
}

impl Cuts {
    /// What they need. A file system whose package is missing is left out.
    pub(super) fn packages(&self) -> Vec<Package> {
        let makers = FILE_SYSTEMS.iter().filter(|_| self.file_systems).map(|(_, package)| *package);
        [packages::QEMU].into_iter().chain(makers).collect()
    }
}

/// What every run of the guests has time for.
pub(super) const SLICE: Cuts = Cuts {
    per_run: 60,
    seed: 1,
    file_systems: false,
    paths: Some("psync,libaio,io_uring,io_uring,fixedbufs,fixedfiles"),
};

/// The drives of one guest that are recorded: one in the hands of the kernel's driver, one for passthrough, one without a kernel driver.
pub(super) struct Recording {
    cuts: Cuts,
    logs: Vec<PathBuf>,
    /// The file systems, each on a drive of its own.
    file_systems: Vec<FileSystem>,
}

struct FileSystem {
    kind: &'static str,
    /// The program that makes it.
    maker: PathBuf,
    /// The record of its drive.
    log: PathBuf,
}

impl Recording {
    /// The records go to a folder; `find` tells where a program is installed.
    pub(super) fn new(cuts: Cuts, folder: &Path, find: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let log = |name: &str| folder.join(name).with_extension("writes");
        let logs = ["block", "generic", "user-space"].map(log).into();
        let file_system = |(kind, package): (&'static str, Package)| {
            Some(FileSystem { kind, maker: find(package.program)?, log: log(kind) })
        };
        let file_systems = FILE_SYSTEMS.into_iter().filter(|_| cuts.file_systems).filter_map(file_system).collect();
        Self { cuts, logs, file_systems }
    }

    pub(super) fn drives(&self) -> Vec<Drive> {
        let drive = |log: &PathBuf| Drive { bytes: DRIVE_BYTES, log: Some(log.clone()), ..Drive::default() };
        // File systems commit by writes with FUA where the drive has it.
        let virtio = |made: &FileSystem| Drive { attached: Attached::Virtio, ..drive(&made.log) };
        self.logs.iter().map(drive).chain(self.file_systems.iter().map(virtio)).collect()
    }

    /// The programs that make file systems, from the host.
    pub(super) fn makers(&self) -> Vec<(PathBuf, PathBuf)> {
        let place = |maker: &Path| Path::new("/bin").join(maker.file_name().unwrap_or_default());
        self.file_systems.iter().map(|made| (made.maker.clone(), place(&made.maker))).collect()
    }

    /// What the guest loads besides what every guest does.
    pub(super) fn modules(&self) -> &'static [&'static str] {
        if self.file_systems.is_empty() { &[] } else { MODULES }
    }

    pub(super) fn steps(&self, kernel: &Kernel) -> Vec<Step> {
        let record = |device: String| {
            let command = GuestCommand::new([EXAMPLES, "--show-output", "--exact", RECORD])
                .with("IOLANE_CUTS_DEVICE", device)
                .with("IOLANE_CUTS_SEED", self.cuts.seed.to_string());
            match self.cuts.paths {
                Some(paths) => command.with("IOLANE_CUTS_PATHS", paths),
                None => command,
            }
        };
        let mut steps = vec![
            Step { name: "writes by the kernel's driver", command: record("/dev/nvme0n1".into()) },
            Step { name: "writes by the user-space driver", command: record(format!("pci:{}", Drive::address(2))) },
        ];
        // Passthrough by io_uring came with 5.19.
        if kernel.is_at_least(5, 19) {
            steps.push(Step { name: "writes by passthrough", command: record("/dev/ng1n1".into()) });
        }
        for (made, letter) in self.file_systems.iter().zip('a'..) {
            let command = GuestCommand::new([STUDY, "--show-output", "--exact", RECORD_STUDY])
                .with("IOLANE_CUTS_DEVICE", format!("/dev/vd{letter}"))
                .with("IOLANE_CUTS_FILE_SYSTEM", made.kind);
            steps.push(Step { name: "writes of a study", command });
        }
        steps
    }

    /// Cuts the power on the host, and counts what comes of it.
    pub(super) fn check(
        &self,
        programs: &[PathBuf; 2],
        release: &str,
        tally: &mut Tally,
        show: bool,
    ) -> Result<CutCounts> {
        let mut counts = CutCounts::new(release);
        // A drive that nothing was written to has an empty record.
        let is_written = |log: &PathBuf| std::fs::metadata(log).is_ok_and(|found| found.len() > 0);
        let logs: Vec<String> =
            self.logs.iter().filter(|log| is_written(log)).map(|log| log.display().to_string()).collect();
        let [examples, study] = programs;
        let mut command = program(&examples.display().to_string());
        command.args(["--show-output", "--exact", CHECK]).env("IOLANE_CUTS_LOGS", logs.join(" "));
        command.env("IOLANE_CUTS", self.cuts.per_run.to_string());
        self.count(&mut command, &mut counts, tally, show)?;
        for FileSystem { kind, log, .. } in self.file_systems.iter().filter(|made| is_written(&made.log)) {
            let mut command = program(&study.display().to_string());
            command
                .args(["--show-output", "--exact", CHECK_STUDY])
                .env("IOLANE_CUTS_FILES_LOG", log)
                .env("IOLANE_CUTS_FILE_SYSTEM", kind)
                .env("IOLANE_CUTS", self.cuts.per_run.div_ceil(CUTS_PER_MOUNT).to_string());
            self.count(&mut command, &mut counts, tally, show)?;
        }
        Ok(counts)
    }

    /// Runs a check, and counts what it prints.
    fn count(&self, command: &mut Command, counts: &mut CutCounts, tally: &mut Tally, show: bool) -> Result<()> {
        command.env("IOLANE_CUTS_SEED", self.cuts.seed.to_string()).stdout(Stdio::piped());
        if Path::new(MEMORY).is_dir() {
            command.env("TMPDIR", MEMORY);
        }
        let mut child = command.spawn().context("starting the check of power cuts")?;
        let release = counts.release.clone();
        let mut listener = Listener::new(&release, "power cuts");
        for line in BufReader::new(child.stdout.take().context("its output")?).lines() {
            let line = line.context("reading what the check of power cuts prints")?;
            counts.take(&line);
            if listener.take(&line) && show {
                println!("{release} | {line}");
            }
        }
        let status = child.wait().context("the check of power cuts")?;
        listener.finish(&status.code().map_or(End::Lost("a signal ended it".into()), End::Code), tally);
        Ok(())
    }
}

/// Files that are recovered thousands of times are in memory.
const MEMORY: &str = "/dev/shm";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_cannot_be_made_here_has_no_drive_in_the_guest() {
        let cuts = Cuts { file_systems: true, ..SLICE };
        let has_xfs = |name: &str| (name == "mkfs.xfs").then(|| Path::new("/usr/sbin").join(name));
        let kinds = |recording: &Recording| recording.file_systems.iter().map(|made| made.kind).collect::<Vec<_>>();
        let recording = Recording::new(cuts, Path::new("/logs"), has_xfs);
        assert_eq!((kinds(&recording), recording.drives().len()), (vec!["xfs"], 4));
        assert_eq!(recording.makers(), [("/usr/sbin/mkfs.xfs".into(), "/bin/mkfs.xfs".into())]);
        let recording = Recording::new(cuts, Path::new("/logs"), |_| None);
        assert_eq!((recording.drives().len(), recording.makers().len(), recording.modules().len()), (3, 0, 0));
    }
}
