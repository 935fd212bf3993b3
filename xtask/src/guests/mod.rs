//! `cargo xtask guests`: the conformance suite, its proofs and its faults on real NVMe controllers and null_blk, and drives
//! that change hands, in a guest for each kernel that iolane cares for. `cargo xtask test` ends with it.
//!
//! Nothing in these guests is timed: translated, their processors run in turn, on one thread of this machine, so that as many
//! guests run side by side as it has processors.

mod record;
mod steps;
mod table;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use iolane_core::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::{Accelerator, Ended, Events, Job, Kernel, KernelSource, Lab, Machine, Stream};

use crate::packages::{self, QEMU};
use crate::programs::{self, Program};
use crate::skips::{Accepted, Skip};
use crate::tally::{End, Listener, Tally};
use crate::times::Times;
use crate::verdict;
use record::{Found, Record};
use steps::Step;

/// Polling of blocking reads ended after the first; passthrough began with the second; the third and fourth are what
/// people run.
const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];
/// A guest takes two or three minutes on a quiet machine; one that takes this long hangs.
const TIMEOUT: Duration = Duration::from_secs(1200);

/// Runs all guests, or those of the kernels named, and prints the table; `Ok(false)` if a check failed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let (table_alone, ci, verbose) = (has("--table"), has("--ci") || verdict::is_ci(), has("--verbose"));
    let (options, kernels): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with('-'));
    if let Some(option) = options.iter().find(|option| !["--table", "--ci", "--verbose"].contains(option)) {
        bail!("`guests` has no option `{option}`; it takes --table, --ci, --verbose and kernels, such as 6.1");
    }
    let accepted = Accepted::read()?;
    let (mut tally, mut times) = (Tally::default(), Times::default());
    let missing: Vec<Skip> = packages::install(&[QEMU]).into_iter().map(packages::Package::skip).collect();
    verdict::require_accepted(&missing, &accepted, ci)?;
    let kernels = find_kernels(&kernels, &mut tally, &mut times)?;
    let table = run_all(kernels, &mut tally, &mut times, !table_alone)?;
    if table_alone {
        print!("{table}");
        if !tally.failures.is_empty() {
            eprint!("{}", tally.report(&accepted, verbose));
        }
        return Ok(tally.failures.is_empty());
    }
    print!("\n{table}");
    Ok(verdict::conclude(&tally, &times, &accepted, verbose, ci))
}

/// Finds the kernels named, or all, fetching those that are not in the cache; one that is not available is a skip.
pub(crate) fn find_kernels(wanted: &[&str], tally: &mut Tally, times: &mut Times) -> Result<Vec<Kernel>> {
    let cache = Cache::of_user()?;
    let wanted = if wanted.is_empty() { &KERNELS } else { wanted };
    times.measure("kernels", || {
        let mut found = Vec::new();
        for version in wanted {
            let source: KernelSource = version.parse()?;
            match Kernel::find(&source, &cache, &mut |line: &str| eprintln!("{line}")) {
                Ok(kernel) => found.push(kernel),
                Err(error) => {
                    tally.skipped.push(Skip::parse("host", &format!("every check on Linux {version}: {error}")));
                }
            }
        }
        Ok(found)
    })
}

/// Runs a guest for each kernel, counts what they print, and gives the table.
pub(crate) fn run_all(kernels: Vec<Kernel>, tally: &mut Tally, times: &mut Times, show: bool) -> Result<String> {
    if !packages::install(&[QEMU]).is_empty() {
        tally.skipped.push(QEMU.skip());
        return Ok(String::new());
    }
    let Some(programs) = times.measure("build for guests", Programs::build)? else {
        tally.fail("the programs for guests", "they did not build, see above");
        return Ok(String::new());
    };
    let began = Instant::now();
    let outcomes = run_side_by_side(kernels, &programs, &Cache::of_user()?, show)?;
    times.add("guests", began.elapsed());
    let mut found = Vec::new();
    for outcome in outcomes {
        times.add(&format!("  Linux {}", outcome.release), outcome.took);
        tally.absorb(outcome.tally);
        found.extend(outcome.found);
    }
    Ok(table::render(&found))
}

