//! Selects the arms that a figure shows or a claim uses, by conditions on factors as a study file has them.

use std::fmt;
use std::str::FromStr;

use iolane::units::Bytes;
use iolane::{Error, Result};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use iolane_application::Application;

use super::arm::Arm;
use super::factor::Factor;
use super::group::Cores;
use super::values::one_or_more;
use iolane_measure::serde_text::Text;
use iolane_measure::workload::{Access, OffsetPattern, Rate, Workload};

/// Conditions on the factors of an arm; every arm meets a condition that is not given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// Names of paths; empty is any path.
    #[serde(deserialize_with = "one_or_more")]
    pub path: Vec<String>,
    /// Names of applications; empty is any, and none.
    #[serde(deserialize_with = "one_or_more")]
    pub application: Vec<Text<Application>>,
    pub rw: Option<Text<Access>>,
    /// In bytes; of mixed block sizes the largest counts.
    pub bs: Condition,
    /// Requests in flight on each queue.
    pub depth: Condition,
    /// In percent.
    pub read_percent: Condition,
    /// Distributions of random offsets; empty is any.
    #[serde(deserialize_with = "one_or_more")]
    pub offsets: Vec<Text<OffsetPattern>>,
    /// Requests per second; empty is any rate, and none.
    #[serde(deserialize_with = "one_or_more")]
    pub rate: Vec<Rate>,
    pub batch_submit: Condition,
    #[serde(alias = "batch")]
    pub batch_complete: Condition,
    pub batch_complete_max: Condition,
    pub fsync_every: Condition,
    pub fdatasync_every: Condition,
    pub threads: Condition,
    pub drives: Condition,
    pub cores: Option<Cores>,
}

impl Selection {
    /// The arms that meet the conditions. `max` and `min` refer to the arms that meet all other conditions.
    pub fn of<'a, T>(&self, arms: &'a [T], arm: impl Fn(&T) -> &Arm) -> Vec<&'a T> {
        let plain = |item: &&T| {
            let arm = arm(item);
            let named = self.path.is_empty() || self.path.contains(&arm.name);
            let cores = self.cores.is_none_or(|cores| cores.count(arm.threads) == arm.cores);
            let Workload { access, offsets, rate, .. } = &arm.workload;
            let access = self.rw.as_ref().is_none_or(|rw| rw.0 == *access);
            let offsets = self.offsets.is_empty() || self.offsets.contains(&Text(*offsets));
            let rate = self.rate.is_empty() || rate.is_some_and(|rate| self.rate.contains(&rate));
            let is_of = |application| self.application.contains(&Text(application));
            let application = self.application.is_empty() || arm.application.is_some_and(is_of);
            let numbers = self.numbers(arm);
            named
                && cores
                && application
                && access
                && offsets
                && rate
                && numbers.iter().all(|(condition, value)| condition.allows(*value))
        };
        let mut chosen: Vec<&T> = arms.iter().filter(plain).collect();
        for index in 0..NUMBERS {
            let values: Vec<Option<u64>> = chosen.iter().map(|item| self.numbers(arm(item))[index].1).collect();
            let end = match chosen.first().map(|item| self.numbers(arm(item))[index].0) {
                Some(Condition::Largest) => values.iter().max(),
                Some(Condition::Smallest) => values.iter().min(),
                _ => None,
            };
            if let Some(end) = end {
                chosen.retain(|item| self.numbers(arm(item))[index].1 == *end);
            }
        }
        chosen
    }

    /// Each condition on a number with the arm's value; `None` for what the arm does not have.
    fn numbers(&self, arm: &Arm) -> [(&Condition, Option<u64>); NUMBERS] {
        let number = |factor| arm.number(factor);
        [
            (&self.bs, number(Factor::Bs)),
            (&self.depth, number(Factor::Depth)),
            (&self.read_percent, number(Factor::ReadPercent)),
            (&self.batch_submit, number(Factor::BatchSubmit)),
            (&self.batch_complete, number(Factor::BatchComplete)),
            (&self.batch_complete_max, number(Factor::BatchCompleteMax)),
            (&self.fsync_every, number(Factor::FsyncEvery)),
            (&self.fdatasync_every, number(Factor::FdatasyncEvery)),
            (&self.threads, number(Factor::Threads)),
            (&self.drives, number(Factor::Drives)),
        ]
    }
}

/// The number of factors with a [`Condition`].
const NUMBERS: usize = 10;

/// A condition on a number: `16`, `"4k"`, `[1, 16]`, `"<=16"`, `">=14"`, `"max"`, `"min"`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    Any,
    OneOf(Vec<u64>),
    AtMost(u64),
    AtLeast(u64),
    Largest,
    Smallest,
}

impl Condition {
    /// Whether a number meets it by itself; the largest and smallest are found among all arms.
    fn allows(&self, value: Option<u64>) -> bool {
        match self {
            Self::Any | Self::Largest | Self::Smallest => true,
            Self::OneOf(values) => value.is_some_and(|value| values.contains(&value)),
            Self::AtMost(most) => value.is_some_and(|value| value <= *most),
            Self::AtLeast(least) => value.is_some_and(|value| value >= *least),
        }
    }
}

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<Bytes>().map(|Bytes(value)| value);
        Ok(match text {
            "max" => Self::Largest,
            "min" => Self::Smallest,
            _ => match (text.strip_prefix("<="), text.strip_prefix(">=")) {
                (Some(most), _) => Self::AtMost(number(most)?),
                (_, Some(least)) => Self::AtLeast(number(least)?),
                _ => Self::OneOf(vec![number(text)?]),
            },
        })
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;

        impl<'de> Visitor<'de> for Numbers {
            type Value = Condition;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a list of numbers, or \"<=N\", \">=N\", \"max\", \"min\"")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Condition, E> {
                let value = value.try_into().map_err(|_| E::custom("a factor cannot be negative"))?;
                Ok(Condition::OneOf(vec![value]))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Condition, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Condition, A::Error> {
                let mut values = Vec::new();
                while let Some(item) = items.next_element::<Condition>()? {
                    match item {
                        Condition::OneOf(one) => values.extend(one),
                        _ => return Err(de::Error::custom("a list can contain only numbers")),
                    }
                }
                Ok(Condition::OneOf(values))
            }
        }

        deserializer.deserialize_any(Numbers)
    }
}
