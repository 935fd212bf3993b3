//! A group: arms that are a product of factors, one for each combination of their values. `arms` expands it.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, IoPath, Result};
use iolane_application::Application;
use iolane_measure::workload::{Access, BlockSizes, OffsetPattern, Rate};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::scale::PerScale;

/// A factor that is `None` is the same for all arms: the study's workload has it.
#[derive(Debug, Clone)]
pub struct Group {
    pub paths: Vec<NamedPath>,
    /// What does the load, instead of the engine; it decides access and block size.
    pub applications: Vec<Application>,
    pub access: PerScale<Vec<Access>>,
    /// Percentages of reads, for the accesses that mix reads and writes.
    pub read_percents: Option<PerScale<Vec<u8>>>,
    pub block_sizes: PerScale<Vec<BlockSizes>>,
    /// Distributions of random offsets, for random accesses.
    pub offsets: Option<PerScale<Vec<OffsetPattern>>>,
    /// Requests in flight on each queue.
    pub depths: PerScale<Vec<u32>>,
    /// Requests started per second.
    pub rates: Option<PerScale<Vec<Rate>>>,
    /// Most requests of one submission.
    pub batch_submits: Option<PerScale<Vec<u32>>>,
    /// Completions waited for before the next submission.
    pub batch_completes: Option<PerScale<Vec<u32>>>,
    /// Most completions taken before the next submission.
    pub batch_complete_maxes: Option<PerScale<Vec<u32>>>,
    /// Writes between two fsyncs, for accesses that write.
    pub fsyncs: Option<PerScale<Vec<u32>>>,
    /// Writes between two fdatasyncs, likewise.
    pub fdatasyncs: Option<PerScale<Vec<u32>>>,
    /// Threads, one queue each; the "jobs" of the publications.
    pub threads: PerScale<Vec<usize>>,
    pub drives: PerScale<Vec<Drives>>,
    /// CPUs shared by all threads, including the kernel's submission threads.
    pub cores: PerScale<Vec<Cores>>,
}

/// A path under the name it has in the study, usually the name in the publication's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedPath {
    pub name: String,
    pub path: IoPath,
}

/// How many drives the threads of an arm are spread over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drives {
    Count(usize),
    /// One for each thread.
    PerThread,
}

impl Drives {
    /// The number of drives for this number of threads.
    pub fn count(self, threads: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::PerThread => threads,
        }
    }
}

/// How many CPUs all threads of an arm share: `1`, `"J"`, `"J+2"`, `"2J"` where J is the number of threads, or `"all"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// No limit.
    All,
    Count(usize),
    /// `times` x threads + `more`.
    PerThread {
        times: usize,
        more: usize,
    },
}

impl Cores {
    /// The number of CPUs for this number of threads; `None` without a limit.
    pub fn count(self, threads: usize) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Count(count) => Some(count),
            Self::PerThread { times, more } => Some(times.saturating_mul(threads).saturating_add(more)),
        }
    }
}

impl FromStr for Cores {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::usage(format!("cores `{text}`"), "expected a number above 0, J, J+N, NJ or all");
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number <= 1 << 16).ok_or_else(bad);
        let cores = match text.split_once('J') {
            None if text == "all" => Self::All,
            None => Self::Count(number(text)?),
            Some((times, more)) => Self::PerThread {
                times: if times.is_empty() { 1 } else { number(times)? },
                more: if more.is_empty() { 0 } else { number(more.strip_prefix('+').ok_or_else(bad)?)? },
            },
        };
        if cores.count(1) == Some(0) { Err(bad()) } else { Ok(cores) }
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CoresVisitor;

        impl Visitor<'_> for CoresVisitor {
            type Value = Cores;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of cores, \"J\", \"J+1\", \"2J\" or \"all\"")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Cores, E> {
                count.to_string().parse().map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cores, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(CoresVisitor)
    }
}

impl<'de> Deserialize<'de> for Drives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DrivesVisitor;

        impl Visitor<'_> for DrivesVisitor {
            type Value = Drives;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of drives, or \"J\" for one per thread")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Drives, E> {
                match usize::try_from(count) {
                    Ok(count @ 1..) => Ok(Drives::Count(count)),
                    _ => Err(E::custom("the number of drives must be 1 or more")),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Drives, E> {
                match text {
                    "J" => Ok(Drives::PerThread),
                    _ => self.visit_i64(text.parse().map_err(|_| E::custom("expected a number of drives or \"J\""))?),
                }
            }
        }

        deserializer.deserialize_any(DrivesVisitor)
    }
}
