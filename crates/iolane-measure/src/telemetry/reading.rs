//! A figure with its source, or the reason why it is unavailable. Every reader of telemetry and every meter returns these
//! types.

use std::fmt;

use serde::Serialize;

/// The prefix of a source that gives the reason why a figure is unavailable.
pub const UNAVAILABLE: &str = "unavailable: ";

/// A figure, or why it is unavailable.
pub type Reading<T> = Result<T, Unavailable>;

/// A value and its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<T> {
    pub value: T,
    /// Where the value comes from and what it includes, in a few words.
    pub source: String,
    /// Whether a model estimated it, instead of a measurement.
    pub modelled: bool,
}

impl<T> Sourced<T> {
    pub fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into(), modelled: false }
    }

    /// The same value, marked as estimated by a model.
    #[must_use]
    pub fn modelled(mut self) -> Self {
        self.modelled = true;
        self
    }

    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: convert(self.value), source: self.source, modelled: self.modelled }
    }
}

/// Why a figure is unavailable, and what to do about it. Printed as `reason; remedy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// The likely cause.
    pub reason: String,
    /// What to do; empty if no remedy is known.
    pub remedy: String,
}

impl Unavailable {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: String::new() }
    }

    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_counter_prints_its_reason_and_its_remedy() {
        let unavailable = Unavailable::new("tracefs is not mounted");
        assert_eq!(unavailable.to_string(), "tracefs is not mounted");
        assert_eq!(unavailable.remedy("run as root").to_string(), "tracefs is not mounted; run as root");
    }
}
