//! The figures of a run that may be unavailable on a machine: one table of their names, units and meanings, and the
//! values of one run, each with its source or the reason why it is unavailable. Telemetry and meters fill them in;
//! rows, records and claims read them. To add a figure, add an entry here and the reader that fills it in.

use std::collections::BTreeMap;

use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::telemetry::{Reading, Sourced, Unavailable};

/// The name of a figure. The order is that of records and of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunFigure {
    UserS,
    SystemS,
    KernelThreadsS,
    KernelWorkersS,
    InterruptS,
    InterruptApartS,
    DeviceInterrupts,
    ContextSwitches,
    SyscallsPerIo,
    SubmitBatch,
    Cycles,
    Instructions,
    CacheReferences,
    CacheMisses,
    FrequencyHz,
    Throttled,
    MemoryBytes,
    NumaNodes,
    ServiceP50Ns,
    ServiceP99Ns,
    StartLateP99Ns,
    FloorP50Ns,
    FloorP99Ns,
    Joules,
    IdleJoules,
}

/// The type of a figure's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    Count,
    Real,
    Text,
}

/// How the values of repeated runs combine into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverRepeats {
    Sum,
    Mean,
    Largest,
    First,
}

#[derive(Debug, Clone, Copy)]
pub struct FigureInfo {
    pub figure: RunFigure,
    /// The name in records, the unit last: a column of `records.parquet` and a key of `telemetry` in `iolane.run/1`.
    pub name: &'static str,
    pub value_type: ValueType,
    pub over_repeats: OverRepeats,
    /// What the figure counts, as a phrase for people.
    pub meaning: &'static str,
}

const fn entry(
    figure: RunFigure,
    name: &'static str,
    value_type: ValueType,
    over_repeats: OverRepeats,
    meaning: &'static str,
) -> FigureInfo {
    FigureInfo { figure, name, value_type, over_repeats, meaning }
}

/// Every figure, in the order of [`RunFigure`].
pub const FIGURES: [FigureInfo; 25] = {
    use OverRepeats::{First, Largest, Mean, Sum};
    use ValueType::{Count, Real, Text};
    [
        entry(RunFigure::UserS, "user_s", Real, Sum, "CPU seconds of the process in user mode"),
        entry(RunFigure::SystemS, "system_s", Real, Sum, "CPU seconds of the process in the kernel"),
        entry(RunFigure::KernelThreadsS, "kernel_threads_s", Real, Sum, "CPU seconds of io_uring's kernel threads"),
        entry(
            RunFigure::KernelWorkersS,
            "kernel_workers_s",
            Real,
            Sum,
            "CPU seconds of the kernel's other threads, such as kworker and jbd2, which serve all programs",
        ),
        entry(RunFigure::InterruptS, "interrupt_s", Real, Sum, "seconds that all CPUs spent in interrupts"),
        entry(
            RunFigure::InterruptApartS,
            "interrupt_apart_s",
            Real,
            Sum,
            "seconds in interrupts that the kernel charged to no thread",
        ),
        entry(RunFigure::DeviceInterrupts, "device_interrupts", Count, Sum, "interrupts of the targets' devices"),
        entry(RunFigure::ContextSwitches, "context_switches", Count, Sum, "voluntary and involuntary context switches"),
        entry(RunFigure::SyscallsPerIo, "syscalls_per_io", Real, Mean, "system calls per I/O"),
        entry(
            RunFigure::SubmitBatch,
            "submit_batch",
            Real,
            Mean,
            "requests per submission, where submissions were timed",
        ),
        entry(RunFigure::Cycles, "cycles", Count, Sum, "CPU cycles in user mode and kernel"),
        entry(RunFigure::Instructions, "instructions", Count, Sum, "instructions retired"),
        entry(RunFigure::CacheReferences, "cache_references", Count, Sum, "references to the last-level cache"),
        entry(RunFigure::CacheMisses, "cache_misses", Count, Sum, "misses of the last-level cache"),
        entry(RunFigure::FrequencyHz, "frequency_hz", Real, Mean, "mean clock of the CPUs that worked"),
        entry(RunFigure::Throttled, "throttled", Count, Sum, "times a core was throttled for heat"),
        entry(RunFigure::MemoryBytes, "memory_bytes", Count, Largest, "peak resident set size"),
        entry(RunFigure::NumaNodes, "numa_nodes", Text, First, "NUMA nodes of the CPUs that the threads may use"),
        entry(
            RunFigure::ServiceP50Ns,
            "service_p50_ns",
            Real,
            Mean,
            "with a rate: median time from handing a request over to its completion, without waiting for its turn",
        ),
        entry(RunFigure::ServiceP99Ns, "service_p99_ns", Real, Mean, "with a rate: 99th percentile of the same time"),
        entry(
            RunFigure::StartLateP99Ns,
            "start_late_p99_ns",
            Real,
            Mean,
            "with a rate: 99th percentile of how late an idle thread started a request",
        ),
        entry(
            RunFigure::FloorP50Ns,
            "floor_p50_ns",
            Real,
            Mean,
            "with a rate: median latency of the same schedule on null, just before the run",
        ),
        entry(
            RunFigure::FloorP99Ns,
            "floor_p99_ns",
            Real,
            Mean,
            "with a rate: 99th percentile of latency of the same schedule on null",
        ),
        entry(RunFigure::Joules, "joules", Real, Sum, "energy of all that the meter covers"),
        entry(RunFigure::IdleJoules, "idle_joules", Real, Sum, "energy of the idle machine over the same time"),
    ]
};

