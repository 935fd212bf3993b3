//! The options that place threads on CPUs, which `run` and `study` share.

use clap::Args;
use iolane::units::CpuList;
use iolane_measure::placement::Placement;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Placement")]
pub(crate) struct PlacementArguments {
    /// CPUs for the threads, assigned in turn: 0,2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// CPUs for the kernel's submission threads (+sqpoll), assigned in turn
    #[arg(long, alias = "spoll-cpus", value_name = "LIST")]
    sqpoll_cpus: Option<CpuList>,
}

impl PlacementArguments {
    /// Threads without a list are left to the scheduler.
    pub(crate) fn placement(&self) -> Placement {
        Placement { cpus: self.cpus.clone(), sqpoll_cpus: self.sqpoll_cpus.clone() }
    }

    /// `None` without an option.
    pub(crate) fn given(&self) -> Option<Placement> {
        Some(self.placement()).filter(|placement| *placement != Placement::default())
    }
}
