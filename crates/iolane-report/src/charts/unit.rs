//! The units of charts and how their values are written.

use iolane::units::Bytes;
use iolane_study::format::{count, number, quantity, time};
use iolane_study::plan::Metric;
use serde::{Deserialize, Serialize};

/// The unit of an axis, and so how its numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Three digits: `1.25`.
    Number,
    /// A count that may be large: `182k`.
    Count,
    /// `85.2 us`.
    Nanoseconds,
    /// `12.5 s`.
    Seconds,
    /// In powers of 1024: `4k`.
    Bytes,
    /// `6.80 GB/s`.
    BytesPerSecond,
    /// 0 to 1, written as `99.9 %`.
    Share,
    Watts,
}

impl Unit {
    /// A value as people read it.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Number => number(value),
            Self::Count => count(value),
            Self::Nanoseconds => time(value),
            Self::Seconds => format!("{} s", number(value)),
            Self::Bytes => Bytes(value.max(0.0) as u64).to_string(),
            Self::BytesPerSecond => quantity(Metric::BytesPerS, value),
            Self::Share => format!("{} %", number((value * 1e6).round() / 1e4)),
            Self::Watts => quantity(Metric::Watts, value),
        }
    }
}
