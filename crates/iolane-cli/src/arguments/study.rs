//! `iolane study`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use iolane::units::parse_duration;

use super::meter::MeterArguments;
use super::placement::PlacementArguments;
use super::survey::SurveyArguments;
use super::targets::TargetArguments;
use super::values::parse_runtime;
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct StudyArguments {
    /// Built-in study, or a study file [default: compare every path]
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) study: Option<PathBuf>,
    /// Show what would run, what would not and why, and how long it would take
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Use the published run lengths and values; takes hours or days instead of minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Time for all runs, without preconditioning: sets their length, and of the repeats those run that fit; instead of --runtime
    /// [default: set by the study]
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION", conflicts_with = "runtime")]
    pub(crate) time: Option<Duration>,
    /// Runs of each arm [default: set by the study; 5 without one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) repeat: Option<u16>,
    /// Length of each run [default: what fits the time budget]
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION")]
    pub(crate) runtime: Option<Duration>,
    /// Warm-up time before each run, not included in the results [default: set by the study; 100ms without one]
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) warmup: Option<Duration>,
    /// Also run the arms with other tools, in turn with iolane: fio, spdk_nvme_perf, bdevperf. A tool that is neither on PATH
    /// nor named by its variable (IOLANE_PEER_FIO for fio) is left out
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "rate_until")]
    pub(crate) peer: Vec<String>,
    /// Start over instead of continuing an interrupted study; existing results stay until new ones replace them
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Write the arms as a fio job file, DIR/NAME.fio, and exit
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["dry_run", "rate_until"])]
    pub(crate) fio: Option<PathBuf>,
    /// Print the file of a built-in study, as a template for your own, and exit
    #[arg(long, value_name = "NAME", exclusive = true)]
    pub(crate) print: Option<String>,
    /// Seed of all random choices [default: that of the study's file, or 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) survey: SurveyArguments,
    #[command(flatten)]
    pub(crate) targets: TargetArguments,
    #[command(flatten)]
    pub(crate) placement: PlacementArguments,
    #[command(flatten)]
    pub(crate) meter: MeterArguments,
    /// Make load steps (all CPUs busy and idle in turn, 51 s) before and after the runs and every ten minutes, so that
    /// `iolane energy` can align the recording of an external meter
    #[arg(long, help_heading = "Energy")]
    pub(crate) meter_steps: bool,
    /// Folder for report.html, study.json and records.parquet; those of an earlier study are replaced when this one ends [default: results/NAME, or
    /// results/survey without a study]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,
    /// Also write the results as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) json: Option<Destination>,
}

impl StudyArguments {
    /// Whether it makes runs, and has results.
    pub(crate) fn measures(&self) -> bool {
        !self.dry_run && self.print.is_none() && self.fio.is_none()
    }

    /// A survey for a time, whose results go to a folder.
    pub(super) fn of_survey(survey: SurveyArguments, targets: TargetArguments, time: Duration, out: PathBuf) -> Self {
        Self {
            study: None,
            dry_run: false,
            full: false,
            time: Some(time),
            repeat: None,
            runtime: None,
            warmup: None,
            peer: Vec::new(),
            fresh: false,
            fio: None,
            print: None,
            seed: None,
            survey,
            targets,
            placement: PlacementArguments::default(),
            meter: MeterArguments::none(),
            meter_steps: false,
            out: Some(out),
            json: None,
        }
    }
}
