//! How sure the verdict of a check must be. Every rule takes it; `decide` and `each` share it out where several comparisons could each
//! decide.

use crate::stats::TAIL;

/// The probabilities that a verdict may be wrong: that something holds which does not, and the other way round.
///
/// One comparison that holds by chance does not make a claim hold, because all must hold. But one that fails by chance makes it fail:
/// hence the tail for failing is shared among all comparisons that could fail the claim (Bonferroni; Holm, "A simple sequentially
/// rejective multiple test procedure", 1979).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tails {
    pub(super) holds: f64,
    pub(super) fails: f64,
}

impl Tails {
    /// Those of a claim with one comparison, with this share of the error.
    pub(super) fn share(share: f64) -> Self {
        Self { holds: share * TAIL, fails: share * TAIL }
    }

    /// The tail for failing shared among several comparisons, each of which could fail the claim.
    pub(super) fn any_of(self, comparisons: usize) -> Self {
        Self { fails: self.fails / comparisons.max(1) as f64, ..self }
    }

    /// Those of each of `total` comparisons of which `required` must hold. A wrong "holds" needs at least one wrong among the
    /// comparisons that could be false while too few are true, a wrong "does not hold" at least one among the required ones.
    pub(super) fn share_of(self, required: usize, total: usize) -> Self {
        let spare = (total + 1).saturating_sub(required).max(1);
        Self { holds: self.holds / spare as f64, ..self }.any_of(required)
    }

    /// Computes a figure at both.
    pub(super) fn map<T>(self, figure: impl Fn(f64) -> T) -> At<T> {
        At { holds: figure(self.holds), fails: figure(self.fails) }
    }
}

/// A figure with the interval that must be within the bounds for a check to hold, and the one that must be outside for it to fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct At<T> {
    pub(super) holds: T,
    pub(super) fails: T,
}

impl<T> At<T> {
    pub(super) fn map<U>(self, change: impl Fn(T) -> U) -> At<U> {
        At { holds: change(self.holds), fails: change(self.fails) }
    }
}
