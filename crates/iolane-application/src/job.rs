//! What one run of an application does.

use std::time::Duration;

use iolane::Target;

use crate::application::Application;
use crate::by::By;
use crate::data::Prepared;

/// One run.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    pub application: Application,
    pub by: By,
    pub target: &'a Target,
    /// What was written to it.
    pub prepared: &'a Prepared,
    /// Requests in flight of each thread. A path that takes fewer has fewer.
    pub depth: u32,
    pub threads: usize,
    /// Operations per second, for applications that have a rate.
    pub rate: Option<f64>,
    /// Before the measured phase.
    pub warmup: Duration,
    /// Length of the measured phase.
    pub runtime: Duration,
    pub seed: u64,
}
