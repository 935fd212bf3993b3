//! Energy data of a study other than that of its runs. The journal and `study.json` contain it.

use iolane_measure::meters::Source;
use serde::{Deserialize, Serialize};

use super::alignment::Alignment;
use super::steps::LoadSteps;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyNotes {
    /// The meter; `None` if there is none.
    #[serde(flatten)]
    pub source: Option<Source>,
    /// Why there is no meter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unavailable: Option<String>,
    /// Idle power; `None` if it was not measured.
    pub idle_watts: Option<f64>,
    /// Made for an external meter.
    pub load_steps: Vec<LoadSteps>,
    /// Of an external meter's trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alignment: Option<Alignment>,
}
