//! `cargo xtask bench`: compares iolane with Debian's fio on the same file in the page cache, and with its own goals.
//! This file chooses what runs and in which order; the programs, the statistics and the tables have files of their own.

mod arms;
mod auto;
mod baseline;
mod cached_file;
mod changing_load;
mod exact;
mod guest;
mod many_files;
mod nvme;
mod profile;
mod programs;
mod report;
mod settings;
mod statistics;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::child::{cargo, cargo_metadata, root, succeeds};
use crate::packages;
use crate::table::{Style, grouped};
use arms::{ARMS, Arm, NULL_DEPTH};
use auto::Part;
use cached_file::CachedFile;
use programs::{Iolane, Job, Run};
use report::{ArmResult, Report};

/// The file is larger than a processor's caches, and fits the page cache of any machine that builds this.
const FILE_BYTES: u64 = 512 << 20;
const PAIRS_MIN: usize = 5;

/// What was asked for on the command line.
#[derive(Debug, PartialEq)]
struct Options {
    pairs: usize,
    style: Style,
    gate: bool,
    iolane: Option<PathBuf>,
    /// What else than the comparison on a cached file.
    other: Option<Other>,
    /// With `--drives`, a part of the name of the grids to measure.
    only: Option<String>,
    figures: Figures,
}

/// Benchmarks whose figures are committed in docs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Other {
    /// Instructions of each path of the kernel's.
    Exact,
    /// The user-space driver.
    Nvme,
    /// The path that chooses among the others, and that with loads that change alone.
    Auto,
    Changes,
    /// The same on an emulated drive and on two processors, in real time.
    Drives,
    /// Settings of a block device.
    Settings,
    /// A queue with many files.
    Files,
    /// Where the instructions go.
    Profile,
}

/// What to do with the figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Figures {
    /// Compare with those committed, and write nothing.
    check: bool,
    /// Write them even if they are worse.
    accept: bool,
}

/// Measures and prints; `Ok(false)` if a goal was missed and `--gate` was given.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let target_folder = target_folder()?;
    let binary = match &options.iolane {
        Some(binary) => std::path::absolute(binary).with_context(|| format!("--iolane {}", binary.display()))?,
        None => build_iolane(&target_folder)?,
    };
    let Figures { check, accept } = options.figures;
    match options.other {
        Some(Other::Exact) => return exact::run(&binary, check, accept),
        Some(Other::Nvme) => return nvme::run(&binary, &target_folder, check, accept),
        Some(Other::Auto) if check => return auto::run(&binary, &target_folder, Part::Check),
        Some(Other::Auto) => return auto::run(&binary, &target_folder, Part::Whole),
        Some(Other::Changes) => return auto::run(&binary, &target_folder, Part::Changes),
        Some(Other::Drives) => {
            return auto::run(&binary, &target_folder, Part::Drives { only: options.only.as_deref() });
        }
        Some(Other::Settings) => return settings::run(&binary),
        Some(Other::Profile) => return profile::run(&binary, &target_folder),
        Some(Other::Files) => return many_files::run(&binary, &target_folder, check),
        None => {}
    }
    ensure!(
        packages::install(&[packages::FIO])?.is_empty(),
        "fio is missing and could not be installed, see above; run `apt-get install fio` as root"
    );
    let report = Bench::new(binary, &target_folder, options.pairs)?.measure()?;
    print!("{}", report.render(options.style));
    Ok(!options.gate || report.all_goals_reached())
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            pairs: PAIRS_MIN,
            style: Style::Text,
            gate: false,
            iolane: None,
            other: None,
            only: None,
            figures: Figures::default(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--pairs" => options.pairs = parse_pairs(value()?)?,
                "--markdown" => options.style = Style::Markdown,
                "--gate" => options.gate = true,
                "--iolane" => options.iolane = Some(value()?.into()),
                "--exact" => options.other = Some(Other::Exact),
                "--nvme" => options.other = Some(Other::Nvme),
                "--auto" => options.other = Some(Other::Auto),
                "--changes" => options.other = Some(Other::Changes),
                "--drives" => options.other = Some(Other::Drives),
                "--only" => options.only = Some(value()?.clone()),
                "--settings" => options.other = Some(Other::Settings),
                "--files" => options.other = Some(Other::Files),
                "--profile" => options.other = Some(Other::Profile),
                "--check" => options.figures.check = true,
                "--accept" => options.figures.accept = true,
                other => bail!(
                    "`bench` has no option `{other}`; it takes --pairs N, --markdown, --gate, --iolane FILE, --exact, \
                     --nvme, --auto, --changes, --drives, --only TEXT, --settings, --files, --profile, --check, --accept"
                ),
            }
        }
        let about_figures = options.figures != Figures::default();
        let has_gate = matches!(options.other, Some(Other::Exact | Other::Nvme | Other::Auto | Other::Files));
        ensure!(!about_figures || has_gate, "--check and --accept go with --exact, --nvme, --auto or --files");
        ensure!(options.only.is_none() || options.other == Some(Other::Drives), "--only goes with --drives");
        Ok(options)
    }
}

fn parse_pairs(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(pairs) if pairs >= PAIRS_MIN => Ok(pairs),
        _ => bail!("--pairs {text}: not a number from {PAIRS_MIN} up; fewer runs say nothing about their spread"),
    }
}

/// Where cargo puts what it builds.
fn target_folder() -> Result<PathBuf> {
    let metadata: serde_json::Value = cargo_metadata()?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    Ok(folder.into())
}

fn build_iolane(target_folder: &std::path::Path) -> Result<PathBuf> {
    ensure!(
        succeeds(&mut cargo(&["build", "--release", "--package", "iolane-cli"]))?,
        "iolane did not build, see above; run it in {} by hand",
        root().display()
    );
    Ok(target_folder.join("release/iolane"))
}

