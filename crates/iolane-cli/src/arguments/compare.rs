//! `iolane compare`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::values::parse_percent;
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Two or more results folders of `iolane study`; each is compared with the first
    #[arg(required = true, num_args = 2.., value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folders: Vec<PathBuf>,
    /// Exit with 1 if an arm lost more than this, such as 5%, of its IOPS, or its p99 grew by more: the whole 95 % interval is
    /// beyond it, so that noise alone does not fail a build
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub(crate) max_loss: Option<f64>,
    /// With --max-loss, also exit with 1 if an arm is too noisy to exclude such a loss
    #[arg(long, requires = "max_loss")]
    pub(crate) strict: bool,
    /// Write the comparison as a self-contained HTML page with charts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<Destination>,
    /// Write the comparison as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<Destination>,
}
