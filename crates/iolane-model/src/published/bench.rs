//! Predicts single arms of a published study, each once, and compares them.

use std::collections::BTreeMap;

use iolane_core::error::Result;

use crate::{Figure, Load, MachineFile, Outcome, Prediction, predict};

/// What a text states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// A percentage more or less than something, within ten points.
    Percent(f64),
    /// Within a range of percentages, or ten points of it.
    PercentWithin(f64, f64),
    /// A share of something, at most.
    AtMost(f64),
    /// A share of something, at least.
    AtLeast(f64),
    /// A number of jobs, within one.
    Jobs(f64),
}

/// Whether a prediction agrees with what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As near as stated above.
    Agrees,
    /// Not as near.
    Differs,
}

impl Expected {
    /// Whether a prediction agrees.
    pub fn compare(self, predicted: f64) -> Verdict {
        const POINTS: f64 = 10.0;
        let agrees = match self {
            Self::Percent(published) => (predicted - published).abs() <= POINTS,
            Self::PercentWithin(low, high) => (low - POINTS..=high + POINTS).contains(&predicted),
            Self::AtMost(share) => predicted <= share,
            Self::AtLeast(share) => predicted >= share,
            Self::Jobs(jobs) => (predicted - jobs).abs() <= 1.0,
        };
        if agrees { Verdict::Agrees } else { Verdict::Differs }
    }
}

/// A statement that is not predicted yet.
pub(super) struct Unchecked {
    pub(super) claim: &'static str,
    pub(super) says: &'static str,
    pub(super) expected: Expected,
    pub(super) predict: fn(&mut Bench) -> Result<Figure>,
}

/// One arm of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) path: &'static str,
    pub(super) threads: usize,
    pub(super) drives: usize,
    pub(super) cores: usize,
    pub(super) block_bytes: u64,
    pub(super) depth: u32,
}

/// Predicts cells of a machine, each once.
pub(super) struct Bench {
    file: MachineFile,
    known: BTreeMap<Cell, Prediction>,
}

impl Bench {
    pub(super) fn new(file: MachineFile) -> Self {
        Self { file, known: BTreeMap::new() }
    }

    pub(super) fn prediction(&mut self, cell: Cell) -> Result<&Prediction> {
        if !self.known.contains_key(&cell) {
            let machine = self.file.best();
            let batches = cell.path != "nvme";
            let load = Load {
                threads: cell.threads,
                drives: cell.drives,
                cores: cell.cores,
                block_bytes: cell.block_bytes,
                depth: cell.depth,
                batch_submit: batches.then_some(1),
                batch_complete_max: batches.then_some(1),
                ..Load::new(&machine, cell.path)?
            };
            self.known.insert(cell, predict(&self.file, &load)?);
        }
        Ok(&self.known[&cell])
    }

    /// How much more of something the first has than the second, in percent.
    pub(super) fn percent_more(&mut self, of: fn(&Outcome) -> f64, cells: [Cell; 2]) -> Result<Figure> {
        Ok(self.ratio(of, cells)?.map(|ratio| (ratio - 1.0) * 100.0))
    }

    /// The ratio of something, paired by draw.
    pub(super) fn ratio(&mut self, of: fn(&Outcome) -> f64, cells: [Cell; 2]) -> Result<Figure> {
        let mut values = Vec::new();
        for cell in cells {
            values.push(self.prediction(cell)?.outcomes.iter().map(of).collect::<Vec<f64>>());
        }
        Ok(Figure::of(values[0].iter().zip(&values[1]).map(|(a, b)| a / b)))
    }
}

impl Figure {
    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: change(self.low), high: change(self.high) }
    }
}
