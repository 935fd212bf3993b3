//! `iolane nvme`.

use clap::{Args, Subcommand, ValueHint};
use iolane::nvme::Bdf;

use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct NvmeArguments {
    #[command(subcommand)]
    pub(crate) command: NvmeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NvmeCommand {
    /// List NVMe controllers, their drivers, and who uses them
    List {
        /// Write the list as JSON; `-` for standard output
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        json: Option<Destination>,
    },
    /// Take unused controllers from the kernel and bind them to vfio-pci, for the user-space driver
    Bind(NvmeBindArguments),
    /// Return controllers to the driver they had before
    Restore {
        /// PCI addresses, such as 0000:00:04.0 [default: every controller that iolane took]
        bdf: Vec<Bdf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NvmeBindArguments {
    /// PCI addresses, such as 0000:00:04.0, as `iolane nvme list` shows them
    #[arg(required = true)]
    pub(crate) bdf: Vec<Bdf>,
    /// Let this user (name or number) use them without root
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Let members of this group (name or number) use them without root
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
}
