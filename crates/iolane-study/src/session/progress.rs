//! The progress of a session, for the terminal and the log.

use crate::plan::Arm;
use crate::rows::Row;

#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Completed runs.
    pub done: usize,
    pub total: usize,
    pub now: Now<'a>,
    /// The runs so far, in order.
    pub rows: &'a [Row],
}

/// The current activity of a session.
#[derive(Debug, Clone)]
pub enum Now<'a> {
    /// Fills the target of this name, then writes it at random until the rate is steady.
    Preconditions(&'a str),
    /// Writes to the target of this name what applications read.
    WritesData(&'a str),
    /// Measures the power of the idle machine.
    MeasuresIdle,
    /// Loads and idles every CPU in turn, for an external meter.
    MakesLoadSteps,
    Runs(&'a Arm),
    /// Repeats a run that was rejected.
    RunsAgain(&'a Arm),
}
