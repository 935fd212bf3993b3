//! Least squares of the logarithms, by Gauss-Newton with Levenberg's damping. The model is a simulation: derivatives are differences of
//! runs with the same seed.

use iolane_core::error::Result;
use rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::linear::{cholesky, solve};
use super::observation::{Compared, Observation};
use super::priors::Prior;
use crate::{Length, Load, Machine, Outcome, Part, simulate};

/// By which a logarithm is changed for a difference: well above what a run varies by. Where a fit with one goes no further, the next may:
/// a ceiling above what is reached has a slope only from afar, and a bend only from near.
const STEPS: [f64; 3] = [0.08, 0.3, 0.02];
/// The most that a logarithm changes at once.
const STRIDE: f64 = 0.7;
/// At the beginning, and after the step of differences has changed.
const DAMPING: f64 = 0.1;
const ROUNDS: usize = 25;
/// A fit goes no further when the squares of a round shrink by less than this share.
const ENOUGH: f64 = 0.002;
/// Steps to each draw.
const DRAW_ROUNDS: usize = 5;
/// The most tries for each draw: the steps have the slopes of the fit, and miss where others hold, as where a drive becomes the limit.
const TRIES: usize = 4;

/// A fit: the logarithms of the numbers, and how sure they are.
pub(super) struct Fit {
    values: Vec<f64>,
    residuals: Vec<f64>,
    jacobian: Vec<Vec<f64>>,
    /// The mean square of the residuals, at least 1: where the machine explains the observations less well than their noise allows, they
    /// count as noisier than they said.
    excess: f64,
    /// The Cholesky factor of the inverse of the covariance of the values.
    precision: Vec<Vec<f64>>,
    squares: f64,
}

impl Fit {
    /// Changes the machine to fit the observations, from the numbers that it has.
    pub(super) fn of(
        machine: &mut Machine,
        observations: &[Observation],
        loads: &[Load],
        priors: &[Prior],
    ) -> Result<Self> {
        let problem = Problem { observations, loads, priors };
        let mut values: Vec<f64> = priors.iter().map(|prior| libm::log(prior.parameter.get(machine))).collect();
        let mut residuals = problem.residuals(machine)?;
        let mut squares = problem.squares(&residuals, &values);
        let mut damping = DAMPING;
        let mut stalled = 0;
        for _ in 0..ROUNDS {
            let Some(step) = STEPS.get(stalled) else { break };
            let jacobian = problem.jacobian(machine, &values, &residuals, *step)?;
            let (normal, gradient) = problem.normal(&jacobian, &residuals, &values, 1.0);
            let before = squares;
            for _ in 0..5 {
                let mut damped = normal.clone();
                (0..damped.len()).for_each(|at| damped[at][at] *= 1.0 + damping);
                let step = solve(&cholesky(&damped).expect("damping keeps it positive definite"), &gradient);
                let tried: Vec<f64> =
                    values.iter().zip(&step).map(|(value, step)| value - step.clamp(-STRIDE, STRIDE)).collect();
                problem.apply(machine, &tried);
                let found = problem.residuals(machine)?;
                let of_tried = problem.squares(&found, &tried);
                if of_tried < squares {
                    damping = (damping / 4.0).max(1e-4);
                    (values, residuals, squares) = (tried, found, of_tried);
                    break;
                }
                damping *= 5.0;
            }
            if squares < before * (1.0 - ENOUGH) {
                stalled = 0;
            } else {
                stalled += 1;
                damping = DAMPING;
            }
        }
        let jacobian = problem.jacobian(machine, &values, &residuals, STEPS[0])?;
        problem.apply(machine, &values);
        let mean_square =
            residuals.iter().map(|residual| residual * residual).sum::<f64>() / residuals.len().max(1) as f64;
        let excess = mean_square.max(1.0);
        let (normal, _) = problem.normal(&jacobian, &residuals, &values, 1.0 / excess);
        let precision = cholesky(&normal).expect("priors make it positive definite");
        Ok(Self { values, residuals, jacobian, excess, precision, squares })
    }

    /// How far the machine is from observations and priors, as a sum of squares.
    pub(super) fn squares(&self) -> f64 {
        self.squares
    }

    /// The standard deviation of the logarithm of a number.
    pub(super) fn deviation(&self, at: usize) -> f64 {
        let mut unit = vec![0.0; self.values.len()];
        unit[at] = 1.0;
        solve(&self.precision, &unit)[at].sqrt()
    }

    /// Joint draws of each number: each fits observations and priors that were disturbed by their noise. Near the fit this is the draw of
    /// a normal distribution; farther away it follows what the observations tell, such as a sum of two costs.
    pub(super) fn draws(
        &self,
        machine: &Machine,
        observations: &[Observation],
        loads: &[Load],
        priors: &[Prior],
        (count, seed): (usize, u64),
    ) -> Result<Vec<Vec<f64>>> {
        let problem = Problem { observations, loads, priors };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut machine = machine.clone();
        let mut tried = Vec::new();
        // What is left of the squares at the best place has one degree of freedom for each figure.
        let figures = self.residuals.len() as f64;
        let enough = figures + 3.0 * (2.0 * figures).sqrt();
        let mut accepted = 0;
        while accepted < count && tried.len() < count * TRIES {
            let (misfit, values) = self.draw(&problem, &mut machine, &mut rng)?;
            accepted += usize::from(misfit <= enough);
            tried.push((misfit, values));
        }
        // Those that fit, in the order in which they were drawn; if they are too few, the nearest of the others.
        tried.sort_by_key(|(misfit, _)| (*misfit > enough).then(|| misfit.to_bits()));
        let by_number =
            |at: usize| tried.iter().take(count).map(|(_, values): &(f64, Vec<f64>)| libm::exp(values[at])).collect();
        Ok((0..priors.len()).map(by_number).collect())
    }

