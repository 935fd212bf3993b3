//! The verdicts. Every rule ends in one; `study.json` and reports contain their names.

use std::fmt;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// With fewer repeats the interval of a median carries no information.
pub(super) const REPEATS_MIN: usize = 3;

/// The verdict on a claim, or on one check of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The whole 95 % interval is within the bounds.
    Holds,
    /// The same, on simulated processors: in a guest of the lab that counts instructions as time (`iolane lab run --exact`).
    HoldsBySimulation,
    /// The same, by a model: its joules are computed by the user's power model, or its arms were played.
    HoldsByModel,
    /// The whole interval is outside.
    DoesNotHold,
    /// The same, on simulated processors.
    DoesNotHoldBySimulation,
    /// The same, by a model.
    DoesNotHoldByModel,
    /// The interval contains a bound, or there are too few repeats for an interval.
    Inconclusive,
    /// A required arm or metric was not measured.
    NotTestable,
}

impl Verdict {
    pub const ALL: [Self; 8] = [
        Self::Holds,
        Self::HoldsBySimulation,
        Self::HoldsByModel,
        Self::DoesNotHold,
        Self::DoesNotHoldBySimulation,
        Self::DoesNotHoldByModel,
        Self::Inconclusive,
        Self::NotTestable,
    ];

    /// As in `study.json`: `holds`, `does not hold by model`, `not testable here`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsBySimulation => "holds by simulation",
            Self::HoldsByModel => "holds by model",
            Self::DoesNotHold => "does not hold",
            Self::DoesNotHoldBySimulation => "does not hold by simulation",
            Self::DoesNotHoldByModel => "does not hold by model",
            Self::Inconclusive => "inconclusive",
            Self::NotTestable => "not testable here",
        }
    }

    /// The verdict, where a model decided.
    #[must_use]
    pub(super) fn by_model(self) -> Self {
        match self {
            Self::Holds => Self::HoldsByModel,
            Self::DoesNotHold => Self::DoesNotHoldByModel,
            other => other,
        }
    }

    /// The verdict, where simulated processors decided, and no model.
    #[must_use]
    pub(super) fn by_simulation(self) -> Self {
        match self {
            Self::Holds => Self::HoldsBySimulation,
            Self::DoesNotHold => Self::DoesNotHoldBySimulation,
            other => other,
        }
    }

    /// The verdict, whatever decided it: measurement, simulation or model.
    #[must_use]
    pub(super) fn whatever_decided(self) -> Self {
        match self {
            Self::HoldsBySimulation | Self::HoldsByModel => Self::Holds,
            Self::DoesNotHoldBySimulation | Self::DoesNotHoldByModel => Self::DoesNotHold,
            other => other,
        }
    }

    /// How often each verdict occurs among these.
    pub fn counts(verdicts: impl Iterator<Item = Self> + Clone) -> [(Self, usize); Self::ALL.len()] {
        Self::ALL.map(|verdict| (verdict, verdicts.clone().filter(|other| *other == verdict).count()))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Verdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = Self::ALL.into_iter().find(|verdict| verdict.name() == name);
        known.ok_or_else(|| de::Error::custom(format!("`{name}` is not a verdict")))
    }
}
