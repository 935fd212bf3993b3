//! What a run cost, in its record: each figure over all repeats with its source, or null and why. Called by
//! [`RunRecord`](super::RunRecord) alone.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{syscalls_per_io, syscalls_source};
use crate::records::UNAVAILABLE;
use crate::run::RunOutcome;
use crate::telemetry::CpuUse;

/// The figures by name.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct TelemetryRecord(BTreeMap<&'static str, FigureRecord>);

/// One figure.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum FigureRecord {
    /// It was had.
    Had {
        /// Over all repeats.
        value: Value,
        /// Where it is from.
        source: String,
    },
    /// It could not be had, in one repeat at least.
    Unavailable {
        /// Null.
        value: Value,
        /// Why, and what to do.
        unavailable: String,
    },
}

impl FigureRecord {
    /// The value, and what the repeats say of it.
    fn new(value: Option<Value>, told: impl Iterator<Item = String>) -> Self {
        let (mut reasons, mut sources): (Vec<String>, Vec<String>) = Default::default();
        for told in told {
            let (among, text) = match told.strip_prefix(UNAVAILABLE) {
                Some(reason) => (&mut reasons, reason.to_owned()),
                None => (&mut sources, told),
            };
            if !among.contains(&text) {
                among.push(text);
            }
        }
        match value {
            Some(value) => Self::Had { value, source: sources.join("; ") },
            None => Self::Unavailable { value: Value::Null, unavailable: reasons.join("; ") },
        }
    }
}

impl TelemetryRecord {
    pub(super) fn new(outcomes: &[RunOutcome]) -> Self {
        let repeats = Repeats(outcomes);
        let cost_s: f64 = outcomes.iter().map(|outcome| outcome.telemetry.cost_s).sum();
        let mut figures = BTreeMap::from([
            repeats.figure("cpu_s", repeats.sum(|outcome| cpu_s(outcome.telemetry.cpu.as_ref().ok()?))),
            repeats.figure(
                "kernel_threads_s",
                repeats.sum(|outcome| outcome.telemetry.cpu.as_ref().ok()?.kernel_threads_s.as_ref().ok().copied()),
            ),
            repeats.figure("threads", repeats.threads()),
            repeats.figure(
                "context_switches",
                repeats.count(|outcome| Some(outcome.telemetry.cpu.as_ref().ok()?.context_switches)),
            ),
            repeats.figure("interrupt_s", repeats.sum(|outcome| outcome.telemetry.interrupt_s)),
            repeats.figure("device_interrupts", repeats.count(|outcome| outcome.telemetry.device_interrupts)),
            repeats.figure("cycles", repeats.count(|outcome| outcome.telemetry.cycles)),
            repeats.figure("instructions", repeats.count(|outcome| outcome.telemetry.instructions)),
            repeats.figure("cache_references", repeats.count(|outcome| outcome.telemetry.cache_references)),
            repeats.figure("cache_misses", repeats.count(|outcome| outcome.telemetry.cache_misses)),
            repeats.figure("frequency_hz", repeats.mean(|outcome| outcome.telemetry.frequency_hz)),
            repeats.figure("throttled", repeats.count(|outcome| outcome.telemetry.throttled)),
            repeats.figure("memory_bytes", repeats.largest(|outcome| outcome.telemetry.memory_bytes)),
            repeats.figure("numa_nodes", repeats.first(|outcome| outcome.telemetry.numa_nodes.as_deref())),
        ]);
        let syscalls = repeats.mean(syscalls_per_io);
        figures.insert("syscalls_per_io", FigureRecord::new(syscalls, outcomes.iter().map(syscalls_source)));
        let source = "the clock, around the readings outside of the measured phase".to_owned();
        figures.insert("cost_s", FigureRecord::Had { value: json!(cost_s), source });
        Self(figures)
    }

    /// A figure that is a number, over all repeats; `None` if it could not be had.
    pub fn value(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            FigureRecord::Had { value, .. } => value.as_f64(),
            FigureRecord::Unavailable { .. } => None,
        }
    }

    /// Adds joules, with their source or why there are none.
    pub(super) fn set_joules(&mut self, joules: Option<f64>, told: String) {
        self.0.insert("joules", FigureRecord::new(joules.map(|joules| json!(joules)), [told].into_iter()));
    }
}

/// The repeats of a run. A figure that one of them lacks cannot be had of all.
struct Repeats<'a>(&'a [RunOutcome]);

impl<'a> Repeats<'a> {
    fn figure(&self, name: &'static str, value: Option<Value>) -> (&'static str, FigureRecord) {
        let told = self.0.iter().filter_map(|outcome| outcome.telemetry.sources.get(name).cloned());
        (name, FigureRecord::new(value, told))
    }

    fn all<T>(&self, of: impl Fn(&'a RunOutcome) -> Option<T>) -> Option<Vec<T>> {
        self.0.iter().map(of).collect()
    }

    fn sum(&self, of: impl Fn(&'a RunOutcome) -> Option<f64>) -> Option<Value> {
        Some(json!(self.all(of)?.iter().sum::<f64>()))
    }

    fn count(&self, of: impl Fn(&'a RunOutcome) -> Option<u64>) -> Option<Value> {
        Some(json!(self.all(of)?.iter().fold(0u64, |sum, count| sum.saturating_add(*count))))
    }

    fn mean(&self, of: impl Fn(&'a RunOutcome) -> Option<f64>) -> Option<Value> {
        let all = self.all(of)?;
        Some(json!(all.iter().sum::<f64>() / all.len() as f64))
    }

    fn largest(&self, of: impl Fn(&'a RunOutcome) -> Option<u64>) -> Option<Value> {
        Some(json!(self.all(of)?.into_iter().max()?))
    }

    fn first(&self, of: impl Fn(&'a RunOutcome) -> Option<&'a str>) -> Option<Value> {
        Some(json!(self.all(of)?.first()?))
    }

    fn threads(&self) -> Option<Value> {
        let mut by_name: BTreeMap<&str, f64> = BTreeMap::new();
        for cpu in self.all(|outcome| outcome.telemetry.cpu.as_ref().ok())? {
            for thread in &cpu.threads {
                *by_name.entry(&thread.name).or_default() += thread.cpu_s;
            }
        }
        Some(by_name.into_iter().map(|(name, cpu_s)| json!({"name": name, "cpu_s": cpu_s})).collect())
    }
}

/// Processor seconds, kernel threads included where they can be had.
fn cpu_s(cpu: &CpuUse) -> Option<f64> {
    Some(cpu.user_s + cpu.system_s + cpu.kernel_threads_s.as_ref().ok().copied().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_of(value: Option<Value>, told: &[&str]) -> Value {
        serde_json::to_value(FigureRecord::new(value, told.iter().map(|told| (*told).to_owned()))).unwrap()
    }

    #[test]
    fn a_figure_has_a_value_and_its_source_or_null_and_why_each_said_once() {
        assert_eq!(json_of(Some(json!(7)), &["perf", "perf"]), json!({"value": 7, "source": "perf"}));
        let told = ["unavailable: no PMU; use a machine", "perf", "unavailable: no PMU; use a machine"];
        assert_eq!(json_of(None, &told), json!({"value": null, "unavailable": "no PMU; use a machine"}));
    }
}
