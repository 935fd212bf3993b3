//! The numbers of a machine. Times are nanoseconds of a core that runs nothing else.
//!
//! Processors, drives and costs are generic over what a number is: a plain one where it is used, one with an interval in a machine's file.

use std::collections::BTreeMap;

use iolane_drive::{Drive, Link};
use serde::{Deserialize, Serialize};

/// A machine as [`simulate`](crate::simulate) plays it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its cores.
    pub processor: Processor,
    /// How the kernel shares them.
    pub scheduler: Scheduler,
    /// Each of its drives.
    pub drive: Drive,
    /// What the drives of a node share; `None` if nothing that limits them.
    pub link: Option<Link>,
    /// The costs of each path, by its name.
    pub paths: BTreeMap<String, PathCosts>,
    /// What it draws, if that is known.
    pub power: Option<Power>,
}

/// The cores of a machine. The threads of a job and its drive stay on one node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "N: Deserialize<'de> + Default"))]
pub struct Processor<N = f64> {
    /// Hardware threads.
    pub cores: usize,
    /// NUMA nodes, over which cores and drives are spread evenly.
    #[serde(default = "one")]
    pub nodes: usize,
    /// Whether each two hardware threads share a physical core.
    #[serde(default)]
    pub smt: bool,
    /// With `smt`, the speed of a hardware thread while the other one of its core is busy, spinning included. At 0.5 two threads do as
    /// much as one.
    #[serde(default = "shared_speed")]
    pub smt_speed: f64,
    /// From an interrupt of an idle core until the core handles it: the exit from a power state (exit latency,
    /// Documentation/admin-guide/pm/cpuidle.rst), or of a virtual machine from HLT. Nobody is charged for it.
    #[serde(default)]
    pub idle_exit_ns: N,
}

impl<N> Processor<N> {
    /// Its numbers that can be fitted, with their names.
    pub fn numbers(&self) -> [(&'static str, &N); 1] {
        [("idle_exit_ns", &self.idle_exit_ns)]
    }

    /// The same processor with each of these numbers made into another one, given its name.
    pub fn map<M>(&self, mut number: impl FnMut(&'static str, &N) -> M) -> Processor<M> {
        let &Self { cores, nodes, smt, smt_speed, idle_exit_ns: _ } = self;
        let [idle_exit_ns] = self.numbers().map(|(name, of)| number(name, of));
        Processor { cores, nodes, smt, smt_speed, idle_exit_ns }
    }
}

fn one() -> usize {
    1
}

fn shared_speed() -> f64 {
    0.62
}

/// The rules by which threads take turns on a core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// The scheduler of the kernel.
    pub kind: SchedulerKind,
    /// Ticks per second (CONFIG_HZ): only a tick ends the slice of a thread that does not sleep.
    pub hz: u32,
}

/// A scheduler of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerKind {
    /// Up to Linux 6.5. A period of 6 ms is shared, but nobody gets less than 0.75 ms; both times 1 + log2 of the cores, at most 4
    /// (kernel/sched/fair.c, sysctl_sched_latency, update_sysctl).
    Cfs,
    /// Since Linux 6.6. A slice of 0.75 ms times the same factor (sysctl_sched_base_slice).
    Eevdf,
}

/// What a path costs. A cost that the path does not have is 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "N: Deserialize<'de> + Default"))]
pub struct PathCosts<N = f64> {
    /// A system call that submits, whatever the number of requests.
    #[serde(default)]
    pub call_ns: N,
    /// Each request: half of it before the device has it, half after its completion.
    #[serde(default)]
    pub request_ns: N,
    /// A system call that only waits or fetches completions.
    #[serde(default)]
    pub wait_ns: N,
    /// An interrupt, whatever the number of completions.
    #[serde(default)]
    pub interrupt_ns: N,
    /// From the end of the interrupt until a thread that sleeps runs again.
    #[serde(default)]
    pub switch_ns: N,
    /// One look at a completion queue: polling finds a completion half of this later.
    #[serde(default)]
    pub poll_ns: N,
    /// Each request, in the submission thread.
    #[serde(default)]
    pub thread_ns: N,
    /// Until one core sees what another has written.
    #[serde(default)]
    pub handoff_ns: N,
}

impl<N> PathCosts<N> {
    /// Its numbers, with their names.
    pub fn numbers(&self) -> [(&'static str, &N); 8] {
        let Self { call_ns, request_ns, wait_ns, interrupt_ns, switch_ns, poll_ns, thread_ns, handoff_ns } = self;
        [
            ("call_ns", call_ns),
            ("request_ns", request_ns),
            ("wait_ns", wait_ns),
            ("interrupt_ns", interrupt_ns),
            ("switch_ns", switch_ns),
            ("poll_ns", poll_ns),
            ("thread_ns", thread_ns),
            ("handoff_ns", handoff_ns),
        ]
    }

    /// The same path with each number made into another one, given its name.
    pub fn map<M>(&self, mut number: impl FnMut(&'static str, &N) -> M) -> PathCosts<M> {
        let [call_ns, request_ns, wait_ns, interrupt_ns, switch_ns, poll_ns, thread_ns, handoff_ns] =
            self.numbers().map(|(name, of)| number(name, of));
        PathCosts { call_ns, request_ns, wait_ns, interrupt_ns, switch_ns, poll_ns, thread_ns, handoff_ns }
    }
}

/// What the whole machine draws, in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// With nothing to do.
    pub idle_w: f64,
    /// More, for each physical core with a busy hardware thread.
    pub core_w: f64,
    /// More, for a second busy hardware thread of a core.
    #[serde(default)]
    pub second_thread_w: f64,
    /// More, for a million bytes per second.
    #[serde(default)]
    pub per_mb_per_s_w: f64,
}
