//! `cargo xtask guests`: the conformance suite, its proofs and its faults on real NVMe controllers and null_blk, and drives
//! that change hands, in a guest for each kernel that iolane cares for. `cargo xtask test` ends with it.

mod table;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use iolane_core::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::guest::EVENTS_FILE;
use iolane_lab::{
    Accelerator, Backing, Drive, Ended, Events, GuestCommand, Job, Kernel, KernelSource, Lab, Machine, Stream,
};
use serde::Deserialize;

use crate::child::{cargo, shown};
use crate::packages;
use crate::tally::Tally;

/// Polling of blocking reads ended after the first; passthrough began with the second; the third and fourth are what
/// people run.
const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];
/// A guest takes two minutes or so; one that takes this long hangs.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The profile of what runs in guests, which translate each instruction: `Cargo.toml` says more.
const PROFILE: &str = "guest";

/// What the conformance suite found, as it writes it for `IOLANE_CONFORMANCE_RECORD`.
#[derive(Debug, Deserialize)]
pub(crate) struct Record {
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    path: String,
    device: String,
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
}

/// What one kernel's guest found.
struct Found {
    release: String,
    record: Record,
}

/// Runs all guests, or those of the kernels named, and prints the table; `Ok(false)` if a check failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let table_alone = arguments.iter().any(|argument| argument == "--table");
    let kernels: Vec<&str> = arguments.iter().map(String::as_str).filter(|argument| *argument != "--table").collect();
    if let Some(option) = kernels.iter().find(|kernel| kernel.starts_with('-')) {
        bail!("`guests` has no option `{option}`; it takes --table and kernels, such as 6.1");
    }
    let mut tally = Tally::default();
    let table = run_all(&kernels, &mut tally, !table_alone)?;
    if table_alone {
        print!("{table}");
    } else {
        print!("\n{table}{}", tally.summary());
    }
    Ok(tally.failed == 0)
}

/// Runs the guests of these kernels, or of all, counts what they print, and gives the table.
pub(crate) fn run_all(kernels: &[&str], tally: &mut Tally, show: bool) -> Result<String> {
    if let [missing, ..] = packages::install(&[packages::QEMU])[..] {
        tally.skipped.push(format!("every check in a guest: without {} there is none", missing.name));
        return Ok(String::new());
    }
    let programs = Programs::build()?;
    let cache = Cache::of_user()?;
    let mut found = Vec::new();
    for version in if kernels.is_empty() { &KERNELS } else { kernels } {
        let source: KernelSource = version.parse()?;
        let kernel = match Kernel::find(&source, &cache, &mut |line: &str| eprintln!("{line}")) {
            Ok(kernel) => kernel,
            Err(error) => {
                tally.skipped.push(format!("every check on Linux {version}: {error}"));
                continue;
            }
        };
        found.extend(run_guest(&programs, &cache, kernel, tally, show)?);
    }
    Ok(table::render(&found))
}

/// What runs in a guest.
struct Programs {
    iolane: PathBuf,
    conformance: PathBuf,
    faults: PathBuf,
    nvme: PathBuf,
}

impl Programs {
    fn build() -> Result<Self> {
        let iolane = built(&["build", "--package", "iolane-cli"])?;
        let names = ["conformance", "faults", "nvme"];
        let tests = [&["test", "--no-run", "--package", "iolane"][..], &names.map(|name| ["--test", name]).concat()];
        let tests = built(&tests.concat())?;
        let named = |programs: &[(String, PathBuf)], name: &str| {
            let found = programs.iter().find(|(known, _)| known == name).map(|(_, path)| path.clone());
            found.with_context(|| format!("cargo built no program called {name}"))
        };
        Ok(Self {
            iolane: named(&iolane, "iolane")?,
            conformance: named(&tests, "conformance")?,
            faults: named(&tests, "faults")?,
            nvme: named(&tests, "nvme")?,
        })
    }
}

