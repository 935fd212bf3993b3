//! A machine as a file that people read and edit: `machine.toml`.

use std::collections::BTreeMap;

use iolane_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::machine::{Power, Processor, Scheduler};
use crate::number::Number;
use crate::{Drive, Link, Machine, Parameter, PathCosts};

/// Names the layout of the file.
pub const SCHEMA: &str = "iolane.machine/1";

/// A machine with what is known about each of its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// [`SCHEMA`].
    pub schema: String,
    /// What it is called.
    pub name: String,
    /// The observations that it was fitted to, in words.
    #[serde(default)]
    pub made_from: Vec<String>,
    /// The block sizes of these observations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_bytes: Vec<u64>,
    /// How far predictions were from observations that the fit did not see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<HeldOut>,
    /// Its cores.
    pub processor: Processor<Number>,
    /// How the kernel shares them.
    pub scheduler: Scheduler,
    /// What the drives of a node share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// What it draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Each of its drives.
    pub drive: Drive<Number>,
    /// The costs of each path.
    pub paths: BTreeMap<String, Costs>,
    /// Joint draws of the fitted numbers, by name: the first draw has the first of each. They keep what the numbers have in common, which
    /// their intervals alone do not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub draws: BTreeMap<String, Vec<f64>>,
}

/// The costs of a path; those that are 0 are not written.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct Costs(pub PathCosts<Number>);

impl Serialize for Costs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.numbers().into_iter().filter(|(_, number)| !number.is_zero()))
    }
}

/// A prediction beside an observation that the fit did not see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// What was predicted, in words.
    pub what: String,
    /// The observed value.
    pub observed: f64,
    /// The predicted one.
    pub predicted: f64,
}

impl HeldOut {
    /// How far the prediction is off, as a factor less one, whatever the direction: 0.25 for 80 or 125 of 100.
    pub fn off(&self) -> f64 {
        off(self.predicted, self.observed)
    }
}

/// A factor less one, whatever the direction.
pub(crate) fn off(predicted: f64, observed: f64) -> f64 {
    libm::exp(libm::log(predicted / observed).abs()) - 1.0
}

impl MachineFile {
    /// Reads a file.
    ///
    /// # Errors
    /// `Usage` if it is not a machine, or if a number cannot be.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let what = || format!("machine {name}");
        let file: Self = toml::from_str(text).map_err(|error| {
            Error::usage(what(), error.message().replace('\n', " "))
                .remedy("write it by `iolane calibrate`, or see docs/model.md")
        })?;
        if file.schema != SCHEMA {
            return Err(Error::usage(what(), format!("its schema is {}, not {SCHEMA}", file.schema))
                .remedy("write it anew by `iolane calibrate`"));
        }
        file.check().map_err(|cause| {
            Error::usage(what(), cause).remedy("correct it, or write it anew by `iolane calibrate`")
        })?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        let Processor { cores, nodes, smt_speed, .. } = self.processor;
        let positive = |name: &str, value: f64| {
            (value > 0.0 && value.is_finite())
                .then_some(())
                .ok_or_else(|| format!("{name} is {value}, not a positive number"))
        };
        if !(1..=4096).contains(&cores) || nodes == 0 || nodes > cores {
            return Err(format!("{cores} cores on {nodes} nodes cannot be"));
        }
        positive("processor.smt_speed", smt_speed)?;
        positive("scheduler.hz", f64::from(self.scheduler.hz))?;
        positive("drive.page_bytes", self.drive.page_bytes as f64)?;
        positive("drive.tags", f64::from(self.drive.tags))?;
        self.drive.write_iops.map_or(Ok(()), |write_iops| positive("drive.write_iops", write_iops))?;
        if let Some(link) = self.link {
            positive("link.bytes_per_s", link.bytes_per_s)?;
        }
        for machine in
            (0..=self.draw_count()).map(|draw| draw.checked_sub(1).map_or_else(|| self.best(), |draw| self.draw(draw)))
        {
            for (name, value) in machine.drive.numbers() {
                match name {
                    "spread" if (0.0..=3.0).contains(value) => {}
                    "spread" => return Err(format!("drive.spread is {value}, not within 0 and 3")),
                    "units" if *value <= 1e5 => positive("drive.units", *value)?,
                    "units" => return Err(format!("drive.units is {value}, more than 100,000")),
                    _ => positive(&format!("drive.{name}"), *value)?,
                }
            }
            let idle_exit_ns = machine.processor.idle_exit_ns;
            if !(0.0..=1e12).contains(&idle_exit_ns) {
                return Err(format!("processor.idle_exit_ns is {idle_exit_ns}, not a number of nanoseconds"));
            }
            for (path, costs) in &machine.paths {
                let bad = costs.numbers().into_iter().find(|(_, value)| !(0.0..=1e12).contains(*value));
                if let Some((name, value)) = bad {
                    return Err(format!("{path}.{name} is {value}, not a number of nanoseconds"));
                }
            }
        }
        Ok(())
    }

    /// The file as text.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a machine is a table of numbers and texts")
    }

    /// The machine with the best value of each number.
    pub fn best(&self) -> Machine {
        Machine {
            processor: self.processor.map(|_, number| number.value()),
            scheduler: self.scheduler,
            drive: self.drive.map(|_, number| number.value()),
            link: self.link,
            paths: self
                .paths
                .iter()
                .map(|(path, costs)| (path.clone(), costs.0.map(|_, number| number.value())))
                .collect(),
            power: self.power,
        }
    }

    /// The same machine with this drive, whose numbers are known, in place of its own.
    #[must_use]
    pub fn with_drive(mut self, drive: &Drive) -> Self {
        self.drive = drive.map(|_, value| Number::Plain(*value));
        let of_drive = self.drive.numbers().map(|(name, _)| Parameter::of_drive(name).to_string());
        self.draws.retain(|name, _| !of_drive.contains(name));
        self
    }

    /// How many draws there are.
    pub fn draw_count(&self) -> usize {
        self.draws.values().map(Vec::len).min().unwrap_or(0)
    }

    /// The machine with the numbers of a draw.
    pub fn draw(&self, at: usize) -> Machine {
        let mut machine = self.best();
        for parameter in self.fitted() {
            if let Some(value) = self.draws.get(&parameter.to_string()).and_then(|draws| draws.get(at)) {
                parameter.set(&mut machine, *value);
            }
        }
        machine
    }

    /// The numbers that vary between draws: one that somebody has written down does not.
    fn fitted(&self) -> Vec<Parameter> {
        let is_fitted = |(_, number): &(&'static str, &Number)| matches!(number, Number::Fitted(_));
        let of_processor = self.processor.numbers().into_iter().filter(is_fitted);
        let of_processor = of_processor.map(|(name, _)| Parameter::of_processor(name));
        let of_drive = self.drive.numbers().into_iter().filter(is_fitted).map(|(name, _)| Parameter::of_drive(name));
        let of_paths = self.paths.iter().flat_map(|(path, costs)| {
            let fitted = costs.0.numbers().into_iter().filter(is_fitted);
            fitted.map(|(name, _)| Parameter::of_path(path, name))
        });
        of_processor.chain(of_drive).chain(of_paths).collect()
    }
}
