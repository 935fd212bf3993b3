//! The options that name targets and allow writing to them, which `run` and `study` share.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueHint};
use iolane::units::Bytes;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Targets")]
pub(crate) struct TargetArguments {
    /// File, block device, NVMe generic device (/dev/ng0n1), or pci:BDF for a controller without a kernel driver (see
    /// `iolane nvme`). Repeat the option for several targets; each has a thread, unless --threads or a study's
    /// file gives another number [default: the environment variable IOLANE_TARGET, or a temporary scratch file in this folder]
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::AnyPath)]
    pub(crate) target: Vec<OsString>,
    /// Leave out the first BYTES bytes of each target
    #[arg(long, default_value = "0", hide_default_value = true, value_name = "BYTES")]
    pub(crate) start: Bytes,
    /// Use SIZE bytes of each target, from --start [default: all of it]; without a target, the size of the scratch file
    /// [default: 1g]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Bypass the page cache (O_DIRECT)
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    pub(crate) direct: bool,
    /// Allow writing to this target, which destroys its data; spelled as in --target, once per target
    #[arg(long, value_name = "TARGET", value_hint = ValueHint::AnyPath)]
    pub(crate) allow_writes: Vec<OsString>,
    /// With --allow-writes: write even if the target has a file system, RAID, LVM or partition signature; a target in use
    /// is always refused
    #[arg(long)]
    pub(crate) erase: bool,
}
