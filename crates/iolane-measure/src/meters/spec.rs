//! Which meter the user selects: `--meter NAME`, `--meter-command`, `--power-model`.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};

use super::model::PowerModel;

#[derive(Debug, Clone, Default, PartialEq)]
pub enum MeterSpec {
    /// The best available.
    #[default]
    Auto,
    None,
    /// RAPL through the powercap tree.
    Rapl,
    /// RAPL through perf's power PMU.
    Perf,
    /// Sensors of the board.
    Hwmon,
    /// The board's management controller.
    Ipmi,
    /// A program that prints watts.
    Command(String),
    /// No meter: figures are computed from this model.
    Model(PowerModel),
}

const NAMED: [(&str, MeterSpec); 6] = [
    ("auto", MeterSpec::Auto),
    ("none", MeterSpec::None),
    ("rapl", MeterSpec::Rapl),
    ("perf", MeterSpec::Perf),
    ("hwmon", MeterSpec::Hwmon),
    ("ipmi", MeterSpec::Ipmi),
];

impl FromStr for MeterSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = NAMED.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, spec)| spec).ok_or_else(|| {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            Error::usage(format!("meter `{text}`"), "no meter of that name").remedy(format!("use {}", names.join(", ")))
        })
    }
}

impl fmt::Display for MeterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "command {command}"),
            Self::Model(model) => write!(f, "model {model}"),
            named => f.write_str(NAMED.iter().find(|(_, spec)| spec == named).map_or("", |(name, _)| name)),
        }
    }
}
