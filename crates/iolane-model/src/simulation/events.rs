//! What happens next, in order of virtual time; at the same time, in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) use iolane_drive::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread starts.
    Starts { thread: usize },
    /// The work of the thread on a core ends, unless the core has changed its plan since.
    WorkEnds { core: usize, plan: u32 },
    /// A core has handled its interrupt.
    InterruptEnds { core: usize },
    /// The units of a drive are done with a request.
    Served { request: usize },
    /// The device has completed a request.
    Completes { request: usize },
    /// The scheduler looks at a core that several threads want.
    Tick { core: usize },
    /// A thread of the kernel has a core for a moment.
    Disturbs { core: usize },
    /// The scheduler looks for cores with fewer threads than others.
    Balance,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    planned: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
}

impl Events {
    pub(super) fn plan(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.planned.push(Reverse((at, self.count, event)));
    }

    pub(super) fn next(&mut self) -> Option<(Time, Event)> {
        self.planned.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
