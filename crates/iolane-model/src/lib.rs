//! A machine in virtual time: cores and their scheduler, interrupts, submission threads, what each path costs, and drives. It
//! predicts what a machine would do that is larger than the one at hand.
//!
//! - [`Machine`] has the numbers, [`MachineFile`] has them with their intervals and where each comes from.
//! - [`simulate`] plays a [`Load`] on a machine, event by event, and returns an [`Outcome`]. The same seed gives the same outcome, bit by
//!   bit.
//! - [`calibrate`] fits the numbers to what was measured or published; [`predict`] plays draws of them, for an interval.
//!
//! docs/model.md states what is modelled, what is left out, and how predictions compare with what was published. Nothing here
//! performs I/O, reads a clock or starts a thread.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod behaviour;
mod calibrate;
mod left_out;
mod load;
mod machine;
mod machine_file;
mod number;
mod outcome;
mod parameter;
mod predict;
mod published;
mod simulation;

pub use behaviour::{Behaviour, Completion, Submission};
pub use calibrate::{Known, Observation, Observations, Residual, calibrate, residuals};
pub use iolane_drive::{Drive, Link};
pub use left_out::LEFT_OUT;
pub use load::{Length, Load};
pub use machine::{Machine, PathCosts, Power, Processor, Scheduler, SchedulerKind};
pub use machine_file::{Costs, HeldOut, MachineFile, SCHEMA};
pub use number::{Fitted, Number};
pub use outcome::Outcome;
pub use parameter::{Parameter, Part};
pub use predict::{Figure, Prediction, predict};
pub use published::{Expected, PUBLISHED, Published, Statement, Verdict, check};
pub use simulation::simulate;
