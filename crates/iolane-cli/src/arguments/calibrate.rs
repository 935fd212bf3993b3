//! `iolane calibrate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use iolane_study::calibrate::HoldOut;

use super::study::StudyArguments;
use super::survey::SurveyArguments;
use super::targets::TargetArguments;
use super::values::{PathList, parse_depth, parse_paths, parse_runtime};
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Results folders of `iolane study`, files of `iolane run --json`, or files of observations; all of one machine
    #[arg(value_name = "RESULTS", required_unless_present = "measure", value_hint = ValueHint::AnyPath)]
    pub(crate) results: Vec<PathBuf>,
    /// Leave these depths out of the fit, and show how well it predicts them: a list, `inner` (all but the smallest and the
    /// largest), or `none`; `threads` leaves out what has several threads [default: of paths with three depths or more, all but the smallest and the one nearest to 16]
    #[arg(long, value_name = "DEPTHS", num_args = 0..=1, default_missing_value = "inner")]
    pub(crate) hold_out: Option<HoldOut>,
    /// File of the machine; an existing one is replaced
    #[arg(long, value_name = "FILE", default_value = "machine.toml", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) out: PathBuf,
    /// Write the calibration as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) json: Option<Destination>,
    /// Measure what is needed: random reads of 4 KiB by one thread on each path that the model knows
    #[arg(long, conflicts_with = "results", help_heading = "Measuring")]
    pub(crate) measure: bool,
    /// With --measure: only these paths; may be repeated [default: every path that the model knows, without options]
    #[arg(long, value_name = "PATHS", value_parser = parse_paths, requires = "measure", help_heading = "Measuring")]
    path: Vec<PathList>,
    /// With --measure: depths, two or more; with three, some are held out
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = parse_depth, default_value = "1,16", help_heading = "Measuring")]
    depth: Vec<u32>,
    /// With --measure: time for all runs
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION", default_value = "1m", help_heading = "Measuring")]
    time: Duration,
    /// With --measure: folder for the results
    #[arg(long, value_name = "DIR", default_value = "results/calibrate", value_hint = ValueHint::DirPath, help_heading = "Measuring")]
    pub(crate) measured: PathBuf,
    #[command(flatten)]
    pub(crate) targets: TargetArguments,
}

impl CalibrateArguments {
    /// The paths that were given; none stands for every path that the model knows.
    pub(crate) fn paths(&self) -> Vec<iolane::IoPath> {
        self.path.iter().flat_map(|PathList(paths)| paths.clone()).collect()
    }

    /// The study that measures what a calibration of these paths needs.
    pub(crate) fn study(&self, paths: Vec<iolane::IoPath>) -> StudyArguments {
        let survey =
            SurveyArguments { path: vec![PathList(paths)], depth: self.depth.clone(), ..SurveyArguments::default() };
        StudyArguments::of_survey(survey, self.targets.clone(), self.time, self.measured.clone())
    }
}
