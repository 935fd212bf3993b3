//! The two scales a study can run at, and values that differ between them.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Minutes: shorter runs and fewer values of some factors.
    Scaled,
    /// The published lengths and values.
    Full,
}

impl Scale {
    pub const ALL: [Self; 2] = [Self::Scaled, Self::Full];

    /// The key of the scale in a study file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scaled => "scaled",
            Self::Full => "full",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerScale<T> {
    pub scaled: T,
    pub full: T,
}

impl<T> PerScale<T> {
    pub fn at(&self, scale: Scale) -> &T {
        match scale {
            Scale::Scaled => &self.scaled,
            Scale::Full => &self.full,
        }
    }
}

impl<T: Clone> PerScale<T> {
    /// The same value at both scales.
    pub fn same(value: T) -> Self {
        Self { scaled: value.clone(), full: value }
    }
}
