//! Random draws from a seed. The fake kernels and the drill each have their own.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// True in this share of cases, in percent.
    pub(super) fn strikes(&mut self, percent: u64) -> bool {
        percent > 0 && self.below(100) < percent
    }

    /// Any number below `limit`, which is 1 or more.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A rate in percent: none for most faults of a run.
    pub(super) fn rate(&mut self) -> u64 {
        [0, 0, 0, 3, 20, 60][self.below(6) as usize]
    }
}
