//! `iolane lab`: the same commands inside a virtual machine. What they print is passed on as it comes.

mod matrix;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::FromArgMatches;
use iolane::Error;
use iolane::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::session::PROGRAM;
use iolane_lab::{
    Accelerator, Drive, Ended, Events, GuestCommand, Job, Kernel, KernelSource, Lab, Machine, Stream, debian,
};

use iolane_study::session::InstalledPeer;
use iolane_study::telemetry::{COMMAND_LINE_VARIABLE, command_line};

use crate::arguments::{self, Accel, Cli, Command, GuestArguments, LabCommand, LabRunArguments};
use crate::interrupt::STOP;
use crate::{Outcome, output};

pub(crate) fn lab(command: &LabCommand) -> anyhow::Result<Outcome> {
    match command {
        LabCommand::Run(arguments) => run(arguments),
        LabCommand::Matrix(arguments) => matrix::matrix(arguments),
        LabCommand::Fetch { version } => fetch(version),
        LabCommand::Kernels => kernels(),
    }
}

fn run(arguments: &LabRunArguments) -> anyhow::Result<Outcome> {
    let Some(inner) = check_inner(&arguments.words)? else { return Ok(Outcome::Done) };
    let words = with_targets(&arguments.words, &inner, &arguments.guest);
    in_guest(&arguments.guest, arguments.kernel.as_ref(), &words, &mut std::io::stdout())
}

/// Runs a command in a guest with this kernel; what it prints on standard output goes to `output`.
fn in_guest(
    arguments: &GuestArguments,
    kernel: Option<&KernelSource>,
    words: &[String],
    output: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let machine = machine(arguments);
    machine.check()?;
    let cache = Cache::of_user()?;
    let mut say = |line: &str| say(line);
    let kernel = match kernel {
        Some(source) => Kernel::find(source, &cache, &mut say)?,
        None => Kernel::find_default(&cache, &mut say)?,
    };
    let folder = std::env::current_dir().map_err(|error| Error::system("the current folder", error))?;
    let mut returns = named_outputs(words, &folder);
    let files = named_inputs(words, &folder, &returns);
    returns.push(folder.clone());
    let lab = Lab {
        machine,
        iolane: std::env::current_exe().map_err(|error| Error::system("this program", error))?,
        files,
        programs: peers_named(words),
        module_parameters: Vec::new(),
        accelerator: arguments.accel.map(|accel| match accel {
            Accel::Kvm => Accelerator::Kvm,
            Accel::Tcg => Accelerator::Tcg,
        }),
        timeout: arguments.timeout,
        cache: &cache,
        kernel,
    };
    let words = [PROGRAM].into_iter().chain(words.iter().map(String::as_str));
    let command = GuestCommand::new(words).with(COMMAND_LINE_VARIABLE, serde_json::to_string(&command_line())?);
    let job = Job { commands: vec![command], folder, returns };
    let mut events = Shown { lab: &lab, output, ended: None };
    lab.run(&job, &mut events, &STOP)?;
    Ok(match events.ended {
        Some(Ended::Code(code)) => u8::try_from(code).map_or(Outcome::Failed, Outcome::Code),
        Some(Ended::Signal(signal)) => {
            say(&format!("the command was killed by signal {signal}"));
            Outcome::Failed
        }
        None => Outcome::Failed,
    })
}

/// Refuses what could not be typed here either, before anything is booted; `None` if help was
/// asked for, which it prints.
fn check_inner(words: &[String]) -> anyhow::Result<Option<Cli>> {
    let line = ["iolane"].into_iter().chain(words.iter().map(String::as_str));
    let parsed = arguments::command().try_get_matches_from(line).and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(Cli { command: Command::Lab(_) }) => {
            Err(Error::usage("lab run", "a lab within a lab").remedy("give it a probe, a run or a study").into())
        }
        Ok(cli) => Ok(Some(cli)),
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            output::print(&help.to_string())?;
            Ok(None)
        }
    }
}

/// The words of a command, with targets where it is a study that needs them and names none.
fn with_targets(words: &[String], inner: &Cli, arguments: &GuestArguments) -> Vec<String> {
    let mut words = words.to_vec();
    if let Some(targets) = targets_of_study(inner, arguments.nvme) {
        say(&format!("no --target is given: {}", targets.join(" ")));
        words.extend(targets);
    }
    words
}

/// What a named study works on where its user does not say: half of the drives by the kernel's paths, the other half, which
/// are of the same kind, by the user-space driver. All of them were made for this guest, so that they may be written to.
fn targets_of_study(inner: &Cli, drives: usize) -> Option<Vec<String>> {
    let Command::Study(study) = &inner.command else { return None };
    if study.study.is_none() || !study.targets.target.is_empty() || drives == 0 {
        return None;
    }
    let kernel = drives.div_ceil(2);
    let names = (0..drives).map(|index| match index < kernel {
        true => format!("nvme{index}"),
        false => format!("pci:{}", Drive::address(index)),
    });
    let options = names.flat_map(|name| ["--target".into(), name.clone(), "--allow-writes".into(), name]);
    Some(options.collect())
}

fn machine(arguments: &GuestArguments) -> Machine {
    let block_bytes = arguments.nvme_block.iter().cycle().map(|Bytes(bytes)| u32::try_from(*bytes).unwrap_or(0));
    let drive = |block_bytes| Drive {
        bytes: arguments.nvme_size,
        block_bytes,
        metadata_bytes: arguments.nvme_metadata,
        queue_pairs: arguments.nvme_queues,
        backing: arguments.nvme_backing,
        removable: false,
    };
    Machine {
        cpus: arguments.cpus.unwrap_or(if arguments.exact { 1 } else { 2 }),
        memory: arguments.memory,
        drives: block_bytes.take(arguments.nvme).map(drive).collect(),
        exact: arguments.exact,
    }
}