impl RunFigure {
    pub fn info(self) -> &'static FigureInfo {
        let info = &FIGURES[self as usize];
        debug_assert!(info.figure == self, "FIGURES is in the order of RunFigure");
        info
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The figure with this name; `None` for a name from another version of iolane.
    pub fn named(name: &str) -> Option<Self> {
        FIGURES.iter().find(|info| info.name == name).map(|info| info.figure)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FigureValue {
    Count(u64),
    Real(f64),
    Text(String),
}

impl FigureValue {
    /// `None` for a text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Real(real) => Some(*real),
            Self::Text(_) => None,
        }
    }
}

impl From<u64> for FigureValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for FigureValue {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl From<String> for FigureValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The figures of one run. A figure that was not filled in has neither a value nor a reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFigures(BTreeMap<RunFigure, Reading<Sourced<FigureValue>>>);

impl RunFigures {
    /// Marks every figure as unavailable for the same reason.
    pub fn unavailable(why: &Unavailable) -> Self {
        Self(FIGURES.iter().map(|info| (info.figure, Err(why.clone()))).collect())
    }

    pub fn set<T: Into<FigureValue>>(&mut self, figure: RunFigure, reading: Reading<Sourced<T>>) {
        let reading = reading.map(|sourced| sourced.map(Into::into));
        self.0.insert(figure, reading);
    }

    /// The value with its source, or why it is unavailable; `None` if it was not filled in.
    pub fn reading(&self, figure: RunFigure) -> Option<&Reading<Sourced<FigureValue>>> {
        self.0.get(&figure)
    }

    /// Every figure that was filled in, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (RunFigure, &Reading<Sourced<FigureValue>>)> {
        self.0.iter().map(|(figure, reading)| (*figure, reading))
    }

    /// `None` if unavailable, or a text.
    pub fn number(&self, figure: RunFigure) -> Option<f64> {
        self.known(figure)?.value.number()
    }

