//! Everything that a simulation consists of, and how it begins.

use hdrhistogram::Histogram;
use iolane_core::error::{Error, Result};
use iolane_drive::{Lanes, Service};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::events::{Event, Events, Time};
use super::rules::Rules;
use super::state::{Core, Queue, Request, Role, Thread};
use crate::{Behaviour, Load, Machine, Outcome, PathCosts, Processor};

/// The longest latency that is told apart: more counts as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

pub(super) struct World<'a> {
    pub(super) machine: &'a Machine,
    pub(super) load: &'a Load,
    pub(super) behaviour: Behaviour,
    pub(super) costs: PathCosts,
    pub(super) rules: Rules,
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) now: Time,
    pub(super) events: Events,
    pub(super) cores: Vec<Core>,
    pub(super) threads: Vec<Thread>,
    pub(super) queues: Vec<Queue>,
    pub(super) drives: Vec<Service>,
    pub(super) links: Vec<Lanes>,
    pub(super) requests: Vec<Request>,
    pub(super) free_requests: Vec<usize>,
    /// Requests whose completions threads have taken, warm-up included.
    pub(super) taken: u64,
    /// When the warm-up ended.
    pub(super) counts_from: Time,
    pub(super) tally: Outcome,
}

impl<'a> World<'a> {
    pub(super) fn new(machine: &'a Machine, load: &'a Load, seed: u64) -> Result<Self> {
        let costs = *machine.paths.get(&load.path).ok_or_else(|| {
            Error::usage(format!("predicting path {}", load.path), "the machine's file has no costs of it")
        })?;
        let behaviour = Behaviour::of(&load.io_path)?;
        let Processor { cores, nodes, .. } = machine.processor;
        // As many nodes as the cores need.
        let nodes = load.cores.div_ceil(cores.div_ceil(nodes)).max(1);
        if load.cores == 0 || load.cores > machine.processor.cores || load.threads == 0 || load.drives == 0 {
            let cause = format!("the machine has {} cores", machine.processor.cores);
            return Err(Error::usage(format!("predicting for {} cores", load.cores), cause));
        }
        if load.depth == 0 || (behaviour.blocks && load.depth > 1) {
            return Err(Error::usage(
                format!("predicting {} at depth {}", load.path, load.depth),
                "a blocking call has one request in flight",
            )
            .remedy("use depth 1 and more threads"));
        }
        let cores_of_node = load.cores.div_ceil(nodes);
        let mut world = Self {
            machine,
            load,
            behaviour,
            costs,
            rules: Rules::of(machine.scheduler, load.cores, cores_of_node),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: 0,
            events: Events::default(),
            cores: Vec::new(),
            threads: Vec::new(),
            queues: Vec::new(),
            drives: (0..load.drives).map(|_| Service::new(machine.drive)).collect(),
            links: (0..nodes).map(|_| Lanes::default()).collect(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            taken: 0,
            counts_from: Time::MAX,
            tally: empty_outcome(),
        };
        world.add_cores(nodes, cores_of_node);
        world.add_threads(nodes);
        world.plan_balance();
        if load.is_crowded() {
            (0..load.cores).for_each(|core| world.plan_disturbance(core));
        }
        Ok(world)
    }

    fn add_cores(&mut self, nodes: usize, cores_of_node: usize) {
        for core in 0..self.load.cores {
            // Hardware threads of a physical core have neighbouring numbers here.
            let sibling = (self.machine.processor.smt && (core ^ 1) < self.load.cores).then_some(core ^ 1);
            let node = (core / cores_of_node).min(nodes - 1);
            self.cores.push(Core::new(node, sibling));
        }
    }

    /// The threads of the program, each with its queue, then the submission threads. They start at random moments of the period in which
    /// two of them take turns, so that those of different cores do not keep step.
    fn add_threads(&mut self, nodes: usize) {
        let shares = self.load.io_path.options.share;
        for number in 0..self.load.threads {
            self.threads.push(Thread::new(Role::Application { queue: number }, number % nodes));
            self.queues.push(Queue::new(number, None, number % self.load.drives, self.load.depth));
        }
        for number in 0..self.load.io_path.submission_threads(self.load.threads) {
            let thread = self.threads.len();
            let queues = if shares { 0..self.load.threads } else { number..number + 1 };
            self.queues[queues.clone()].iter_mut().for_each(|queue| queue.submission_thread = Some(thread));
            self.threads.push(Thread::new(Role::Submitter { queues }, number % nodes));
        }
        let period = if self.load.is_crowded() { 2 * self.rules.slice_among(2) } else { 1 };
        for thread in 0..self.threads.len() {
            let at = self.below(period as usize) as Time;
            self.events.plan(at, Event::Starts { thread });
        }
    }

    /// As a new thread is placed (select_task_rq_fair).
    pub(super) fn start(&mut self, thread: usize) {
        let core = self.emptiest_core(self.threads[thread].node);
        self.threads[thread].core = core;
        self.threads[thread].vruntime = self.least_vruntime(core);
        self.enqueue(core, thread);
    }

    fn emptiest_core(&mut self, node: usize) -> usize {
        let of_node = |core: &usize| self.cores[*core].node == node;
        let rank = |core: &usize| {
            let state = &self.cores[*core];
            (self.wanted_by(*core), state.sibling.map_or(0, |sibling| self.wanted_by(sibling)))
        };
        let least = (0..self.cores.len()).filter(of_node).map(|core| rank(&core)).min().expect("a node has cores");
        let emptiest: Vec<usize> = (0..self.cores.len()).filter(of_node).filter(|core| rank(core) == least).collect();
        emptiest[self.below(emptiest.len())]
    }

    /// A random number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.rng.next_u64() % limit as u64) as usize
    }

    /// A random number in 0 to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

pub(super) fn empty_outcome() -> Outcome {
    Outcome {
        elapsed_ns: 0,
        ios: 0,
        bytes: 0,
        latency: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("three digits are valid"),
        calls: 0,
        switches: 0,
        interrupts: 0,
        thread_ns: 0,
        kernel_thread_ns: 0,
        interrupt_ns: 0,
        busy_core_ns: 0,
        doubly_busy_core_ns: 0,
        events: 0,
    }
}
