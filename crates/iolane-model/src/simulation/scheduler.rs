//! Threads that share cores: which one runs, for how long, where one that wakes up goes, and when one moves to another core. As
//! kernel/sched/fair.c does it, in so far as threads of equal weight see it.

use super::events::{Event, Time};
use super::state::State;
use super::world::World;
use crate::machine::SchedulerKind;

/// How often the kernel's own work (kworker, RCU) takes a core for a moment, on average. The time that it takes does not matter, but the
/// thread that it took the core from begins a new slice (set_next_entity), so that cores do not keep step for long.
const DISTURBED_EVERY: f64 = 100e6;

/// A core with a thread of its own takes another one only after this many looks: one thread would only change its place.
const VAIN_BALANCES: u32 = 2;

impl World<'_> {
    /// Gives a core to the thread that had the least of it; an idle one takes a thread that waits elsewhere.
    pub(super) fn dispatch(&mut self, core: usize) {
        if self.cores[core].waiting.is_empty() {
            self.pull(core, 2);
        }
        let waiting = &self.cores[core].waiting;
        let next = (0..waiting.len()).min_by_key(|at| (self.threads[waiting[*at]].vruntime, *at));
        let thread = next.map(|at| self.cores[core].waiting.remove(at));
        self.put(core, thread);
        if let Some(thread) = thread {
            self.threads[thread].state = State::Running;
            self.plan_tick(core);
            self.resume(core);
        }
    }

    /// A thread that slept wants a core: the one it had, or an idle one.
    pub(super) fn wake(&mut self, thread: usize) {
        let last = self.threads[thread].core;
        let node = self.cores[last].node;
        let is_idle = |core: &usize| self.cores[*core].running.is_none() && self.cores[*core].waiting.is_empty();
        let others = (0..self.cores.len()).filter(|core| self.cores[*core].node == node);
        let core = std::iter::once(last).chain(others).find(is_idle).unwrap_or(last);
        self.charge(core);
        let least = self.least_vruntime(core);
        let credit = match self.rules.kind {
            SchedulerKind::Cfs => self.rules.period / 2,
            SchedulerKind::Eevdf => 0,
        };
        let state = &mut self.threads[thread];
        state.vruntime = state.vruntime.max(least.saturating_sub(credit));
        self.enqueue(core, thread);
    }

    /// Adds a thread to those that want a core, which it gets if it is idle or if the rules let it take over.
    pub(super) fn enqueue(&mut self, core: usize, thread: usize) {
        self.threads[thread].state = State::Waiting;
        self.cores[core].waiting.push(thread);
        match self.cores[core].running {
            None => self.dispatch(core),
            Some(running) if self.takes_over(thread, running) => self.preempt(core),
            Some(_) => self.plan_tick(core),
        }
    }

    /// Whether one that wakes up takes the core from the one that runs.
    fn takes_over(&self, woken: usize, running: usize) -> bool {
        let ahead = self.threads[running].vruntime.saturating_sub(self.threads[woken].vruntime);
        match self.rules.kind {
            SchedulerKind::Cfs => ahead > self.rules.granularity,
            // Its deadline is a slice from now, that of the other a slice from when it got the core, which is earlier.
            SchedulerKind::Eevdf => false,
        }
    }

    pub(super) fn least_vruntime(&self, core: usize) -> Time {
        let core = &self.cores[core];
        let all = core.running.iter().chain(&core.waiting);
        all.map(|thread| self.threads[*thread].vruntime).min().unwrap_or(0)
    }

    pub(super) fn preempt(&mut self, core: usize) {
        self.charge(core);
        if let Some(running) = self.cores[core].running {
            self.threads[running].state = State::Waiting;
            self.cores[core].waiting.push(running);
        }
        self.dispatch(core);
    }

    fn plan_tick(&mut self, core: usize) {
        let state = &mut self.cores[core];
        if state.ticks || state.waiting.is_empty() {
            return;
        }
        state.ticks = true;
        let at = (self.now / self.rules.tick + 1) * self.rules.tick;
        self.events.plan(at, Event::Tick { core });
    }

    pub(super) fn tick(&mut self, core: usize) {
        let state = &mut self.cores[core];
        state.ticks = false;
        let threads = state.waiting.len() + 1;
        // A thread gets the core a little after a tick, so that a slice of whole ticks takes one more (check_preempt_tick).
        let is_over = self.now - state.slice_from > self.rules.slice_among(threads);
        if threads > 1 && state.running.is_some() && is_over {
            self.preempt(core);
        }
        self.plan_tick(core);
    }

    pub(super) fn plan_disturbance(&mut self, core: usize) {
        let after = -DISTURBED_EVERY * libm::log(1.0 - self.fraction());
        self.events.plan(self.now + after as Time, Event::Disturbs { core });
    }

    pub(super) fn disturb(&mut self, core: usize) {
        self.cores[core].slice_from = self.now;
        self.plan_disturbance(core);
    }

    pub(super) fn plan_balance(&mut self) {
        self.events.plan(self.now + self.rules.balance, Event::Balance);
    }

    pub(super) fn balance(&mut self) {
        let first = self.below(self.cores.len());
        for at in 0..self.cores.len() {
            let core = (first + at) % self.cores.len();
            let own = self.wanted_by(core);
            let pulled = match self.cores[core].vain_balances {
                vain if vain >= VAIN_BALANCES => self.pull(core, own + 1),
                _ => self.pull(core, own + 2),
            };
            let state = &mut self.cores[core];
            state.vain_balances = if pulled { 0 } else { state.vain_balances + 1 };
            match state.running {
                None if pulled => self.dispatch(core),
                _ => self.plan_tick(core),
            }
        }
        self.plan_balance();
    }

    pub(super) fn wanted_by(&self, core: usize) -> usize {
        self.cores[core].waiting.len() + usize::from(self.cores[core].running.is_some())
    }

    /// Takes a thread that waits for another core of the node, if at least this number of threads want that core.
    fn pull(&mut self, core: usize, at_least: usize) -> bool {
        let node = self.cores[core].node;
        let can_give = |other: &usize| {
            let state = &self.cores[*other];
            *other != core && state.node == node && !state.waiting.is_empty() && self.wanted_by(*other) >= at_least
        };
        let most = (0..self.cores.len()).filter(can_give).map(|other| self.wanted_by(other)).max();
        let Some(most) = most else { return false };
        let busiest: Vec<usize> =
            (0..self.cores.len()).filter(can_give).filter(|other| self.wanted_by(*other) == most).collect();
        let from = busiest[self.below(busiest.len())];
        let thread = self.cores[from].waiting.remove(0);
        // How far it is ahead of the others goes with the thread, within a period.
        let (old, new) = (self.least_vruntime(from), self.least_vruntime(core));
        let state = &mut self.threads[thread];
        state.vruntime = new + state.vruntime.saturating_sub(old).min(self.rules.period);
        state.core = core;
        self.cores[core].waiting.push(thread);
        true
    }
}
