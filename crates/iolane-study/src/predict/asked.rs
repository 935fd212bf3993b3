//! What is asked: paths, loads and a goal.

use iolane::IoPath;
use iolane_model::{Outcome, Power};
use serde::{Deserialize, Serialize};

/// What decides which path is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The most I/Os per second.
    #[default]
    Throughput,
    /// The lowest 99th percentile.
    Latency,
    /// The most I/Os per joule where the machine has a model of its power, else the least processor time of an I/O.
    Efficiency,
}

impl Goal {
    /// All goals.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Latency, Self::Efficiency];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Efficiency => "efficiency",
        }
    }

    /// What decides, in words.
    pub fn in_words(self, power: Option<&Power>) -> &'static str {
        match (self, power) {
            (Self::Throughput, _) => "the most IOPS",
            (Self::Latency, _) => "the lowest p99",
            (Self::Efficiency, Some(_)) => "the most I/Os per joule",
            (Self::Efficiency, None) => "the least processor time per I/O",
        }
    }

    /// How well an outcome does; more is better, and a load of which no request completes does worst.
    pub(super) fn score(self, outcome: &Outcome, power: Option<&Power>) -> f64 {
        if outcome.ios == 0 {
            return 0.0;
        }
        match (self, power) {
            (Self::Throughput, _) => outcome.iops(),
            (Self::Latency, _) => 1e9 / outcome.percentile_ns(99.0).max(1) as f64,
            (Self::Efficiency, Some(power)) => outcome.iops() / outcome.watts(power),
            (Self::Efficiency, None) => 1e9 / outcome.cpu_ns_per_io().max(1e-3),
        }
    }
}

/// Paths and loads: each value of a list is combined with each of the others.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Empty for all that the machine was calibrated for.
    pub paths: Vec<IoPath>,
    /// Threads, each with a queue.
    pub threads: Vec<usize>,
    /// Cores that may be used; empty for all of the machine. More than the machine has stands for a larger machine.
    pub cores: Vec<usize>,
    /// Drives, which the threads take in turn.
    pub drives: usize,
    /// Requests in flight of each thread.
    pub depths: Vec<u32>,
    /// Bytes of a request.
    pub block_bytes: Vec<u64>,
    /// Percentages of reads.
    pub read_percents: Vec<u8>,
    /// Requests submitted by a call.
    pub batch_submit: Option<u32>,
    /// The most completions taken at a time.
    pub batch_complete_max: Option<u32>,
    /// What decides.
    pub goal: Goal,
}
