//! `cargo xtask guests`: the conformance suite, its proofs and its faults on real NVMe controllers and null_blk, and drives
//! that change hands, in a guest for each kernel that iolane cares for; and some power cuts, and drives in use, in other guests of each.
//! `cargo xtask test` ends with it.
//!
//! Nothing in these guests is timed: translated, their processors run in turn, on one thread of this machine, so that as many
//! guests run side by side as it has processors.

mod cut_counts;
pub(crate) mod cuts;
mod record;
mod stacks;
mod steps;
mod table;
pub(crate) mod uses;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use iolane_core::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::{Accelerator, Drive, Ended, Events, Job, Kernel, KernelSource, Lab, Machine, Stream};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::child::find_program;
use crate::packages::{self, Package, QEMU};
use crate::programs::{self, Program};
use crate::skips::{Accepted, Skip};
use crate::tally::{End, Listener, Tally};
use crate::times::Times;
use crate::verdict;
use cut_counts::CutCounts;
use cuts::{Cuts, Recording};
use record::{Found, Record};
use stacks::Stack;
use steps::Step;
use uses::Uses;

/// Polling of blocking reads ended after the first; passthrough began with the second; the third and fourth are what
/// people run.
const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];
/// A guest takes two or three minutes on a quiet machine; one that takes this long hangs.
const TIMEOUT: Duration = Duration::from_secs(1200);
/// The paths of a guest, at most, each of which is soaked.
const PATHS_MAX: u32 = 40;
/// What a controller needs, at most, until it is itself again.
const MEDDLING_MAX: Duration = Duration::from_secs(6);
/// The set of broken queues above ten paths.
const BUGS_MAX: Duration = Duration::from_secs(3600);

/// What an attempt on a drive in use takes, at most.
const USE_MAX: Duration = Duration::from_secs(30);

