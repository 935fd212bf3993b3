//! The measurements of a session, complete or interrupted.

use std::time::Duration;

use crate::claims::Looks;
use crate::energy::EnergyNotes;
use crate::rows::journal::Journal;
use crate::rows::{LeftOut, Preconditioned, Row};

#[derive(Debug)]
pub struct Measured {
    /// All runs, rejected ones included.
    pub rows: Vec<Row>,
    /// Arms that were not run, and those that were given up.
    pub left_out: Vec<LeftOut>,
    /// How targets were preconditioned before writes were measured.
    pub preconditioned: Vec<Preconditioned>,
    /// Energy figures that are not part of a run.
    pub energy: EnergyNotes,
    /// Length of each run.
    pub runtime: Duration,
    /// Repeats in which every arm that was not given up has a valid run.
    pub whole_repeats: usize,
    /// When claims were decided.
    pub looks: Looks,
    /// Whether the session was stopped before its end.
    pub interrupted: bool,
    /// The journal, which is removed once the results are written.
    pub journal: Journal,
}
