//! Everything that is read around one run, in the order that disturbs least, and what it comes to: each figure with its
//! source, or why it could not be had. `run` calls it while no thread of the run works; it takes no figure itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use iolane::Target;
use iolane::units::CpuList;

use super::counters::{Counted, Counters};
use super::frequency::{Frequency, Ticks};
use super::interrupts::{InterruptSnapshot, Interrupts};
use super::memory::MemoryMark;
use super::numa;
use super::{CpuSnapshot, CpuUse, MachineSnapshot, MachineUse, Reading, Sourced, Unavailable};
use crate::placement::allowed_cpus;
use crate::records::{ThreadUse, UNAVAILABLE};

const SYS: &str = "/sys";
const PROC: &str = "/proc";

/// What watches a run: open it before the run's threads are made, for its counters count those that are made after it.
#[derive(Debug)]
pub struct Watch {
    counters: Counters,
    interrupts: Reading<Interrupts>,
    frequency: Frequency,
    memory: MemoryMark,
    numa_nodes: Reading<Sourced<String>>,
    begun: Option<Begun>,
}

/// What was read when the run began.
#[derive(Debug)]
struct Begun {
    cpu: Reading<CpuSnapshot>,
    machine: Reading<MachineSnapshot>,
    interrupts: Reading<InterruptSnapshot>,
    ticks: Option<Ticks>,
    /// How long it took to read.
    cost_s: f64,
}

/// What a run cost, as far as the machine tells. `sources` has an entry for each figure by its name: where it is from, or
/// `unavailable: why; what to do`. A figure that is `None` is unavailable, and never 0.
#[derive(Debug, Clone)]
pub struct RunTelemetry {
    /// Seconds that the reading itself took, while no thread of the run worked.
    pub cost_s: f64,
    /// Processor time and context switches; `cpu_s`, `kernel_threads_s` and `context_switches` in the sources.
    pub cpu: Reading<CpuUse>,
    /// What the whole machine did meanwhile; `interrupt_s` and `throttled` in the sources.
    pub machine: Reading<MachineUse>,
    /// Processor seconds of each thread, the kernel's for io_uring among them.
    pub threads: Vec<ThreadUse>,
    /// Seconds that all cpus spent in interrupts.
    pub interrupt_s: Option<f64>,
    /// Interrupts of the targets' devices.
    pub device_interrupts: Option<u64>,
    /// Processor cycles.
    pub cycles: Option<u64>,
    /// Instructions that were retired.
    pub instructions: Option<u64>,
    /// References to the last level of cache.
    pub cache_references: Option<u64>,
    /// Those of them that missed.
    pub cache_misses: Option<u64>,
    /// Clock of the cpus that worked, in hertz.
    pub frequency_hz: Option<f64>,
    /// How often a core was slowed down for heat.
    pub throttled: Option<u64>,
    /// Peak resident set in bytes.
    pub memory_bytes: Option<u64>,
    /// NUMA nodes of the cpus that the run's threads may use.
    pub numa_nodes: Option<String>,
    /// By the name of a figure: its source, or why it is unavailable.
    pub sources: BTreeMap<String, String>,
}

impl Watch {
    /// Opens what is needed for a run on these targets and cpus; on those that the process may use if `None`.
    pub fn open(targets: &[Target], cpus: Option<&CpuList>) -> Self {
        let (sys, proc) = (Path::new(SYS), Path::new(PROC));
        let cpus = cpus.map_or_else(allowed_cpus, |cpus| cpus.cpus().to_vec());
        Self {
            counters: Counters::open(),
            interrupts: Interrupts::of(targets, sys, proc),
            frequency: Frequency::open(&cpus, sys, proc),
            memory: MemoryMark::reset(proc),
            numa_nodes: numa::nodes_of(&cpus, sys),
            begun: None,
        }
    }

    /// Reads everything for the first time. The processor's counters come last, so that no reading is in their counts.
    pub fn begin(&mut self) {
        let entered = Instant::now();
        let interrupts = self.interrupts.as_ref().map_err(Clone::clone).and_then(Interrupts::take);
        let ticks = self.frequency.ticks();
        let (machine, cpu) = (MachineSnapshot::take(), CpuSnapshot::take());
        let cost_s = entered.elapsed().as_secs_f64();
        self.begun = Some(Begun { cpu, machine, interrupts, ticks, cost_s });
        self.counters.begin();
    }

    /// Reads everything again, and tells what happened since [`begin`](Self::begin).
    pub fn end(mut self) -> RunTelemetry {
        let entered = Instant::now();
        let counted = self.counters.end();
        let cpu = CpuSnapshot::take();
        let Some(begun) = self.begun else {
            return RunTelemetry::unavailable(&Unavailable::new("the run was not watched from its beginning"));
        };
        let machine = MachineSnapshot::take();
        let frequency_hz = self.frequency.since(begun.ticks);
        let interrupts = self.interrupts.and_then(|interrupts| Ok(begun.interrupts?.delta(&interrupts.take()?)));
        let mut telemetry = RunTelemetry::blank();
        telemetry.set_cpu(begun.cpu.and_then(|before| Ok(before.delta(&cpu?))));
        telemetry.set_machine(begun.machine.and_then(|before| Ok(before.delta(&machine?))));
        telemetry.set_counted(counted);
        telemetry.device_interrupts = telemetry.noted("device_interrupts", interrupts);
        telemetry.frequency_hz = telemetry.noted("frequency_hz", frequency_hz);
        telemetry.memory_bytes = telemetry.noted("memory_bytes", self.memory.peak(Path::new(PROC)));
        telemetry.numa_nodes = telemetry.noted("numa_nodes", self.numa_nodes);
        telemetry.cost_s = begun.cost_s + entered.elapsed().as_secs_f64();
        telemetry
    }
}

