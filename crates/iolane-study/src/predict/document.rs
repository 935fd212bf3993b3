//! What is predicted, as the document of `iolane predict --json`: schema `iolane.predict/1`, described in `docs/schema/predict.json`.

use iolane::units::Bytes;
use iolane_model::{HeldOut, Load, MachineFile, Observation};
use serde::Serialize;

use super::Goal;
use super::answer::Answer;
use super::figures::{NotPlayed, PathPredicted};

/// The schema.
pub const SCHEMA: &str = "iolane.predict/1";

/// Predictions of loads on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Predicted {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The machine.
    pub machine: MachineNamed,
    /// What decides which path is best.
    pub goal: Goal,
    /// The same in words.
    pub decided_by: &'static str,
    /// Whether all loads were played.
    pub complete: bool,
    /// The loads, as they were asked for.
    pub loads: Vec<LoadPredicted>,
    /// How far the machine is from what its fit did not see.
    pub held_out: Vec<HeldOut>,
    /// What the model leaves out.
    pub left_out: Vec<&'static str>,
}

impl Predicted {
    /// The same, with what was measured of the same loads.
    #[must_use]
    pub fn beside(mut self, observations: &[Observation]) -> Self {
        let cores = self.machine.cores;
        for load in &mut self.loads {
            let is_same = load.matches(cores);
            for path in &mut load.paths {
                let measured = observations.iter().find(|of| of.path == path.path && is_same(of));
                path.measured = measured.map(Into::into);
            }
        }
        self
    }
}

/// The machine of a prediction.
#[derive(Debug, Clone, Serialize)]
pub struct MachineNamed {
    /// What it is called.
    pub name: String,
    /// The cores it was calibrated with.
    pub cores: usize,
    /// The cores it is predicted with, where these are more.
    pub predicted_cores: usize,
    /// Its NUMA nodes.
    pub nodes: usize,
    /// Whether two hardware threads share a core.
    pub smt: bool,
    /// What it was fitted to.
    pub made_from: Vec<String>,
}

impl MachineNamed {
    pub(super) fn new(machine: &MachineFile, calibrated_cores: usize) -> Self {
        Self {
            name: machine.name.clone(),
            cores: calibrated_cores,
            predicted_cores: machine.processor.cores,
            nodes: machine.processor.nodes,
            smt: machine.processor.smt,
            made_from: machine.made_from.clone(),
        }
    }
}

/// A load on each path.
#[derive(Debug, Clone, Serialize)]
pub struct LoadPredicted {
    /// Threads.
    pub threads: usize,
    /// Cores that may be used.
    pub cores: usize,
    /// Drives.
    pub drives: usize,
    /// Requests in flight of each thread.
    pub depth: u32,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// The percentage of reads.
    pub read_percent: u8,
    /// Requests submitted by a call; `None` for all that can be.
    pub batch_submit: Option<u32>,
    /// The most completions taken at a time; `None` for all.
    pub batch_complete_max: Option<u32>,
    /// Each path.
    pub paths: Vec<PathPredicted>,
    /// Paths that cannot have this load.
    pub not_played: Vec<NotPlayed>,
    /// The best path.
    pub best: Answer,
}

impl LoadPredicted {
    pub(super) fn new(load: &Load, paths: Vec<PathPredicted>, not_played: Vec<NotPlayed>, best: Answer) -> Self {
        Self {
            threads: load.threads,
            cores: load.cores,
            drives: load.drives,
            depth: load.depth,
            block_bytes: load.block_bytes,
            read_percent: (load.reads * 100.0).round() as u8,
            batch_submit: load.batch_submit,
            batch_complete_max: load.batch_complete_max,
            paths,
            not_played,
            best,
        }
    }

    /// Whether an observation is of the same load, on a machine with this number of cores.
    fn matches(&self, machine_cores: usize) -> impl Fn(&Observation) -> bool + use<> {
        let Self { threads, cores, drives, depth, block_bytes, read_percent, batch_submit, batch_complete_max, .. } =
            *self;
        let batches = (batch_submit, batch_complete_max);
        move |of| {
            (of.threads, of.depth, of.block_bytes) == (threads, depth, block_bytes)
                && of.drives == drives.min(threads)
                && of.cores.unwrap_or(machine_cores) == cores
                && (of.reads * 100.0).round() == f64::from(read_percent)
                && (of.batch_submit, of.batch_complete_max) == batches
        }
    }

    /// The load without its threads, drives and cores: `randread 4k depth 16`.
    pub fn load_in_words(&self) -> String {
        let access = match self.read_percent {
            100 => "randread".to_owned(),
            0 => "randwrite".to_owned(),
            percent => format!("randrw {percent}/{}", 100 - percent),
        };
        let submit = self.batch_submit.map_or_else(String::new, |batch| format!(", {batch} submitted at a time"));
        let take = self.batch_complete_max.map_or_else(String::new, |batch| format!(", {batch} completed at a time"));
        format!("{access} {} depth {}{submit}{take}", Bytes(self.block_bytes), self.depth)
    }
}
