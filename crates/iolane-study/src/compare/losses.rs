//! What a comparison lost: the gate of `iolane compare --max-loss`.

use super::arms::{Cell, Ratio};
use super::gate::{Gate, Loss};
use super::{Compares, Comparison};
use crate::plan::Arm;
use crate::results::REPEATS_FOR_ADVICE;

impl Comparison {
    /// Fills in [`gate`](Self::gate): the arms whose IOPS fell, or whose p99 grew, by more than a share such as 0.05, with the
    /// whole 95 % interval beyond it. A strict gate also fails where an interval does not exclude such a loss.
    ///
    /// # Errors
    /// Why a loss could not be seen: a folder has no arm in common with the first, or too few repeats.
    pub fn judge(&mut self, share: f64, strict: bool) -> Result<(), String> {
        self.gate = Some(self.gate_at(share, strict)?.judged());
        Ok(())
    }

    fn gate_at(&self, share: f64, strict: bool) -> Result<Gate, String> {
        for folder in &self.folders {
            if folder.changes.as_ref().is_some_and(|changes| changes.compared == 0) {
                return Err(format!("{} has no arm in common with {}", folder.label, self.folders[0].label));
            }
            if folder.repeats < REPEATS_FOR_ADVICE {
                let repeats = folder.repeats;
                return Err(format!("{} has {repeats} repeats, and {REPEATS_FOR_ADVICE} are the fewest", folder.label));
            }
        }
        let cells = self.arms.iter().flat_map(|arm| {
            let labelled = self.folders.iter().zip(&arm.folders);
            labelled.filter_map(|(folder, cell)| Some((folder.label.as_str(), &arm.arm, cell.as_ref()?)))
        });
        let may_lose = |cell: &Cell| {
            cell.iops_ratio.is_some_and(|ratio| ratio.estimate.low < 1.0 - share)
                || cell.p99_ratio.is_some_and(|ratio| ratio.estimate.high > 1.0 + share)
        };
        let mut gate =
            Gate { max_loss: share, losses: Vec::new(), lost: 0, undecided: 0, compared: 0, strict, passed: false };
        for (label, arm, cell) in cells.filter(|(_, _, cell)| cell.iops_ratio.is_some()) {
            let losses: Vec<Loss> = losses_of(self.compares, label, arm, cell, share).collect();
            gate.compared += 1;
            gate.lost += usize::from(!losses.is_empty());
            gate.undecided += usize::from(losses.is_empty() && may_lose(cell));
            gate.losses.extend(losses);
        }
        Ok(gate)
    }
}

fn losses_of(compares: Compares, label: &str, arm: &Arm, cell: &Cell, share: f64) -> impl Iterator<Item = Loss> {
    let fell = |ratio: &Ratio| ratio.shown && ratio.estimate.high < 1.0 - share;
    let grew = |ratio: &Ratio| ratio.shown && ratio.estimate.low > 1.0 + share;
    let lost = [(compares.in_words(), cell.iops_ratio.filter(fell)), ("p99", cell.p99_ratio.filter(grew))];
    let (folder, arm) = (label.to_owned(), arm.to_string());
    lost.into_iter().filter_map(move |(figure, ratio)| {
        Some(Loss { folder: folder.clone(), arm: arm.clone(), figure, ratio: ratio?.estimate })
    })
}
