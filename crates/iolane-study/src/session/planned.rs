//! An arm that can run here, with its checked plan.

use iolane_measure::run::CheckedPlan;
use iolane_measure::workload::{Rate, Workload};

use super::installed_peer::InstalledPeer;
use crate::plan::Arm;

#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) arm: Arm,
    pub(super) plan: CheckedPlan,
    /// The tool that runs it; `None` for iolane itself.
    pub(super) peer: Option<InstalledPeer>,
}

impl Planned {
    /// The same at another rate; the arm has one.
    pub(super) fn at_rate(&self, rate: Rate) -> Self {
        let workload = Workload { rate: Some(rate), ..self.arm.workload.clone() };
        Self {
            arm: Arm { workload, ..self.arm.clone() },
            plan: self.plan.clone().with_rate(rate),
            peer: self.peer.clone(),
        }
    }
}