/// Options whose value is a file or folder that the command writes.
const OUTPUT_OPTIONS: &[&str] = &["--out", "--json"];
/// A file larger than this is a target rather than something to read, and would fill the guest's memory.
const INPUT_BYTES_MAX: u64 = 64 << 20;

fn named_outputs(words: &[String], folder: &Path) -> Vec<PathBuf> {
    values_of(words, OUTPUT_OPTIONS).filter(|value| *value != "-").map(|value| normal(&folder.join(value))).collect()
}

/// The values that these options have in a command, each in a word of its own or after `=`.
fn values_of<'a>(words: &'a [String], options: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let apart = words.windows(2).filter(|pair| options.contains(&pair[0].as_str())).map(|pair| pair[1].as_str());
    let joined = words.iter().filter_map(|word| {
        let (option, value) = word.split_once('=')?;
        options.contains(&option).then_some(value)
    });
    apart.chain(joined)
}

/// The programs of the peers that a study is to run, as far as they are installed here, and their places inside; what is
/// missing the study itself says.
fn peers_named(words: &[String]) -> Vec<(PathBuf, PathBuf)> {
    let installed = values_of(words, &["--peer"])
        .flat_map(|value| value.split(','))
        .filter_map(|name| Some((name, InstalledPeer::find(name).ok()?.installed.program)));
    installed.map(|(name, program)| (program, Path::new("/bin").join(name))).collect()
}

/// Files that exist here and are named in the command, beside those that it writes.
fn named_inputs(words: &[String], folder: &Path, outputs: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let values = words.iter().map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value));
    let paths = values.map(|value| normal(&folder.join(value)));
    let is_input = |path: &PathBuf| {
        let small_file = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= INPUT_BYTES_MAX);
        small_file && !outputs.contains(path)
    };
    paths.filter(is_input).map(|path| (path.clone(), path)).collect()
}

/// The path without `.` and `..`, as the guest will see it.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Passes on what a guest says.
struct Shown<'a> {
    lab: &'a Lab<'a>,
    /// Where its standard output goes.
    output: &'a mut dyn Write,
    ended: Option<Ended>,
}

impl Events for Shown<'_> {
    fn note(&mut self, line: &str) {
        say(line);
    }

    fn up(&mut self, release: &str, accelerator: Accelerator, took: Duration) {
        let Machine { cpus, memory, drives, .. } = &self.lab.machine;
        let origin = &self.lab.kernel.origin;
        let (cpus_word, drives_word) = (plural(*cpus as usize, "cpu"), plural(drives.len(), "NVMe drive"));
        say(&format!(
            "Linux {release} ({origin}) on {accelerator}: {cpus} {cpus_word}, {memory}, {} {drives_word}; up in {:.1} s",
            drives.len(),
            took.as_secs_f64()
        ));
    }

    fn output(&mut self, _command: usize, stream: Stream, bytes: &[u8]) {
        // A reader that went away (`| head`) takes nothing from the guest, which ends as it would have.
        let _ = match stream {
            Stream::Output => self.output.write_all(bytes).and_then(|()| self.output.flush()),
            Stream::Error => std::io::stderr().write_all(bytes),
        };
    }

    fn ended(&mut self, _command: usize, how: Ended) {
        self.ended = Some(how);
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.into() } else { format!("{word}s") }
}

fn say(line: &str) {
    output::complain(&format!("lab: {line}"));
}

fn fetch(versions: &[KernelSource]) -> anyhow::Result<Outcome> {
    let cache = Cache::of_user()?;
    for version in versions {
        let kernel = Kernel::find(version, &cache, &mut |line: &str| say(line))?;
        output::print(&format!("{version}: Linux {} ({})\n", kernel.release, kernel.origin))?;
    }
    Ok(Outcome::Done)
}

fn kernels() -> anyhow::Result<Outcome> {
    let cache = Cache::of_user()?;
    let rows: Vec<Vec<String>> =
        debian::kept(&cache).into_iter().map(|(name, kernel)| vec![name, kernel.release, kernel.origin]).collect();
    output::print(&match rows.is_empty() {
        true => "No kernel is kept yet; `iolane lab fetch 6.1` fetches one.\n".into(),
        false => output::table(&["--kernel", "release", "from"], &rows, output::CellAlignment::Left),
    })?;
    output::print(&format!("\nKept in {}\n", cache.folder().display()))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_a_command_writes_is_found_in_its_words() {
        let outputs = named_outputs(&words("study --out results --json=x.json"), Path::new("/home/me"));
        assert_eq!(outputs, [Path::new("/home/me/results"), Path::new("/home/me/x.json")]);
        assert_eq!(named_outputs(&words("run --json -"), Path::new("/")), Vec::<PathBuf>::new());
        assert_eq!(named_outputs(&words("study --out ../up/./x"), Path::new("/home/me")), [Path::new("/home/up/x")]);
    }

    #[test]
    fn files_that_a_command_reads_go_in_and_those_it_writes_do_not() {
        let outputs = [PathBuf::from("/proc/self/environ")];
        let inputs =
            named_inputs(&words("study /proc/self/status --json=/proc/self/environ nvme0"), Path::new("/"), &outputs);
        assert_eq!(inputs.len(), 1, "{inputs:?}");
        assert_eq!(inputs[0].0, Path::new("/proc/self/status"));
    }
}
