//! `Rate`: how many requests an open loop starts per second, parsed from `--rate`. The engine derives their times from it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use iolane::{Error, Result};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Requests per second, above 0. Written as `500`, `2k`, `1.5m` (thousands and millions); printing and parsing are inverse.
/// Written to JSON as a number of requests per second; read from JSON and study files as a number or as text.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Any rate, where another will take its place.
    pub const ANY: Self = Self(1.0);

    /// # Errors
    /// `Usage` if it is not above 0, or not finite.
    pub fn new(per_s: f64) -> Result<Self> {
        match per_s > 0.0 && per_s.is_finite() {
            true => Ok(Self(per_s)),
            false => Err(Error::usage(format!("rate {per_s}"), "a rate is above 0 I/Os per second")
                .remedy("leave it out for no limit")),
        }
    }

    /// Requests per second.
    pub fn per_s(self) -> f64 {
        self.0
    }
}

/// A rate is never NaN.
impl Eq for Rate {}

impl Hash for Rate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let (number, times) = match text.strip_suffix(['k', 'K']) {
            Some(number) => (number, 1e3),
            None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |number| (number, 1e6)),
        };
        let number: f64 = number.trim().parse().map_err(|_| {
            Error::usage(format!("rate `{text}`"), "it is not a number of I/Os per second")
                .remedy("write 500, 2k or 1.5m")
        })?;
        Self::new(number * times)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole_in = |unit: f64| self.0 >= unit && self.0 % unit == 0.0 && self.0 / unit * unit == self.0;
        if whole_in(1e6) {
            write!(f, "{}m", self.0 / 1e6)
        } else if whole_in(1e3) {
            write!(f, "{}k", self.0 / 1e3)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests per second: a number, or text such as \"2k\"")
    }

    fn visit_i64<E: de::Error>(self, per_s: i64) -> Result<Rate, E> {
        self.visit_f64(per_s as f64)
    }

    fn visit_u64<E: de::Error>(self, per_s: u64) -> Result<Rate, E> {
        self.visit_f64(per_s as f64)
    }

    fn visit_f64<E: de::Error>(self, per_s: f64) -> Result<Rate, E> {
        Rate::new(per_s).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Rate, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_read_in_thousands_and_millions() {
        let per_s = |text: &str| text.parse::<Rate>().map(Rate::per_s).map_err(|error| error.to_string());
        assert_eq!(per_s("500"), Ok(500.0));
        assert_eq!(per_s("2k"), Ok(2000.0));
        assert_eq!(per_s("1.5M"), Ok(1_500_000.0));
        assert_eq!(per_s("0.5"), Ok(0.5));
        for wrong in ["0", "-5", "nan", "inf", "1e400", "k", "", "5x"] {
            assert!(per_s(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(per_s in prop_oneof![1e-3..1e9f64, (1..2_000_000u64).prop_map(|per_s| per_s as f64)]) {
            let rate = Rate::new(per_s).unwrap();
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
    }
}
