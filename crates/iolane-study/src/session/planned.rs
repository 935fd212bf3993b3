//! An arm that can run here, with its checked plan.

use std::time::Duration;

use iolane_application::By;
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
    /// How its application reaches the target; `None` for arms of requests.
    pub(super) by: Option<By>,
}

impl Planned {
    /// Whether it writes to a drive that is to be in a steady state first. Applications write their data instead.
    pub(super) fn needs_preconditioning(&self) -> bool {
        self.arm.workload.access.writes() && self.by.is_none()
    }

    /// The same at another rate, for another time; the arm has a rate.
    pub(super) fn at_rate(&self, rate: Rate, runtime: Duration) -> Self {
        let workload = Workload { rate: Some(rate), ..self.arm.workload.clone() };
        Self {
            arm: Arm { workload, ..self.arm.clone() },
            plan: self.plan.clone().with_rate(rate).with_runtime(runtime),
            peer: self.peer.clone(),
            by: self.by.clone(),
        }
    }
}
