//! The curve of a search: latency does not fall when the rate grows, so the curve through the medians of each rate is made
//! monotone (isotonic regression). Latencies are in bounds, as logarithms: 0 is the bound itself.

use super::trial::Trial;
use crate::plan::LatencyBound;
use crate::stats::{isotonic, median, resampled_medians};

/// Where the curve of a search passes the bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Edge {
    /// At this rate.
    At(f64),
    /// Above the highest rate that was tried.
    Above(f64),
    /// Below the lowest rate that was tried.
    Below(f64),
}

/// A latency counts as this many bounds at most, so that the slowest runs do not bend the curve between others.
const BOUNDS_MAX: f64 = 1000.0;

/// The runs of a search by rate, ascending.
pub(super) struct RunsByRate {
    rates: Vec<f64>,
    /// The latencies in bounds, as logarithms: 0 is the bound itself.
    runs: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl RunsByRate {
    pub(super) fn new(trials: &[Trial], bound: LatencyBound) -> Self {
        let mut rates: Vec<f64> = trials.iter().map(|trial| trial.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let of_rate = |rate: f64| trials.iter().filter(move |trial| trial.rate == rate);
        let runs: Vec<Vec<f64>> =
            rates.iter().map(|rate| of_rate(*rate).map(|trial| in_bounds(*trial, bound)).collect()).collect();
        let weights = runs.iter().map(|runs| runs.len() as f64).collect();
        Self { rates, runs, weights }
    }

    /// The curve through the medians: for each rate, the latency in bounds as a logarithm.
    pub(super) fn curve(&self) -> Vec<f64> {
        let medians: Vec<f64> = self.runs.iter().map(|runs| median(runs)).collect();
        isotonic(&medians, &self.weights)
    }

    /// The rates, ascending.
    pub(super) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Where the curve passes the bound.
    pub(super) fn edge(&self) -> Edge {
        let curve = self.curve();
        match (curve.first(), curve.last()) {
            (_, Some(last)) if *last <= 0.0 => Edge::Above(self.rates[self.rates.len() - 1]),
            (Some(first), _) if *first <= 0.0 => Edge::At(passes_zero(&self.rates, &curve)),
            _ => Edge::Below(self.rates.first().copied().unwrap_or(0.0)),
        }
    }

    /// The rate at which the curve passes the bound; of a curve that does not, the end that is nearest.
    pub(super) fn nearest_to_bound(&self) -> f64 {
        passes_zero(&self.rates, &self.curve())
    }

    /// The same for each resample of the runs.
    pub(super) fn resampled(&self) -> Vec<f64> {
        resampled_medians(&self.runs, |medians| passes_zero(&self.rates, &isotonic(medians, &self.weights)))
    }
}

/// The latency of a run in bounds, as a logarithm.
pub(super) fn in_bounds(trial: Trial, bound: LatencyBound) -> f64 {
    (trial.latency_ns.max(1.0) / bound.max_ns()).min(BOUNDS_MAX).ln()
}

/// Where a curve that does not fall passes 0, between two rates interpolated in the logarithm of the rate; the end that is
/// nearest if it does not.
fn passes_zero(rates: &[f64], curve: &[f64]) -> f64 {
    let above = curve.iter().position(|value| *value > 0.0);
    match above {
        None => rates[rates.len() - 1],
        Some(0) => rates[0],
        Some(above) => {
            let (low, high) = (curve[above - 1], curve[above]);
            let share = -low / (high - low);
            rates[above - 1] * (rates[above] / rates[above - 1]).powf(share)
        }
    }
}
