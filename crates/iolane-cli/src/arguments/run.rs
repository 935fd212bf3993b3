//! `iolane run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use iolane::units::parse_duration;
use iolane::{Error, IoPath, Pages, Result};

use super::meter::MeterArguments;
use super::placement::PlacementArguments;
use super::study::StudyArguments;
use super::targets::TargetArguments;
use super::values::{PathList, parse_depth, parse_paths, parse_runtime};
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
    /// Ignore options of the job file that are not supported, and note each in the record
    #[arg(long, requires = "job_file")]
    pub(crate) lenient: bool,
    /// Run only this section of the job file, with its [global] sections; may be repeated
    #[arg(long, value_name = "NAME", requires = "job_file")]
    pub(crate) section: Vec<String>,
    /// I/O path, such as psync, libaio or io_uring+sqpoll,fixedbufs; with --rate-until a list of paths
    #[arg(long, default_value = "io_uring", value_parser = parse_paths)]
    path: PathList,
    /// Requests in flight on each queue
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse_depth)]
    pub(crate) depth: u32,
    /// Number of threads, each with a queue of its own [default: one per target]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Length of the measurement: 200ms, 2s, 3m [default: 5s; with --rate-until 1s for each rate]
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION")]
    runtime: Option<Duration>,
    /// Warm-up time before the measurement, not included in the results [default: 500ms; with --rate-until 100ms]
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    warmup: Option<Duration>,
    /// Repeat the measurement N times, and report medians with 95 % intervals [default: 1; with --rate-until 3 at each rate
    /// near the highest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    repeat: Option<u16>,
    /// Allocate buffers from 2 MiB pages
    #[arg(long)]
    pub(crate) huge_pages: bool,
    /// With path auto: begin with what earlier runs have learnt of the paths, from this file, and add to it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["job_file", "rate_until"])]
    pub(crate) path_memory: Option<PathBuf>,
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
    /// With --rate-until: folder for report.html, study.json and records.parquet, which replace those of an earlier search
    /// [default: results/rate-until]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "rate_until", help_heading = "Output")]
    out: Option<PathBuf>,
    /// With --rate-until: start over instead of continuing an interrupted search
    #[arg(long, requires = "rate_until", help_heading = "Output")]
    fresh: bool,
    /// Run without telemetry, for the benchmark of its overhead
    #[arg(long, hide = true)]
    pub(crate) unwatched: bool,
}

impl RunArguments {
    /// The only path.
    ///
    /// # Errors
    /// `Usage` if several are named.
    pub(crate) fn path(&self) -> Result<&IoPath> {
        match &self.path.0[..] {
            [path] => Ok(path),
            several => {
                let names: Vec<String> = several.iter().map(ToString::to_string).collect();
                let names = names.join(",");
                let cause = format!("it names {} paths", several.len());
                Err(Error::usage(format!("--path {names}"), cause)
                    .remedy(format!("`iolane study --path {names}` compares them")))
            }
        }
    }

    pub(crate) fn runtime(&self) -> Duration {
        self.runtime.unwrap_or(Duration::from_secs(5))
    }

    pub(crate) fn warmup(&self) -> Duration {
        self.warmup.unwrap_or(Duration::from_millis(500))
    }

    pub(crate) fn repeats(&self) -> u16 {
        self.repeat.unwrap_or(1)
    }

    /// Whether the highest rate is searched, by a study of its own.
    pub(crate) fn searches_rate(&self) -> bool {
        self.workload.rate_until.is_some()
    }

    /// The study of a rate search.
    pub(crate) fn into_study(self) -> StudyArguments {
        StudyArguments {
            study: None,
            dry_run: false,
            full: false,
            time: None,
            repeat: self.repeat,
            runtime: self.runtime,
            warmup: self.warmup,
            peer: Vec::new(),
            fresh: self.fresh,
            fio: None,
            print: None,
            seed: Some(self.workload.seed()),
            survey: self.workload.survey(vec![self.path], self.depth, self.threads),
            targets: self.targets,
            placement: self.placement,
            meter: self.meter,
            meter_steps: false,
            out: self.out,
            json: self.json,
        }
    }

    pub(crate) fn pages(&self) -> Pages {
        if self.huge_pages { Pages::Huge } else { Pages::Base }
    }
}
