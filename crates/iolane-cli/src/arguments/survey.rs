//! The options of a study without a name: the paths and the loads that it compares. An option with a list is a factor: each
//! of its values is measured with each of the others.

use clap::Args;
use iolane::IoPath;
use iolane_measure::workload::{Access, Arrivals, BlockSizes, DataPattern, OffsetPattern, Rate, Workload};
use iolane_study::advise::ObservedLoad;
use iolane_study::plan::{LatencyBound, Survey};

use super::values::{PathList, parse_align, parse_depth, parse_paths};

/// The heading of these options in the help of `study`, which alone has studies with a name.
pub(super) const HEADING: &str = "Without a study: what to compare";

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct SurveyArguments {
    /// Only these paths, such as libaio,io_uring+sqpoll,fixedbufs; may be repeated [default: every path]
    #[arg(long, value_name = "PATHS", value_parser = parse_paths)]
    pub(super) path: Vec<PathList>,
    /// Access patterns: read, write, rw, randread, randwrite or randrw [default: randread]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) rw: Vec<Access>,
    /// Percentages of reads in rw and randrw [default: 50]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u8).range(..=100))]
    pub(super) read_percent: Vec<u8>,
    /// Block sizes: 4k, a range 4k-64k, or a weighted list 4k/70:64k/30 [default: 4k]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) bs: Vec<BlockSizes>,
    /// How offsets spread: uniform, zipf:1.2, pareto:0.2, hot:90/10 or zoned:50/5:50/95 if random, skip:64k if sequential
    /// [default: uniform]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) offsets: Vec<OffsetPattern>,
    /// Bytes of which every offset is a multiple [default: the smallest block]
    #[arg(long, value_name = "SIZE", value_parser = parse_align)]
    pub(super) align: Option<u32>,
    /// Requests in flight on each queue [default: 1,32]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = parse_depth)]
    pub(super) depth: Vec<u32>,
    /// Open loop: start this many requests per second in total, such as 500,2k, regardless of completions; latency counts
    /// from each request's scheduled start
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) rate: Vec<Rate>,
    /// Search the highest rate of each path that keeps this bound: p99=5ms, write_p99=5ms, commit_p99=10ms (a write with its
    /// sync), service_p99=1ms (from the actual start); the page shows latency against rate
    #[arg(long, value_name = "BOUND", conflicts_with = "rate")]
    pub(super) rate_until: Option<LatencyBound>,
    /// Spacing of the requests of --rate and --rate-until: even, or poisson (at random, as from many users) [default: even]
    #[arg(long, value_name = "SPACING")]
    pub(super) arrivals: Option<Arrivals>,
    /// Submit at most this many requests by one system call or doorbell [default: all that wait]; fio's default is 1
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) batch_submit: Vec<u32>,
    /// Wait for this many completions before the next submission [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "LIST", alias = "batch")]
    pub(super) batch_complete: Vec<u32>,
    /// Take at most N completions before the next submission [default: all there are]; fio's default is 1
    #[arg(long, value_name = "N")]
    pub(super) batch_complete_max: Option<u32>,
    /// Call fsync after this number of writes
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) fsync: Vec<u32>,
    /// Call fdatasync after this number of writes
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "fsync")]
    pub(super) fdatasync: Vec<u32>,
    /// Threads, each with a queue of its own [default: one per target]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) threads: Vec<usize>,
    /// Make each write durable before it completes (O_DSYNC)
    #[arg(long)]
    pub(super) durable: bool,
    /// What written blocks hold: random, or what a device can reduce: compress:50, dedupe:40/5, compress:50+dedupe:40/5
    /// [default: random]
    #[arg(long, value_name = "PATTERN")]
    pub(super) data: Option<DataPattern>,
    /// Write blocks that encode their own offset, and check every read; a mismatch ends the run. A load that only writes is
    /// read back after it; one that only reads a target checks what an earlier run with the same --seed and --bs wrote
    #[arg(long)]
    pub(super) verify: bool,
}