/// What is run in a guest.
#[derive(Debug, Clone, Copy)]
enum Suite {
    Conformance,
    /// In a guest of its own, because more drives change the names of others: the kernel numbers a drive that can be removed after
    /// all that cannot.
    Cuts(Cuts),
    /// A process that lives long, with the seconds of each path.
    Soak(u32),
    /// The set of broken queues.
    Bugs,
    /// A controller that does what it likes, and how often.
    Meddling {
        times: u32,
        seed: u64,
    },
    /// Drives in use in every way.
    Uses(Uses),
    /// What is built on drives.
    Stack(&'static Stack),
}

/// Runs a process that lives long in guests of all kernels, for that many seconds on each path; `Ok(false)` if it does not hold what it held
/// at its start.
pub(crate) fn run_soak(seconds: u32) -> Result<bool> {
    run_campaign(Suite::Soak(seconds))
}

/// Checks that the conformance suite finds each bug of a kept set above the paths that reach drives only, in a guest of the kernel that has all of
/// them; `Ok(false)` if it misses one.
pub(crate) fn run_bugs() -> Result<bool> {
    run_campaign_on(&["7.2"], Vec::new(), &[Suite::Bugs])
}

/// Meddles with a controller in guests of all kernels; `Ok(false)` if that costs more than requests.
pub(crate) fn run_meddling(times: u32, seed: u64) -> Result<bool> {
    run_campaign(Suite::Meddling { times, seed })
}

/// Asks the guard for drives that are in use, in guests of all kernels; `Ok(false)` if it gives a wrong answer.
pub(crate) fn run_uses(uses: Uses) -> Result<bool> {
    run_campaign(Suite::Uses(uses))
}

/// Runs the conformance suite on what is built on drives: on the stacks and kernels named, or on all.
pub(crate) fn run_stacks(words: &[&str]) -> Result<bool> {
    let (stacks, kernels) = stacks::named(words)?;
    let (mut suites, mut missing) = (Vec::new(), Vec::new());
    for stack in stacks {
        match stack.missing()? {
            packages if packages.is_empty() => suites.push(Suite::Stack(stack)),
            packages => missing.extend(packages.into_iter().map(Package::skip)),
        }
    }
    run_campaign_on(&kernels, missing, &suites)
}

fn run_campaign(suite: Suite) -> Result<bool> {
    let packages = if matches!(suite, Suite::Uses(_)) { Uses::packages() } else { Vec::new() };
    let missing = packages::install(&packages)?.into_iter().map(Package::skip).collect();
    run_campaign_on(&[], missing, &[suite])
}

/// Runs suites in guests of the kernels named, or of all, without what was missing.
fn run_campaign_on(kernels: &[&str], missing: Vec<Skip>, suites: &[Suite]) -> Result<bool> {
    let accepted = Accepted::read()?;
    let (mut tally, mut times) = (Tally::default(), Times::default());
    tally.skipped = missing;
    let kernels = find_kernels(kernels, &mut tally, &mut times)?;
    let guests = kernels.iter().flat_map(|kernel| suites.iter().map(|suite| (kernel.clone(), *suite))).collect();
    run_guests(guests, &mut tally, &mut times, true)?;
    Ok(verdict::conclude(&tally, &times, &accepted, false, verdict::is_ci()))
}

/// Cuts the power of examples and of a study in guests of all kernels, and prints how often; `Ok(false)` if something is lost.
pub(crate) fn run_cuts(cuts: Cuts, table_alone: bool) -> Result<bool> {
    let accepted = Accepted::read()?;
    let (mut tally, mut times) = (Tally::default(), Times::default());
    tally.skipped = packages::install(&cuts.packages())?.into_iter().map(Package::skip).collect();
    tally.skipped.iter().for_each(|skip| eprintln!("SKIPPED {skip}"));
    verdict::require_accepted(&tally.skipped, &accepted, verdict::is_ci())?;
    let kernels = find_kernels(&[], &mut tally, &mut times)?;
    let guests = kernels.into_iter().map(|kernel| (kernel, Suite::Cuts(cuts))).collect();
    let outcomes = run_guests(guests, &mut tally, &mut times, !table_alone)?;
    let counts: Vec<CutCounts> = outcomes.into_iter().filter_map(|outcome| outcome.cuts).collect();
    if table_alone {
        print!("{}", cut_counts::render(&counts));
        eprint!("{}", tally.report(&accepted, false));
        return Ok(tally.failures.is_empty());
    }
    print!("\n{}", cut_counts::render(&counts));
    Ok(verdict::conclude(&tally, &times, &accepted, false, verdict::is_ci()))
}

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
    let missing: Vec<Skip> = packages::install(&Uses::packages())?.into_iter().map(Package::skip).collect();
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

/// Runs the guests for each kernel, counts what they print, and gives the table.
pub(crate) fn run_all(kernels: Vec<Kernel>, tally: &mut Tally, times: &mut Times, show: bool) -> Result<String> {
    let all = |suite: Suite| kernels.iter().map(move |kernel| (kernel.clone(), suite));
    // Those that take longest begin.
    let slices = all(Suite::Cuts(cuts::SLICE)).chain(all(Suite::Uses(uses::SLICE)));
    let guests = all(Suite::Conformance).chain(slices).collect();
    let outcomes = run_guests(guests, tally, times, show)?;
    let found: Vec<Found> = outcomes.into_iter().filter_map(|outcome| outcome.found).collect();
    Ok(table::render(&found))
}

/// Runs guests, and counts what they print; what came of them, in their order.
fn run_guests(guests: Vec<(Kernel, Suite)>, tally: &mut Tally, times: &mut Times, show: bool) -> Result<Vec<Outcome>> {
    if !packages::install(&[QEMU])?.is_empty() {
        if !tally.skipped.contains(&QEMU.skip()) {
            tally.skipped.push(QEMU.skip());
        }
        return Ok(Vec::new());
    }
    let Some(programs) = times.measure("build for guests", Programs::build)? else {
        tally.fail("the programs for guests", "they did not build, see above");
        return Ok(Vec::new());
    };
    let began = Instant::now();
    let mut outcomes = Runner { programs, cache: Cache::of_user()?, show }.run_side_by_side(guests)?;
    times.add("guests", began.elapsed());
    for outcome in &mut outcomes {
        times.add(&format!("  Linux {}", outcome.name), outcome.took);
        tally.absorb(std::mem::take(&mut outcome.tally));
    }
    Ok(outcomes)
}

/// What came of one guest.
#[derive(Default)]
struct Outcome {
    /// The release of its kernel, and what it ran.
    name: String,
    tally: Tally,
    found: Option<Found>,
    cuts: Option<CutCounts>,
    took: Duration,
}

/// What runs in a guest.
struct Programs {
    iolane: PathBuf,
    tests: [(PathBuf, PathBuf); 3],
    guard_drives: (PathBuf, PathBuf),
    /// The programs of power cuts run in the guest and on the host.
    power_cuts: [PathBuf; 2],
}

impl Programs {
    /// `None` if they do not build.
    fn build() -> Result<Option<Self>> {
        let names = ["conformance", "faults", "guard_drives", "nvme", "power_cuts"];
        let Some(programs) = programs::build(&["build", "--package", "iolane-cli"])? else { return Ok(None) };
        let arguments =
            [&["test", "--no-run", "--package", "iolane"][..], &names.map(|name| ["--test", name]).concat()];
        let Some(tests) = programs::build(&arguments.concat())? else { return Ok(None) };
        let named = |programs: &[Program], name: &str| {
            let found = programs.iter().find(|known| known.target == name).map(|found| found.path.clone());
            found.with_context(|| format!("cargo built no program called {name}"))
        };
        let Some(of_study) =
            programs::build(&["test", "--no-run", "--package", "iolane-study", "--test", "power_cuts"])?
        else {
            return Ok(None);
        };
        let in_guest = |name| Ok::<_, anyhow::Error>((named(&tests, name)?, format!("/bin/{name}").into()));
        Ok(Some(Self {
            iolane: named(&programs, "iolane")?,
            tests: [in_guest("conformance")?, in_guest("faults")?, in_guest("nvme")?],
            guard_drives: (named(&tests, "guard_drives")?, uses::PROGRAM.into()),
            power_cuts: [named(&tests, "power_cuts")?, named(&of_study, "power_cuts")?],
        }))
    }
}

/// What a guest has and runs.
struct Made {
    drives: Vec<Drive>,
    /// On the host, and in the guest.
    programs: Vec<(PathBuf, PathBuf)>,
    modules: &'static [&'static str],
    steps: Vec<Step>,
    /// The files that it sends back.
    returns: Vec<PathBuf>,
}

