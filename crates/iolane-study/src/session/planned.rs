//! An arm that can run here, with its checked plan.

use iolane_measure::run::CheckedPlan;

use super::installed_peer::InstalledPeer;
use crate::plan::Arm;

#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) arm: Arm,
    pub(super) plan: CheckedPlan,
    /// The tool that runs it; `None` for iolane itself.
    pub(super) peer: Option<InstalledPeer>,
}
