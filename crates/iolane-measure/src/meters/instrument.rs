//! The trait of the instruments in this folder, which are read for joules or watts. `meter.rs` chooses one.

use std::fmt;
use std::time::Duration;

use super::curve::Kind;
use super::source::Source;
use crate::telemetry::Reading;

/// Returns joules or watts when it is read.
pub(crate) trait Instrument: Send + fmt::Debug {
    fn kind(&self) -> Kind;

    /// Joules since it was opened, or watts.
    ///
    /// # Errors
    /// Why it cannot be read now.
    fn read(&mut self) -> Reading<f64>;

    /// Interval between readings. A counter that wraps every quarter of an hour is also read between runs, so that no wrap is
    /// missed.
    fn period(&self) -> Duration {
        Duration::from_millis(50)
    }
}

/// An instrument that was found and not yet checked.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(super) instrument: Box<dyn Instrument>,
    pub(super) source: Source,
}
