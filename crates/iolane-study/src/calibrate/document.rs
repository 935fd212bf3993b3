//! A calibration as the document of `iolane calibrate --json`: schema `iolane.calibrate/1`, described in
//! `docs/schema/calibrate.json`.

use iolane::sim::Timing;
use iolane_model::{MachineFile, Number, Part};
use serde::Serialize;

use super::{Calibrated, HeldOutFigure, NotUsed};

/// Names the layout of the document.
const SCHEMA: &str = "iolane.calibrate/1";

/// A calibration.
#[derive(Debug, Clone, Serialize)]
pub struct CalibrateDocument<'a> {
    /// `iolane.calibrate/1`.
    pub schema: &'static str,
    /// What the machine is called.
    pub name: &'a str,
    /// The machine's file.
    pub file: String,
    /// The numbers of the machine.
    pub numbers: Vec<NamedNumber>,
    /// Its drive as a simulated target ([`simulated_drive`]).
    pub simulated_drive: String,
    /// What it was fitted to.
    pub fitted: Vec<FittedFigure<'a>>,
    /// What the fit did not see.
    pub held_out: &'a [HeldOutFigure],
    /// What the model cannot play.
    pub not_used: &'a [NotUsed],
    /// What was assumed.
    pub notes: &'a [String],
}

/// A number of a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedNumber {
    /// What has it: `processor`, `drive`, or a path.
    pub of: String,
    /// The name, with its unit.
    pub name: &'static str,
    /// The best value.
    pub value: f64,
    /// The lower end of the 95 % interval; `None` for a number that was given.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// Whether it was given, or the results tell it.
    pub determined: bool,
}

/// A figure that was fitted.
#[derive(Debug, Clone, Serialize)]
pub struct FittedFigure<'a> {
    /// The figure, in words.
    pub what: &'a str,
    /// As observed.
    pub observed: f64,
    /// As the machine plays it.
    pub predicted: f64,
}

impl<'a> CalibrateDocument<'a> {
    /// That of a calibration, whose machine is in this file.
    pub fn new(calibrated: &'a Calibrated, file: String) -> Self {
        let Calibrated { machine, fitted, held_out, not_used, notes } = calibrated;
        let figure = |residual: &'a iolane_model::Residual| FittedFigure {
            what: &residual.what,
            observed: residual.observed,
            predicted: residual.predicted,
        };
        Self {
            schema: SCHEMA,
            name: &machine.name,
            file,
            numbers: numbers(machine),
            simulated_drive: simulated_drive(machine),
            fitted: fitted.iter().map(figure).collect(),
            held_out,
            not_used,
            notes,
        }
    }
}

/// The drive of a machine as a target that simulates it: `sim:64m,read=80us,units=32`. docs/simulated-drives.md describes the settings.
pub fn simulated_drive(machine: &MachineFile) -> String {
    let drive = machine.drive.map(|_, number| number.value());
    format!("sim:64m,{}", Timing::Units(drive))
}

/// The numbers of a machine: processor, drive, paths. Costs that a path does not have are left out.
pub fn numbers(machine: &MachineFile) -> Vec<NamedNumber> {
    let named = |of: &Part, name: &'static str, number: &Number| {
        let (low, high, determined) = match number {
            Number::Plain(_) => (None, None, true),
            Number::Fitted(fitted) => (Some(fitted.low), Some(fitted.high), fitted.determined),
        };
        NamedNumber { of: of.to_string(), name, value: number.value(), low, high, determined }
    };
    let of_processor = machine.processor.numbers().map(|(name, number)| named(&Part::Processor, name, number));
    let of_drive = machine.drive.numbers().map(|(name, number)| named(&Part::Drive, name, number));
    let of_path = |(path, costs): (&String, &iolane_model::Costs)| -> Vec<NamedNumber> {
        let numbers = costs.0.numbers().into_iter().filter(|(_, number)| number.value() != 0.0);
        let of = Part::Path(path.clone());
        numbers.map(|(name, number)| named(&of, name, number)).collect()
    };
    of_processor.into_iter().chain(of_drive).chain(machine.paths.iter().flat_map(of_path)).collect()
}
