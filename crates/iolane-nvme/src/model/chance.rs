//! Random draws from the seed of a model's faults: whether one occurs, and how.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(super) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// True in `in_65536` of 65536 cases. A fault that never occurs draws nothing, so that it does not change the other draws.
    pub(super) fn strikes(&mut self, in_65536: u32) -> bool {
        in_65536 > 0 && self.0.next_u64() >> 48 < u64::from(in_65536)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.0.next_u64() >> 63 == 1
    }

    /// Any number below `limit`, which is 1 or more.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