/// What came of one guest.
struct Outcome {
    release: String,
    tally: Tally,
    found: Option<Found>,
    took: Duration,
}

/// Runs a guest for each kernel, as many at a time as there are processors; what came of them, in the kernels' order.
fn run_side_by_side(kernels: Vec<Kernel>, programs: &Programs, cache: &Cache, show: bool) -> Result<Vec<Outcome>> {
    let slots = std::thread::available_parallelism().map_or(1, usize::from).min(kernels.len());
    let waiting: Mutex<VecDeque<(usize, Kernel)>> = Mutex::new(kernels.into_iter().enumerate().collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut outcomes = Vec::new();
        while let Some((index, kernel)) = next() {
            outcomes.push((index, run_guest(programs, cache, kernel, show)?));
        }
        Ok::<_, anyhow::Error>(outcomes)
    };
    let mut outcomes = Vec::new();
    // Each guest ends with the thread that started it, which therefore stays until it is done.
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..slots).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            outcomes.extend(worker.join().map_err(|_| anyhow::anyhow!("a guest's thread panicked"))??);
        }
        Ok::<_, anyhow::Error>(())
    })?;
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// What runs in a guest.
struct Programs {
    iolane: PathBuf,
    tests: [(PathBuf, PathBuf); 3],
}

impl Programs {
    /// `None` if they do not build.
    fn build() -> Result<Option<Self>> {
        let names = ["conformance", "faults", "nvme"];
        let Some(programs) = programs::build(&["build", "--package", "iolane-cli"])? else { return Ok(None) };
        let arguments =
            [&["test", "--no-run", "--package", "iolane"][..], &names.map(|name| ["--test", name]).concat()];
        let Some(tests) = programs::build(&arguments.concat())? else { return Ok(None) };
        let named = |programs: &[Program], name: &str| {
            let found = programs.iter().find(|known| known.target == name).map(|found| found.path.clone());
            found.with_context(|| format!("cargo built no program called {name}"))
        };
        let [conformance, faults, nvme] =
            names.map(|name| Ok::<_, anyhow::Error>((named(&tests, name)?, format!("/bin/{name}").into())));
        Ok(Some(Self { iolane: named(&programs, "iolane")?, tests: [conformance?, faults?, nvme?] }))
    }
}

fn run_guest(programs: &Programs, cache: &Cache, kernel: Kernel, show: bool) -> Result<Outcome> {
    let folder = tempfile::tempdir().context("making a folder")?;
    let records = ["kernel", "user-space"].map(|name| folder.path().join(name).with_extension("json"));
    let release = kernel.release.clone();
    let (names, commands): (Vec<_>, Vec<_>) = steps::steps(&kernel, &records)
        .into_iter()
        .map(|Step { name, command }| (name, command.tells_kernel_warnings()))
        .unzip();
    let lab = Lab {
        machine: Machine { cpus: 2, memory: Bytes(2 << 30), drives: steps::drives(), exact: false, huge_pages: 0 },
        kernel,
        iolane: programs.iolane.clone(),
        files: Vec::new(),
        programs: programs.tests.to_vec(),
        accelerator: None,
        timeout: TIMEOUT,
        cache,
    };
    let job = Job { commands, folder: "/".into(), returns: records.to_vec() };
    let began = Instant::now();
    let mut guest = Guest::new(&release, names, show);
    let ended = lab.run_untimed(&job, &mut guest, &AtomicBool::new(false));
    guest.note(&format!("done after {:.0} s", began.elapsed().as_secs_f64()));
    let mut tally = std::mem::take(&mut guest.tally);
    let mut outcome = Outcome { release: release.clone(), tally: Tally::default(), found: None, took: began.elapsed() };
    match ended {
        Ok(()) => {
            let mut rows = Vec::new();
            for record in &records {
                match read_record(record) {
                    Ok(record) => rows.extend(record.rows),
                    Err(error) => tally.fail(format!("Linux {release}, the conformance suite"), &format!("{error:#}")),
                }
            }
            outcome.found = Some(Found { release, record: Record { rows } });
        }
        Err(error) => guest.lost(&error.to_string(), &mut tally),
    }
    outcome.tally = tally;
    Ok(outcome)
}

