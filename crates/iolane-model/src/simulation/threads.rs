//! What the threads of a load do: the loop of a benchmark or an engine over its queue, and the kernel's submission thread.

use std::ops::Range;

use super::state::{Effect, Request, Role, State, Step};
use super::world::World;
use crate::{Completion, Submission};

/// What a thread does next.
enum Next {
    Work(f64, Effect),
    Spin,
    Sleep,
}

impl World<'_> {
    /// The thread of a core has got it: it continues its work, or looks whether there is something to do.
    pub(super) fn resume(&mut self, core: usize) {
        let thread = self.cores[core].running.expect("called with a thread on the core");
        match self.threads[thread].step {
            Step::Work(_) => self.plan_end(core),
            Step::Spin => self.go_on(core),
        }
    }

    /// The thread of a core takes its next step.
    pub(super) fn go_on(&mut self, core: usize) {
        let thread = self.cores[core].running.expect("called with a thread on the core");
        let next = match self.threads[thread].role.clone() {
            Role::Application { queue } => self.next_of_application(queue),
            Role::Submitter { queues } => self.next_of_submitter(queues),
        };
        let state = &mut self.threads[thread];
        match next {
            Next::Work(ns, effect) => {
                state.step = Step::Work(effect);
                state.work_left = ns.max(1.0) + std::mem::take(&mut state.delay);
                self.plan_end(core);
            }
            Next::Spin => state.step = Step::Spin,
            Next::Sleep => {
                (state.step, state.state) = (Step::Spin, State::Asleep);
                self.tally.switches += 1;
                self.dispatch(core);
            }
        }
    }

    /// There is something to do for a thread that may sleep or spin. `by_other`: another core has written what it waits for.
    pub(super) fn notify(&mut self, thread: usize, by_other: bool) {
        let costs = self.costs;
        let state = &mut self.threads[thread];
        match (state.state, state.step) {
            (State::Asleep, _) => {
                state.delay = costs.switch_ns;
                self.wake(thread);
            }
            (State::Running, Step::Spin) => {
                state.delay = if by_other && costs.handoff_ns > 0.0 { costs.handoff_ns } else { costs.poll_ns / 2.0 };
                let core = state.core;
                self.charge(core);
                self.go_on(core);
            }
            _ => {}
        }
    }

    fn next_of_application(&mut self, at: usize) -> Next {
        let (costs, behaviour, load) = (self.costs, self.behaviour, self.load);
        let now = self.now;
        let queue = &mut self.queues[at];
        if queue.free > 0 && (!queue.waits || queue.done.is_empty()) {
            let count = queue.free.min(load.batch_submit.unwrap_or(u32::MAX)).max(1);
            let mut ns = f64::from(count) * costs.request_ns / 2.0;
            if behaviour.submission == Submission::Call {
                ns += costs.call_ns;
                self.tally.calls += 1;
            }
            queue.started = now;
            return Next::Work(ns, Effect::Submit(count));
        }
        if !queue.done.is_empty() && (queue.waits || !behaviour.reaps_by_call) {
            queue.waits = false;
            let count = (queue.done.len() as u32).min(load.batch_complete_max.unwrap_or(u32::MAX)).max(1);
            return Next::Work(f64::from(count) * costs.request_ns / 2.0, Effect::Take(count));
        }
        let polls_itself = behaviour.completion == Completion::Poll && behaviour.submission != Submission::Thread;
        if polls_itself && (behaviour.submission == Submission::Doorbell || queue.waits) {
            return if queue.finished.is_empty() { Next::Spin } else { Next::Work(costs.poll_ns / 2.0, Effect::Look) };
        }
        if behaviour.submission != Submission::Call {
            return Next::Spin;
        }
        if !queue.waits {
            self.tally.calls += 1;
            return Next::Work(costs.wait_ns, Effect::Wait);
        }
        Next::Sleep
    }

    fn next_of_submitter(&mut self, queues: Range<usize>) -> Next {
        let polls = self.behaviour.completion == Completion::Poll;
        for at in queues {
            let queue = &self.queues[at];
            if polls && !queue.finished.is_empty() {
                return Next::Work(self.costs.poll_ns, Effect::LookFor(at));
            }
            if !queue.staged.is_empty() {
                return Next::Work(self.costs.thread_ns, Effect::Forward(at));
            }
        }
        Next::Spin
    }

    pub(super) fn take_effect(&mut self, thread: usize, effect: Effect) {
        let of_queue = match self.threads[thread].role {
            Role::Application { queue } => queue,
            Role::Submitter { .. } => usize::MAX,
        };
        match effect {
            Effect::Submit(count) => self.submit(thread, of_queue, count),
            Effect::Take(count) => self.take(of_queue, count),
            Effect::Wait => self.queues[of_queue].waits = true,
            Effect::Look => {
                let queue = &mut self.queues[of_queue];
                queue.done.append(&mut queue.finished);
            }
            Effect::Forward(queue) => {
                let core = self.threads[thread].core;
                if let Some(request) = self.queues[queue].staged.pop_front() {
                    self.send(request, core);
                }
            }
            Effect::LookFor(queue) => {
                let state = &mut self.queues[queue];
                state.done.append(&mut state.finished);
                self.notify(self.queues[queue].thread, true);
            }
        }
    }

    fn submit(&mut self, thread: usize, at: usize, count: u32) {
        let core = self.threads[thread].core;
        self.queues[at].free -= count;
        let started = self.queues[at].started;
        for _ in 0..count {
            let writes = self.load.reads < 1.0 && self.fraction() >= self.load.reads;
            let request = self.add_request(Request { queue: at, core, started, writes });
            match self.queues[at].submission_thread {
                Some(_) => self.queues[at].staged.push_back(request),
                None => self.send(request, core),
            }
        }
        if let Some(submitter) = self.queues[at].submission_thread {
            self.notify(submitter, true);
        }
        // The same call waits.
        self.queues[at].waits = self.behaviour.blocks || (self.behaviour.joins && self.load.batch_submit.is_none());
    }

    fn take(&mut self, at: usize, count: u32) {
        let is_counted = self.now >= self.counts_from;
        for _ in 0..count {
            let Some(request) = self.queues[at].done.pop_front() else { break };
            let started = self.requests[request].started;
            self.free_requests.push(request);
            self.queues[at].free += 1;
            self.taken += 1;
            if is_counted {
                self.tally.ios += 1;
                self.tally.latency.saturating_record(self.now - started);
            }
        }
    }
}
