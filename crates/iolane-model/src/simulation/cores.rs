//! Who is on a core, what it does there, and until when. Interrupts and a busy sibling delay it.

use super::events::{Event, Time};
use super::state::Step;
use super::world::World;

/// What the kernel does before a core without a thread saves power: an interrupt within this time finds it awake.
const IDLE_ENTRY_NS: Time = 1_000;

impl World<'_> {
    /// Charges the thread of a core for its time up to now.
    pub(super) fn charge(&mut self, core: usize) {
        let speed = self.speed(core, self.now.saturating_sub(1));
        let state = &mut self.cores[core];
        let elapsed = self.now.saturating_sub(state.charged_to);
        if elapsed == 0 {
            return;
        }
        state.charged_to = self.now;
        let Some(thread) = state.running else { return };
        let thread = &mut self.threads[thread];
        thread.vruntime += elapsed;
        thread.on_core_ns += elapsed;
        thread.work_left = (thread.work_left - elapsed as f64 * speed).max(0.0);
    }

    /// Plans the end of what the thread of a core works on.
    pub(super) fn plan_end(&mut self, core: usize) {
        let speed = self.speed(core, self.now);
        let state = &mut self.cores[core];
        state.plan = state.plan.wrapping_add(1);
        let Some(thread) = state.running else { return };
        let thread = &self.threads[thread];
        if let Step::Work(_) = thread.step {
            let at = state.charged_to.max(self.now) + (thread.work_left / speed).ceil() as Time;
            let plan = state.plan;
            self.events.plan(at, Event::WorkEnds { core, plan });
        }
    }

    /// Puts a thread on a core, or none, and plans the end of what it works on.
    pub(super) fn put(&mut self, core: usize, thread: Option<usize>) {
        self.charge(core);
        self.watch(core, |world| {
            let state = &mut world.cores[core];
            if thread.is_none() && state.running.is_some() {
                state.without_thread_from = world.now;
            }
            state.running = thread;
            state.charged_to = world.now.max(state.interrupt_until);
            state.slice_from = world.now;
            if let Some(thread) = thread {
                world.threads[thread].core = core;
            }
        });
        self.plan_end(core);
    }

    pub(super) fn work_ended(&mut self, core: usize, plan: u32) {
        if self.cores[core].plan != plan {
            return;
        }
        self.charge(core);
        let thread = self.cores[core].running.expect("a core without a thread plans no end");
        let Step::Work(effect) = self.threads[thread].step else { unreachable!("a thread that spins has no end") };
        self.take_effect(thread, effect);
        self.go_on(core);
    }

    /// The interrupt of a completion, on the core that submitted the request. What arrives while another one is handled is handled
    /// with it.
    pub(super) fn interrupt(&mut self, core: usize, request: usize) {
        self.cores[core].arriving.push(request);
        if self.cores[core].interrupt_until > self.now {
            return;
        }
        self.charge(core);
        let is_idle = self.cores[core].idle_for(self.now) > IDLE_ENTRY_NS;
        let exit_ns = if is_idle { self.machine.processor.idle_exit_ns } else { 0.0 };
        let begins = self.now + exit_ns.round() as Time;
        let ends = begins + (self.costs.interrupt_ns.round() as Time).max(1);
        self.watch(core, |world| {
            world.cores[core].interrupt_until = ends;
            world.cores[core].charged_to = ends;
        });
        self.tally.interrupts += 1;
        self.tally.interrupt_ns += ends - begins;
        self.events.plan(ends, Event::InterruptEnds { core });
        self.plan_end(core);
    }

    pub(super) fn interrupt_ended(&mut self, core: usize) {
        self.watch(core, |_| {});
        let mut arrived = std::mem::take(&mut self.cores[core].arriving);
        for request in arrived.drain(..) {
            let queue = self.requests[request].queue;
            self.queues[queue].done.push_back(request);
            self.notify(self.queues[queue].thread, true);
        }
        if self.cores[core].arriving.is_empty() {
            self.cores[core].arriving = arrived;
        }
    }

    fn speed(&self, core: usize, at: Time) -> f64 {
        match self.cores[core].sibling {
            Some(sibling) if self.cores[sibling].is_busy(at) => self.machine.processor.smt_speed,
            _ => 1.0,
        }
    }

    /// Carries out a change of a core that may make it busy or idle: its sibling is charged at the speed it had and planned anew, and the
    /// time that the physical core was busy is counted.
    fn watch(&mut self, core: usize, change: impl FnOnce(&mut Self)) {
        let Some(sibling) = self.cores[core].sibling else {
            self.count_busy(core, None);
            return change(self);
        };
        self.charge(sibling);
        self.count_busy(core, Some(sibling));
        change(self);
        self.plan_end(sibling);
    }

    /// Counts the time of a physical core since its last change. The core may be in an interrupt that ends now.
    pub(super) fn count_busy(&mut self, core: usize, sibling: Option<usize>) {
        let first = sibling.map_or(core, |sibling| sibling.min(core));
        let elapsed = self.now - std::mem::replace(&mut self.cores[first].busy_from, self.now);
        // Busy until now: an interrupt that ends now was under way.
        let busy = |core: usize| self.cores[core].is_busy(self.now.saturating_sub(1));
        match (busy(core), sibling.is_some_and(busy)) {
            (true, true) => {
                self.tally.busy_core_ns += elapsed;
                self.tally.doubly_busy_core_ns += elapsed;
            }
            (false, false) => {}
            _ => self.tally.busy_core_ns += elapsed,
        }
    }
}