    /// One draw, with how far it is from the disturbed observations and priors, as a sum of squares.
    fn draw(
        &self,
        problem: &Problem<'_>,
        machine: &mut Machine,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(f64, Vec<f64>)> {
        let mut noise = || -> f64 { StandardNormal.sample(rng) };
        let of_figures: Vec<f64> = self.residuals.iter().map(|_| self.excess.sqrt() * noise()).collect();
        let of_priors: Vec<f64> = problem.priors.iter().map(|prior| prior.deviation * noise()).collect();
        let mut values = self.values.clone();
        let mut residuals = self.residuals.clone();
        let mut best = (f64::INFINITY, values.clone());
        for _ in 0..DRAW_ROUNDS {
            let off: Vec<f64> = residuals.iter().zip(&of_figures).map(|(residual, noise)| residual - noise).collect();
            let shifted: Vec<f64> = values.iter().zip(&of_priors).map(|(value, shift)| value - shift).collect();
            let (_, gradient) = problem.normal(&self.jacobian, &off, &shifted, 1.0 / self.excess);
            let step = solve(&self.precision, &gradient);
            values.iter_mut().zip(step).for_each(|(value, step)| *value -= step.clamp(-STRIDE, STRIDE));
            problem.apply(machine, &values);
            residuals = problem.residuals(machine)?;
            let of_residuals = residuals.iter().zip(&of_figures).map(|(residual, noise)| residual - noise);
            let of_observations: f64 = of_residuals.map(|off| off * off / self.excess).sum();
            let of_numbers = problem.priors.iter().zip(values.iter().zip(&of_priors));
            let of_numbers: f64 = of_numbers
                .map(|(prior, (value, shift))| ((value - shift - prior.mean) / prior.deviation).powi(2))
                .sum();
            let misfit = of_observations + of_numbers;
            if misfit < best.0 {
                best = (misfit, values.clone());
            }
        }
        Ok(best)
    }
}

/// Plays a load as long as a fit needs it.
pub(super) fn play(machine: &Machine, load: &Load) -> Result<Outcome> {
    simulate(machine, load, Length::of(load), 1)
}

struct Problem<'a> {
    observations: &'a [Observation],
    loads: &'a [Load],
    priors: &'a [Prior],
}

impl Problem<'_> {
    fn apply(&self, machine: &mut Machine, values: &[f64]) {
        for (prior, value) in self.priors.iter().zip(values) {
            prior.parameter.set(machine, libm::exp(*value));
        }
    }

    /// Of each figure: the logarithm of predicted by observed, in deviations.
    fn residuals(&self, machine: &Machine) -> Result<Vec<f64>> {
        let each = self
            .observations
            .iter()
            .zip(self.loads)
            .map(|(observation, load)| residuals_of(machine, observation, load));
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    }

    fn squares(&self, residuals: &[f64], values: &[f64]) -> f64 {
        let of_priors = self.priors.iter().zip(values).map(|(prior, value)| (value - prior.mean) / prior.deviation);
        residuals.iter().copied().chain(of_priors).map(|residual| residual * residual).sum()
    }

    /// The derivatives of all residuals, by number, as differences by this step. A cost of a path changes only what was observed of that path.
    fn jacobian(&self, machine: &mut Machine, values: &[f64], residuals: &[f64], step: f64) -> Result<Vec<Vec<f64>>> {
        let mut jacobian = Vec::with_capacity(self.priors.len());
        self.apply(machine, values);
        for (prior, value) in self.priors.iter().zip(values) {
            prior.parameter.set(machine, libm::exp(value + step));
            let mut column = Vec::with_capacity(residuals.len());
            for (observation, load) in self.observations.iter().zip(self.loads) {
                let from = column.len();
                match &prior.parameter.of {
                    Part::Path(path) if *path != observation.path => column.extend(observation.figures().map(|_| 0.0)),
                    _ => {
                        let changed = residuals_of(machine, observation, load)?;
                        column.extend(changed.iter().zip(&residuals[from..]).map(|(new, old)| (new - old) / step));
                    }
                }
            }
            prior.parameter.set(machine, libm::exp(*value));
            jacobian.push(column);
        }
        Ok(jacobian)
    }

    /// The matrix and the right side of the normal equations: observations with this weight, and priors.
    fn normal(
        &self,
        jacobian: &[Vec<f64>],
        residuals: &[f64],
        values: &[f64],
        weight: f64,
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let dot = |a: &[f64], b: &[f64]| weight * a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut normal: Vec<Vec<f64>> =
            jacobian.iter().map(|row| jacobian.iter().map(|column| dot(row, column)).collect()).collect();
        let mut gradient: Vec<f64> = jacobian.iter().map(|column| dot(column, residuals)).collect();
        for (at, prior) in self.priors.iter().enumerate() {
            let weight = 1.0 / (prior.deviation * prior.deviation);
            normal[at][at] += weight;
            gradient[at] += weight * (values[at] - prior.mean);
        }
        (normal, gradient)
    }
}

fn residuals_of(machine: &Machine, observation: &Observation, load: &Load) -> Result<Vec<f64>> {
    let outcome = play(machine, load)?;
    let residual = |figure: Compared| {
        libm::log(figure.predicted.max(1e-9) / figure.observed) / libm::hypot(observation.noise, figure.model_error)
    };
    Ok(observation.compared(&outcome).into_iter().map(residual).collect())
}
