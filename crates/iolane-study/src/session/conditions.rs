//! The targets, lengths and tools of a study. The command line fills them in; sessions and preconditioning read them.

use std::time::Duration;

use iolane::Target;
use iolane_measure::placement::Placement;

use super::energy::Metering;
use super::installed_peer::InstalledPeer;
use crate::plan::{Lengths, Scale};

#[derive(Debug, Clone)]
pub struct Conditions {
    /// Opened targets; an arm's drives are those that its path reaches.
    pub targets: Vec<Target>,
    /// Whether the targets hold the content of a scratch file.
    pub prefilled: bool,
    /// The CPUs for arms without a core limit; `None` for one CPU per thread, if there are enough.
    pub placement: Option<Placement>,
    /// Selects among the study's values and lengths.
    pub scale: Scale,
    pub lengths: Lengths,
    /// A limit of the time of all runs: no repeat begins that would exceed it by more than a tenth. The first always runs.
    pub time_max: Option<Duration>,
    /// Other tools that run the same arms.
    pub peers: Vec<InstalledPeer>,
    pub metering: Metering,
}
