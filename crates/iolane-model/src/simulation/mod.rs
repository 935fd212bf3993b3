//! Plays a load on a machine. One thread, one clock, one random stream: the same seed gives the same outcome.
//!
//! `events` is the order of time. A device's completion leads to an interrupt (`cores`) or is found by polling; threads (`threads`) do the
//! next step of their loop; `scheduler` decides who is on a core.

mod cores;
mod events;
mod rules;
mod scheduler;
mod state;
mod threads;
mod world;

use iolane_core::error::Result;

use crate::{Completion, Length, Load, Machine, Outcome};
use events::{Event, Time};
use state::{Request, Role, Thread};
use world::{World, empty_outcome};

/// The part of the requests of each thread that is played before any is counted.
const WARM_UP: f64 = 0.15;

/// Plays a load on a machine.
///
/// # Errors
/// `Usage` if the machine has no costs of the path, fewer cores, or if the model does not know how the path behaves.
pub fn simulate(machine: &Machine, load: &Load, length: Length, seed: u64) -> Result<Outcome> {
    let mut world = World::new(machine, load, seed)?;
    world.play(length);
    Ok(world.outcome())
}

impl World<'_> {
    fn play(&mut self, length: Length) {
        let warm_up_requests = (length.requests_per_thread as f64 * WARM_UP) as u64 * self.queues.len() as u64;
        let warm_up_ns = (length.at_least_ns as f64 * WARM_UP) as Time;
        let latest_start = (length.at_most_ns as f64 * WARM_UP) as Time;
        let all_requests = length.requests_per_thread * self.queues.len() as u64;
        let mut started = false;
        while let Some((at, event)) = self.events.next() {
            if at >= length.at_most_ns {
                self.now = length.at_most_ns;
                break;
            }
            self.now = at;
            self.tally.events += 1;
            self.handle(event);
            if !self.tally.events.is_multiple_of(64) {
                continue;
            }
            let taken = self.taken;
            if !started && ((taken >= warm_up_requests && self.now >= warm_up_ns) || self.now >= latest_start) {
                started = true;
                self.start_counting();
            } else if started && taken >= all_requests && self.now >= length.at_least_ns {
                break;
            }
        }
        if !started {
            self.start_counting();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Starts { thread } => self.start(thread),
            Event::WorkEnds { core, plan } => self.work_ended(core, plan),
            Event::InterruptEnds { core } => self.interrupt_ended(core),
            Event::Served { request } => self.served(request),
            Event::Completes { request } => self.completes(request),
            Event::Tick { core } => self.tick(core),
            Event::Disturbs { core } => self.disturb(core),
            Event::Balance => self.balance(),
        }
    }

    /// A request reaches the device, or waits in the kernel for a tag.
    fn send(&mut self, request: usize, core: usize) {
        self.requests[request].core = core;
        let drive = self.queues[self.requests[request].queue].drive;
        if self.drives[drive].admit(request) {
            self.serve(request);
        }
    }

    fn serve(&mut self, request: usize) {
        let Request { queue, writes, .. } = self.requests[request];
        let drive = &mut self.drives[self.queues[queue].drive];
        let at = drive.serve(self.now, self.load.block_bytes, writes, &mut self.rng);
        self.events.plan(at, Event::Served { request });
    }

    fn served(&mut self, request: usize) {
        let drive = self.queues[self.requests[request].queue].drive;
        let node = drive % self.links.len();
        let link = self.machine.link.map(|link| (link, &mut self.links[node]));
        let at = self.drives[drive].transfer(self.now, self.load.block_bytes, link);
        self.events.plan(at, Event::Completes { request });
    }

    fn completes(&mut self, request: usize) {
        let Request { queue, core, .. } = self.requests[request];
        if let Some(next) = self.drives[self.queues[queue].drive].release() {
            self.serve(next);
        }
        match self.behaviour.completion {
            Completion::Interrupt => self.interrupt(core, request),
            Completion::Poll => {
                self.queues[queue].finished.push_back(request);
                let poller = self.queues[queue].submission_thread.unwrap_or(self.queues[queue].thread);
                self.notify(poller, false);
            }
        }
    }

    fn add_request(&mut self, request: Request) -> usize {
        match self.free_requests.pop() {
            Some(at) => {
                self.requests[at] = request;
                at
            }
            None => {
                self.requests.push(request);
                self.requests.len() - 1
            }
        }
    }

    /// Forgets what was counted in the warm-up.
    fn start_counting(&mut self) {
        self.settle();
        self.counts_from = self.now;
        self.tally = Outcome { events: self.tally.events, ..empty_outcome() };
        self.threads.iter_mut().for_each(|thread| thread.on_core_ns = 0);
    }

    fn settle(&mut self) {
        for core in 0..self.cores.len() {
            self.charge(core);
            let sibling = self.cores[core].sibling;
            if sibling.is_none_or(|sibling| core < sibling) {
                self.count_busy(core, sibling);
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        self.settle();
        let of = |is_submitter: bool| {
            let matches = |thread: &&Thread| matches!(thread.role, Role::Submitter { .. }) == is_submitter;
            self.threads.iter().filter(matches).map(|thread| thread.on_core_ns).sum()
        };
        Outcome {
            elapsed_ns: self.now - self.counts_from,
            bytes: self.tally.ios * self.load.block_bytes,
            thread_ns: of(false),
            kernel_thread_ns: of(true),
            ..self.tally
        }
    }
}
