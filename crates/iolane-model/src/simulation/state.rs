//! What a simulation remembers of each core, thread, queue and request.

use std::collections::VecDeque;
use std::ops::Range;

use super::events::Time;

#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) node: usize,
    /// The other hardware thread of the same physical core.
    pub(super) sibling: Option<usize>,
    pub(super) running: Option<usize>,
    /// Threads that want this core too.
    pub(super) waiting: Vec<usize>,
    /// Changes whenever an end that was planned no longer holds.
    pub(super) plan: u32,
    /// Up to when its thread has been charged for its time. Later than now during an interrupt.
    pub(super) charged_to: Time,
    /// When its thread got it.
    pub(super) slice_from: Time,
    pub(super) ticks: bool,
    /// How often it looked for another thread in vain.
    pub(super) vain_balances: u32,
    pub(super) interrupt_until: Time,
    /// Completions that the interrupt brings.
    pub(super) arriving: Vec<usize>,
    pub(super) busy_from: Time,
    /// When it last had no thread any more.
    pub(super) without_thread_from: Time,
}

impl Core {
    pub(super) fn new(node: usize, sibling: Option<usize>) -> Self {
        Self { node, sibling, ..Self::default() }
    }

    /// How long it has had neither thread nor interrupt.
    pub(super) fn idle_for(&self, now: Time) -> Time {
        match self.running {
            Some(_) => 0,
            None => now.saturating_sub(self.without_thread_from.max(self.interrupt_until)),
        }
    }

    pub(super) fn is_busy(&self, now: Time) -> bool {
        self.running.is_some() || self.interrupt_until > now
    }
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) queue: usize,
    /// The core that submitted it, which gets its interrupt.
    pub(super) core: usize,
    pub(super) started: Time,
    pub(super) writes: bool,
}

/// A queue of one thread on one drive.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) thread: usize,
    /// The thread of the kernel that submits for it.
    pub(super) submission_thread: Option<usize>,
    pub(super) drive: usize,
    /// Requests that the thread may start.
    pub(super) free: u32,
    /// In the ring, for the submission thread.
    pub(super) staged: VecDeque<usize>,
    /// Completed by the device, and not found by polling yet.
    pub(super) finished: VecDeque<usize>,
    /// Completions that the thread can take.
    pub(super) done: VecDeque<usize>,
    /// Whether the thread is in a call that waits, or has just returned from one.
    pub(super) waits: bool,
    /// When the requests that are being prepared were started.
    pub(super) started: Time,
}

impl Queue {
    pub(super) fn new(thread: usize, submission_thread: Option<usize>, drive: usize, depth: u32) -> Self {
        Self {
            thread,
            submission_thread,
            drive,
            free: depth,
            staged: VecDeque::new(),
            finished: VecDeque::new(),
            done: VecDeque::new(),
            waits: false,
            started: 0,
        }
    }
}

/// A thread of the program or of the kernel.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) role: Role,
    pub(super) state: State,
    pub(super) step: Step,
    /// Nanoseconds of a core of its own that its step still takes.
    pub(super) work_left: f64,
    /// What delays its next step, in nanoseconds.
    pub(super) delay: f64,
    pub(super) vruntime: Time,
    pub(super) on_core_ns: u64,
    /// The node that it stays on.
    pub(super) node: usize,
    /// The core that it has, or had last.
    pub(super) core: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Role {
    /// Starts requests on its queue and takes their completions.
    Application { queue: usize },
    /// Submits what the queues of others have staged.
    Submitter { queues: Range<usize> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Waiting,
    Asleep,
}

/// What a thread does on its core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Works, with an effect at the end.
    Work(Effect),
    /// Looks again and again for something to do.
    Spin,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Effect {
    /// Hands over this number of requests.
    Submit(u32),
    /// Takes this number of completions.
    Take(u32),
    /// Is in a call that waits.
    Wait,
    /// Has looked at the device.
    Look,
    /// Has submitted the first that the queue had staged.
    Forward(usize),
    /// Has looked at the device of the queue.
    LookFor(usize),
}

impl Thread {
    pub(super) fn new(role: Role, node: usize) -> Self {
        let (state, step) = (State::Waiting, Step::Spin);
        Self { role, state, step, work_left: 0.0, delay: 0.0, vruntime: 0, on_core_ns: 0, node, core: 0 }
    }
}
