//! `iolane advise`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use clap::{Args, ValueHint};
use iolane_study::results::Goal;

use super::values::parse_percent;
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// Results folder of `iolane study`
    #[arg(default_value = "results/survey", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Only for these goals: latency, commits, throughput, energy, processor
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = goal_parser(), hide_possible_values = true)]
    pub(crate) goal: Vec<Goal>,
    /// Exit with 1 if the results show that another path is better than this one for the goal
    #[arg(long, value_name = "PATH", requires = "goal")]
    pub(crate) check: Option<String>,
    /// With --check, how much better it has to be, such as 5%: the whole interval is beyond it
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, requires = "check", default_value = "0%", hide_default_value = true)]
    pub(crate) min_gain: f64,
    /// Write the advice as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<Destination>,
}

fn goal_parser() -> impl clap::builder::TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(Goal::ALL.map(Goal::name))
        .map(|name| Goal::ALL.into_iter().find(|goal| goal.name() == name).expect("a possible value is a goal's name"))
}
