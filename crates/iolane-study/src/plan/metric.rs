//! The metrics that figures show and claims are decided by. `rows` computes them from a run, `format` prints them.

use std::fmt;
use std::str::FromStr;

use iolane::{Error, Result};
use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::percentile::Percentile;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    Iops,
    BytesPerS,
    /// Mean latency in nanoseconds.
    MeanNs,
    /// A percentile of latency in nanoseconds: `p99_ns`, `read_p99_ns`.
    LatencyNs(Requests, Percentile),
    /// Of an open loop, the median time from the start of a request to its completion, in nanoseconds.
    ServiceP50Ns,
    /// The 99th percentile of the same time.
    ServiceP99Ns,
    /// Median time to submit a batch, in nanoseconds.
    SubmitP50Ns,
    SyscallsPerIo,
    ContextSwitchesPerIo,
    /// Interrupts of the targets' devices per I/O.
    InterruptsPerIo,
    /// CPU seconds per second, kernel threads included.
    Cores,
    /// CPU seconds per million I/Os, kernel threads included.
    CpuSPerMillionIos,
    /// Cache misses over cache references, 0 to 1.
    CacheMissRate,
    CyclesPerIo,
    InstructionsPerIo,
    /// I/Os per joule of everything the meter measures.
    IosPerJoule,
    /// I/Os per joule above the idle power of the machine.
    IosPerJouleAboveIdle,
    /// Power of everything the meter measures.
    Watts,
    /// Power above the idle power of the machine.
    WattsAboveIdle,
}

/// The requests whose latency is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Requests {
    /// Reads and writes together.
    All,
    /// The reads of a mix, or of a load that only reads.
    Reads,
    /// The writes of a mix, or of a load that only writes.
    Writes,
    /// fsync and fdatasync, which are not among [`All`](Self::All).
    Syncs,
    /// Writes made durable: the write that waited longest with the sync that covers it, or a write with `--durable`.
    Commits,
}

/// What percentiles of some requests are called in files.
const PREFIXES: [(Requests, &str); 5] = [
    (Requests::All, ""),
    (Requests::Reads, "read_"),
    (Requests::Writes, "write_"),
    (Requests::Syncs, "sync_"),
    (Requests::Commits, "commit_"),
];

/// The metrics but for percentiles, with their names in files.
const NAMES: [(Metric, &str); 18] = [
    (Metric::Iops, "iops"),
    (Metric::BytesPerS, "bytes_per_s"),
    (Metric::MeanNs, "mean_ns"),
    (Metric::ServiceP50Ns, "service_p50_ns"),
    (Metric::ServiceP99Ns, "service_p99_ns"),
    (Metric::SubmitP50Ns, "submit_p50_ns"),
    (Metric::SyscallsPerIo, "syscalls_per_io"),
    (Metric::ContextSwitchesPerIo, "context_switches_per_io"),
    (Metric::InterruptsPerIo, "interrupts_per_io"),
    (Metric::Cores, "cores"),
    (Metric::CpuSPerMillionIos, "cpu_s_per_million_ios"),
    (Metric::CacheMissRate, "cache_miss_rate"),
    (Metric::CyclesPerIo, "cycles_per_io"),
    (Metric::InstructionsPerIo, "instructions_per_io"),
    (Metric::IosPerJoule, "ios_per_joule"),
    (Metric::IosPerJouleAboveIdle, "ios_per_joule_above_idle"),
    (Metric::Watts, "watts"),
    (Metric::WattsAboveIdle, "watts_above_idle"),
];

impl Requests {
    /// What names of their percentiles begin with: `read_`; nothing for all requests.
    pub(super) fn prefix(self) -> &'static str {
        PREFIXES.iter().find(|(requests, _)| *requests == self).map_or("", |(_, prefix)| prefix)
    }

    /// The requests that a name is about, and the rest of the name.
    pub(super) fn of_name(name: &str) -> (Self, &str) {
        let begins = |(requests, prefix): &(Self, &str)| Some((*requests, name.strip_prefix(prefix)?));
        PREFIXES.iter().filter(|(_, prefix)| !prefix.is_empty()).find_map(begins).unwrap_or((Self::All, name))
    }
}

impl Metric {
    /// The median latency.
    pub const P50: Self = Self::LatencyNs(Requests::All, Percentile::P50);
    /// The 99th percentile of latency.
    pub const P99: Self = Self::LatencyNs(Requests::All, Percentile::P99);

    /// The metrics with a column in tables of runs.
    pub fn in_tables() -> impl Iterator<Item = Self> {
        let p99 = |(requests, _): (Requests, _)| Self::LatencyNs(requests, Percentile::P99);
        let percentiles = [Self::P50].into_iter().chain(PREFIXES.map(p99));
        let (before, after) = NAMES.split_at(3);
        let named = |names: &'static [(Self, &str)]| names.iter().map(|(metric, _)| *metric);
        named(before).chain(percentiles).chain(named(after))
    }

    /// Whether it requires joules, which not every machine can measure.
    pub fn is_of_joules(self) -> bool {
        matches!(self, Self::IosPerJoule | Self::IosPerJouleAboveIdle | Self::Watts | Self::WattsAboveIdle)
    }

    /// Whether it is a latency, of all requests or of some.
    pub fn is_latency(self) -> bool {
        matches!(self, Self::MeanNs | Self::LatencyNs(..) | Self::ServiceP50Ns | Self::ServiceP99Ns)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LatencyNs(requests, percentile) => write!(f, "{}{}_ns", requests.prefix(), percentile.name()),
            other => {
                let found = NAMES.iter().find(|(metric, _)| metric == other);
                f.write_str(found.map_or("", |(_, name)| name))
            }
        }
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some((metric, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*metric);
        }
        let (requests, percentile) = Requests::of_name(text);
        let percentile = percentile.strip_suffix("_ns").and_then(|percentile| percentile.parse().ok());
        percentile.map(|percentile| Self::LatencyNs(requests, percentile)).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            Error::usage(format!("metric `{text}`"), "no metric of that name").remedy(format!(
                "use {}, or a percentile such as p99_9_ns, read_p99_ns, write_p99_ns, sync_p99_ns or commit_p99_ns",
                names.join(", ")
            ))
        })
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_printed_by_the_name_it_is_parsed_from() {
        let more = ["p99_9_ns", "read_p50_ns", "sync_p99_99_ns"].map(|name| name.parse::<Metric>().unwrap());
        let mut names = Vec::new();
        for metric in Metric::in_tables().chain(more) {
            let name = metric.to_string();
            assert_eq!(name.parse::<Metric>().unwrap(), metric);
            assert!(!name.is_empty() && !names.contains(&name), "{name}");
            names.push(name);
        }
        assert_eq!(names.len(), NAMES.len() + 6 + 3);
    }

    #[test]
    fn a_metric_of_no_name_is_refused_with_the_names_there_are() {
        for wrong in ["", "p99", "p_ns", "read_iops", "p100_ns", "IOPS"] {
            let error = wrong.parse::<Metric>().unwrap_err().to_string();
            assert!(error.contains("use iops, bytes_per_s") && error.contains("p99_9_ns"), "{error}");
        }
    }
}
