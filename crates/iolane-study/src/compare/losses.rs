//! What a comparison lost: the gate of `iolane compare --max-loss`.

use serde::Serialize;

use super::{Cell, Comparison, Ratio};
use crate::plan::Arm;
use crate::results::REPEATS_FOR_ADVICE;
use crate::stats::Estimate;

/// A loss that is larger than what is allowed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// The folder's label.
    pub folder: String,
    /// The arm in words.
    pub arm: String,
    /// `IOPS` or `p99`.
    pub figure: &'static str,
    /// The figure as a ratio to that of the first folder.
    pub ratio: Estimate,
}

/// What a gate decides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// The share that may be lost, such as 0.05.
    pub max_loss: f64,
    pub losses: Vec<Loss>,
    /// Arms with a loss.
    pub lost: usize,
    /// Arms without one whose intervals do not exclude it.
    pub undecided: usize,
    /// Arms that were compared.
    pub compared: usize,
}

impl Gate {
    /// Whether no arm lost more than is allowed, and, if it is strict, every arm excludes that.
    pub fn passes(&self, strict: bool) -> bool {
        self.losses.is_empty() && (!strict || self.undecided == 0)
    }
}

impl Comparison {
    /// The comparison with its gate: the arms whose IOPS fell, or whose p99 grew, by more than a share such as 0.05, with the
    /// whole 95 % interval beyond it.
    ///
    /// # Errors
    /// Why a loss could not be seen: a folder has no arm in common with the first, or too few repeats.
    pub fn with_gate(self, share: f64) -> Result<Self, String> {
        Ok(Self { gate: Some(self.gate_at(share)?), ..self })
    }

    fn gate_at(&self, share: f64) -> Result<Gate, String> {
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
        let mut gate = Gate { max_loss: share, losses: Vec::new(), lost: 0, undecided: 0, compared: 0 };
        for (label, arm, cell) in cells.filter(|(_, _, cell)| cell.iops_ratio.is_some()) {
            let losses: Vec<Loss> = losses_of(label, arm, cell, share).collect();
            gate.compared += 1;
            gate.lost += usize::from(!losses.is_empty());
            gate.undecided += usize::from(losses.is_empty() && may_lose(cell));
            gate.losses.extend(losses);
        }
        Ok(gate)
    }
}

fn losses_of(label: &str, arm: &Arm, cell: &Cell, share: f64) -> impl Iterator<Item = Loss> {
    let fell = |ratio: &Ratio| ratio.shown && ratio.estimate.high < 1.0 - share;
    let grew = |ratio: &Ratio| ratio.shown && ratio.estimate.low > 1.0 + share;
    let lost = [("IOPS", cell.iops_ratio.filter(fell)), ("p99", cell.p99_ratio.filter(grew))];
    let (folder, arm) = (label.to_owned(), arm.to_string());
    lost.into_iter().filter_map(move |(figure, ratio)| {
        Some(Loss { folder: folder.clone(), arm: arm.clone(), figure, ratio: ratio?.estimate })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_strict_gate_fails_where_noise_hides_a_loss() {
        let gate = Gate { max_loss: 0.05, losses: Vec::new(), lost: 0, undecided: 0, compared: 3 };
        let unsure = Gate { undecided: 1, ..gate.clone() };
        let ratio = Estimate { value: 0.8, low: 0.7, high: 0.9 };
        let loss = Loss { folder: "b".into(), arm: "a".into(), figure: "IOPS", ratio };
        let lost = Gate { losses: vec![loss], lost: 1, ..gate.clone() };
        let passes = |gate: &Gate| [gate.passes(false), gate.passes(true)];
        assert_eq!([passes(&gate), passes(&unsure), passes(&lost)], [[true, true], [true, false], [false, false]]);
    }
}
