//! `iolane run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use iolane::units::parse_duration;
use iolane::{IoPath, Pages};

use super::meter::MeterArguments;
use super::placement::PlacementArguments;
use super::targets::TargetArguments;
use super::values::{parse_path, parse_runtime};
use super::workload::WorkloadArguments;
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// fio job file; its jobs take the place of the options for path, workload and placement
    #[arg(
        value_name = "JOBFILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["path", "depth", "threads", "runtime", "warmup", "size", "direct"],
        conflicts_with_all = ["WorkloadArguments", "PlacementArguments"]
    )]
    pub(crate) job_file: Option<PathBuf>,
    /// I/O path, such as psync, libaio or io_uring+sqpoll,fixedbufs
    #[arg(long, default_value = "io_uring", value_parser = parse_path)]
    pub(crate) path: IoPath,
    /// Requests in flight on each queue
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) depth: u32,
    /// Number of threads, each with a queue of its own [default: one per target]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Length of the measurement: 200ms, 2s, 3m
    #[arg(long, default_value = "5s", value_parser = parse_runtime, value_name = "DURATION")]
    pub(crate) runtime: Duration,
    /// Warm-up time before the measurement, not included in the results
    #[arg(long, default_value = "500ms", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) warmup: Duration,
    /// Repeat the measurement N times, and report medians with 95 % intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) repeat: u16,
    /// Allocate buffers from 2 MiB pages
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
    /// Write the record as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) json: Option<Destination>,
    /// Run without telemetry, for the benchmark of its overhead
    #[arg(long, hide = true)]
    pub(crate) unwatched: bool,
}

impl RunArguments {
    pub(crate) fn pages(&self) -> Pages {
        if self.huge_pages { Pages::Huge } else { Pages::Base }
    }
}
