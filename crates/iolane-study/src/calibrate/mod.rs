//! From results to a machine: what studies and runs measured becomes observations, some of which the fit does not see, and the
//! fitted machine with how far it is from each. `iolane calibrate` and `iolane predict` call it. It measures nothing.

mod arm;
mod document;
mod fitted;
mod hold_out;
mod host;
mod results;
mod run_file;
mod source;

pub(crate) use arm::{load, why_not};
pub use document::{CalibrateDocument, FittedFigure, NamedNumber, numbers, simulated_drive};
pub use fitted::{Calibrated, HeldOutFigure, calibrate};
pub use hold_out::HoldOut;
pub use source::Source;

use iolane::{Error, Result};
use iolane_model::{Known, Observation, Observations, Power, Processor, Scheduler};
use serde::Serialize;

/// What results tell of a machine, before the fit.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// What the machine is called.
    pub name: String,
    /// Its cores.
    pub processor: Processor<Option<f64>>,
    /// Its scheduler.
    pub scheduler: Scheduler,
    /// What it draws, where observations state it.
    pub power: Option<Power>,
    /// Numbers of the drive that observations state.
    pub known: Known,
    /// Of the draws.
    pub seed: u64,
    /// What was observed.
    pub observations: Vec<Observation>,
    /// What the model cannot play.
    pub not_used: Vec<NotUsed>,
    /// What was assumed, and what to know of the results.
    pub notes: Vec<String>,
}

/// An arm that tells the model nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotUsed {
    /// The path, with the peer that ran it.
    pub path: String,
    /// How many arms.
    pub arms: usize,
    /// Why.
    pub reason: String,
}

impl Gathered {
    /// Those of an observations file.
    pub fn of_observations(observations: Observations) -> Self {
        let Observations { name, processor, scheduler, power, known, seed, observations } = observations;
        Self { name, processor, scheduler, power, known, seed, observations, not_used: Vec::new(), notes: Vec::new() }
    }

    /// All of them together: one machine, measured several times.
    ///
    /// # Errors
    /// `Usage` if their machines differ in cores or in the scheduler, or if there are none.
    pub fn together(all: Vec<(String, Self)>) -> Result<Self> {
        let mut all = all.into_iter();
        let Some((first, mut together)) = all.next() else {
            return Err(Error::usage("calibrating", "there are no results")
                .remedy("name a results folder, or measure with `iolane calibrate --measure`"));
        };
        for (place, more) in all {
            let (one, other) = (together.machine_in_words(), more.machine_in_words());
            if one != other {
                return Err(Error::usage(place, format!("its machine has {other}, that of {first} has {one}"))
                    .remedy("calibrate each machine from its own results"));
            }
            together.add(more);
        }
        Ok(together)
    }

    fn add(&mut self, more: Self) {
        let Known { read_ns, write_ns, spread, units, iops, bytes_per_s, page_bytes, tags } = more.known;
        let known = &mut self.known;
        known.read_ns = known.read_ns.or(read_ns);
        known.write_ns = known.write_ns.or(write_ns);
        known.spread = known.spread.or(spread);
        known.units = known.units.or(units);
        known.iops = known.iops.or(iops);
        known.bytes_per_s = known.bytes_per_s.or(bytes_per_s);
        known.page_bytes = known.page_bytes.or(page_bytes);
        known.tags = known.tags.or(tags);
        self.power = self.power.or(more.power);
        self.observations.extend(more.observations);
        for not_used in more.not_used {
            count_not_used(&mut self.not_used, not_used);
        }
        for note in more.notes {
            note_once(&mut self.notes, note);
        }
    }

    fn machine_in_words(&self) -> String {
        let Processor { cores, nodes, smt, smt_speed: _, idle_exit_ns: _ } = self.processor;
        let smt = if smt { ", SMT" } else { "" };
        format!("{cores} cores, {nodes} NUMA nodes{smt}, the scheduler {:?}", self.scheduler.kind)
    }

    fn observations(&self, observations: Vec<Observation>) -> Observations {
        Observations {
            name: self.name.clone(),
            processor: self.processor,
            scheduler: self.scheduler,
            power: self.power,
            known: self.known,
            seed: self.seed,
            observations,
        }
    }
}

fn count_not_used(all: &mut Vec<NotUsed>, not_used: NotUsed) {
    match all.iter_mut().find(|known| known.path == not_used.path && known.reason == not_used.reason) {
        Some(known) => known.arms += not_used.arms,
        None => all.push(not_used),
    }
}

fn note_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

#[cfg(test)]
mod tests;
