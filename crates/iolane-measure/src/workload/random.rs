//! Random numbers of a workload: a stream for each thread, and draws below a bound without a division.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The stream of random numbers of one thread; streams of different threads do not overlap within 2^128 draws.
pub fn random_stream(seed: u64, thread: u32) -> Xoshiro256PlusPlus {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..thread).for_each(|_| random.jump());
    random
}

/// Maps 64 random bits to `0..below` without a division: the high half of the product (Lemire, "Fast Random Integer
/// Generation in an Interval", 2019). Its bias, `below` / 2^64, is far too small for any run to show.
#[inline]
pub(crate) fn scale(random: u64, below: u64) -> u64 {
    ((u128::from(random) * u128::from(below)) >> 64) as u64
}

/// A percentage of a whole, rounded down. Of `u64::MAX` it is the bound up to which 64 random bits fall as often as that.
pub(crate) fn percent_of(whole: u64, percent: u32) -> u64 {
    (u128::from(whole) * u128::from(percent) / 100) as u64
}
