//! Sizes, durations and cpu lists as written on a command line, parsed once into numbers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

/// A size in bytes, written `512`, `4k`, `1m`, `2g` or `1t` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |cause: &str| Error::usage(format!("size `{text}`"), cause).remedy("write it like 512, 4k, 1m or 2g");
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(bad("the unit is not one of k, m, g, t")),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad("not a whole number with a unit"));
        }
        digits
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(1 << shift))
            .map(Bytes)
            .ok_or_else(|| bad("larger than 2^64 - 1 bytes"))
    }
}

impl fmt::Display for Bytes {
    /// Prints the shortest exact form, which parses back to the same number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "t"), (30, "g"), (20, "m"), (10, "k")] {
            if self.0 != 0 && self.0.is_multiple_of(1u64 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// Parses a duration written `200ms`, `2s`, `3m` or `1h`; a bare number is seconds.
///
/// # Errors
/// A usage error naming the text if it is not a number with one of those units, or overflows.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let bad =
        |cause: &str| Error::usage(format!("duration `{text}`"), cause).remedy("write it like 200ms, 2s, 1.5s or 3m");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[number.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad("the unit is not one of us, ms, s, m, h")),
    };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(bad("not a number with a unit"));
    }
    let seconds = number.parse::<f64>().map_err(|_| bad("not a number with a unit"))? * scale;
    if seconds > 366.0 * 86_400.0 {
        return Err(bad("longer than a year"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| bad("out of range"))
}

/// A set of cpus, written `0,2-3`; sorted, without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuList(Vec<u32>);

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl CpuList {
    /// The largest cpu number accepted; the kernel's limit (`CONFIG_NR_CPUS`) is 8192 at most.
    pub const CPU_MAX: u32 = 8191;

    /// The cpus, ascending.
    pub fn cpus(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for CpuList {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |cause: &str| Error::usage(format!("cpu list `{text}`"), cause).remedy("write it like 0,2-3");
        let number = |part: &str| -> Result<u32> {
            let cpu = part.parse::<u32>().map_err(|_| bad("not a list of cpu numbers"))?;
            if cpu > Self::CPU_MAX { Err(bad("a cpu number above 8191")) } else { Ok(cpu) }
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                None => cpus.push(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(bad("a range that runs backwards"));
                    }
                    cpus.extend(first..=last);
                }
            }
        }
        Ok(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [one] => one.to_string(),
            run => format!("{}-{}", run[0], run[run.len() - 1]),
        });
        f.write_str(&runs.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let bytes = |text: &str| text.parse::<Bytes>().unwrap().0;
        assert_eq!(bytes("512"), 512);
        assert_eq!(bytes("4k"), 4096);
        assert_eq!(bytes("1M"), 1 << 20);
        assert_eq!(bytes("2g"), 2 << 30);
    }

    #[test]
    fn a_size_that_overflows_is_refused_and_named() {
        let error = "18446744073709551616k".parse::<Bytes>().unwrap_err().to_string();
        assert!(error.contains("18446744073709551616k") && error.contains("2^64"), "{error}");
        for text in ["", "k", "-1", "4kk", "4 k", "0x10", "1e3", "½k"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_carry_their_unit() {
        assert_eq!(parse_duration("200ms").unwrap(), Duration::from_millis(200));
        assert_eq!(parse_duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(parse_duration("1.5m").unwrap(), Duration::from_secs(90));
        for text in ["", "s", "1.2.3s", "-1s", "1d", "inf", "1e9s", "99999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpu_lists_are_sorted_sets() {
        assert_eq!("3,0,2-3".parse::<CpuList>().unwrap().cpus(), [0, 2, 3]);
        for text in ["", "a", "3-1", "0,,1", "1-", "99999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_size_parses_back_to_itself(bytes: u64) {
            prop_assert_eq!(Bytes(bytes).to_string().parse::<Bytes>().unwrap(), Bytes(bytes));
        }

        #[test]
        fn a_printed_cpu_list_parses_back_to_itself(cpus in prop::collection::btree_set(0u32..300, 1..40)) {
            let list: CpuList = cpus.into_iter().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn no_text_makes_a_unit_parser_panic(text in "\\PC{0,12}") {
            let _ = text.parse::<Bytes>();
            let _ = parse_duration(&text);
            let _ = text.parse::<CpuList>();
        }
    }
}
