//! `iolane report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Results folder of `iolane study`
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Write the page to this file; `-` for standard output [default: DIR/report.html, unless another output is chosen]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<Destination>,
    /// Write each chart as a PNG image of 1600 x 1000 pixels
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) png: Option<PathBuf>,
    /// Write each chart as an SVG image
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) svg: Option<PathBuf>,
    /// Write a summary in GitHub Markdown; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) md: Option<Destination>,
    /// Write the text that the study printed; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) text: Option<Destination>,
    /// Write every table as comma-separated values
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,
}