/// Builds, and gives each program's name and place.
fn built(arguments: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo(arguments);
    command.args(["--profile", PROFILE, "--message-format", "json-render-diagnostics"]);
    let name = shown(&command);
    eprintln!("$ {name}");
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("starting `{name}`"))?;
    ensure!(output.status.success(), "`{name}` failed, see above");
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = |message: serde_json::Value| {
        let name = message["target"]["name"].as_str()?.to_owned();
        Some((name, message["executable"].as_str()?.into()))
    };
    Ok(messages.filter_map(program).collect())
}

/// The drives of a guest, and what the tests call them.
fn drives() -> Vec<Drive> {
    let drive = Drive { bytes: Bytes(256 << 20), ..Drive::default() };
    vec![
        drive.clone(),
        Drive { block_bytes: 4096, ..drive.clone() },
        Drive { backing: Backing::BadSectors(&BAD_SECTORS), ..drive.clone() },
        drive.clone(),
        Drive { removable: true, ..drive.clone() },
        Drive { removable: true, ..drive },
    ]
}

/// In the third and in the thirty-third of the blocks of 16 KiB that the test reads; beyond what the kernel reads by itself
/// when it looks for partitions.
const BAD_SECTORS: [u64; 2] = [64, 1025];

/// First with the drives in the kernel's hands, then with two that change hands, then without a kernel driver.
fn commands(kernel: &Kernel, records: &[PathBuf; 2]) -> Vec<GuestCommand> {
    // Generic devices came with 5.13, passthrough by io_uring with 5.19; without them a column would be empty.
    let generic = if kernel.is_at_least(5, 13) { " /dev/ng0n1 /dev/ng1n1" } else { "" };
    let conformance = |targets: String, record: &Path| {
        GuestCommand::new(["/bin/conformance", "--show-output"])
            .with("IOLANE_CONFORMANCE_TARGETS", targets)
            .with("IOLANE_CONFORMANCE_ONLY_NAMED", "1")
            .with("IOLANE_CONFORMANCE_BRIEF", "1")
            .with("IOLANE_CONFORMANCE_RECORD", record.display().to_string())
    };
    let faults = || {
        GuestCommand::new(["/bin/faults", "--show-output", "--test-threads=1"])
            .with("IOLANE_FAULTS_UNPLUG_BY", EVENTS_FILE)
    };
    // The second without what the first has: SGLs and shadow doorbells.
    let controllers = "pci:0000:00:04.0 pci:0000:00:05.0,sgl=off,shadow=off";
    vec![
        conformance(format!("/dev/nvme0n1 /dev/nvme1n1 /dev/nullb0{generic}"), &records[0]),
        faults()
            .with("IOLANE_FAULTS_MEDIA_ERRORS", "/dev/nvme2n1")
            .with("IOLANE_FAULTS_STALLED", "/dev/nvme3n1")
            .with("IOLANE_FAULTS_UNPLUG", "/dev/nvme4n1"),
        GuestCommand::new(["/bin/nvme", "--show-output", "--test-threads=1"])
            .with("IOLANE_NVME_DRIVES", "0000:00:04.0 0000:00:05.0"),
        conformance(controllers.into(), &records[1]),
        faults()
            .with("IOLANE_FAULTS_MEDIA_ERRORS", "pci:0000:00:06.0")
            .with("IOLANE_FAULTS_STALLED", "pci:0000:00:07.0,timeout=2s")
            .with("IOLANE_FAULTS_UNPLUG", "pci:0000:02:00.0,timeout=2s")
            .with("IOLANE_FAULTS_UNPLUG_NAME", "nvme5"),
    ]
}