    /// `None` if unavailable, or not a text.
    pub fn text(&self, figure: RunFigure) -> Option<&str> {
        match &self.known(figure)?.value {
            FigureValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value with its source; `None` if unavailable.
    pub fn known(&self, figure: RunFigure) -> Option<&Sourced<FigureValue>> {
        self.reading(figure)?.as_ref().ok()
    }

    /// Why a figure is unavailable; `None` if it has a value, or was not filled in.
    pub fn why_missing(&self, figure: RunFigure) -> Option<&Unavailable> {
        self.reading(figure)?.as_ref().err()
    }

    /// CPU seconds of the run: its threads', and those of interrupts that no thread's time includes. `None` if unavailable.
    pub fn cpu_s(&self) -> Option<f64> {
        Some(self.threads_s()? + self.number(RunFigure::InterruptApartS).unwrap_or(0.0))
    }

    /// CPU seconds of threads: user, system, and the kernel's threads where those are known. `None` if unavailable.
    pub fn threads_s(&self) -> Option<f64> {
        let own_s = self.number(RunFigure::UserS)? + self.number(RunFigure::SystemS)?;
        let of_kernel = [RunFigure::KernelThreadsS, RunFigure::KernelWorkersS];
        Some(own_s + of_kernel.into_iter().filter_map(|figure| self.number(figure)).sum::<f64>())
    }
}

/// A figure as stored in files: `{"value": 7, "source": "perf"}` or `{"unavailable": "no PMU", "remedy": "..."}`.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredFigure {
    /// A file with a column for each figure leaves it out here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<FigureValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modelled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl StoredFigure {
    pub fn new(reading: &Reading<Sourced<FigureValue>>) -> Self {
        match reading.clone() {
            Ok(Sourced { value, source, modelled }) => {
                Self { value: Some(value), source: Some(source), modelled, unavailable: None, remedy: String::new() }
            }
            Err(Unavailable { reason, remedy }) => {
                Self { value: None, source: None, modelled: false, unavailable: Some(reason), remedy }
            }
        }
    }

    /// The figure that was stored.
    ///
    /// # Errors
    /// A value of another type, both a value and a reason why there is none, or neither.
    pub fn reading(self, figure: RunFigure) -> Result<Reading<Sourced<FigureValue>>, String> {
        match (self.value, self.unavailable) {
            (Some(value), None) => {
                let value = match (figure.info().value_type, value) {
                    // Other tools write a real number without a fraction as an integer.
                    (ValueType::Real, FigureValue::Count(count)) => FigureValue::Real(count as f64),
                    (ValueType::Count, value @ FigureValue::Count(_))
                    | (ValueType::Real, value @ FigureValue::Real(_))
                    | (ValueType::Text, value @ FigureValue::Text(_)) => value,
                    _ => return Err(format!("{} has a value of another type", figure.name())),
                };
                Ok(Ok(Sourced { value, source: self.source.unwrap_or_default(), modelled: self.modelled }))
            }
            (None, Some(reason)) => Ok(Err(Unavailable { reason, remedy: self.remedy })),
            _ => Err(format!("{} needs either a value or a reason", figure.name())),
        }
    }
}

impl Serialize for RunFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(figure, reading)| (figure.name(), StoredFigure::new(reading))))
    }
}

impl<'de> Deserialize<'de> for RunFigures {
    /// Figures of another version of iolane are ignored.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut figures = Self::default();
        for (name, stored) in BTreeMap::<String, StoredFigure>::deserialize(deserializer)? {
            if let Some(figure) = RunFigure::named(&name) {
                figures.0.insert(figure, stored.reading(figure).map_err(de::Error::custom)?);
            }
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_figure_in_its_order_and_each_name_once() {
        for (index, info) in FIGURES.iter().enumerate() {
            assert_eq!(info.figure as usize, index, "{}", info.name);
            assert_eq!(RunFigure::named(info.name), Some(info.figure));
        }
    }

    #[test]
    fn figures_come_back_from_json_with_values_sources_and_reasons() {
        let mut figures = RunFigures::default();
        figures.set(RunFigure::Cycles, Ok(Sourced::new(7u64, "perf")));
        figures.set(RunFigure::Joules, Ok(Sourced::new(2.0, "idle=40,core=8").modelled()));
        figures.set(RunFigure::NumaNodes, Ok(Sourced::new("0-1".to_owned(), "sysfs")));
        figures.set::<f64>(RunFigure::FrequencyHz, Err(Unavailable::new("no cpufreq").remedy("load the driver")));
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<RunFigures>(&json).unwrap(), figures, "{json}");
        assert!(json.contains(r#""cycles":{"value":7,"source":"perf"}"#), "{json}");
    }

    #[test]
    fn a_figure_of_another_version_is_passed_over_and_a_wrong_type_refused() {
        let read = serde_json::from_str::<RunFigures>;
        assert_eq!(read(r#"{"warp_factor": {"value": 9, "source": "bridge"}}"#).unwrap(), RunFigures::default());
        assert!(read(r#"{"cycles": {"value": "many", "source": "perf"}}"#).is_err());
        assert!(read(r#"{"cycles": {}}"#).is_err());
    }

    #[test]
    fn a_figure_that_nobody_filled_in_has_neither_value_nor_reason() {
        let figures = RunFigures::default();
        assert!(figures.number(RunFigure::Cycles).is_none() && figures.why_missing(RunFigure::Cycles).is_none());
        let none = RunFigures::unavailable(&Unavailable::new("a simulated target"));
        assert!(FIGURES.iter().all(|info| none.why_missing(info.figure).is_some()));
        assert_eq!(none.cpu_s(), None);
    }
}
