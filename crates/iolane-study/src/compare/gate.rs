//! The verdict of `iolane compare --max-loss`. `losses` reaches it.

use serde::Serialize;

use crate::stats::Estimate;

/// A loss that is larger than what is allowed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// The folder's label.
    pub folder: String,
    /// The arm in words.
    pub arm: String,
    /// `IOPS`, `highest rate` or `p99`.
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
    /// Whether undecided arms fail it, too.
    pub strict: bool,
    /// Whether no arm lost more than is allowed, and, if it is strict, every arm excludes that.
    pub passed: bool,
}

impl Gate {
    /// The gate with its verdict.
    pub(super) fn judged(self) -> Self {
        Self { passed: self.losses.is_empty() && (!self.strict || self.undecided == 0), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_strict_gate_fails_where_noise_hides_a_loss() {
        let gate = Gate {
            max_loss: 0.05,
            losses: Vec::new(),
            lost: 0,
            undecided: 0,
            compared: 3,
            strict: false,
            passed: false,
        };
        let unsure = Gate { undecided: 1, ..gate.clone() };
        let ratio = Estimate { value: 0.8, low: 0.7, high: 0.9 };
        let loss = Loss { folder: "b".into(), arm: "a".into(), figure: "IOPS", ratio };
        let lost = Gate { losses: vec![loss], lost: 1, ..gate.clone() };
        let passes = |gate: &Gate| [false, true].map(|strict| Gate { strict, ..gate.clone() }.judged().passed);
        assert_eq!([passes(&gate), passes(&unsure), passes(&lost)], [[true, true], [true, false], [false, false]]);
    }
}
