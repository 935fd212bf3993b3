//! `iolane lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use iolane::units::Bytes;
use iolane_lab::{Backing, DriveSpeed, KernelSource, NULL_BLK_TAGS};

use super::values::parse_runtime;
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run an iolane command in a guest, and copy its output and results back
    Run(LabRunArguments),
    /// Run a study on several kernels, one guest per kernel, and compare the results
    Matrix(LabMatrixArguments),
    /// Run the four published studies, each with a kernel and a drive like the published ones, and list the verdicts
    StudyAll(LabStudyAllArguments),
    /// Download kernels into the cache, for later runs without a network
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
    /// Debian kernel version (5.10, 6.1, 6.12, 7.2), vmlinuz or .deb file, or `host` [default: host if its kernel image can
    /// be read, otherwise 6.1]
    #[arg(long)]
    pub(crate) kernel: Option<KernelSource>,
    #[command(flatten)]
    pub(crate) guest: GuestArguments,
    /// iolane command to run in the guest. Its targets: nvme0, nvme1, ... (kernel driver), ng0n1 (passthrough), nullb0, and
    /// pci:BDF (user-space driver)
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LabMatrixArguments {
    /// Kernels, one guest each: Debian versions (5.10, 6.1, 6.12, 7.2), vmlinuz or .deb files, or `host`
    #[arg(long, required = true, value_delimiter = ',', value_name = "LIST")]
    pub(crate) kernel: Vec<KernelSource>,
    #[command(flatten)]
    pub(crate) guest: GuestArguments,
    /// Write the comparison as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<Destination>,
    /// iolane study to run in each guest
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LabStudyAllArguments {
    /// Time of all studies together; guests boot, and drives are prepared, in addition
    #[arg(long, default_value = "40m", value_parser = parse_runtime, value_name = "DURATION")]
    pub(crate) time: Duration,
    /// Folder of the results, one folder in it for each study
    #[arg(long, default_value = "results/lab", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Studies to run: systor22, ijraset24, hotstorage23, floe26 [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) only: Vec<String>,
    /// Write the verdicts as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<Destination>,
}

/// The guest's hardware.
#[derive(Debug, Args)]
pub(crate) struct GuestArguments {
    /// Number of CPUs [default: 2; 1 with --exact]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u32>,
    /// Memory
    #[arg(long, default_value = "2g", value_name = "SIZE")]
    pub(crate) memory: Bytes,
    /// Advance the guest's clock by one nanosecond per instruction of any CPU, so that results are reproducible
    #[arg(long, conflicts_with = "accel")]
    pub(crate) exact: bool,
    /// QEMU accelerator [default: kvm if a guest can run on it, otherwise tcg]
    #[arg(long, value_enum)]
    pub(crate) accel: Option<Accel>,
    /// Stop the guest after this time
    #[arg(long, default_value = "30m", value_parser = parse_runtime, value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Number of NVMe drives: nvme0, nvme1 and so on
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Drives")]
    pub(crate) nvme: usize,
    /// Size of each drive
    #[arg(long, default_value = "1g", value_name = "SIZE", help_heading = "Drives")]
    pub(crate) nvme_size: Bytes,
    /// Logical block sizes, assigned in turn: 512,4k
    #[arg(long, default_value = "512", value_delimiter = ',', value_name = "LIST", help_heading = "Drives")]
    pub(crate) nvme_block: Vec<Bytes>,
    /// Metadata bytes per block
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Drives")]
    pub(crate) nvme_metadata: u16,
    /// I/O queue pairs of each drive, including up to two poll queues
    #[arg(long, default_value_t = 31, value_name = "N", help_heading = "Drives")]
    pub(crate) nvme_queues: u16,
    /// Number of null_blk devices: nullb0, nullb1 and so on
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Drives")]
    pub(crate) null_blk: u32,
    /// Most requests that a queue of null_blk (nullb0) holds; an NVMe queue has 1023
    #[arg(long, default_value_t = NULL_BLK_TAGS, value_name = "N", help_heading = "Drives")]
    pub(crate) null_blk_tags: u32,
    /// Storage behind the drives: a sparse file, or null (reads return zeroes) [default: file; null with --drive or --drive-latency]
    #[arg(long, value_name = "file|null", help_heading = "Drives")]
    pub(crate) nvme_backing: Option<Backing>,
    /// Speed of a published drive: p3600, optane, pm9a3, hynix; null for none. Without KVM a quarter of it, like the processors
    #[arg(long, value_name = "NAME", help_heading = "Drives")]
    pub(crate) drive: Option<DriveSpeed>,
    /// Most reads, and most writes, per second of each drive
    #[arg(long, value_name = "N", help_heading = "Drives")]
    pub(crate) drive_iops: Option<u64>,
    /// Most bytes per second of each drive
    #[arg(long, value_name = "SIZE", help_heading = "Drives")]
    pub(crate) drive_bandwidth: Option<Bytes>,
    /// Time that each request takes at least; QEMU waits for whole milliseconds
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION", help_heading = "Drives")]
    pub(crate) drive_latency: Option<Duration>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Accel {
    Kvm,
    Tcg,
}
