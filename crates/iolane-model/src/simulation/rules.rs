//! How long threads run and how often the scheduler looks, by the kernel's rules.

use super::events::Time;
use crate::machine::SchedulerKind;

/// The lengths that the rules use, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) kind: SchedulerKind,
    pub(super) tick: Time,
    /// CFS: what is shared by those that want a core.
    pub(super) period: Time,
    /// CFS: the least part. EEVDF: the slice.
    slice: Time,
    /// CFS: how far one that wakes up must be behind to take the core.
    pub(super) granularity: Time,
    /// How often a busy core looks for threads elsewhere.
    pub(super) balance: Time,
}

impl Rules {
    pub(super) fn of(scheduler: crate::Scheduler, cores: usize, cores_of_node: usize) -> Self {
        let factor = Time::from(1 + cores.clamp(1, 8).ilog2());
        // A domain of n cores is looked at every n ms, at least 8; a busy core takes 16 times as long (kernel/sched/topology.c, sd_init).
        let balance = 16 * 1_000_000 * cores_of_node.max(8) as Time;
        Self {
            kind: scheduler.kind,
            tick: 1_000_000_000 / Time::from(scheduler.hz.max(1)),
            period: 6_000_000 * factor,
            slice: 750_000 * factor,
            granularity: 1_000_000 * factor,
            balance,
        }
    }

    /// How long a thread runs if this many want the core.
    pub(super) fn slice_among(&self, threads: usize) -> Time {
        match self.kind {
            SchedulerKind::Cfs => (self.period / threads as Time).max(self.slice),
            SchedulerKind::Eevdf => self.slice,
        }
    }
}