fn read_record(file: &std::path::Path) -> Result<Record> {
    let text = std::fs::read(file).context("it left no record")?;
    serde_json::from_slice(&text).context("reading its record")
}

/// Counts the lines that a guest's programs print, and shows them with the kernel's version before each.
struct Guest {
    release: String,
    tally: Tally,
    show: bool,
    /// What the programs are called.
    names: Vec<&'static str>,
    listener: Listener,
    /// The start of a line whose end has not come yet, of each stream.
    unfinished: [Vec<u8>; 2],
}

impl Guest {
    fn new(release: &str, names: Vec<&'static str>, show: bool) -> Self {
        let listener = Listener::new(release, names.first().copied().unwrap_or_default());
        Self { release: release.into(), tally: Tally::default(), show, names, listener, unfinished: Default::default() }
    }

    fn short(&self) -> &str {
        self.release.split_once(['-', '+']).map_or(self.release.as_str(), |(version, _)| version)
    }

    /// The guest is gone, and the program that ran in it.
    fn lost(self, cause: &str, tally: &mut Tally) {
        self.listener.finish(&End::Lost(cause.into()), tally);
    }
}

impl Events for Guest {
    fn note(&mut self, line: &str) {
        eprintln!("{} | {line}", self.short());
    }

    fn up(&mut self, release: &str, accelerator: Accelerator, took: Duration) {
        self.note(&format!("Linux {release} on {accelerator}, up in {:.1} s", took.as_secs_f64()));
    }

    fn output(&mut self, _command: usize, stream: Stream, bytes: &[u8]) {
        let unfinished = &mut self.unfinished[usize::from(stream == Stream::Error)];
        unfinished.extend(bytes);
        let Some(end) = unfinished.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = unfinished.drain(..=end).collect();
        for line in String::from_utf8_lossy(&whole).lines() {
            if self.listener.take(line.trim_end()) && self.show {
                println!("{} | {line}", self.short());
            }
        }
    }

    fn ended(&mut self, command: usize, how: Ended) {
        for stream in &mut self.unfinished {
            let rest = std::mem::take(stream);
            if !rest.is_empty() {
                self.listener.take(&String::from_utf8_lossy(&rest));
            }
        }
        let next = self.names.get(command + 1).copied().unwrap_or("nothing");
        let listener = std::mem::replace(&mut self.listener, Listener::new(&self.release, next));
        let end = match how {
            Ended::Code(code) => End::Code(code),
            Ended::Signal(number) => End::Signal(number),
        };
        listener.finish(&end, &mut self.tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_dies_in_a_guest_is_named_with_its_kernel_and_signal() {
        let mut guest = Guest::new("7.2.1+deb13-amd64", vec!["faults", "conformance"], false);
        guest.output(0, Stream::Output, b"running 1 test\ntest x ... ");
        guest.ended(0, Ended::Signal(11));
        guest.output(1, Stream::Output, b"running 2 tests\n");
        let mut tally = std::mem::take(&mut guest.tally);
        assert_eq!(tally.failures[0].what, "Linux 7.2.1+deb13-amd64, faults was killed by SIGSEGV (signal 11)");
        assert_eq!(tally.failures[0].last_lines, ["running 1 test", "test x ... "]);
        guest.lost("the guest: Kernel panic", &mut tally);
        let lost = "Linux 7.2.1+deb13-amd64, conformance was lost: the guest: Kernel panic";
        assert_eq!((tally.failures[1].what.as_str(), tally.failures.len()), (lost, 2));
    }
}
