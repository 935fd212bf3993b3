//! Numbers and times in the notation of fio's job files (fio(1), "PARAMETER TYPES"), which differs from `iolane::units`.
//! Called by `options`.

/// fio's `kb_base`: the meaning of `k` and `kib`, and of the larger units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KbBase {
    /// `k` and `kb` are 1024; `kib` is 1000, for compatibility with old job files.
    Compatible,
    /// `k` and `kb` are 1000, `kib` is 1024.
    Si,
}

impl KbBase {
    /// A whole number with a unit, such as `512`, `4k`, `1MiB` or `0x1000`.
    pub(super) fn number(self, text: &str) -> Result<u64, String> {
        let lower = text.to_ascii_lowercase();
        let invalid = || format!("`{text}` is not a whole number with a unit of k, m, g, t or p");
        let (number, unit) = match lower.strip_prefix("0x") {
            // A `b` is a digit here, so no unit is possible.
            Some(digits) => (hexadecimal(digits), ""),
            None => {
                let (digits, unit) = split(&lower);
                (digits.parse::<u64>().ok(), unit)
            }
        };
        let (plain, binary) = match self {
            Self::Compatible => (1024u64, 1000),
            Self::Si => (1000, 1024),
        };
        let (base, prefix) = match unit.strip_suffix("ib") {
            Some(prefix) if !prefix.is_empty() => (binary, prefix),
            _ => (plain, unit.strip_suffix('b').unwrap_or(unit)),
        };
        let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == prefix).ok_or_else(invalid)?;
        let number = number.ok_or_else(invalid)?;
        number.checked_mul(base.pow(power as u32)).ok_or_else(|| format!("`{text}` is larger than 2^64 - 1"))
    }
}

/// A year, as in `iolane::units::parse_duration`.
const TIME_US_MAX: u64 = 366 * 86_400 * 1_000_000;

/// A time in microseconds, such as `500ms`, `30s`, `1m` or `2h`; `bare_us` is the unit of a number without one.
pub(super) fn time_us(text: &str, bare_us: u64) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = split(&lower);
    let invalid = || format!("`{text}` is not a whole number with a unit of us, ms, s, m, h or d");
    let unit_us = match unit {
        "" => bare_us,
        "us" | "usec" => 1,
        "ms" | "msec" => 1000,
        "s" | "sec" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(invalid()),
    };
    let number = digits.parse::<u64>().map_err(|_| invalid())?;
    let time_us = number.checked_mul(unit_us).filter(|time_us| *time_us <= TIME_US_MAX);
    time_us.ok_or_else(|| format!("`{text}` is longer than a year"))
}

/// The leading digits, and the rest.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `from_str_radix` would also accept a sign.
fn hexadecimal(digits: &str) -> Option<u64> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_those_that_fio_has() {
        let (compatible, si) = (|text| KbBase::Compatible.number(text), |text| KbBase::Si.number(text));
        for (text, bytes) in [("512", 512), ("512b", 512), ("4k", 4096), ("1KB", 1024), ("8kib", 8000), ("2m", 2 << 20)]
        {
            assert_eq!(compatible(text), Ok(bytes), "{text}");
        }
        for (text, bytes) in [("4k", 4000), ("4kB", 4000), ("8KiB", 8192), ("1g", 1_000_000_000), ("0x1000", 4096)] {
            assert_eq!(si(text), Ok(bytes), "{text}");
        }
        assert_eq!(compatible("0x1b"), Ok(27));
        for text in
            ["", "k", "-1", "+1", "4 k", "1.5m", "4kk", "4ib", "50%", "0x", "0x-1", "99999999999999999999", "16384p"]
        {
            assert!(compatible(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_microseconds_of_the_unit_they_carry_or_the_options_own() {
        for (text, us) in [("2", 2_000_000), ("500ms", 500_000), ("7us", 7), ("30S", 30_000_000), ("1m", 60_000_000)] {
            assert_eq!(time_us(text, 1_000_000), Ok(us), "{text}");
        }
        assert_eq!(time_us("250", 1), Ok(250));
        for text in ["", "s", "1.5", "-1", "1 s", "1min", "367d", "99999999999999999999"] {
            assert!(time_us(text, 1).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,10}|[0-9a-zA-Z%]{0,24}") {
            let _ = (KbBase::Compatible.number(&text), KbBase::Si.number(&text), time_us(&text, 1));
        }
    }
}
