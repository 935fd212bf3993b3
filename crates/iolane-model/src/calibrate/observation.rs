//! What was measured or published of a machine, as a file: the input of a calibration.

use std::collections::BTreeSet;

use iolane_core::error::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::machine::{Power, Processor, Scheduler};
use crate::{Load, Machine, Outcome};

/// What is known of a machine before the fit, and what was observed of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observations {
    /// What the machine is called.
    pub name: String,
    /// Its cores. Without `idle_exit_ns` that is fitted.
    pub processor: Processor<Option<f64>>,
    /// Its scheduler.
    pub scheduler: Scheduler,
    /// What it draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Numbers of the drive that are known, as from its data sheet. They are not fitted.
    #[serde(default)]
    pub known: Known,
    /// For the draws.
    #[serde(default = "one")]
    pub seed: u64,
    /// What was observed.
    #[serde(rename = "observation")]
    pub observations: Vec<Observation>,
}

/// Numbers of the drive that are known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// [`Drive::read_ns`](crate::Drive::read_ns).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<f64>,
    /// [`Drive::write_ns`](crate::Drive::write_ns).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_ns: Option<f64>,
    /// [`Drive::spread`](crate::Drive::spread).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// [`Drive::units`](crate::Drive::units).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<f64>,
    /// [`Drive::iops`](crate::Drive::iops).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// [`Drive::bytes_per_s`](crate::Drive::bytes_per_s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// [`Drive::page_bytes`](crate::Drive::page_bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u64>,
    /// [`Drive::tags`](crate::Drive::tags).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<u32>,
}

/// What one load came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// The path, as `io_uring+iopoll`.
    pub path: String,
    /// Threads, each with a queue.
    #[serde(default = "one")]
    pub threads: usize,
    /// Drives.
    #[serde(default = "one")]
    pub drives: usize,
    /// Cores that could be used; `None` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Bytes of a request.
    #[serde(default = "page")]
    pub block_bytes: u64,
    /// Requests in flight of each thread.
    #[serde(default = "one")]
    pub depth: u32,
    /// The share of reads, from 0 to 1.
    #[serde(default = "one")]
    pub reads: f64,
    /// Requests submitted by a call; `None` is all that can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_submit: Option<u32>,
    /// The most completions taken at a time; `None` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_complete_max: Option<u32>,
    /// Requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// The median latency, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    /// The 99th percentile, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    /// Processor time of each request, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_io: Option<f64>,
    /// How sure these are: the standard deviation of their logarithms.
    #[serde(default = "some_noise")]
    pub noise: f64,
    /// Where they come from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
}

fn one<N: From<u8>>() -> N {
    1.into()
}

fn page() -> u64 {
    4096
}

fn some_noise() -> f64 {
    0.03
}

impl Known {
    /// Whether a number of the drive is known, by its name.
    pub(super) fn has(&self, name: &str) -> bool {
        let Self { read_ns, write_ns, spread, units, iops, bytes_per_s, page_bytes: _, tags: _ } = self;
        match name {
            "read_ns" => read_ns.is_some(),
            "write_ns" => write_ns.is_some(),
            "spread" => spread.is_some(),
            "units" => units.is_some(),
            "iops" => iops.is_some(),
            "bytes_per_s" => bytes_per_s.is_some(),
            _ => false,
        }
    }
}

impl Observations {
    /// The block sizes that were observed, ascending.
    pub fn block_bytes(&self) -> Vec<u64> {
        let sizes: BTreeSet<u64> = self.observations.iter().map(|observation| observation.block_bytes).collect();
        sizes.into_iter().collect()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Usage` if it has another layout or if a figure is not positive.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::usage(format!("observations {name}"), cause).remedy("see docs/model.md for the layout of the file")
        };
        let observations: Self = toml::from_str(text).map_err(|error| bad(error.message().replace('\n', " ")))?;
        for observation in &observations.observations {
            if observation.figures().any(|figure| !(figure.is_finite() && figure > 0.0)) {
                return Err(bad(format!("a figure of {} is not positive", observation.in_words())));
            }
            if observation.figures().next().is_none() {
                return Err(bad(format!("{} has no figure", observation.in_words())));
            }
            if !(observation.noise > 0.0 && observation.noise < 3.0) {
                return Err(bad(format!("the noise of {} is not within 0 and 3", observation.in_words())));
            }
        }
        Ok(observations)
    }
}

impl Observation {
    /// The load that was observed, on a machine.
    ///
    /// # Errors
    /// As [`Load::new`].
    pub fn load(&self, machine: &Machine) -> Result<Load> {
        Ok(Load {
            threads: self.threads,
            drives: self.drives,
            cores: self.cores.unwrap_or(machine.processor.cores),
            block_bytes: self.block_bytes,
            depth: self.depth,
            reads: self.reads,
            batch_submit: self.batch_submit,
            batch_complete_max: self.batch_complete_max,
            ..Load::new(machine, &self.path)?
        })
    }

    /// The load in words, with its source.
    pub fn in_words(&self) -> String {
        let Self { path, threads, drives, block_bytes, depth, from, .. } = self;
        let what = if self.reads >= 1.0 {
            "reads"
        } else if self.reads <= 0.0 {
            "writes"
        } else {
            "reads and writes"
        };
        let cores = self.cores.map_or(String::new(), |cores| format!(", {cores} cores"));
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let many = match (*threads, *drives) {
            (1, 1) => String::new(),
            _ => format!(", {threads} thread{} on {drives} drive{}", plural(*threads), plural(*drives)),
        };
        let from = if from.is_empty() { String::new() } else { format!(" ({from})") };
        format!("{path}, {what} of {block_bytes}, depth {depth}{many}{cores}{from}")
    }

    /// The figures that were observed.
    pub(super) fn figures(&self) -> impl Iterator<Item = f64> {
        [self.iops, self.p50_ns, self.p99_ns, self.cpu_ns_per_io].into_iter().flatten()
    }

    /// The figures that were observed, with those of an outcome.
    pub(super) fn compared(&self, outcome: &Outcome) -> Vec<Compared> {
        // Between two humps of latencies, as a full queue has them, chance decides where the median is.
        let median_error =
            (libm::log(outcome.percentile_ns(55.0) as f64 / outcome.percentile_ns(45.0) as f64) / 2.0).max(0.02);
        let all = [
            ("IOPS", self.iops, outcome.iops(), 0.01),
            ("p50", self.p50_ns, outcome.percentile_ns(50.0) as f64, median_error),
            ("p99", self.p99_ns, outcome.percentile_ns(99.0) as f64, 0.1),
            // The kernel charges processor time by the tick, and to threads that do not serve the request too.
            ("processor time per I/O", self.cpu_ns_per_io, outcome.cpu_ns_per_io(), 0.05),
        ];
        let compared = all.into_iter().filter_map(|(what, observed, predicted, model_error)| {
            Some(Compared { what, observed: observed?, predicted, model_error })
        });
        compared.collect()
    }
}

/// A figure as observed and as predicted.
pub(super) struct Compared {
    pub(super) what: &'static str,
    pub(super) observed: f64,
    pub(super) predicted: f64,
    /// What the model leaves out and simplifies, as a deviation: it does not explain the figure better than this.
    pub(super) model_error: f64,
}
