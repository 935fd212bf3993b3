//! `iolane predict`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use iolane::units::Bytes;
use iolane_measure::workload::Access;
use iolane_study::predict::{Asked, Goal};

use super::values::{CountList, PathsAsked, SimulatedDrive, parse_counts, parse_drive, parse_paths_asked};
use crate::output::Destination;

#[derive(Debug, Args)]
pub(crate) struct PredictArguments {
    /// The machine: a file of `iolane calibrate`, a results folder, a file of `iolane run --json`, or the name of a
    /// publication: systor22, hotstorage23, floe26
    #[arg(long, value_name = "FILE|RESULTS|NAME", default_value = "machine.toml", value_hint = ValueHint::AnyPath)]
    pub(crate) machine: PathBuf,
    /// Paths, such as libaio,io_uring+iopoll, or all that the machine was calibrated for
    #[arg(long, value_name = "PATHS", default_value = "all", value_parser = parse_paths_asked, help_heading = "Loads")]
    path: PathsAsked,
    /// Threads, each with a queue of its own: a list or a range, such as 1,2,4 or 1..20
    #[arg(long, value_name = "LIST", default_value = "1", value_parser = parse_counts, help_heading = "Loads")]
    threads: CountList,
    /// Cores that may be used (hardware threads); more than the machine has stands for a larger machine [default: all of the machine]
    #[arg(long, value_name = "LIST", value_parser = parse_counts, help_heading = "Loads")]
    cores: Option<CountList>,
    /// Drives, which the threads take in turn
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Loads")]
    drives: usize,
    /// Another drive in place of the machine's: p3600, optane, pm9a3, hynix, or its numbers, such as read=80us,write=20us,units=64,bandwidth=3g
    #[arg(long, value_name = "PROFILE|NUMBERS", value_parser = parse_drive, help_heading = "Loads")]
    pub(crate) drive: Option<SimulatedDrive>,
    /// Requests in flight of each thread
    #[arg(long, value_name = "LIST", default_value = "1,16", value_parser = parse_counts, help_heading = "Loads")]
    depth: CountList,
    /// Block sizes
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "4k", help_heading = "Loads")]
    bs: Vec<Bytes>,
    /// Access pattern: randread, randwrite or randrw
    #[arg(long, value_name = "ACCESS", default_value = "randread", help_heading = "Loads")]
    pub(crate) rw: Access,
    /// Percentage of reads in randrw [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=100), help_heading = "Loads")]
    pub(crate) read_percent: Option<u8>,
    /// Submit at most N requests by one system call or doorbell [default: all that wait]; fio's default is 1
    #[arg(long, value_name = "N", help_heading = "Loads")]
    batch_submit: Option<u32>,
    /// Take at most N completions before the next submission [default: all there are]; fio's default is 1
    #[arg(long, value_name = "N", help_heading = "Loads")]
    batch_complete_max: Option<u32>,
    /// What decides which path is best: throughput, latency or efficiency
    #[arg(long, value_name = "GOAL", default_value = "throughput", value_parser = goal_parser(), hide_possible_values = true)]
    goal: Goal,
    /// Write a self-contained HTML page with charts over threads, depth or cores, and measured points where --machine is results
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) page: Option<PathBuf>,
    /// Write the predictions as JSON; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) json: Option<Destination>,
}

impl PredictArguments {
    /// What is asked, with reads of this share.
    pub(crate) fn asked(&self, read_percent: u8) -> Asked {
        let small =
            |counts: &CountList| counts.0.iter().map(|count| u32::try_from(*count).unwrap_or(u32::MAX)).collect();
        Asked {
            paths: self.path.0.clone(),
            threads: self.threads.0.clone(),
            cores: self.cores.as_ref().map_or_else(Vec::new, |cores| cores.0.clone()),
            drives: self.drives,
            depths: small(&self.depth),
            block_bytes: self.bs.iter().map(|bytes| bytes.0).collect(),
            read_percents: vec![read_percent],
            batch_submit: self.batch_submit,
            batch_complete_max: self.batch_complete_max,
            goal: self.goal,
        }
    }
}

fn goal_parser() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(Goal::ALL.map(Goal::name))
        .map(|name| Goal::ALL.into_iter().find(|goal| goal.name() == name).expect("a possible value is a goal's name"))
}