/// One bench: its file, its core, and how far it is.
struct Bench {
    iolane: Iolane,
    file: CachedFile,
    cpu: u32,
    pairs: usize,
    runs_done: usize,
    started: Instant,
}

impl Bench {
    fn new(binary: PathBuf, target_folder: &std::path::Path, pairs: usize) -> Result<Self> {
        eprintln!("making a file of {} MiB in the page cache", FILE_BYTES >> 20);
        let file = CachedFile::create(&target_folder.join("xtask-bench.data"), FILE_BYTES)?;
        let cpu = last_allowed_cpu().context("/proc/self/status does not list the allowed cpus")?;
        Ok(Self { iolane: Iolane::new(binary), file, cpu, pairs, runs_done: 0, started: Instant::now() })
    }

    /// Runs all arms in turn, over and over, so that a machine that changes its speed changes it for all of them.
    fn measure(mut self) -> Result<Report> {
        let mut report = Report::begin(self.pairs, self.cpu)?;
        let mut results: Vec<ArmResult> = ARMS.iter().map(ArmResult::new).collect();
        for pair in 0..self.pairs {
            for (arm, result) in ARMS.iter().zip(&mut results) {
                // A path that is unavailable here must not prevent the others from being measured.
                let measured = if result.failure.is_none() { self.measure_pair(arm, pair, result) } else { Ok(()) };
                result.failure = result.failure.take().or(measured.err().map(|error| format!("{error:#}")));
            }
            let run = self.run_null()?;
            report.null_iops.push(run.iops);
            report.note_memory(&run, NULL_DEPTH);
        }
        results.iter().for_each(|result| report.note_arm_memory(result));
        report.arms = results;
        Ok(report)
    }

    /// One run of each program; which goes first alternates, because the first may warm or throttle the machine. Then
    /// the baseline loop, which shows how large the difference between two programs can be.
    fn measure_pair(&mut self, arm: &Arm, pair: usize, result: &mut ArmResult) -> Result<()> {
        let iolane_first = pair % 2 == 1;
        let early = if iolane_first { Some(self.run_iolane(arm)?) } else { None };
        let fio_iops = self.run_fio(arm)?;
        let run = match early {
            Some(run) => run,
            None => self.run_iolane(arm)?,
        };
        let baseline_iops = baseline::run(&self.job(arm))?;
        self.progress("baseline", arm.path, baseline_iops);
        result.baseline_iops.push(baseline_iops);
        result.fio_iops.push(fio_iops);
        result.iolane_iops.push(run.iops);
        result.resident_bytes_max = result.resident_bytes_max.max(run.resident_bytes_max);
        Ok(())
    }

    fn run_fio(&mut self, arm: &Arm) -> Result<f64> {
        let iops = programs::run_fio(&self.job(arm))?;
        self.progress("fio", arm.path, iops);
        Ok(iops)
    }

    fn run_iolane(&mut self, arm: &Arm) -> Result<Run> {
        let run = self.iolane.run(&self.job(arm))?;
        self.progress("iolane", arm.path, run.iops);
        Ok(run)
    }

    fn run_null(&mut self) -> Result<Run> {
        let job = Job { target: "null".into(), path: "null", depth: NULL_DEPTH, cpu: self.cpu };
        let run = self.iolane.run(&job)?;
        self.progress("iolane", job.path, run.iops);
        Ok(run)
    }

    fn job(&self, arm: &Arm) -> Job {
        Job { target: self.file.path().to_owned(), path: arm.path, depth: arm.depth, cpu: self.cpu }
    }

    fn progress(&mut self, program: &str, path: &str, iops: f64) {
        self.runs_done += 1;
        let runs = self.pairs * (3 * ARMS.len() + 1);
        let seconds_each = self.started.elapsed().as_secs_f64() / self.runs_done as f64;
        let seconds_left = seconds_each * runs.saturating_sub(self.runs_done) as f64;
        let iops = grouped(iops);
        eprintln!("{:>3}/{runs}  {path:<9} {program:<8} {iops:>12} IOPS  {seconds_left:>4.0} s left", self.runs_done);
    }
}

/// The last cpu this process may run on: the first ones take most of a machine's interrupts.
fn last_allowed_cpu() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    last_of_cpu_list(list.trim())
}

/// The last number of a list such as `0,2-3`, which the kernel writes in ascending order.
fn last_of_cpu_list(list: &str) -> Option<u32> {
    list.rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_taken_in_any_order() {
        let options = parse(&["--gate", "--pairs", "9", "--markdown", "--iolane", "x/iolane"]).unwrap();
        let expected = Options {
            pairs: 9,
            style: Style::Markdown,
            gate: true,
            iolane: Some("x/iolane".into()),
            ..parse(&[]).unwrap()
        };
        assert_eq!(options, expected);
        assert_eq!(parse(&[]).unwrap().pairs, PAIRS_MIN);
    }

    #[test]
    fn too_few_pairs_and_unknown_options_are_refused() {
        for (words, cause) in [
            (&["--pairs", "4"][..], "from 5 up"),
            (&["--pairs"], "needs a value"),
            (&["--fast"], "no option `--fast`"),
            (&["--check"], "go with"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(cause), "{error}");
        }
    }

    #[test]
    fn the_last_cpu_is_taken() {
        for (list, cpu) in [("0", Some(0)), ("0-7", Some(7)), ("0,2-3", Some(3)), ("0-1,5", Some(5)), ("", None)] {
            assert_eq!(last_of_cpu_list(list), cpu);
        }
    }
}
