//! `iolane advise`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use clap::{Args, ValueHint};
use iolane::{Error, Result};
use iolane_study::advise::{InUse, ObservedLoad};
use iolane_study::results::Goal;

use super::study::StudyArguments;
use super::survey::SurveyArguments;
use super::targets::TargetArguments;
use super::values::{parse_percent, parse_runtime};
use crate::output::Destination;

/// The shortest time that a process is watched.
const WATCH_MIN: Duration = Duration::from_millis(100);
/// How long is measured, and the folder of the results, if nothing else is named.
const MEASURED_FOR: Duration = Duration::from_secs(60);
const MEASURED: &str = "results/advice";
/// The folder whose results are read if nothing else is named.
const SURVEY: &str = "results/survey";

#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// Results folder of `iolane study` [default: results/survey]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["measure", "target"])]
    folder: Option<PathBuf>,
    /// Only for these goals: latency, commits, throughput, energy, processor
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = goal_parser(), hide_possible_values = true)]
    pub(crate) goal: Vec<Goal>,
    /// Exit with 1 if the results show that another path is better than this one for the goal; FILE.toml has path, goal and
    /// min_gain_percent
    #[arg(long, value_name = "PATH|FILE.toml")]
    check: Option<String>,
    /// With --check, how much better it has to be, such as 5%: the whole interval is beyond it
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "check")]
    min_gain: Option<f64>,
    /// Write the advice as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<Destination>,
    /// Watch this process for a moment, and show its load and the path that it takes; with --target or --measure, measure each
    /// path with this load
    #[arg(long, value_name = "PID", help_heading = "A running process", conflicts_with = "folder")]
    pub(crate) pid: Option<u32>,
    /// How long it is watched
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION", default_value = "5s", help_heading = "A running process", requires = "pid")]
    pub(crate) watch: Duration,
    /// Measure first: each path with the load below, on the targets, or on a scratch file without --target, which implies this
    #[arg(long, help_heading = "Measuring")]
    measure: bool,
    /// Time for all runs [default: 1m]
    #[arg(long, value_parser = parse_runtime, value_name = "DURATION", help_heading = "Measuring")]
    time: Option<Duration>,
    /// Folder for the results [default: results/advice]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Measuring")]
    measured: Option<PathBuf>,
    /// Start over, and lose what an interrupted measurement left in the folder
    #[arg(long, help_heading = "Measuring")]
    fresh: bool,
    #[command(flatten)]
    survey: SurveyArguments,
    #[command(flatten)]
    pub(crate) targets: TargetArguments,
}

impl AdviseArguments {
    /// # Errors
    /// A usage error if a load, or a goal for a process, is given, and nothing is measured; if a process is watched for too
    /// short a time; if a rate is searched, for which there is no advice; or if a path is checked for several goals.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { survey, targets, check, goal, pid, watch, .. } = self;
        let of_measurement = survey.is_given() || targets.size.is_some() || !targets.allow_writes.is_empty();
        let of_measurement = of_measurement || self.time.is_some() || self.measured.is_some() || self.fresh;
        let of_results = !goal.is_empty() || check.is_some();
        if !self.measures() && (of_measurement || pid.is_some() && of_results) {
            let cause = "a load, a size, a time, a folder or a goal was given, and nothing is measured";
            return Err(Error::usage("advise", cause).remedy("add --target or --measure"));
        }
        if *watch < WATCH_MIN {
            let cause = "too short to see what a process does";
            return Err(Error::usage("--watch", cause).remedy("--watch 100ms or longer"));
        }
        if survey.searches_rate() {
            let cause = "a search of rates gives no advice";
            return Err(
                Error::usage("--rate-until", cause).remedy("iolane study --rate-until names the best path itself")
            );
        }
        let is_file = check.as_deref().is_some_and(is_file);
        if check.is_some() && goal.len() != 1 && !(is_file && goal.is_empty()) {
            let cause = "a path is checked for one goal at a time";
            return Err(Error::usage("--check", cause).remedy("name one with --goal"));
        }
        Ok(())
    }

    /// The path to check, for its goal and the gain that counts; options go before what a file says.
    ///
    /// # Errors
    /// As [`InUse::read`].
    pub(crate) fn in_use(&self) -> Result<Option<InUse>> {
        let Some(check) = &self.check else { return Ok(None) };
        let goal = self.goal.first().copied();
        let of_file = is_file(check).then(|| InUse::read(Path::new(check))).transpose()?;
        let in_use = match (of_file, goal) {
            (Some(of_file), goal) => InUse { goal: goal.unwrap_or(of_file.goal), ..of_file },
            (None, Some(goal)) => InUse { path: check.clone(), goal, min_gain_percent: 0.0 },
            (None, None) => return Ok(None),
        };
        let min_gain_percent = self.min_gain.map_or(in_use.min_gain_percent, |share| 100.0 * share);
        Ok(Some(InUse { min_gain_percent, ..in_use }))
    }

    fn measures(&self) -> bool {
        self.measure || !self.targets.target.is_empty()
    }

    /// The study that measures what advice needs; `None` if nothing is measured. Options go before the load of a process.
    pub(crate) fn study(&self, of_process: Option<&ObservedLoad>) -> Option<StudyArguments> {
        let survey = of_process.map_or_else(|| self.survey.clone(), |load| self.survey.or_load(load));
        let time = self.time.unwrap_or(MEASURED_FOR);
        let folder = self.measured.clone().unwrap_or_else(|| MEASURED.into());
        let study = || StudyArguments {
            fresh: self.fresh,
            ..StudyArguments::of_survey(survey, self.targets.clone(), time, folder)
        };
        self.measures().then(study)
    }

    /// Files that are read, besides results: none of them is a place for the document.
    pub(crate) fn reads(&self) -> Vec<OsString> {
        let of_check = self.check.iter().filter(|check| is_file(check)).map(OsString::from);
        self.targets.target.iter().cloned().chain(of_check).collect()
    }

    /// The folder of results to read.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new(SURVEY))
    }
}

/// Whether what is to be checked is a file that names a path.
fn is_file(check: &str) -> bool {
    check.ends_with(".toml")
}

fn goal_parser() -> impl clap::builder::TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(Goal::ALL.map(Goal::name))
        .map(|name| Goal::ALL.into_iter().find(|goal| goal.name() == name).expect("a possible value is a goal's name"))
}
