//! The command line: what each command takes, with help that teaches. Parsed here once into types that cannot be wrong.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use iolane::nvme::Bdf;
use iolane::units::{Bytes, CpuList, parse_duration};
use iolane::{Error, IoPath, Pages};
use iolane_lab::{Backing, KernelSource};
use iolane_study::energy::{MeterSpec, PowerModel};
use iolane_study::placement::Placement;
use iolane_study::plan::{BUILT_IN, Study};
use iolane_study::workload::{Access, BlockSizes, OffsetPattern, Workload};

use crate::{Outcome, output};

/// Measures every path Linux offers to a disk, and drives them.
#[derive(Debug, Parser)]
#[command(name = "iolane", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What this machine offers: each path, available or why not and what to do
    Probe(ProbeArguments),
    /// Measure one path with one workload
    Run(RunArguments),
    /// Measure every path and say which one to take, or run a published study and decide its claims
    Study(StudyArguments),
    /// Write the page of a study's results, or write it again: the answer, the figures, the claims, how to repeat it
    Report(ReportArguments),
    /// Lay an external meter's file over a study that made load steps for it
    Energy(EnergyArguments),
    /// Compare the results of studies: machines, kernels, versions, settings
    Compare(CompareArguments),
    /// NVMe controllers: list them, take one from the kernel for user space, give it back
    Nvme(NvmeArguments),
    /// Do any of these inside a virtual machine with NVMe drives
    Lab(LabArguments),
    /// Print a shell's completion script
    Completions {
        /// The shell it is for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// A file, a block device or /dev/ngXnY; without it, what a small scratch file here and this machine's devices offer
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) target: Option<OsString>,
    /// Past the page cache (O_DIRECT) or through it
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(crate) direct: bool,
    /// Show the machine instead: its settings, what each of them distorts, and what to do about it
    #[arg(long)]
    pub(crate) host: bool,
    /// Write the answer as JSON to this file, `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A job file of fio's, whose jobs say what the options for path, workload and placement would
    #[arg(
        value_name = "JOBFILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["path", "depth", "threads", "runtime", "warmup", "size", "direct"],
        conflicts_with_all = ["WorkloadArguments", "PlacementArguments"]
    )]
    pub(crate) job_file: Option<PathBuf>,
    /// The path, such as psync, libaio or io_uring+spoll,fixedbufs
    #[arg(long, default_value = "io_uring")]
    pub(crate) path: IoPath,
    /// Requests in flight on each queue
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) depth: u32,
    /// Threads, a queue each; one per target if not given
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// How long to measure: 200ms, 2s, 3m
    #[arg(long, default_value = "5s", value_parser = parse_runtime, value_name = "TIME")]
    pub(crate) runtime: Duration,
    /// Load before that, not measured
    #[arg(long, default_value = "500ms", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) warmup: Duration,
    /// Measure this often; the figures then are medians with a 95 % interval
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) repeat: u16,
    /// Make buffers of 2 MiB pages
    #[arg(long)]
    pub(crate) huge_pages: bool,
    #[command(flatten)]
    pub(crate) workload: WorkloadArguments,
    #[command(flatten)]
    pub(crate) targets: TargetArguments,
    #[command(flatten)]
    pub(crate) placement: PlacementArguments,
    #[command(flatten)]
    pub(crate) meter: MeterArguments,
    /// Write the record as JSON to this file, `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Without telemetry, to learn what that costs: for iolane's own benchmark
    #[arg(long, hide = true)]
    pub(crate) unwatched: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StudyArguments {
    /// A built-in study, or the file of one of your own; without it every path there is, compared
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) study: Option<PathBuf>,
    /// Say what would be run, what not and why, and how long it would take; then end
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The published lengths and values, which take hours or days; minutes if not given
    #[arg(long)]
    pub(crate) full: bool,
    /// What all runs together may take, preconditioning and repeated runs beside it; the study's own time if not given
    #[arg(long, value_parser = parse_runtime, value_name = "TIME", conflicts_with = "runtime")]
    pub(crate) time: Option<Duration>,
    /// Runs of each arm; the study's own number if not given, 5 without a study
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) repeat: Option<u16>,
    /// Length of each run; chosen so that all fit into the time if not given
    #[arg(long, value_parser = parse_runtime, value_name = "TIME")]
    pub(crate) runtime: Option<Duration>,
    /// Load before each run, not measured; the study's own if not given, 100ms without a study
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(crate) warmup: Option<Duration>,
    /// Other tools that run the same arms on the same targets, in turn with iolane: fio, spdk_nvme_perf, bdevperf; one that
    /// is not on PATH, nor named by IOLANE_PEER_FIO and so on, is left out
    #[arg(long, value_delimiter = ',', value_name = "TOOL,...")]
    pub(crate) peer: Vec<String>,
    /// Begin anew where an interrupted study could go on; results of before stay until new ones replace them
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Write the arms as a job file, DIR/NAME.fio, for whoever would repeat them with fio, and end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "dry_run")]
    pub(crate) fio: Option<PathBuf>,
    /// Print the file of a built-in study, as a start for one of your own, and end
    #[arg(long, value_name = "NAME", exclusive = true)]
    pub(crate) print: Option<String>,
    /// Without a study: only these paths
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<IoPath>,
    /// Without a study: requests in flight on each queue, one set of arms for each; 1,32 if not given
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    pub(crate) depth: Vec<u32>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArguments,
    #[command(flatten)]
    pub(crate) targets: TargetArguments,
    #[command(flatten)]
    pub(crate) placement: PlacementArguments,
    #[command(flatten)]
    pub(crate) meter: MeterArguments,
    /// Make every cpu busy and idle by turns, before and after the runs and every ten minutes (51 s each time), so that
    /// `iolane energy` can lay an external meter's file over the results
    #[arg(long, help_heading = "Energy")]
    pub(crate) meter_steps: bool,
    /// Folder for report.html, study.json and records.parquet, which replace those that are there; results/NAME or results/survey if not
    /// given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,
    /// Write the results as JSON to this file too, `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// A folder that `iolane study` wrote
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Where to write the page; DIR/report.html if nothing else is asked for
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) others: ReportOutputs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOutputs {
    /// Write each chart as a picture of 1600 x 1000 pixels into this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) png: Option<PathBuf>,
    /// Write each chart as a drawing that scales
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) svg: Option<PathBuf>,
    /// Write a digest in GitHub's Markdown, `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) md: Option<PathBuf>,
    /// Write every table as comma-separated values
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct EnergyArguments {
    /// A folder that `iolane study --meter-steps` wrote; its results get joules
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// The meter's file: an export of HOBOware's, or `time,watts`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) meter_csv: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Folders that `iolane study` wrote, two or more; the others are compared with the first
    #[arg(required = true, num_args = 2.., value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folders: Vec<PathBuf>,
    /// Write the comparison as a page with charts, which opens without a network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write the comparison as JSON to this file, `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct NvmeArguments {
    #[command(subcommand)]
    pub(crate) command: NvmeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NvmeCommand {
    /// List the NVMe controllers of this machine, their drivers, and who uses them
    List {
        /// Write the list as JSON to this file, `-` for standard output
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        json: Option<PathBuf>,
    },
    /// Take controllers that nobody uses from the kernel, for a driver in user space (vfio-pci)
    Bind(NvmeBindArguments),
    /// Give controllers back to the driver they had
    Restore {
        /// PCI addresses, such as 0000:00:04.0; every controller that was taken if none is named
        bdf: Vec<Bdf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NvmeBindArguments {
    /// PCI addresses, such as 0000:00:04.0; `iolane nvme list` shows them
    #[arg(required = true)]
    pub(crate) bdf: Vec<Bdf>,
    /// Let this user drive them without root; a name or a number
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Let the members of this group do so; a name or a number
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run an iolane command in a guest, and bring back what it prints and writes
    Run(LabRunArguments),
    /// Run a study in a guest of each of several kernels, and compare what they found
    Matrix(LabMatrixArguments),
    /// Fetch kernels into the cache, so that later runs need no network
    Fetch {
        /// Versions, such as 5.10, 6.1, 6.12 or 7.2
        #[arg(required = true)]
        version: Vec<KernelSource>,
    },
    /// List the kernels in the cache
    Kernels,
}

#[derive(Debug, Args)]
pub(crate) struct LabRunArguments {
    /// A version of Debian's (5.10, 6.1, 6.12, 7.2), a vmlinuz or .deb, or `host`, which it is if the host's own can be
    /// read, or else 6.1
    #[arg(long)]
    pub(crate) kernel: Option<KernelSource>,
    #[command(flatten)]
    pub(crate) guest: GuestArguments,
    /// An iolane command, as it would be typed here
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LabMatrixArguments {
    /// Kernels, one guest after another: versions of Debian's (5.10, 6.1, 6.12, 7.2), a vmlinuz or .deb, or `host`
    #[arg(long, required = true, value_delimiter = ',', value_name = "KERNEL,...")]
    pub(crate) kernel: Vec<KernelSource>,
    #[command(flatten)]
    pub(crate) guest: GuestArguments,
    /// Write the comparison as JSON to this file, `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// An iolane study, as it would be typed here
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

/// The guest's hardware.
#[derive(Debug, Args)]
pub(crate) struct GuestArguments {
    /// Processors; 2, or 1 with --exact
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u32>,
    /// Memory
    #[arg(long, default_value = "2g", value_name = "SIZE")]
    pub(crate) memory: Bytes,
    /// Count instructions instead of time: a nanosecond passes with each, so that figures repeat
    #[arg(long, conflicts_with = "accel")]
    pub(crate) exact: bool,
    /// What runs the guest's instructions; kvm if a guest really runs on it, or else tcg, which translates them
    #[arg(long, value_enum)]
    pub(crate) accel: Option<Accel>,
    /// End the guest after so long
    #[arg(long, default_value = "30m", value_parser = parse_runtime, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// NVMe drives: nvme0, nvme1 and so on
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Drives")]
    pub(crate) nvme: usize,
    /// Size of each
    #[arg(long, default_value = "1g", value_name = "SIZE", help_heading = "Drives")]
    pub(crate) nvme_size: Bytes,
    /// Logical block sizes, in turn: 512, 4k
    #[arg(long, default_value = "512", value_delimiter = ',', value_name = "SIZE,...", help_heading = "Drives")]
    pub(crate) nvme_block: Vec<Bytes>,
    /// Bytes of metadata with each block
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Drives")]
    pub(crate) nvme_metadata: u16,
    /// I/O queue pairs of each, two of which the kernel keeps for polling
    #[arg(long, default_value_t = 31, value_name = "N", help_heading = "Drives")]
    pub(crate) nvme_queues: u16,
    /// What holds the data: a sparse file, or nothing (`null`: reads give zeroes at once)
    #[arg(long, default_value = "file", value_name = "file|null", help_heading = "Drives")]
    pub(crate) nvme_backing: Backing,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Accel {
    Kvm,
    Tcg,
}

/// What to ask of the targets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArguments {
    /// read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread", value_name = "KIND")]
    rw: Access,
    /// Percentage of reads in rw and randrw; 50 if not given
    #[arg(long, value_name = "N")]
    read_percent: Option<u8>,
    /// Block size: 4k, a range 4k-64k, or a split 4k/70:64k/30
    #[arg(long, default_value = "4k", value_name = "SIZE")]
    bs: BlockSizes,
    /// How random offsets spread: uniform, zipf:1.2, pareto:0.2 or hot:90/10
    #[arg(long, default_value = "uniform", value_name = "PATTERN")]
    offsets: OffsetPattern,
    /// Hand over so many requests at once, and wait for as many
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Start so many requests a second, over all threads, whatever becomes of those before; latency then counts from the
    /// moment a request was due
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Make writes durable (fsync) after every N of them
    #[arg(long, value_name = "N")]
    fsync: Option<u32>,
    /// Write content that tells its place, and compare what is read; a mismatch ends the run
    #[arg(long)]
    verify: bool,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl WorkloadArguments {
    pub(crate) fn workload(&self, depth: u32, size: Option<Bytes>) -> Workload {
        Workload {
            access: self.rw,
            read_percent: self.read_percent,
            block_sizes: self.bs.clone(),
            offsets: self.offsets,
            depth,
            batch: self.batch,
            fsync_every: self.fsync,
            rate: self.rate,
            think_us: None,
            verify: self.verify,
            size: size.map(|bytes| bytes.0),
            bytes_max: None,
            seed: self.seed,
        }
    }
}

/// What to read and write.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Targets")]
pub(crate) struct TargetArguments {
    /// A file, a block device, /dev/ngXnY, or pci:BDF for a controller without a kernel driver; may be given more than once,
    /// a thread for each (a study says itself how many threads). Without it the one that IOLANE_TARGET names in the
    /// environment, or a scratch file, made here, written whole, and gone when the command ends
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::AnyPath)]
    pub(crate) target: Vec<OsString>,
    /// Size of the scratch file (1g), or the part of each target to use, from its start (all of it)
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Past the page cache (O_DIRECT) or through it
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(crate) direct: bool,
    /// Allow writing to this target, which destroys what it holds; name it as in --target, once for each
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::AnyPath)]
    pub(crate) allow_writes: Vec<OsString>,
    /// Allow it too if it carries a file system, RAID, LVM or partition signature (never if it is in use)
    #[arg(long)]
    pub(crate) erase: bool,
}

/// Where threads run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Placement")]
pub(crate) struct PlacementArguments {
    /// Cpus for the threads, in turn: 0,2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Cpus for the kernel's submission threads (+spoll), in turn
    #[arg(long, value_name = "LIST")]
    spoll_cpus: Option<CpuList>,
}

impl PlacementArguments {
    /// As asked for; threads are left to the scheduler where nothing was.
    pub(crate) fn placement(&self) -> Placement {
        Placement { cpus: self.cpus.clone(), spoll_cpus: self.spoll_cpus.clone() }
    }

    /// As asked for, if anything was.
    pub(crate) fn asked(&self) -> Option<Placement> {
        Some(self.placement()).filter(|placement| *placement != Placement::default())
    }
}

/// What tells the joules.
#[derive(Debug, Args)]
#[command(next_help_heading = "Energy")]
pub(crate) struct MeterArguments {
    /// auto (the one of this machine's that sees most), none, rapl, perf, hwmon or ipmi
    #[arg(long, default_value = "auto", value_name = "NAME")]
    meter: MeterSpec,
    /// A command that prints watts, a number a line: all the time, or once each time it is run, which it is once a second
    #[arg(long, value_name = "CMD", conflicts_with_all = ["meter", "power_model"], value_parser = parse_command)]
    meter_command: Option<String>,
    /// No meter: work joules out, from the watts of the idle machine and those of each busy core; labelled modelled
    #[arg(long, value_name = "idle=W,core=W", conflicts_with = "meter")]
    power_model: Option<PowerModel>,
}

impl MeterArguments {
    /// The one that was asked for.
    pub(crate) fn spec(&self) -> MeterSpec {
        match (&self.meter_command, self.power_model) {
            (Some(command), _) => MeterSpec::Command(command.clone()),
            (None, Some(model)) => MeterSpec::Model(model),
            (None, None) => self.meter.clone(),
        }
    }
}

fn parse_command(text: &str) -> iolane::Result<String> {
    match text.trim() {
        "" => Err(Error::usage("the meter's command", "it is empty")),
        command => Ok(command.into()),
    }
}

impl RunArguments {
    pub(crate) fn pages(&self) -> Pages {
        if self.huge_pages { Pages::Huge } else { Pages::Base }
    }
}

/// A duration in which something can be measured.
fn parse_runtime(text: &str) -> iolane::Result<Duration> {
    match parse_duration(text)? {
        Duration::ZERO => Err(Error::usage(format!("duration `{text}`"), "nothing would be measured")),
        runtime => Ok(runtime),
    }
}

/// The command line with what only the registry knows: the paths.
pub(crate) fn command() -> clap::Command {
    let exits = "Exit codes: 0 done, 1 failed or interrupted, 2 wrong use, 3 the target or path cannot be had.";
    Cli::command()
        .after_help(format!("{START_HELP}\n\n{exits}"))
        .mut_subcommand("run", |run| run.after_help(format!("{}\n\n{exits}", paths_help())).mut_args(take_negative))
        .mut_subcommand("study", |study| {
            study.after_help(format!("{}\n\n{exits}", studies_help())).mut_args(take_negative)
        })
        .mut_subcommand("probe", |probe| probe.after_help(exits))
        .mut_subcommand("report", |report| report.after_help(format!("{REPORT_HELP}\n\n{exits}")))
        .mut_subcommand("energy", |energy| energy.after_help(format!("{ENERGY_HELP}\n\n{exits}")))
        .mut_subcommand("compare", |compare| compare.after_help(format!("{COMPARE_HELP}\n\n{exits}")))
        .mut_subcommand("nvme", |nvme| {
            nvme.after_help(exits)
                .mut_subcommand("bind", |bind| bind.after_help(format!("{NVME_BIND_HELP}\n\n{exits}")))
        })
        .mut_subcommand("lab", |lab| {
            lab.mut_subcommand("run", |run| run.after_help(LAB_HELP))
                .mut_subcommand("matrix", |matrix| matrix.after_help(LAB_MATRIX_HELP))
        })
}

const REPORT_HELP: &str = "\
The page is one file that any browser opens, without a network: send it, or print it. A study writes
it at its end; this makes it again from study.json and records.parquet, with this version's charts.

  iolane report results/systor22
  iolane report results/systor22 --out systor22-laptop.html
  iolane report results/systor22 --png figures --csv tables --md summary.md";

const ENERGY_HELP: &str = "\
The meter stands between the machine and the wall and records on its own, with a clock that is
never quite right. The study makes load steps; by them its file is laid over the runs afterwards,
offset and drift taken out. What cannot be laid is refused, and the results stay as they were.

  iolane study hotstorage23 --target /dev/nvme0n1 --runtime 10s --meter-steps
  iolane energy results/hotstorage23 --meter-csv hobo.csv

Each run must be eight of the meter's samples long, or longer: 8s for one sample a second.";

const COMPARE_HELP: &str = "\
A ratio is that of the medians of an arm's repeats in DIR and in the first DIR, with the 95 %
interval of a bootstrap of both sides. An interval that holds 1 shows no difference, and such a
ratio has a ~. The folders were measured at different times: whatever else the machine did then is
in the ratio. Measure the first again at the end, and compare it with itself, to see how much.

  iolane study --target /dev/nvme0n1 --out before
  echo mq-deadline | sudo tee /sys/block/nvme0n1/queue/scheduler
  iolane study --target /dev/nvme0n1 --out after
  iolane compare before after
  iolane compare laptop server cloud --json compared.json
  iolane lab matrix --kernel 5.10,6.1 -- study systor22     a study on kernels, and the comparison

What differs between the machines and the settings stands first; then each arm, those that a folder
lacks with the reason, and the claims whose verdict changed.";

const START_HELP: &str = "\
Start with
  iolane study                                   every path on a scratch file, compared
  iolane probe /dev/nvme0n1                      what a drive can be reached by
  iolane run --path io_uring --depth 32          one path, on a scratch file
  iolane run --path psync --json - | jq .result  for scripts
  iolane study systor22 --dry-run                what a published study would do here
  iolane compare results/a results/b             two machines, kernels or settings
  iolane lab run -- study                        all of it in a virtual machine with an NVMe drive";

const NVME_BIND_HELP: &str = "\
Takes root, an IOMMU, and the module vfio-pci. A controller is refused if a namespace of it or a
partition is mounted, swap, part of an array or a volume, behind a loop device, or open, and if
its IOMMU group has another device that a driver of the kernel has. What it was is recorded in
/run/iolane/nvme first; `iolane nvme restore` gives it back, also after a kill.

  iolane nvme list
  sudo iolane nvme bind 0000:00:05.0 --user alice
  sudo iolane nvme restore";

const LAB_HELP: &str = "\
Targets inside: nvme0 (or nvme0n1) and so on, ng0n1 for passthrough, nullb0; nvme0 where none is
named. Files named in COMMAND are brought in; what it writes here, or under --out and --json,
comes back to the same place. A kernel of Debian's is fetched once and kept. A published study
without a target takes half of the drives by the kernel's paths and half by the user-space driver,
and may write to all of them; they were made for it. Its --full wants a longer --timeout.

  iolane lab run -- probe
  iolane lab run --nvme 2 --cpus 2 -- study systor22 --out results/systor22
  iolane lab run --nvme 2 -- study --target nvme0 --target nvme1 --out results
  iolane lab run --kernel 5.10 -- run --target nvme0 --path psync+cpoll
  iolane lab run --exact -- run --target nullb0 --path io_uring+cpoll --depth 16

The exit code is the command's own; 1 if the guest fails, 3 if QEMU or the kernel cannot be had.";

const LAB_MATRIX_HELP: &str = "\
Each kernel's results go to a folder of their own, DIR-KERNEL where --out DIR is given to the study
and results/NAME-KERNEL where it is not. The last thing printed is their comparison: each arm's IOPS
on every kernel as a ratio to the first one, and the verdict of each claim on every kernel. `iolane
compare` makes it again from the folders.

  iolane lab matrix --kernel 5.10,6.1,6.12,7.2 -- study systor22
  iolane lab matrix --kernel 6.1,7.2 --nvme 2 -- study --depth 1,16 --out before-and-after
  iolane compare before-and-after-6.1 before-and-after-7.2

A kernel on which the study fails is named, and the others go on; the exit code then is 1.";

/// A number below 0 is taken for the option's value, so that the message names the option.
fn take_negative(argument: clap::Arg) -> clap::Arg {
    match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    }
}

/// The studies there are, for help.
fn studies_help() -> String {
    let mut help = String::from("Studies that are built in:\n");
    for built_in in BUILT_IN {
        let title =
            Study::parse(built_in.text, built_in.name).map_or_else(|error| error.to_string(), |study| study.title);
        help.push_str(&format!("{}\n", output::wrap(&format!("  {:<13} {title}", built_in.name), 16)));
    }
    help.push_str(
        "\n  iolane study                                     every path, on a scratch file made here\n\
         \x20 iolane study systor22 --target /dev/nvme0n1      reads alone; writes take --allow-writes\n\
         \x20 iolane study hotstorage23 --dry-run              what it would do, and how long\n\
         \x20 iolane study --print systor22 > my.toml          a start for a study of your own\n\
         \x20 iolane lab run --nvme 2 -- study systor22        in a virtual machine, with the user-space driver\n\n\
         Interrupted or killed, the same command goes on where it stopped.",
    );
    help
}

/// The paths there are, for help.
fn paths_help() -> String {
    let mut help = String::from("Paths: INTERFACE[+spoll][+int|+cpoll|+hybrid][,OPTION...], where INTERFACE is\n");
    for interface in iolane::interfaces() {
        let line = format!("  {:<13} {}", interface.name(), interface.summary());
        help.push_str(&format!("{}\n", output::wrap(&line, 16)));
    }
    help.push_str(
        "and OPTION, for io_uring and io_uring_cmd, is\n\
         \x20 fixedbufs     buffers are registered with the kernel once\n\
         \x20 fixedfiles    the target is registered once\n\
         \x20 defer, coop   completions run when asked for, or without interrupting (by itself the better one)\n\
         \x20 plain         none of the free wins, as the papers' programs did\n\
         \x20 sqidle=MS     the submission thread sleeps after so long without work\n\
         \x20 share         queues share one submission thread",
    );
    help
}

pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "iolane", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

pub(crate) fn man_page() -> anyhow::Result<Outcome> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command()).render(&mut page)?;
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn help_lists_every_registered_interface() {
        let help = paths_help();
        for interface in iolane::interfaces() {
            assert!(help.contains(&format!("\n  {} ", interface.name())), "{}", interface.name());
        }
    }
}
