//! Fits the numbers of a machine to observations of it: few depths, few threads, one drive.
//!
//! Each number has a prior, a guess that is right within a factor; the fit finds the numbers that explain the observations best
//! without leaving the guesses further than needed (Gauss-Newton on the logarithms). What the observations do not tell stays near its
//! guess, and the file says so.

mod fit;
mod linear;
mod observation;
mod priors;

use std::collections::BTreeMap;

use iolane_core::error::{Error, Result};

use crate::machine_file::{Costs, MachineFile, SCHEMA, off};
use crate::number::{Fitted, Number};
use crate::{Behaviour, Load, Machine, Parameter, Part, PathCosts};
use fit::Fit;
pub use observation::{Known, Observation, Observations};
use priors::Prior;

/// Joint draws that are kept.
const DRAWS: usize = 24;

/// Fits a machine to observations.
///
/// # Errors
/// `Usage` if there are none, if one asks for more cores than there are, or if the model does not know how a path behaves.
pub fn calibrate(observations: &Observations) -> Result<MachineFile> {
    let all = &observations.observations;
    if all.is_empty() {
        return Err(
            Error::usage("calibrating", "there are no observations").remedy("measure a path at two depths or more")
        );
    }
    let mut machine = Machine {
        processor: observations.processor.map(|_, known| known.unwrap_or(priors::IDLE_EXIT_NS)),
        scheduler: observations.scheduler,
        drive: priors::drive(observations),
        link: None,
        paths: BTreeMap::new(),
        power: observations.power,
    };
    for observation in all {
        let behaviour = Behaviour::of(&observation.path.parse()?)?;
        let of_path = all.iter().filter(|other| other.path == observation.path);
        machine.paths.insert(observation.path.clone(), priors::costs(&behaviour, of_path));
    }
    let priors = priors::priors(&machine, observations)?;
    let loads = all.iter().map(|observation| observation.load(&machine)).collect::<Result<Vec<Load>>>()?;
    let mut best: Option<(Machine, Fit)> = None;
    for headroom in priors::HEADROOMS {
        let mut start = machine.clone();
        priors::set_headroom(&mut start, &observations.known, headroom);
        let fit = Fit::of(&mut start, all, &loads, &priors)?;
        if best.as_ref().is_none_or(|(_, known)| fit.squares() < known.squares()) {
            best = Some((start, fit));
        }
    }
    let (machine, fit) = best.expect("there are places to begin at");
    let draws = fit.draws(&machine, all, &loads, &priors, (DRAWS, observations.seed))?;
    Ok(describe(observations, &machine, &priors, &fit, draws))
}

fn describe(
    observations: &Observations,
    machine: &Machine,
    priors: &[Prior],
    fit: &Fit,
    draws: Vec<Vec<f64>>,
) -> MachineFile {
    let number = |of: &Part, name: &'static str, value: f64| {
        let at = priors.iter().position(|prior| prior.parameter.of == *of && prior.parameter.name == name);
        let fitted = |deviation: f64, determined: bool| {
            let factor = libm::exp(1.96 * deviation);
            let (low, high) = (rounded(value / factor), rounded(value * factor));
            Number::Fitted(Fitted { value: rounded(value), low, high, determined })
        };
        match at {
            Some(at) => fitted(fit.deviation(at), fit.deviation(at) < priors[at].deviation / 2.0),
            None if *of == Part::Drive && !observations.known.has(name) => fitted(priors::DRIVE, false),
            None => Number::Plain(rounded(value)),
        }
    };
    let draws_of = |prior: &Prior, of: Vec<f64>| (prior.parameter.to_string(), of.into_iter().map(rounded).collect());
    MachineFile {
        schema: SCHEMA.to_owned(),
        name: observations.name.clone(),
        made_from: observations.observations.iter().map(Observation::in_words).collect(),
        block_bytes: observations.block_bytes(),
        held_out: Vec::new(),
        processor: machine.processor.map(|name, value| number(&Part::Processor, name, *value)),
        scheduler: machine.scheduler,
        link: machine.link,
        power: machine.power,
        drive: machine.drive.map(|name, value| number(&Part::Drive, name, *value)),
        paths: machine.paths.iter().map(|(path, costs)| (path.clone(), costs_of(path, costs, number))).collect(),
        draws: priors.iter().zip(draws).map(|(prior, of)| draws_of(prior, of)).collect(),
    }
}

fn costs_of(path: &str, costs: &PathCosts, number: impl Fn(&Part, &'static str, f64) -> Number) -> Costs {
    let of = Part::Path(path.to_owned());
    Costs(costs.map(|name, value| number(&of, name, *value)))
}

/// To four digits: more are noise, and make the file hard to read.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(3 - libm::log10(value.abs()).floor() as i32);
    (value * scale).round() / scale
}

/// How well a machine explains observations: what it predicts for each, and the logarithm of the ratio to what was observed.
///
/// # Errors
/// As [`simulate`](crate::simulate).
pub fn residuals(machine: &Machine, observations: &[Observation]) -> Result<Vec<Residual>> {
    let mut residuals = Vec::new();
    for observation in observations {
        let outcome = fit::play(machine, &observation.load(machine)?)?;
        for observation::Compared { what, observed, predicted, .. } in observation.compared(&outcome) {
            let what = format!("{}: {what}", observation.in_words());
            residuals.push(Residual { path: observation.path.clone(), what, observed, predicted });
        }
    }
    Ok(residuals)
}

/// A figure as observed and as predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// The path.
    pub path: String,
    /// The figure, in words.
    pub what: String,
    /// As observed.
    pub observed: f64,
    /// As predicted.
    pub predicted: f64,
}

impl Residual {
    /// How far the prediction is off, as a factor less one, whatever the direction: 0.25 for 80 or 125 of 100.
    pub fn off(&self) -> f64 {
        off(self.predicted, self.observed)
    }
}

impl Parameter {
    fn prior(self, machine: &Machine, deviation: f64) -> Prior {
        Prior { mean: libm::log(self.get(machine)), deviation, parameter: self }
    }
}
