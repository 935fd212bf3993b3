//! `DataPattern`: how far a device can reduce what is written, parsed from `--data`. `block_data` fills blocks by it.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};

/// What written blocks hold.
///
/// | written | means |
/// |---|---|
/// | `random` | nothing that a device can compress, and no two blocks alike |
/// | `compress:50` | the last 50 % of every 512 bytes are zero (fio's `buffer_compress_percentage`); 100 is only zeroes |
/// | `dedupe:40/5` | 40 % of the blocks repeat one of a set, which has 5 % as many blocks as the used part of the target (fio's `dedupe_percentage` with `dedupe_mode=working_set`); `dedupe:40` has a set of 5 % |
/// | `compress:50+dedupe:40/5` | both |
///
/// Printing and parsing are inverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DataPattern {
    compress_percent: u8,
    duplicates: Duplicates,
}

/// Blocks that repeat others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Duplicates {
    /// Of the blocks; 0 if none do.
    percent: u8,
    /// Distinct contents among them, of the blocks of the used part of the target; 0 if none repeat.
    set_percent: u8,
}

impl DataPattern {
    /// Nothing that a device can reduce.
    pub const RANDOM: Self = Self { compress_percent: 0, duplicates: Duplicates { percent: 0, set_percent: 0 } };

    /// The set of duplicates if no other is given; fio's default too.
    pub const SET_PERCENT: u8 = 5;

    /// `compress_percent` of each block is zero; `duplicates` are the percentage of blocks that repeat others, and the size of
    /// the set that they are drawn from, in percent of the used blocks.
    ///
    /// # Errors
    /// `Usage` if a percentage is above 100, or that of the set is 0.
    pub fn new(compress_percent: u8, duplicates: Option<(u8, u8)>) -> Result<Self> {
        let duplicates = match duplicates {
            None | Some((0, _)) => Duplicates::default(),
            Some((percent, set_percent)) => Duplicates { percent, set_percent },
        };
        let pattern = Self { compress_percent, duplicates };
        let is_empty_set = duplicates.percent > 0 && duplicates.set_percent == 0;
        match compress_percent.max(duplicates.percent).max(duplicates.set_percent) {
            101.. => Err(refused(&pattern.to_string(), "a percentage is at most 100")),
            _ if is_empty_set => Err(refused(&pattern.to_string(), "the set of duplicates has 1 % or more")),
            _ => Ok(pattern),
        }
    }

    /// Percentage of each block that is zero.
    pub fn compress_percent(self) -> u8 {
        self.compress_percent
    }

    /// The percentage of blocks that repeat others, and that of the set that they are drawn from.
    pub fn duplicates(self) -> Option<(u8, u8)> {
        Some((self.duplicates.percent, self.duplicates.set_percent)).filter(|(percent, _)| *percent > 0)
    }
}

fn refused(text: &str, cause: &str) -> Error {
    Error::usage(format!("data `{text}`"), cause)
        .remedy("write it like random, compress:50, dedupe:40/5 or compress:50+dedupe:40/5")
}

impl FromStr for DataPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "random" {
            return Ok(Self::RANDOM);
        }
        let percent =
            |value: &str| value.parse::<u8>().map_err(|_| refused(text, &format!("`{value}` is no percentage")));
        let (mut compress_percent, mut duplicates) = (None, None);
        for part in text.split('+') {
            match part.split_once(':') {
                Some(("compress", value)) if compress_percent.is_none() => compress_percent = Some(percent(value)?),
                Some(("dedupe", value)) if duplicates.is_none() => {
                    let (of_blocks, set) = value.split_once('/').map_or((value, None), |(of, set)| (of, Some(set)));
                    let set = set.map_or(Ok(Self::SET_PERCENT), percent)?;
                    duplicates = Some((percent(of_blocks)?, set));
                }
                _ => return Err(refused(text, &format!("`{part}` is not known, or given twice"))),
            }
        }
        Self::new(compress_percent.unwrap_or(0), duplicates)
    }
}

impl fmt::Display for DataPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Duplicates { percent, set_percent } = self.duplicates;
        match (self.compress_percent, percent) {
            (0, 0) => f.write_str("random"),
            (compress, 0) => write!(f, "compress:{compress}"),
            (0, _) => write!(f, "dedupe:{percent}/{set_percent}"),
            (compress, _) => write!(f, "compress:{compress}+dedupe:{percent}/{set_percent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_are_no_pattern_are_refused_and_named() {
        for text in
            ["", "zero", "compress", "compress:101", "compress:x", "dedupe:50/0", "dedupe:50/101", "dedupe:1/2/3"]
        {
            let error = text.parse::<DataPattern>().expect_err(text).to_string();
            assert!(error.contains("compress:50+dedupe:40/5"), "{error}");
        }
        assert!("compress:1+compress:2".parse::<DataPattern>().is_err());
        assert_eq!("dedupe:40".parse::<DataPattern>().unwrap().to_string(), "dedupe:40/5");
        assert_eq!("compress:0".parse::<DataPattern>().unwrap(), DataPattern::RANDOM);
    }

    proptest! {
        #[test]
        fn a_printed_pattern_parses_back_to_itself(compress in 0u8..=100, duplicates in 0u8..=100, set in 1u8..=100) {
            let pattern = DataPattern::new(compress, Some((duplicates, set))).unwrap();
            prop_assert_eq!(pattern.to_string().parse::<DataPattern>().unwrap(), pattern);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(random|compress|dedupe|\\+|:|/|[0-9]{0,4}|\\PC){0,6}") {
            let _ = text.parse::<DataPattern>();
        }
    }
}
