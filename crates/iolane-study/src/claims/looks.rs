//! When the claims of a study are decided: once, or several times while repeats are added. A session plans it, `study.json` holds it,
//! and `decide` goes through it again.

use serde::{Deserialize, Serialize};

use super::tails::Tails;

/// The looks at the results of a study, each with the number of repeats it saw. Without looks, claims are decided once, on all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Looks(Vec<u32>);

impl Looks {
    /// Most looks.
    pub const MAX: usize = SHARES.len();

    /// A first look, after this number of repeats.
    pub fn first(repeats: u32) -> Self {
        Self(vec![repeats])
    }

    /// Adds a look, after this number of repeats in total.
    pub fn add(&mut self, repeats: u32) {
        self.0.push(repeats);
    }

    /// The number of repeats that each look saw.
    pub fn repeats(&self) -> &[u32] {
        &self.0
    }

    /// For each look, the number of the first repeat that it did not see, and its tails.
    pub(super) fn ends_with_tails(&self) -> impl Iterator<Item = (u32, Tails)> {
        let once = self.0.is_empty().then_some((u32::MAX, Tails::share(1.0)));
        once.into_iter().chain(self.0.iter().zip(SHARES).map(|(end, share)| (*end, Tails::share(share))))
    }
}

/// How the looks share the error (alpha spending: Lan and DeMets, "Discrete sequential boundaries for clinical trials", 1983; here
/// without a model of how looks depend on each other, so that the shares add up to 1). Early looks find what is plain; the last has
/// most of it.
const SHARES: [f64; 3] = [0.1, 0.2, 0.7];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::TAIL;

    #[test]
    fn all_looks_together_are_as_sure_as_one() {
        let once: Vec<(u32, Tails)> = Looks::default().ends_with_tails().collect();
        assert_eq!(once, [(u32::MAX, Tails { holds: TAIL, fails: TAIL })]);
        let mut looks = Looks::first(5);
        looks.add(20);
        looks.add(60);
        assert_eq!(looks.repeats().len(), Looks::MAX);
        assert_eq!(looks.ends_with_tails().map(|(end, _)| end).collect::<Vec<_>>(), [5, 20, 60]);
        let total: f64 = looks.ends_with_tails().map(|(_, tails)| tails.fails).sum();
        assert!((total - TAIL).abs() < 1e-12);
    }
}
