//! Which meter or model the joules of a run come from, and which part of the machine it covers. Records and results name it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::PowerModel;
use crate::telemetry::Sourced;

/// Coverage: everything that draws power from the wall.
pub const WHOLE_MACHINE: &str = "whole machine";
/// Coverage: no drives, fans or losses.
pub(super) const PACKAGES_AND_MEMORY: &str = "processor packages and memory only";
/// Coverage: as above, and no memory.
pub(super) const PACKAGES: &str = "processor packages only";
/// Coverage of a meter that only its owner knows.
pub const AS_WIRED: &str = "what it is wired to";

/// The meter or model of some joules, and what it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The meter, or the model.
    #[serde(rename = "source")]
    pub name: String,
    /// The part of the machine.
    pub covers: String,
    /// Whether the joules are computed instead of measured.
    pub modelled: bool,
}

impl Source {
    pub fn measured(name: &str, covers: &str) -> Self {
        Self { name: name.into(), covers: covers.into(), modelled: false }
    }

    pub fn modelled(model: &PowerModel) -> Self {
        Self { name: model.to_string(), covers: WHOLE_MACHINE.into(), modelled: true }
    }

    /// Joules from this source.
    pub fn of(&self, joules: f64) -> Sourced<f64> {
        let source = if self.modelled { self.name.clone() } else { format!("{}, {}", self.name, self.covers) };
        Sourced { value: joules, source, modelled: self.modelled }
    }
}

/// `RAPL, processor packages only`, `modelled: idle=40,core=8`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.modelled {
            true => write!(f, "modelled: {}", self.name),
            false => write!(f, "{}, {}", self.name, self.covers),
        }
    }
}
