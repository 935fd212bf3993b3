//! The telemetry in the record of a run: each figure over all repeats with its source, or null with the reason.
//! [`RunRecord`](super::RunRecord) makes it from the figures' table.

use std::collections::BTreeMap;

use iolane_measure::figures::{FIGURES, FigureInfo, FigureValue, OverRepeats, RunFigure};
use iolane_measure::run::RunOutcome;
use iolane_measure::telemetry::{Reading, Sourced};
use serde::Serialize;
use serde_json::{Value, json};

use crate::rows::{ArmResults, Row};

#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct TelemetryRecord(BTreeMap<&'static str, FigureRecord>);

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum FigureRecord {
    Known {
        /// The value over all repeats.
        value: Value,
        source: String,
    },
    /// Unavailable in at least one repeat.
    Unavailable {
        /// Always null.
        value: Value,
        /// The reason and the remedy.
        unavailable: String,
    },
}

impl FigureRecord {
    /// The figure with its value over all repeats and their notes.
    fn new(value: Option<Value>, readings: &[&Reading<Sourced<FigureValue>>]) -> Self {
        let (mut reasons, mut sources): (Vec<String>, Vec<String>) = Default::default();
        for reading in readings {
            let (among, text) = match reading {
                Ok(known) if known.modelled => (&mut sources, format!("modelled: {}", known.source)),
                Ok(known) => (&mut sources, known.source.clone()),
                Err(why) => (&mut reasons, why.to_string()),
            };
            if !among.contains(&text) {
                among.push(text);
            }
        }
        match value {
            Some(value) => Self::Known { value, source: sources.join("; ") },
            None => Self::Unavailable { value: Value::Null, unavailable: reasons.join("; ") },
        }
    }
}

impl TelemetryRecord {
    pub(super) fn new(outcomes: &[RunOutcome], results: &ArmResults) -> Self {
        let rows = &results.rows;
        let mut figures = BTreeMap::new();
        // A meter tells the joules of a run afterwards, and no run measures the idle machine.
        let is_of_meter = |info: &&FigureInfo| matches!(info.figure, RunFigure::Joules | RunFigure::IdleJoules);
        for info in FIGURES.iter().filter(|info| !is_of_meter(info)) {
            let readings: Vec<_> = rows.iter().filter_map(|row| row.figures.reading(info.figure)).collect();
            if !readings.is_empty() {
                figures.insert(info.name, FigureRecord::new(over_repeats(info, rows), &readings));
            }
        }
        let cpu_s: Option<f64> = rows.iter().map(|row| row.processor_s()).sum();
        let parts = ["user_s", "system_s"].into_iter().find_map(|name| figures.get(name).cloned());
        figures.insert(
            "cpu_s",
            match (cpu_s, parts) {
                (Some(cpu_s), _) => {
                    known(json!(cpu_s), "user_s, system_s, kernel_threads_s and kernel_workers_s together")
                }
                (None, Some(missing)) => missing,
                (None, None) => FigureRecord::new(None, &[]),
            },
        );
        figures.insert(
            "threads",
            match cpu_s {
                Some(_) => known(threads(rows), "the clock of each thread"),
                None => figures["cpu_s"].clone(),
            },
        );
        let cost_s: f64 = outcomes.iter().map(|outcome| outcome.telemetry.cost_s).sum();
        let source = "the clock, around the readings outside of the measured phase";
        figures.insert("cost_s", known(json!(cost_s), source));
        Self(figures)
    }

    /// A numeric figure over all repeats; `None` if it is unavailable.
    pub fn value(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            FigureRecord::Known { value, .. } => value.as_f64(),
            FigureRecord::Unavailable { .. } => None,
        }
    }

    /// Whether it has the figures of an open loop.
    pub fn is_of_open_loop(&self) -> bool {
        self.0.contains_key(RunFigure::ServiceP99Ns.name())
    }

    /// Adds joules, with their source or why they are unavailable.
    pub(super) fn set_joules(&mut self, joules: Reading<Sourced<f64>>) {
        let value = joules.as_ref().ok().map(|joules| json!(joules.value));
        let reading = joules.map(|joules| joules.map(FigureValue::Real));
        self.0.insert("joules", FigureRecord::new(value, &[&reading]));
    }
}

fn known(value: Value, source: &str) -> FigureRecord {
    FigureRecord::Known { value, source: source.into() }
}

/// A figure in all repeats; `None` if a repeat lacks it.
fn over_repeats(info: &FigureInfo, rows: &[Row]) -> Option<Value> {
    let values: Vec<&FigureValue> =
        rows.iter().map(|row| row.figures.known(info.figure).map(|known| &known.value)).collect::<Option<_>>()?;
    let first = *values.first()?;
    let counts: Option<Vec<u64>> =
        values.iter().map(|value| if let FigureValue::Count(count) = value { Some(*count) } else { None }).collect();
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.number()).collect();
    Some(match (info.over_repeats, counts, numbers) {
        (OverRepeats::Sum, Some(counts), _) => {
            json!(counts.into_iter().fold(0u64, |sum, count| sum.saturating_add(count)))
        }
        (OverRepeats::Sum, None, Some(numbers)) => json!(numbers.iter().sum::<f64>()),
        (OverRepeats::Mean, _, Some(numbers)) => json!(numbers.iter().sum::<f64>() / numbers.len() as f64),
        (OverRepeats::Largest, Some(counts), _) => json!(counts.into_iter().max()?),
        (OverRepeats::Largest, None, Some(numbers)) => json!(numbers.into_iter().fold(f64::MIN, f64::max)),
        (OverRepeats::First, ..) | (_, _, None) => json!(first),
    })
}

/// CPU seconds by thread name, over all repeats.
fn threads(rows: &[Row]) -> Value {
    let mut by_name: BTreeMap<&str, f64> = BTreeMap::new();
    for thread in rows.iter().flat_map(|row| &row.threads) {
        *by_name.entry(&thread.name).or_default() += thread.cpu_s;
    }
    by_name.into_iter().map(|(name, cpu_s)| json!({"name": name, "cpu_s": cpu_s})).collect()
}

#[cfg(test)]
mod tests {
    use iolane_measure::telemetry::Unavailable;

    use super::*;

    fn json_of(value: Option<Value>, readings: &[Reading<Sourced<FigureValue>>]) -> Value {
        serde_json::to_value(FigureRecord::new(value, &readings.iter().collect::<Vec<_>>())).unwrap()
    }

    #[test]
    fn a_figure_has_a_value_and_its_source_or_null_and_why_each_once() {
        let perf = || Ok(Sourced::new(FigureValue::Count(7), "perf"));
        assert_eq!(json_of(Some(json!(7)), &[perf(), perf()]), json!({"value": 7, "source": "perf"}));
        let none = || Err(Unavailable::new("no PMU").remedy("use a machine"));
        let unavailable = json!({"value": null, "unavailable": "no PMU; use a machine"});
        assert_eq!(json_of(None, &[none(), perf(), none()]), unavailable);
        let modelled = Ok(Sourced::new(FigureValue::Real(2.0), "idle=1,core=1").modelled());
        assert_eq!(json_of(Some(json!(2.0)), &[modelled])["source"], "modelled: idle=1,core=1");
    }
}
