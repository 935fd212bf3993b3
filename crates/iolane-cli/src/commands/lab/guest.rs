//! Runs a command in a guest: the machine that the options describe, the files that go in and out, and its output.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use iolane::Error;
use iolane::units::Bytes;
use iolane_lab::cache::Cache;
use iolane_lab::session::PROGRAM;
use iolane_lab::{
    Accelerator, Backing, Drive, DriveSpeed, Ended, Events, GuestCommand, Job, Kernel, KernelSource, Lab, Machine,
    Stream,
};
use iolane_measure::host::{COMMAND_LINE_VARIABLE, LAB_VARIABLE, LabMachine, command_line};
use iolane_study::files::{MadeFolders, check_way};
use iolane_study::format;
use iolane_study::results::REPORT_FILE;
use iolane_study::rows::journal;

use super::files;
use crate::arguments::{Accel, GuestArguments};
use crate::interrupt::STOP;
use crate::outcome::Outcome;
use crate::output::{SafeStream, complain};

/// Runs a command in a guest with this kernel; its standard output goes to `output`. It writes to what its words name, and to
/// `results` if its words leave that out.
pub(super) fn run(
    arguments: &GuestArguments,
    kernel: Option<&KernelSource>,
    (words, results): (&[String], Option<&Path>),
    output: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let peers = files::peers(words);
    let huge_pages = if peers.iter().any(|peer| peer.peer.needs_huge_pages()) { HUGE_PAGES } else { 0 };
    let machine = Machine { huge_pages, ..machine(arguments) };
    machine.check()?;
    let cache = Cache::of_user()?;
    let mut say = |line: &str| say(line);
    let kernel = match kernel {
        Some(source) => Kernel::find(source, &cache, &mut say)?,
        None => Kernel::find_default(&cache, &mut say)?,
    };
    let folder = std::env::current_dir().map_err(|error| Error::system("the current folder", error))?;
    let returns = files::outputs(words, results, &folder);
    returns.iter().try_for_each(|output| check_way(output))?;
    // Made before the guest runs, so that nobody else can put something in its place meanwhile.
    let _made = results.map(|results| MadeFolders::make(&folder.join(results))).transpose()?;
    // A study in the guest keeps complete results as one here does, for which it has to know of them. It is not resumed, so
    // that its journal is of no use here, where it could replace that of a study of this machine.
    let [earlier, stays] =
        [REPORT_FILE, journal::FILE].map(|file| results.map(|results| files::normal(&folder.join(results).join(file))));
    let mut files = files::inputs(words, &folder, &returns);
    files.extend(earlier.filter(|report| report.is_file()).map(|report| (report.clone(), report)));
    let lab = Lab {
        machine,
        iolane: std::env::current_exe().map_err(|error| Error::system("this program", error))?,
        files,
        programs: files::programs(&peers),
        modules: &[],
        accelerator: arguments.accel.map(|accel| match accel {
            Accel::Kvm => Accelerator::Kvm,
            Accel::Tcg => Accelerator::Tcg,
        }),
        plugin: None,
        timeout: arguments.timeout,
        cache: &cache,
        kernel,
    };
    let words = [PROGRAM].into_iter().chain(words.iter().map(String::as_str));
    let behind = LabMachine {
        cpus: lab.machine.cpus as usize,
        host_cpus: std::thread::available_parallelism().map_or(1, usize::from),
        exact: lab.machine.exact,
        drives_have_ceiling: lab.machine.drives.iter().all(|drive| drive.speed.has_ceiling()),
    };
    let command = GuestCommand::new(words)
        .with(COMMAND_LINE_VARIABLE, serde_json::to_string(&command_line())?)
        .with(LAB_VARIABLE, serde_json::to_string(&behind)?);
    let job = Job { commands: vec![command], folder, returns, stays: stays.into_iter().collect() };
    let mut events = Shown { lab: &lab, output, streams: Default::default(), ended: None };
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

pub(super) fn machine(arguments: &GuestArguments) -> Machine {
    let block_bytes = arguments.nvme_block.iter().cycle().map(|Bytes(bytes)| u32::try_from(*bytes).unwrap_or(0));
    let speed = speed(arguments);
    let drive = |block_bytes| Drive {
        bytes: arguments.nvme_size,
        block_bytes,
        metadata_bytes: arguments.nvme_metadata,
        queue_pairs: arguments.nvme_queues,
        backing: arguments.nvme_backing.unwrap_or(if speed.is_limited() { Backing::Null } else { Backing::File }),
        speed,
        ..Drive::default()
    };
    let cpus = arguments.cpus.unwrap_or(if arguments.exact { 1 } else { 2 });
    let drives = block_bytes.take(arguments.nvme).map(drive).collect();
    Machine {
        exact: arguments.exact,
        null_blks: arguments.null_blk,
        null_blk_tags: arguments.null_blk_tags,
        ..Machine::new(cpus, arguments.memory, drives)
    }
}

/// 512 MiB, which SPDK's tools take for themselves.
const HUGE_PAGES: u32 = 256;

/// The speed of a profile, with the limits that were given in its place.
fn speed(arguments: &GuestArguments) -> DriveSpeed {
    let profile = arguments.drive.unwrap_or_default();
    let given = DriveSpeed {
        reads_per_s: arguments.drive_iops.or(profile.reads_per_s),
        writes_per_s: arguments.drive_iops.or(profile.writes_per_s),
        bytes_per_s: arguments.drive_bandwidth.or(profile.bytes_per_s),
        latency: arguments.drive_latency.or(profile.latency),
        ..profile
    };
    // Figures that were given are those of the guest.
    DriveSpeed { is_real: profile.is_real && given == profile, ..given }
}

/// Passes on the output of a guest.
struct Shown<'a> {
    lab: &'a Lab<'a>,
    /// Where its standard output goes.
    output: &'a mut dyn Write,
    /// Its text on the way to the terminal.
    streams: [SafeStream; 2],
    ended: Option<Ended>,
}

impl Events for Shown<'_> {
    fn note(&mut self, line: &str) {
        say(line);
    }

    fn up(&mut self, release: &str, accelerator: Accelerator, took: Duration) {
        let Machine { cpus, memory, drives, .. } = &self.lab.machine;
        let origin = &self.lab.kernel.origin;
        let (cpus_word, drives_word) = (plural(*cpus as usize, "CPU"), plural(drives.len(), "NVMe drive"));
        let speed = drives.first().and_then(|drive| drive.speed.in_words(accelerator));
        say(&format!(
            "Linux {release} ({origin}) on {accelerator}: {cpus} {cpus_word}, {} of memory, {} {drives_word}{}; booted in {}",
            format::bytes(memory.0),
            drives.len(),
            speed.map_or(String::new(), |speed| format!(" ({speed})")),
            format::time(took.as_secs_f64() * 1e9)
        ));
    }

    fn output(&mut self, _command: usize, stream: Stream, bytes: &[u8]) {
        let [out, error] = &mut self.streams;
        // A reader that closes the pipe (`| head`) does not end the guest.
        let _ = match stream {
            Stream::Output => self.output.write_all(out.take(bytes).as_bytes()).and_then(|()| self.output.flush()),
            Stream::Error => std::io::stderr().write_all(error.take(bytes).as_bytes()),
        };
    }

    fn ended(&mut self, _command: usize, how: Ended) {
        self.ended = Some(how);
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.into() } else { format!("{word}s") }
}

/// Prints a line about the lab to standard error.
pub(super) fn say(line: &str) {
    complain(&format!("lab: {line}"));
}
