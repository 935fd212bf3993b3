//! Reads everything around one run, in the order that disturbs least, and fills in the run's figures. `run` calls it while
//! no thread of the run works; the readers are the other files of this folder.

use std::path::Path;
use std::time::{Duration, Instant};

use iolane::Target;
use iolane::units::CpuList;

use super::counters::Counters;
use super::frequency::{Frequency, Ticks};
use super::interrupts::{InterruptSnapshot, Interrupts};
use super::kernel_workers::{KernelWorkers, WorkersSnapshot};
use super::memory::MemoryMark;
use super::{CpuSnapshot, CpuUse, Reading, Sourced, SystemSnapshot, SystemUse, ThreadUse, Unavailable};
use super::{numa, quota};
use crate::figures::{RunFigure, RunFigures};
use crate::placement::allowed_cpus;
use crate::process_io::ProcessIo;

const SYS: &str = "/sys";
const PROC: &str = "/proc";

/// Watches a run. It is opened before the run's threads start, since its counters count threads that start later.
#[derive(Debug)]
pub struct Watch {
    counters: Counters,
    interrupts: Reading<Interrupts>,
    frequency: Frequency,
    memory: MemoryMark,
    numa_nodes: Reading<Sourced<String>>,
    workers: Reading<KernelWorkers>,
    begun: Option<Begun>,
}

/// What was read when the run began.
#[derive(Debug)]
struct Begun {
    cpu: Reading<CpuSnapshot>,
    machine: Reading<SystemSnapshot>,
    workers: Reading<WorkersSnapshot>,
    device_read_bytes: Reading<u64>,
    stopped: Reading<Duration>,
    interrupts: Reading<InterruptSnapshot>,
    ticks: Option<Ticks>,
    /// Seconds that the reading took.
    cost_s: f64,
}

/// What a run cost.
#[derive(Debug, Clone)]
pub struct RunTelemetry {
    /// Seconds that the reading itself took, while no thread of the run worked.
    pub cost_s: f64,
    /// CPU time of each thread, io_uring's kernel threads included; empty if unavailable.
    pub threads: Vec<ThreadUse>,
    /// What the whole machine did during the run.
    pub system: Reading<SystemUse>,
    /// Bytes that this process's requests moved from block devices, as the kernel accounts them (`read_bytes`, proc_pid_io(5)): those that
    /// came from the page cache are not among them.
    pub device_read_bytes: Reading<u64>,
    /// How long the quota of a control group stopped this process and others in the group, summed over processors.
    pub stopped_by_quota: Reading<Duration>,
    /// Each figure with its source, or why it is unavailable.
    pub figures: RunFigures,
}

impl Watch {
    /// Opens the readers for a run on these targets and CPUs; `None` stands for all CPUs that the process may use.
    pub fn open(targets: &[Target], cpus: Option<&CpuList>) -> Self {
        let (sys, proc) = (Path::new(SYS), Path::new(PROC));
        let cpus = cpus.map_or_else(allowed_cpus, |cpus| cpus.cpus().to_vec());
        Self {
            counters: Counters::open(),
            interrupts: Interrupts::of(targets, sys, proc),
            frequency: Frequency::open(&cpus, sys, proc),
            memory: MemoryMark::reset(proc),
            numa_nodes: numa::nodes_of(&cpus, sys),
            workers: KernelWorkers::find(proc),
            begun: None,
        }
    }

    /// Reads everything for the first time. The processor's counters come last, so that they count none of the readings.
    pub fn begin(&mut self) {
        let entered = Instant::now();
        let interrupts = self.interrupts.as_ref().map_err(Clone::clone).and_then(Interrupts::take);
        let ticks = self.frequency.ticks();
        let workers = self.workers.as_ref().map_err(Clone::clone).map(KernelWorkers::take);
        let (device_read_bytes, stopped) = (device_read_bytes(), quota::stopped(Path::new(SYS), Path::new(PROC)));
        let (machine, cpu) = (SystemSnapshot::take(), CpuSnapshot::take());
        let cost_s = entered.elapsed().as_secs_f64();
        self.begun = Some(Begun { cpu, machine, workers, device_read_bytes, stopped, interrupts, ticks, cost_s });
        self.counters.begin();
    }

    /// Reads everything again, and returns what happened since [`begin`](Self::begin).
    pub fn end(mut self) -> RunTelemetry {
        let entered = Instant::now();
        let counted = self.counters.end();
        let cpu = CpuSnapshot::take();
        let Some(begun) = self.begun else {
            return RunTelemetry::unavailable(&Unavailable::new("the run was not watched from its beginning"));
        };
        let machine = SystemSnapshot::take();
        let device_read_bytes =
            begun.device_read_bytes.and_then(|before| Ok(device_read_bytes()?.saturating_sub(before)));
        let stopped = quota::stopped(Path::new(SYS), Path::new(PROC));
        let stopped_by_quota = begun.stopped.and_then(|before| Ok(stopped?.saturating_sub(before)));
        let workers = self.workers.and_then(|mut workers| workers.find_new().map(|()| workers.take()));
        let frequency_hz = self.frequency.since(begun.ticks);
        let interrupts = self.interrupts.and_then(|interrupts| Ok(begun.interrupts?.delta(&interrupts.take()?)));
        let mut figures = RunFigures::default();
        let cpu = begun.cpu.and_then(|before| Ok(before.delta(&cpu?)));
        let system = begun.machine.and_then(|before| Ok(before.delta(&machine?)));
        set_cpu(&mut figures, &cpu);
        set_system(&mut figures, &system);
        let workers_s = begun.workers.and_then(|before| Ok(before.seconds_until(&workers?)));
        let clocks = "/proc/PID/schedstat of all kernel threads, whichever program they worked for";
        figures.set(RunFigure::KernelWorkersS, workers_s.map(|seconds| Sourced::new(seconds, clocks)));
        figures.set(RunFigure::Cycles, counted.cycles);
        figures.set(RunFigure::Instructions, counted.instructions);
        figures.set(RunFigure::CacheReferences, counted.cache_references);
        figures.set(RunFigure::CacheMisses, counted.cache_misses);
        figures.set(RunFigure::DeviceInterrupts, interrupts);
        figures.set(RunFigure::FrequencyHz, frequency_hz);
        figures.set(RunFigure::MemoryBytes, self.memory.peak(Path::new(PROC)));
        figures.set(RunFigure::NumaNodes, self.numa_nodes);
        let threads = cpu.map(|cpu| cpu.threads).unwrap_or_default();
        let cost_s = begun.cost_s + entered.elapsed().as_secs_f64();
        RunTelemetry { cost_s, threads, system, device_read_bytes, stopped_by_quota, figures }
    }
}

