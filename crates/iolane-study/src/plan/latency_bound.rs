//! `LatencyBound`: the latency that a rate search keeps, parsed from `--rate-until p99=5ms`.

use std::fmt;
use std::str::FromStr;

use iolane::units::parse_duration;
use iolane::{Error, Result};

use super::metric::{Metric, Requests};
use super::percentile::Percentile;

/// A percentile of latency and the longest that it may be. Printing and parsing are inverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LatencyBound {
    pub percentile: Percentile,
    /// In microseconds, above 0.
    max_us: u64,
}

impl LatencyBound {
    /// The metric that it bounds.
    pub fn metric(self) -> Metric {
        Metric::LatencyNs(Requests::All, self.percentile)
    }

    /// The longest latency, in nanoseconds.
    pub fn max_ns(self) -> f64 {
        self.max_us as f64 * 1e3
    }

    /// `p99 within 5 ms`.
    pub fn in_words(self) -> String {
        format!("{} within {}", self.percentile, crate::format::time(self.max_ns()))
    }
}

impl FromStr for LatencyBound {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |cause: &str| Error::usage(format!("bound `{text}`"), cause).remedy("write p99=5ms or p99.9=800us");
        let (percentile, max) = text.split_once('=').ok_or_else(|| wrong("it is not PERCENTILE=TIME"))?;
        let percentile = percentile.trim().parse()?;
        match parse_duration(max.trim())?.as_micros() {
            0 => Err(wrong("the time is less than a microsecond")),
            max_us => Ok(Self { percentile, max_us: max_us as u64 }),
        }
    }
}

impl fmt::Display for LatencyBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.max_us {
            us if us.is_multiple_of(1_000_000) => (us / 1_000_000, "s"),
            us if us.is_multiple_of(1000) => (us / 1000, "ms"),
            us => (us, "us"),
        };
        write!(f, "{}={number}{unit}", self.percentile)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bound_is_read_as_people_write_it() {
        for (text, shown, max_ns) in
            [("p99=5ms", "p99=5ms", 5e6), ("p99.9 = 800us", "p99.9=800us", 8e5), ("p50=0.5s", "p50=500ms", 5e8)]
        {
            let bound: LatencyBound = text.parse().unwrap();
            assert_eq!((bound.to_string().as_str(), bound.max_ns()), (shown, max_ns));
        }
        assert_eq!("p99=5ms".parse::<LatencyBound>().unwrap().in_words(), "p99 within 5 ms");
        for (wrong, why) in [
            ("p99", "PERCENTILE=TIME"),
            ("5ms", "PERCENTILE=TIME"),
            ("p99=0", "less than a microsecond"),
            ("p99=soon", "duration `soon`"),
            ("p100=5ms", "percentile `p100`"),
            ("p99=-1ms", "duration `-1ms`"),
        ] {
            let error = wrong.parse::<LatencyBound>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}, expected {why}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(us in 1u64..10_000_000_000) {
            let bound = LatencyBound { percentile: Percentile::P99, max_us: us };
            prop_assert_eq!(bound.to_string().parse::<LatencyBound>().unwrap(), bound);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,16}") {
            let _ = text.parse::<LatencyBound>();
        }
    }
}
