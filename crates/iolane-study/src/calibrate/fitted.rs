//! A machine fitted to what was gathered, with how far it is from what it was fitted to and from what the fit did not see.

use iolane::Result;
use iolane_model::{
    Figure, HeldOut, MachineFile, Observation, Outcome, Residual, calibrate as fit, predict, residuals,
};
use serde::Serialize;

use super::{Gathered, HoldOut, NotUsed};

/// A calibration.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The machine, with the predictions of what the fit did not see.
    pub machine: MachineFile,
    /// What it was fitted to, as observed and as it plays it.
    pub fitted: Vec<Residual>,
    /// What the fit did not see, as observed and as predicted.
    pub held_out: Vec<HeldOutFigure>,
    /// What the model cannot play.
    pub not_used: Vec<NotUsed>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// A figure that the fit did not see.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOutFigure {
    /// The load, in words.
    pub load: String,
    /// The figure.
    pub figure: &'static str,
    /// As observed.
    pub observed: f64,
    /// As predicted: the median of the draws.
    pub predicted: f64,
    /// The lower end of the interval that contains 95 % of the draws.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Fits a machine. The 99th percentile is never fitted, since the tail of a drive is not; where it was observed and held out, it is
/// compared.
///
/// # Errors
/// As [`HoldOut`] and the fit.
pub fn calibrate(gathered: &Gathered, hold_out: &HoldOut) -> Result<Calibrated> {
    let (mut fitted, held_out) = hold_out.split(gathered.observations.clone())?;
    for observation in &mut fitted {
        let others = [observation.iops, observation.p50_ns, observation.cpu_ns_per_io];
        observation.p99_ns = observation.p99_ns.filter(|_| others.iter().all(Option::is_none));
    }
    let observations = gathered.observations(fitted);
    let mut machine = fit(&observations)?;
    let held_out: Vec<HeldOutFigure> =
        held_out.iter().map(|observation| compared(&machine, observation)).collect::<Result<Vec<_>>>()?.concat();
    machine.held_out = held_out.iter().map(HeldOutFigure::in_file).collect();
    Ok(Calibrated {
        fitted: residuals(&machine.best(), &observations.observations)?,
        machine,
        held_out,
        not_used: gathered.not_used.clone(),
        notes: gathered.notes.clone(),
    })
}

fn compared(machine: &MachineFile, observation: &Observation) -> Result<Vec<HeldOutFigure>> {
    let predicted = predict(machine, &observation.load(&machine.best())?)?;
    let load = Observation { from: String::new(), ..observation.clone() }.in_words();
    let cpu = Figure::of(predicted.outcomes.iter().map(Outcome::cpu_ns_per_io));
    let all = [
        ("IOPS", observation.iops, predicted.iops),
        ("p50", observation.p50_ns, predicted.p50_ns),
        ("p99", observation.p99_ns, predicted.p99_ns),
        ("CPU per I/O", observation.cpu_ns_per_io, cpu),
    ];
    let told = all.into_iter().filter_map(|(figure, observed, Figure { value, low, high })| {
        Some(HeldOutFigure { load: load.clone(), figure, observed: observed?, predicted: value, low, high })
    });
    Ok(told.collect())
}

impl HeldOutFigure {
    /// Predicted by observed.
    pub fn ratio(&self) -> f64 {
        self.predicted / self.observed
    }

    /// Whether the observed value is within the interval.
    pub fn is_within(&self) -> bool {
        (self.low..=self.high).contains(&self.observed)
    }

    fn in_file(&self) -> HeldOut {
        let Self { load, figure, observed, predicted, .. } = self;
        HeldOut { what: format!("{load}: {figure}"), observed: *observed, predicted: *predicted }
    }
}
