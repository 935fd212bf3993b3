//! `iolane probe`.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueHint};

use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// File, block device, /dev/ngXnY or pci:BDF [default: a small scratch file in this folder, and the devices of this
    /// machine]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) target: Option<OsString>,
    /// Bypass the page cache (O_DIRECT)
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(crate) direct: bool,
    /// Show the machine settings that affect measurements, and how to correct them, instead of the paths
    #[arg(long)]
    pub(crate) host: bool,
    /// Write the result as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<Destination>,
}
