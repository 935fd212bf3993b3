//! Predictions: loads played on a calibrated machine, path beside path, and which path is best for a goal. `iolane predict` calls it.
//! It measures nothing; every figure has an interval, and every answer the errors of the machine.

mod answer;
mod asked;
mod checks;
mod document;
mod figures;
mod job;

pub use answer::{Answer, Beside};
pub use asked::{Asked, Goal};
pub use document::{LoadPredicted, MachineNamed, Predicted, SCHEMA};
pub use figures::{Interval, Measured, NotPlayed, PathPredicted};
pub use iolane_model::HeldOut;
pub use job::Job;

#[cfg(test)]
mod tests;
