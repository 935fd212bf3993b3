//! The options of the workload of a single run.

use clap::Args;
use iolane::units::Bytes;
use iolane_measure::workload::{Access, Arrivals, BlockSizes, DataPattern, OffsetPattern, Rate, Workload};
use iolane_study::plan::LatencyBound;

use super::survey::SurveyArguments;
use super::values::{PathList, parse_align};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArguments {
    /// Access pattern: read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread", value_name = "ACCESS")]
    rw: Access,
    /// Percentage of reads in rw and randrw [default: 50]
    #[arg(long, value_name = "N")]
    read_percent: Option<u8>,
    /// Block size: 4k, a range 4k-64k, or a weighted list 4k/70:64k/30
    #[arg(long, default_value = "4k", value_name = "SIZE")]
    bs: BlockSizes,
    /// How offsets spread: uniform, zipf:1.2, pareto:0.2, hot:90/10 or zoned:50/5:50/95 if random; skip:64k if sequential
    #[arg(long, default_value = "uniform", value_name = "PATTERN")]
    offsets: OffsetPattern,
    /// Bytes of which every offset is a multiple [default: the smallest block]
    #[arg(long, value_name = "SIZE", value_parser = parse_align)]
    align: Option<u32>,
    /// Submit at most N requests by one system call or doorbell [default: all that wait]; fio's default is 1
    #[arg(long, value_name = "N")]
    batch_submit: Option<u32>,
    /// Wait for N completions before the next submission [default: 1]
    #[arg(long, value_name = "N", alias = "batch")]
    batch_complete: Option<u32>,
    /// Take at most N completions before the next submission [default: all there are]; fio's default is 1
    #[arg(long, value_name = "N")]
    batch_complete_max: Option<u32>,
    /// Open loop: start N requests per second in total, regardless of completions; latency counts from each request's
    /// scheduled start
    #[arg(long, value_name = "N")]
    rate: Option<Rate>,
    /// Search the highest rate of each path of --path that keeps this bound: p99=5ms, write_p99=5ms, commit_p99=10ms (a write
    /// with its sync), service_p99=1ms (from the actual start); results go to --out, with a page that shows latency against rate
    #[arg(long, value_name = "BOUND", conflicts_with_all = ["rate", "job_file", "huge_pages"])]
    pub(super) rate_until: Option<LatencyBound>,
    /// Spacing of the requests of --rate and --rate-until: even, or poisson (at random, as from many users)
    #[arg(long, default_value_t, value_name = "SPACING")]
    arrivals: Arrivals,
    /// Call fsync after every N writes; it takes no turn of --rate
    #[arg(long, value_name = "N")]
    fsync: Option<u32>,
    /// Call fdatasync after every N writes
    #[arg(long, value_name = "N", conflicts_with = "fsync")]
    fdatasync: Option<u32>,
    /// Make each write durable before it completes (O_DSYNC), as --fdatasync 1 does in a second step
    #[arg(long)]
    durable: bool,
    /// What written blocks hold: random, or what a device can reduce: compress:50, dedupe:40/5, compress:50+dedupe:40/5
    #[arg(long, default_value_t, value_name = "PATTERN")]
    data: DataPattern,
    /// Write blocks that encode their own offset, and check every read; a mismatch ends the run. A load that only writes is
    /// read back after it; one that only reads a target checks what an earlier run with the same --seed and --bs wrote
    #[arg(long)]
    verify: bool,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

impl WorkloadArguments {
    /// The same load as a survey of these paths.
    pub(super) fn survey(self, path: Vec<PathList>, depth: u32, threads: Option<usize>) -> SurveyArguments {
        SurveyArguments {
            path,
            rw: vec![self.rw],
            read_percent: self.read_percent.into_iter().collect(),
            bs: vec![self.bs],
            offsets: vec![self.offsets],
            align: self.align,
            depth: vec![depth],
            rate: self.rate.into_iter().collect(),
            rate_until: self.rate_until,
            arrivals: Some(self.arrivals),
            batch_submit: self.batch_submit.into_iter().collect(),
            batch_complete: self.batch_complete.into_iter().collect(),
            batch_complete_max: self.batch_complete_max,
            fsync: self.fsync.into_iter().collect(),
            fdatasync: self.fdatasync.into_iter().collect(),
            durable: self.durable,
            data: Some(self.data),
            threads: threads.into_iter().collect(),
            verify: self.verify,
        }
    }

    /// The seed of all random choices.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn workload(&self, depth: u32, start: Bytes, size: Option<Bytes>) -> Workload {
        Workload {
            access: self.rw,
            read_percent: self.read_percent,
            block_sizes: self.bs.clone(),
            offsets: self.offsets,
            align: self.align,
            depth,
            batch_submit: self.batch_submit,
            batch_complete: self.batch_complete,
            batch_complete_max: self.batch_complete_max,
            fsync_every: self.fsync,
            fdatasync_every: self.fdatasync,
            rate: self.rate,
            arrivals: self.arrivals,
            think_us: None,
            durable: self.durable,
            data: self.data,
            verify: self.verify,
            start: start.0,
            size: size.map(|bytes| bytes.0),
            bytes_max: None,
            seed: self.seed,
        }
    }
}
