//! A number of a machine's file: what it is, how sure that is, and where it comes from.

use serde::{Deserialize, Serialize};

/// A number, plain (`1600`) or with what is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// Taken as it is.
    Plain(f64),
    /// Fitted to observations.
    Fitted(Fitted),
}

/// A number that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The best value.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether the observations tell it. If not, it is little more than what was assumed before.
    pub determined: bool,
}

impl Number {
    /// The best value.
    pub fn value(&self) -> f64 {
        match self {
            Self::Plain(value) => *value,
            Self::Fitted(fitted) => fitted.value,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.value() == 0.0
    }
}

impl Default for Number {
    fn default() -> Self {
        Self::Plain(0.0)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Plain(value)
    }
}
