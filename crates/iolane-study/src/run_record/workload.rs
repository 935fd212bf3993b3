//! The workload in the record of a run.

use iolane_measure::run::RunPlan;
use iolane_measure::workload::Rate;
use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct WorkloadRecord {
    rw: &'static str,
    /// The block size in bytes; the largest if there are several.
    block_bytes: u32,
    block_sizes: String,
    offsets: String,
    align_bytes: u32,
    read_percent: u8,
    depth: u32,
    batch_submit: Option<u32>,
    batch_complete: Option<u32>,
    batch_complete_max: Option<u32>,
    threads: usize,
    cpus: Option<String>,
    sqpoll_cpus: Option<String>,
    rate: Option<f64>,
    arrivals: &'static str,
    think_us: Option<u64>,
    data: String,
    durable: bool,
    fsync_every: Option<u32>,
    fdatasync_every: Option<u32>,
    verify: bool,
    start_bytes: u64,
    size_bytes: Option<u64>,
    bytes_max: Option<u64>,
    runtime_s: f64,
    warmup_s: f64,
    repeats: usize,
    seed: u64,
}

impl WorkloadRecord {
    pub(super) fn new(plan: &RunPlan, repeats: usize) -> Self {
        let workload = &plan.workload;
        Self {
            rw: workload.access.name(),
            block_bytes: workload.block_sizes.max(),
            block_sizes: workload.block_sizes.to_string(),
            offsets: workload.offsets.to_string(),
            align_bytes: workload.align_bytes(),
            read_percent: workload.read_percent(),
            depth: workload.depth,
            batch_submit: workload.batch_submit,
            batch_complete: workload.batch_complete,
            batch_complete_max: workload.batch_complete_max,
            threads: plan.threads,
            cpus: plan.placement.cpus.as_ref().map(ToString::to_string),
            sqpoll_cpus: plan.placement.sqpoll_cpus.as_ref().map(ToString::to_string),
            rate: workload.rate.map(Rate::per_s),
            arrivals: workload.arrivals.name(),
            think_us: workload.think_us,
            data: workload.data.to_string(),
            durable: workload.durable,
            fsync_every: workload.fsync_every,
            fdatasync_every: workload.fdatasync_every,
            verify: workload.verify,
            start_bytes: workload.start,
            size_bytes: workload.size,
            bytes_max: workload.bytes_max,
            runtime_s: plan.runtime.as_secs_f64(),
            warmup_s: plan.warmup.as_secs_f64(),
            repeats,
            seed: workload.seed,
        }
    }
}
