//! `Percentile`: a share of the requests, such as `p99.9`. Metrics and the bounds of a rate search name one.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};

/// A percentile above 0 and below 100, exact to a ten-thousandth of a percent. Written as `p99.9`, or `p99_9` in names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u32);

/// Parts of a percent that are told apart.
const PARTS: u32 = 10_000;

impl Percentile {
    pub const P50: Self = Self(50 * PARTS);
    pub const P99: Self = Self(99 * PARTS);

    /// The share of requests that are at most as slow, between 0 and 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(100 * PARTS)
    }

    /// The name of a metric with it: `p99_9`.
    pub fn name(self) -> String {
        self.to_string().replace('.', "_")
    }
}

impl FromStr for Percentile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::usage(format!("percentile `{text}`"), "it is not a percentile").remedy("write p50, p99 or p99.9");
        let digits = text.strip_prefix('p').ok_or_else(wrong)?.replace('_', ".");
        let (whole, part) = digits.split_once('.').unwrap_or((&digits, "0"));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(part) || whole.len() > 2 || part.len() > 4 {
            return Err(wrong());
        }
        let parts = format!("{part:0<4}").parse::<u32>().map_err(|_| wrong())?;
        let value = whole.parse::<u32>().map_err(|_| wrong())? * PARTS + parts;
        if value == 0 { Err(wrong()) } else { Ok(Self(value)) }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", f64::from(self.0) / f64::from(PARTS))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_percentile_is_read_as_people_write_it() {
        let share = |text: &str| text.parse::<Percentile>().map(Percentile::share);
        assert_eq!(share("p99").unwrap(), 0.99);
        assert_eq!(share("p99.9").unwrap(), 0.999);
        assert_eq!(share("p99_99").unwrap(), 0.9999);
        assert_eq!(share("p0.5").unwrap(), 0.005);
        for wrong in ["", "p", "99", "p0", "p100", "p-1", "p1e1", "p99.", "p.9", "p99.99999", "p 99", "px"] {
            assert!(share(wrong).unwrap_err().to_string().contains("write p50"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(parts in 1..100 * PARTS) {
            let percentile = Percentile(parts);
            prop_assert_eq!(percentile.to_string().parse::<Percentile>().unwrap(), percentile);
            prop_assert_eq!(percentile.name().parse::<Percentile>().unwrap(), percentile);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,12}") {
            let _ = text.parse::<Percentile>();
        }
    }
}
