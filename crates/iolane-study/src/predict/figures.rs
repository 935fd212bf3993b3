//! The figures of a load on a path, each with its interval.

use iolane_model::{Figure, Observation, Outcome, Prediction};
use serde::Serialize;

/// A path that cannot have a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotPlayed {
    /// The path.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// A load on a path. Latencies and costs of a request are `None` if none completes.
#[derive(Debug, Clone, Serialize)]
pub struct PathPredicted {
    /// The path.
    pub path: String,
    /// Requests per second.
    pub iops: Interval,
    /// Bytes per second.
    pub bytes_per_s: Interval,
    /// The median latency, in nanoseconds.
    pub p50_ns: Option<Interval>,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: Option<Interval>,
    /// Cores' worth of processor time.
    pub cores: Interval,
    /// Processor time of a request, in nanoseconds.
    pub cpu_ns_per_io: Option<Interval>,
    /// System calls per request.
    pub calls_per_io: Option<Interval>,
    /// Watts of the machine; `None` without a model of its power.
    pub watts: Option<Interval>,
    /// The same load as it was measured, where the machine was given by its results; `None` if it was not.
    pub measured: Option<Measured>,
}

/// A load as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Requests per second.
    pub iops: Option<f64>,
    /// The median latency, in nanoseconds.
    pub p50_ns: Option<f64>,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Processor time of a request, in nanoseconds; `None` also where a thread spins.
    pub cpu_ns_per_io: Option<f64>,
}

impl From<&Observation> for Measured {
    fn from(of: &Observation) -> Self {
        Self { iops: of.iops, p50_ns: of.p50_ns, p99_ns: of.p99_ns, cpu_ns_per_io: of.cpu_ns_per_io }
    }
}

impl Measured {
    /// Cores' worth of processor time.
    pub fn cores(&self) -> Option<f64> {
        Some(self.iops? * self.cpu_ns_per_io? / 1e9)
    }
}

impl PathPredicted {
    pub(super) fn new(path: &str, prediction: &Prediction) -> Self {
        let completes = prediction.outcomes.iter().any(|outcome| outcome.ios > 0);
        let of_requests = |figure: Figure| completes.then(|| figure.into());
        let cpu = Figure::of(prediction.outcomes.iter().map(Outcome::cpu_ns_per_io));
        Self {
            path: path.to_owned(),
            iops: prediction.iops.into(),
            bytes_per_s: prediction.bytes_per_s.into(),
            p50_ns: of_requests(prediction.p50_ns),
            p99_ns: of_requests(prediction.p99_ns),
            cores: prediction.cores.into(),
            cpu_ns_per_io: of_requests(cpu),
            calls_per_io: of_requests(prediction.calls_per_io),
            watts: prediction.watts.map(Into::into),
            measured: None,
        }
    }
}

/// A value with the interval that contains 95 % of the draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The median of the draws.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl From<Figure> for Interval {
    fn from(Figure { value, low, high }: Figure) -> Self {
        Self { value, low, high }
    }
}
