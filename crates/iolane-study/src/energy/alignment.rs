//! How a trace was aligned with a study. `align` finds it, `study.json` keeps it.

use serde::{Deserialize, Serialize};

/// The meter's clock relative to the study's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// Unix time at which the meter's clock reads 0, in seconds.
    pub offset_s: f64,
    /// True seconds per second of the meter's clock.
    pub rate: f64,
    /// Largest deviation of a load step after correction, in seconds.
    pub residual_s: f64,
}

/// Bound on clock drift; a good quartz clock drifts by 0.00002.
pub(super) const DRIFT_MAX: f64 = 0.005;

pub(super) const OTHER_TRACE_REMEDY: &str =
    "give a file recorded by this machine's meter from before the study until after it";