impl RunTelemetry {
    /// Every figure unavailable for one reason.
    pub fn unavailable(why: &Unavailable) -> Self {
        Self {
            cost_s: 0.0,
            threads: Vec::new(),
            system: Err(why.clone()),
            device_read_bytes: Err(why.clone()),
            stopped_by_quota: Err(why.clone()),
            figures: RunFigures::unavailable(why),
        }
    }
}

/// Those since this process began.
fn device_read_bytes() -> Reading<u64> {
    let text = std::fs::read_to_string("/proc/self/io")
        .map_err(|error| Unavailable::new(format!("/proc/self/io: {error}")))?;
    let io = ProcessIo::parse(&text).ok_or_else(|| Unavailable::new("/proc/self/io lacks a counter"))?;
    Ok(io.read_bytes)
}

fn set_cpu(figures: &mut RunFigures, cpu: &Reading<CpuUse>) {
    let cpu = || cpu.as_ref().map_err(Clone::clone);
    let process = "getrusage, all threads";
    figures.set(RunFigure::UserS, cpu().map(|cpu| Sourced::new(cpu.user_s, process)));
    figures.set(RunFigure::SystemS, cpu().map(|cpu| Sourced::new(cpu.system_s, process)));
    let switches = "getrusage, all threads except io_uring's kernel threads";
    figures.set(RunFigure::ContextSwitches, cpu().map(|cpu| Sourced::new(cpu.context_switches, switches)));
    let kernel_threads_s = cpu().and_then(|cpu| cpu.kernel_threads_s.clone());
    let clocks = "the clocks of io_uring's threads";
    figures.set(RunFigure::KernelThreadsS, kernel_threads_s.map(|seconds| Sourced::new(seconds, clocks)));
}

fn set_system(figures: &mut RunFigures, system: &Reading<SystemUse>) {
    let system = || system.as_ref().map_err(Clone::clone);
    figures.set(RunFigure::InterruptS, system().map(|system| system.interrupt_s.clone()));
    figures.set(RunFigure::InterruptApartS, system().map(|system| system.interrupt_apart_s.clone()));
    let throttled = system().and_then(|system| {
        let not_counted =
            || Unavailable::new("this kernel or processor does not count it (only Intel's thermal_throttle does)");
        Ok(Sourced::new(system.throttled.ok_or_else(not_counted)?, "thermal_throttle of all cores in sysfs"))
    });
    figures.set(RunFigure::Throttled, throttled);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;

    /// Figures that the watch does not read.
    const OF_OTHERS: [RunFigure; 9] = [
        RunFigure::SyscallsPerIo,
        RunFigure::SubmitBatch,
        RunFigure::ServiceP50Ns,
        RunFigure::ServiceP99Ns,
        RunFigure::StartLateP99Ns,
        RunFigure::FloorP50Ns,
        RunFigure::FloorP99Ns,
        RunFigure::Joules,
        RunFigure::IdleJoules,
    ];

    #[test]
    fn every_figure_has_a_source_or_a_reason() {
        let mut watch = Watch::open(&[Target::open("null").unwrap()], None);
        watch.begin();
        std::hint::black_box((0..1_000_000u64).fold(1u64, |value, step| value.wrapping_mul(step | 1)));
        let telemetry = watch.end();
        for info in FIGURES.iter().filter(|info| !OF_OTHERS.contains(&info.figure)) {
            match telemetry.figures.reading(info.figure) {
                Some(Ok(Sourced { source, .. })) => assert!(!source.is_empty(), "{}", info.name),
                Some(Err(why)) => assert!(!why.reason.is_empty(), "{}", info.name),
                None => panic!("nobody read {}", info.name),
            }
        }
        let why = telemetry.figures.why_missing(RunFigure::DeviceInterrupts).unwrap();
        assert!(why.reason.starts_with("a simulated device"), "{why}");
        assert!(telemetry.cost_s > 0.0);
        assert!(telemetry.figures.number(RunFigure::MemoryBytes).is_none_or(|bytes| bytes > 100_000.0));
    }

    #[test]
    fn a_run_that_was_not_watched_says_so_for_each_figure() {
        let telemetry = Watch::open(&[], None).end();
        assert!(telemetry.system.is_err());
        for info in FIGURES {
            let why = telemetry.figures.why_missing(info.figure).unwrap();
            assert!(why.reason.contains("not watched from its beginning"), "{}", info.name);
        }
    }
}