impl SurveyArguments {
    /// Whether an option was given. A study with a name has its own.
    pub(crate) fn is_given(&self) -> bool {
        // Names every field, so that the compiler demands a decision for each new one.
        let Self {
            path,
            rw,
            read_percent,
            bs,
            offsets,
            align,
            depth,
            rate,
            rate_until,
            arrivals,
            batch_submit,
            batch_complete,
            batch_complete_max,
            fsync,
            fdatasync,
            threads,
            durable,
            data,
            verify,
        } = self;
        let lists = [
            path.len(),
            rw.len(),
            read_percent.len(),
            bs.len(),
            offsets.len(),
            depth.len(),
            rate.len(),
            batch_submit.len(),
            batch_complete.len(),
            fsync.len(),
            fdatasync.len(),
            threads.len(),
        ];
        let single = [
            align.is_some(),
            batch_complete_max.is_some(),
            data.is_some(),
            *durable,
            *verify,
            arrivals.is_some(),
            rate_until.is_some(),
        ];
        lists.iter().any(|length| *length > 0) || single.contains(&true)
    }

    /// Whether the highest rate is searched.
    pub(crate) fn searches_rate(&self) -> bool {
        self.rate_until.is_some()
    }

    /// The paths that were given; none stands for every path.
    pub(crate) fn paths(&self) -> Vec<IoPath> {
        self.path.iter().flat_map(|PathList(paths)| paths.clone()).collect()
    }

    /// Whether one of the loads writes.
    pub(crate) fn writes(&self) -> bool {
        self.rw.iter().any(|access| access.writes())
    }

    /// Whether writes are durable when they complete.
    pub(crate) fn durable(&self) -> bool {
        self.durable
    }

    /// The same with the load of a process, where options leave it open.
    pub(super) fn or_load(&self, load: &ObservedLoad) -> Self {
        let ObservedLoad { access, read_percent, block_sizes, depth, threads, fdatasync, durable } = load;
        let is_mixed = self.rw.is_empty() && access.is_mixed() || self.rw.iter().any(|access| access.is_mixed());
        let writes = if self.rw.is_empty() { access.writes() } else { self.writes() };
        let mut survey = self.clone();
        fill(&mut survey.rw, Some(*access));
        fill(&mut survey.read_percent, read_percent.filter(|_| is_mixed));
        fill(&mut survey.bs, Some(block_sizes.clone()));
        fill(&mut survey.depth, Some(*depth));
        fill(&mut survey.threads, Some(*threads));
        survey.durable |= *durable && writes;
        if survey.fsync.is_empty() && !survey.durable {
            fill(&mut survey.fdatasync, fdatasync.filter(|_| writes));
        }
        survey
    }

    pub(crate) fn survey(&self, start: u64, size: Option<u64>, seed: u64) -> Survey {
        let arrivals = self.arrivals.unwrap_or_default();
        let base = Workload {
            align: self.align,
            batch_complete_max: self.batch_complete_max,
            durable: self.durable,
            data: self.data.unwrap_or_default(),
            verify: self.verify,
            arrivals,
            start,
            size,
            seed,
            ..Workload::default()
        };
        Survey {
            paths: self.paths(),
            access: or(&self.rw, base.access),
            read_percents: self.read_percent.clone(),
            block_sizes: or(&self.bs, base.block_sizes.clone()),
            offsets: self.offsets.clone(),
            depths: if self.depth.is_empty() { vec![1, 32] } else { self.depth.clone() },
            rates: self.rate.clone(),
            rate_until: self.rate_until,
            batch_submits: self.batch_submit.clone(),
            batch_completes: self.batch_complete.clone(),
            fsyncs: self.fsync.clone(),
            fdatasyncs: self.fdatasync.clone(),
            threads: self.threads.clone(),
            workload: base,
        }
    }
}

/// Gives an empty list a value.
fn fill<T>(values: &mut Vec<T>, value: Option<T>) {
    if values.is_empty() {
        values.extend(value);
    }
}

/// The values of a list; the default if there are none.
fn or<T: Clone>(values: &[T], default: T) -> Vec<T> {
    if values.is_empty() { vec![default] } else { values.to_vec() }
}
