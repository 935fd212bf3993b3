//! `Arrivals`: how the requests of an open loop are spaced in time, parsed from `--arrivals`.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};

/// How requests arrive at a rate (fio(1), `rate_process=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arrivals {
    /// At equal distances; those of several threads alternate.
    #[default]
    Even,
    /// At random, independently of each other, as from many independent users: a Poisson process.
    Poisson,
}

impl Arrivals {
    pub const ALL: [Self; 2] = [Self::Even, Self::Poisson];

    /// The name it is parsed from and printed as.
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Poisson => "poisson",
        }
    }
}

impl FromStr for Arrivals {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|arrivals| arrivals.name() == text).ok_or_else(|| {
            Error::usage(format!("arrivals `{text}`"), "no arrivals of that name").remedy("use even or poisson")
        })
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_printed_by_the_name_they_are_parsed_from() {
        for arrivals in Arrivals::ALL {
            assert_eq!(arrivals.to_string().parse::<Arrivals>().unwrap(), arrivals);
        }
        assert!("random".parse::<Arrivals>().unwrap_err().to_string().contains("use even or poisson"));
    }
}
