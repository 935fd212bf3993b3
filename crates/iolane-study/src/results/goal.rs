//! What a path is recommended for: the metric that decides, and by how much one path is better than another. `advice` recommends by it.

use serde::{Deserialize, Serialize};

use crate::plan::{Metric, Percentile, Requests};
use crate::stats::{Estimate, TAIL, estimate_ratio_at};

/// The least half-width of an interval of advice, as a share of the value. Another process that runs the same path has its memory elsewhere, which
/// the repeats of one process do not show: in exact mode, where these are equal, rates differ by as much (methodology.md).
pub(super) const BETWEEN_PROCESSES: f64 = 0.005;

/// The goal a path is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The lowest 99th percentile: at the smallest depth of the study, or at any depth where requests come at a rate.
    Latency,
    /// The lowest 99th percentile of a write with the sync that makes it durable, at the same depths.
    Commits,
    /// The most I/Os per second at any depth.
    Throughput,
    /// The most I/Os per joule at any depth.
    Energy,
    /// The least CPU time per I/O at any depth: the substitute for energy when there is no meter.
    Processor,
}

impl Goal {
    /// All goals.
    pub const ALL: [Self; 5] = [Self::Latency, Self::Commits, Self::Throughput, Self::Energy, Self::Processor];

    /// Its name in documents and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Commits => "commits",
            Self::Throughput => "throughput",
            Self::Energy => "energy",
            Self::Processor => "processor",
        }
    }

    /// The metric that decides.
    pub fn metric(self) -> Metric {
        match self {
            Self::Latency => Metric::P99,
            Self::Commits => Metric::LatencyNs(Requests::Commits, Percentile::P99),
            Self::Throughput => Metric::Iops,
            Self::Energy => Metric::IosPerJoule,
            Self::Processor => Metric::CpuSPerMillionIos,
        }
    }

    /// The goal as a phrase before a path: `for latency`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Latency => "for latency",
            Self::Commits => "for commits",
            Self::Throughput => "for throughput",
            Self::Energy => "per joule",
            Self::Processor => "for the least processor time",
        }
    }

    /// Whether a low latency is the goal.
    pub(super) fn is_latency(self) -> bool {
        matches!(self, Self::Latency | Self::Commits)
    }

    /// How many times better `of` is than `over`: above 1 means better, whether a high or a low value is the goal.
    pub(super) fn gain(self, of: &[f64], over: &[f64]) -> Estimate {
        self.gain_at(of, over, TAIL)
    }

    /// The same with an interval that the true gain is below with at most the probability `tail`, and above it likewise.
    pub(crate) fn gain_at(self, of: &[f64], over: &[f64], tail: f64) -> Estimate {
        let gain = match self {
            Self::Throughput | Self::Energy => estimate_ratio_at(of, over, tail),
            Self::Latency | Self::Commits | Self::Processor => estimate_ratio_at(over, of, tail),
        };
        gain.at_least_as_wide_as(BETWEEN_PROCESSES)
    }
}