fn run_guest(
    programs: &Programs,
    cache: &Cache,
    kernel: Kernel,
    tally: &mut Tally,
    show: bool,
) -> Result<Option<Found>> {
    let folder = tempfile::tempdir().context("making a folder")?;
    let records = ["kernel", "user-space"].map(|name| folder.path().join(name).with_extension("json"));
    let (release, version) = (kernel.release.clone(), kernel.release.clone());
    let commands = commands(&kernel, &records);
    let names = commands.iter().map(|command| format!("{} with {:?}", command.words[0], command.environment)).collect();
    let lab = Lab {
        machine: Machine { cpus: 2, memory: Bytes(2 << 30), drives: drives(), exact: false },
        kernel,
        iolane: programs.iolane.clone(),
        files: Vec::new(),
        programs: vec![
            (programs.conformance.clone(), "/bin/conformance".into()),
            (programs.faults.clone(), "/bin/faults".into()),
            (programs.nvme.clone(), "/bin/nvme".into()),
        ],
        // Drives that do not answer are given up soon, and errors are told at once.
        module_parameters: vec![("nvme_core", "io_timeout=3 admin_timeout=3 max_retries=0")],
        accelerator: None,
        timeout: TIMEOUT,
        cache,
    };
    let job = Job { commands, folder: "/".into(), returns: records.to_vec() };
    eprintln!("\nIn a guest, Linux {release}:");
    let (began, skipped_before, failed_before) = (Instant::now(), tally.skipped.len(), tally.failed);
    let mut lines = Lines { tally, show, names, unfinished: Default::default(), failures: Vec::new() };
    let outcome = lab.run(&job, &mut lines, &AtomicBool::new(false));
    let failures = std::mem::take(&mut lines.failures);
    let skipped = tally.skipped.split_off(skipped_before);
    tally.skipped.extend(by_reason(&skipped).into_iter().map(|what| format!("[{version}] {what}")));
    if let Err(error) = outcome {
        eprintln!("FAILED {release}: {error}");
        tally.failed += 1;
        return Ok(None);
    }
    // A program that died has not counted its failure itself.
    if tally.failed == failed_before && !failures.is_empty() {
        failures.iter().for_each(|failure| eprintln!("FAILED {release}: {failure}"));
        tally.failed += 1;
    }
    eprintln!("Linux {release}: {:.0} s", began.elapsed().as_secs_f64());
    let mut rows = Vec::new();
    for record in &records {
        let text = std::fs::read(record).with_context(|| format!("the guest of {release} left no record"))?;
        let record: Record = serde_json::from_slice(&text).context("reading the guest's record")?;
        rows.extend(record.rows);
    }
    Ok(Some(Found { release, record: Record { rows } }))
}

/// Skips of the conformance suite, of which each path on each device has its own, one for each reason. The table has them
/// all.
fn by_reason(skipped: &[String]) -> Vec<String> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    let mut others = Vec::new();
    for what in skipped {
        let pair = what.strip_prefix("conformance ").and_then(|rest| rest.split_once(": "));
        match pair.map(|(_, reason)| reason) {
            None => others.push(what.clone()),
            Some(reason) => match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            },
        }
    }
    let grouped = reasons.into_iter().map(|(reason, count)| format!("conformance, {count} x path on device: {reason}"));
    grouped.chain(others).collect()
}

/// Counts the lines that a guest's programs print, and shows them.
struct Lines<'a> {
    tally: &'a mut Tally,
    show: bool,
    /// What the commands are called.
    names: Vec<String>,
    /// The start of a line whose end has not come yet, of each stream.
    unfinished: [Vec<u8>; 2],
    failures: Vec<String>,
}

impl Events for Lines<'_> {
    fn note(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn up(&mut self, _release: &str, accelerator: Accelerator, took: Duration) {
        eprintln!("on {accelerator}, up in {:.1} s", took.as_secs_f64());
    }

    fn output(&mut self, _command: usize, stream: Stream, bytes: &[u8]) {
        let unfinished = &mut self.unfinished[usize::from(stream == Stream::Error)];
        unfinished.extend(bytes);
        while let Some(end) = unfinished.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unfinished.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if self.tally.take(line.trim_end()) && self.show {
                print!("{line}");
            }
        }
    }

    fn ended(&mut self, command: usize, how: Ended) {
        if how != Ended::Code(0) {
            let what = self.names.get(command).map_or("a command", String::as_str);
            self.failures.push(format!("{what} ended with {how:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_told_once_for_each_reason() {
        let skipped =
            ["conformance psync on /dev/a: no: not here", "faults: none", "conformance libaio on /dev/b: no: not here"];
        let told = by_reason(&skipped.map(str::to_owned));
        assert_eq!(told, ["conformance, 2 x path on device: no: not here", "faults: none"]);
    }
}