/// Runs guests.
struct Runner {
    programs: Programs,
    cache: Cache,
    /// Whether what they print is shown.
    show: bool,
}

impl Runner {
    /// As many at a time as there are processors; what came of them, in their order.
    fn run_side_by_side(&self, guests: Vec<(Kernel, Suite)>) -> Result<Vec<Outcome>> {
        let slots = std::thread::available_parallelism().map_or(1, usize::from).min(guests.len());
        let waiting: Mutex<VecDeque<_>> = Mutex::new(guests.into_iter().enumerate().collect());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = |slot: usize| {
            bind_to_processor(slot)?;
            let mut outcomes = Vec::new();
            while let Some((index, (kernel, suite))) = next() {
                outcomes.push((index, self.run(kernel, suite)?));
            }
            Ok::<_, anyhow::Error>(outcomes)
        };
        let mut outcomes = Vec::new();
        // Each guest ends with the thread that started it, which therefore stays until it is done.
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..slots).map(|slot| scope.spawn(move || work(slot))).collect();
            for worker in workers {
                outcomes.extend(worker.join().map_err(|_| anyhow::anyhow!("a guest's thread panicked"))??);
            }
            Ok::<_, anyhow::Error>(())
        })?;
        outcomes.sort_by_key(|(index, _)| *index);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    fn run(&self, kernel: Kernel, suite: Suite) -> Result<Outcome> {
        let began = Instant::now();
        let folder = tempfile::tempdir().context("making a folder")?;
        let outcome = match suite {
            Suite::Conformance => self.test_conformance(kernel, folder.path()),
            Suite::Cuts(cuts) => self.cut_power(kernel, cuts, folder.path())?,
            Suite::Soak(seconds) => {
                let steps = steps::soaking(&kernel, seconds);
                self.run_steps(kernel, "soak", steps, Duration::from_secs(seconds.into()) * PATHS_MAX)
            }
            Suite::Bugs => {
                let steps = steps::broken_queues(&kernel);
                self.run_steps(kernel, "broken queues", steps, BUGS_MAX)
            }
            Suite::Meddling { times, seed } => {
                self.run_steps(kernel, "meddling", vec![steps::meddling(times, seed)], MEDDLING_MAX * times)
            }
            Suite::Uses(uses) => self.use_drives(kernel, uses),
            Suite::Stack(stack) => self.test_stack(kernel, stack),
        };
        Ok(Outcome { took: began.elapsed(), ..outcome })
    }

    fn test_conformance(&self, kernel: Kernel, folder: &Path) -> Outcome {
        let release = kernel.release.clone();
        let records = ["kernel", "user-space"].map(|name| folder.join(name).with_extension("json"));
        let made = Made {
            drives: steps::drives(),
            programs: self.programs.tests.to_vec(),
            modules: &[],
            steps: steps::steps(&kernel, &records),
            returns: records.to_vec(),
        };
        let (mut tally, has_ended) = self.boot(kernel, made, TIMEOUT);
        if !has_ended {
            return Outcome { name: release, tally, ..Outcome::default() };
        }
        let mut rows = Vec::new();
        for record in &records {
            match read_record(record) {
                Ok(record) => rows.extend(record.rows),
                Err(error) => tally.fail(format!("Linux {release}, the conformance suite"), &format!("{error:#}")),
            }
        }
        let found = Found { release: release.clone(), record: Record { rows } };
        Outcome { name: release, tally, found: Some(found), ..Outcome::default() }
    }

    /// Steps on the drives of the conformance suite, which take that time at most.
    fn run_steps(&self, kernel: Kernel, what: &str, steps: Vec<Step>, time: Duration) -> Outcome {
        let name = format!("{}, {what}", kernel.release);
        let made = Made {
            drives: steps::drives(),
            programs: self.programs.tests.to_vec(),
            modules: &[],
            steps,
            returns: Vec::new(),
        };
        let (tally, _) = self.boot(kernel, made, TIMEOUT + time);
        Outcome { name, tally, ..Outcome::default() }
    }

    /// Asks the guard for drives in use.
    fn use_drives(&self, kernel: Kernel, uses: Uses) -> Outcome {
        let name = format!("{}, drives in use", kernel.release);
        let made = Made {
            drives: Uses::drives(),
            programs: tools(&uses::TOOLS).into_iter().chain([self.programs.guard_drives.clone()]).collect(),
            modules: uses::MODULES,
            steps: vec![uses.step()],
            returns: Vec::new(),
        };
        let time = USE_MAX * uses.attempts.unwrap_or_default().try_into().unwrap_or(u32::MAX);
        let (tally, _) = self.boot(kernel, made, TIMEOUT + time);
        Outcome { name, tally, ..Outcome::default() }
    }

    /// Runs the conformance suite on what is built on drives.
    fn test_stack(&self, kernel: Kernel, stack: &Stack) -> Outcome {
        let name = format!("{}, {}", kernel.release, stack.name);
        let made = Made {
            drives: stacks::drives(),
            programs: tools(&stacks::TOOLS).into_iter().chain(self.programs.tests.iter().cloned()).collect(),
            modules: stacks::MODULES,
            steps: stack.steps(),
            returns: Vec::new(),
        };
        let (tally, _) = self.boot(kernel, made, TIMEOUT);
        Outcome { name, tally, ..Outcome::default() }
    }

    /// Records what programs write in a guest, and cuts the power here.
    fn cut_power(&self, kernel: Kernel, cuts: Cuts, folder: &Path) -> Result<Outcome> {
        let release = kernel.release.clone();
        let recording = Recording::new(cuts, folder, find_program);
        let programs = &self.programs.power_cuts;
        let in_guest = programs.iter().cloned().zip([cuts::EXAMPLES, cuts::STUDY].map(PathBuf::from));
        let made = Made {
            drives: recording.drives(),
            programs: in_guest.chain(recording.makers()).collect(),
            modules: recording.modules(),
            steps: recording.steps(&kernel),
            returns: Vec::new(),
        };
        let (mut tally, has_ended) = self.boot(kernel, made, TIMEOUT);
        let counts = if has_ended { Some(recording.check(programs, &release, &mut tally, self.show)?) } else { None };
        Ok(Outcome { name: format!("{release}, power cuts"), tally, cuts: counts, ..Outcome::default() })
    }

    /// Runs the steps in a guest: what they print, added up, and whether the guest came to its end.
    fn boot(&self, kernel: Kernel, made: Made, timeout: Duration) -> (Tally, bool) {
        let release = kernel.release.clone();
        let (names, commands): (Vec<_>, Vec<_>) =
            made.steps.into_iter().map(|Step { name, command }| (name, command.tells_kernel_warnings())).unzip();
        let drives = made.drives;
        let lab = Lab {
            machine: Machine::new(2, Bytes(2 << 30), drives),
            kernel,
            iolane: self.programs.iolane.clone(),
            files: Vec::new(),
            programs: made.programs,
            modules: made.modules,
            accelerator: None,
            plugin: None,
            timeout,
            cache: &self.cache,
        };
        let job = Job { commands, folder: "/".into(), returns: made.returns, ..Job::default() };
        let began = Instant::now();
        let mut guest = Guest::new(&release, names, self.show);
        let ended = lab.run_untimed(&job, &mut guest, &AtomicBool::new(false));
        guest.note(&format!("done after {:.0} s", began.elapsed().as_secs_f64()));
        let mut tally = std::mem::take(&mut guest.tally);
        let has_ended = ended.is_ok();
        if let Err(error) = ended {
            guest.lost(&error.to_string(), &mut tally);
        }
        (tally, has_ended)
    }
}

/// Those of these programs that are installed, and their places in a guest.
fn tools(names: &[&str]) -> Vec<(PathBuf, PathBuf)> {
    names.iter().filter_map(|name| Some((find_program(name)?, Path::new("/bin").join(name)))).collect()
}

/// Keeps the calling thread on one of the processors that it may use, so that the guests that it starts do not share one with
/// those of other threads: each stays on the processor where it began.
fn bind_to_processor(slot: usize) -> Result<()> {
    let allowed = sched_getaffinity(None).context("the processors that this process may use")?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    let mut one = CpuSet::new();
    one.set(usable[slot % usable.len()]);
    sched_setaffinity(None, &one).context("keeping a guest's thread on one processor")
}

fn read_record(file: &Path) -> Result<Record> {
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
