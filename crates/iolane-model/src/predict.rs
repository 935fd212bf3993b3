//! A prediction: a load played on each draw of a machine's numbers, so that what is not known of the machine shows as an interval.

use iolane_core::error::Result;

use crate::{Length, Load, MachineFile, Outcome, simulate};

/// A machine without draws is played with this many seeds.
const SEEDS: usize = 8;

/// What is predicted, figure by figure.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// Requests per second.
    pub iops: Figure,
    /// Bytes per second.
    pub bytes_per_s: Figure,
    /// The median latency, in nanoseconds.
    pub p50_ns: Figure,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: Figure,
    /// Cores' worth of processor time.
    pub cores: Figure,
    /// System calls per request.
    pub calls_per_io: Figure,
    /// Watts of the machine; `None` without a model of its power.
    pub watts: Option<Figure>,
    /// The outcome of each draw.
    pub outcomes: Vec<Outcome>,
}

/// A predicted figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The median of the draws.
    pub value: f64,
    /// The lower end of the interval that contains 95 % of the draws.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Figure {
    /// That of some values; not a number without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let at = share * (sorted.len() as f64 - 1.0);
            let (low, high) = (at.floor().max(0.0) as usize, at.ceil().max(0.0) as usize);
            let value = |at: usize| sorted.get(at).copied().unwrap_or(f64::NAN);
            value(low) + (value(high) - value(low)) * (at - at.floor())
        };
        Self { value: quantile(0.5), low: quantile(0.025), high: quantile(0.975) }
    }
}

/// Predicts what a load comes to on a machine.
///
/// # Errors
/// As [`simulate`].
pub fn predict(file: &MachineFile, load: &Load) -> Result<Prediction> {
    let length = Length::of(load);
    let outcomes: Vec<Outcome> = match file.draw_count() {
        0 => {
            let machine = file.best();
            (0..SEEDS).map(|seed| simulate(&machine, load, length, seed as u64)).collect::<Result<_>>()?
        }
        draws => (0..draws).map(|at| simulate(&file.draw(at), load, length, at as u64)).collect::<Result<_>>()?,
    };
    let figure = |of: &dyn Fn(&Outcome) -> f64| Figure::of(outcomes.iter().map(of));
    Ok(Prediction {
        iops: figure(&Outcome::iops),
        bytes_per_s: figure(&Outcome::bytes_per_s),
        p50_ns: figure(&|outcome| outcome.percentile_ns(50.0) as f64),
        p99_ns: figure(&|outcome| outcome.percentile_ns(99.0) as f64),
        cores: figure(&Outcome::cores),
        calls_per_io: figure(&Outcome::calls_per_io),
        watts: file.power.map(|power| figure(&|outcome| outcome.watts(&power))),
        outcomes,
    })
}