impl RunTelemetry {
    /// The names of the figures in the sources.
    pub const FIGURES: [&'static str; 14] = [
        "cpu_s",
        "kernel_threads_s",
        "threads",
        "context_switches",
        "interrupt_s",
        "device_interrupts",
        "cycles",
        "instructions",
        "cache_references",
        "cache_misses",
        "frequency_hz",
        "throttled",
        "memory_bytes",
        "numa_nodes",
    ];

    /// Nothing at all, for one reason.
    pub fn unavailable(why: &Unavailable) -> Self {
        let told = format!("{UNAVAILABLE}{why}");
        Self {
            cpu: Err(why.clone()),
            machine: Err(why.clone()),
            sources: Self::FIGURES.map(|figure| (figure.to_owned(), told.clone())).into(),
            ..Self::blank()
        }
    }

    fn blank() -> Self {
        let unread = || Unavailable::new("it was not read");
        Self {
            cost_s: 0.0,
            cpu: Err(unread()),
            machine: Err(unread()),
            threads: Vec::new(),
            interrupt_s: None,
            device_interrupts: None,
            cycles: None,
            instructions: None,
            cache_references: None,
            cache_misses: None,
            frequency_hz: None,
            throttled: None,
            memory_bytes: None,
            numa_nodes: None,
            sources: BTreeMap::new(),
        }
    }

    /// Notes where a figure is from, or why it could not be had, and gives the value.
    fn noted<T>(&mut self, figure: &str, reading: Reading<Sourced<T>>) -> Option<T> {
        let (value, source) = match reading {
            Ok(Sourced { value, source }) => (Some(value), source),
            Err(unavailable) => (None, format!("{UNAVAILABLE}{unavailable}")),
        };
        self.sources.insert(figure.to_owned(), source);
        value
    }

    fn set_cpu(&mut self, cpu: Reading<CpuUse>) {
        let told = |source: &str| cpu.as_ref().map(|_| Sourced::new((), source)).map_err(Clone::clone);
        self.noted("cpu_s", told("getrusage, all threads"));
        self.noted("context_switches", told("getrusage, all threads but io_uring's in the kernel"));
        self.noted("threads", told("the clock of each thread"));
        let kernel_threads = cpu.as_ref().map_err(Clone::clone).and_then(|cpu| cpu.kernel_threads_s.clone());
        self.noted("kernel_threads_s", kernel_threads.map(|_| Sourced::new((), "the clocks of io_uring's threads")));
        self.threads = cpu.as_ref().map(|cpu| cpu.threads.clone()).unwrap_or_default();
        self.cpu = cpu;
    }

    fn set_machine(&mut self, machine: Reading<MachineUse>) {
        let interrupt_s = machine.as_ref().map(|machine| machine.interrupt_s.clone()).map_err(Clone::clone);
        self.interrupt_s = self.noted("interrupt_s", interrupt_s);
        let throttled = machine.as_ref().map_err(Clone::clone).and_then(|machine| {
            let untold =
                || Unavailable::new("this kernel or processor does not count it (Intel's thermal_throttle alone)");
            Ok(Sourced::new(machine.throttled.ok_or_else(untold)?, "thermal_throttle of all cores in sysfs"))
        });
        self.throttled = self.noted("throttled", throttled);
        self.machine = machine;
    }

    fn set_counted(&mut self, counted: Counted) {
        self.cycles = self.noted("cycles", counted.cycles);
        self.instructions = self.noted("instructions", counted.instructions);
        self.cache_references = self.noted("cache_references", counted.cache_references);
        self.cache_misses = self.noted("cache_misses", counted.cache_misses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_source_or_a_reason_and_none_is_0_without_one() {
        let mut watch = Watch::open(&[Target::open("null").unwrap()], None);
        watch.begin();
        std::hint::black_box((0..1_000_000u64).fold(1u64, |value, step| value.wrapping_mul(step | 1)));
        let telemetry = watch.end();
        for figure in RunTelemetry::FIGURES {
            assert!(telemetry.sources.get(figure).is_some_and(|source| !source.is_empty()), "{figure}");
        }
        assert_eq!(telemetry.sources.len(), RunTelemetry::FIGURES.len());
        let is_told = |figure: &str| !telemetry.sources[figure].starts_with(UNAVAILABLE);
        let had = [
            ("device_interrupts", telemetry.device_interrupts.is_some()),
            ("cycles", telemetry.cycles.is_some()),
            ("instructions", telemetry.instructions.is_some()),
            ("cache_references", telemetry.cache_references.is_some()),
            ("cache_misses", telemetry.cache_misses.is_some()),
            ("frequency_hz", telemetry.frequency_hz.is_some()),
            ("throttled", telemetry.throttled.is_some()),
            ("memory_bytes", telemetry.memory_bytes.is_some()),
            ("numa_nodes", telemetry.numa_nodes.is_some()),
            ("interrupt_s", telemetry.interrupt_s.is_some()),
        ];
        for (figure, has_value) in had {
            assert_eq!(has_value, is_told(figure), "{figure}: {}", telemetry.sources[figure]);
        }
        assert!(telemetry.sources["device_interrupts"].starts_with("unavailable: a made-up device"));
        assert!(telemetry.cost_s > 0.0);
        assert!(telemetry.memory_bytes.is_none_or(|bytes| bytes > 100_000));
    }

    #[test]
    fn a_run_that_was_not_watched_says_so_for_each_figure() {
        let telemetry = Watch::open(&[], None).end();
        assert!(telemetry.cpu.is_err() && telemetry.machine.is_err());
        for figure in RunTelemetry::FIGURES {
            assert!(telemetry.sources[figure].contains("not watched from its beginning"), "{figure}");
        }
    }
}
