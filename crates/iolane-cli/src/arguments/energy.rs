//! `iolane energy`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct EnergyArguments {
    /// Results folder of `iolane study --meter-steps`; its results are updated
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// The meter's recording: an export of HOBOware, or lines of `time,watts`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) meter_csv: PathBuf,
}
