//! The time in which a run measured. The run records it, and meters compute the energy of that interval.

use std::time::Instant;

/// An interval of real time.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub from: Instant,
    pub to: Instant,
}

impl Span {
    pub fn seconds(&self) -> f64 {
        self.to.saturating_duration_since(self.from).as_secs_f64()
    }
}
