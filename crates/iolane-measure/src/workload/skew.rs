//! Skewed random access: which blocks are hot, and how often each is drawn, scattered or zone by zone. `offsets` calls it
//! once per request.

use rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution as _, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::offset_pattern::{Distribution, Zones};
use super::random::{percent_of, scale};

/// Random access that prefers some blocks: it draws a rank, 0 being the hottest, and maps ranks to scattered blocks.
#[derive(Debug, Clone)]
pub(super) struct Skew {
    rank: Rank,
    pub(super) scramble: Scramble,
}

#[derive(Debug, Clone)]
enum Rank {
    Zipf(Zipf<f64>),
    Pareto { power: f64 },
    Hot { hot_units: u64, hot_up_to: u64 },
}

impl Skew {
    pub(super) fn new(kind: Distribution, units: u64, seed: u64) -> Self {
        let rank = match kind {
            Distribution::Hot { access_percent, space_percent } => {
                let hot_units = percent_of(units, space_percent.into()).max(1);
                let hot_up_to = percent_of(u64::MAX, access_percent.into());
                Rank::Hot { hot_units, hot_up_to }
            }
            Distribution::Zipf { theta } => Rank::Zipf(zipf(units, theta)),
            Distribution::Pareto { h } => Rank::Pareto { power: h.ln() / (-h).ln_1p() },
            // Drawn without ranks; this exponent would yield uniform offsets.
            Distribution::Uniform | Distribution::Zoned(_) | Distribution::Sequence(_) | Distribution::Skip(_) => {
                Rank::Pareto { power: 1.0 }
            }
        };
        Self { rank, scramble: Scramble::new(units, seed) }
    }

    /// Not inlined, so that uniform offsets need no stack frame.
    #[inline(never)]
    pub(super) fn next(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        let units = self.scramble.units;
        let rank = match &self.rank {
            Rank::Hot { hot_units, hot_up_to } if random.next_u64() <= *hot_up_to => {
                scale(random.next_u64(), *hot_units)
            }
            Rank::Hot { hot_units, .. } => hot_units + scale(random.next_u64(), units - hot_units),
            Rank::Zipf(zipf) => (zipf.sample(random) as u64).saturating_sub(1),
            Rank::Pareto { power } => {
                let fraction = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                (units as f64 * fraction.powf(*power)) as u64
            }
        };
        // Rounding can yield one past the last rank, and with a single block no rank is cold.
        self.scramble.apply(rank.min(units - 1))
    }
}

/// Random access to adjoining zones, each with its share of the accesses.
#[derive(Debug, Clone)]
pub(super) struct ZoneDraw {
    zones: Vec<Zone>,
}

#[derive(Debug, Clone)]
struct Zone {
    /// It is drawn if 64 random bits are at most this, and above that of the zone before.
    up_to: u64,
    first_unit: u64,
    units: u64,
}

impl ZoneDraw {
    pub(super) fn new(zones: &Zones, units: u64) -> Self {
        let (mut access, mut space) = (0, 0);
        let zone = |(access_percent, space_percent): &(u8, u8)| {
            access += u32::from(*access_percent);
            let first_unit = percent_of(units, space).min(units - 1);
            space += u32::from(*space_percent);
            // A region of few blocks may have none for a small zone, which then shares its first.
            let zone_units = percent_of(units, space).saturating_sub(first_unit).max(1);
            Zone { up_to: percent_of(u64::MAX, access), first_unit, units: zone_units }
        };
        Self { zones: zones.shares().iter().map(zone).collect() }
    }

    #[inline(never)]
    pub(super) fn next(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        let drawn = random.next_u64();
        let zone = self.zones.iter().find(|zone| drawn <= zone.up_to);
        let zone = zone.expect("the last zone reaches up to u64::MAX: its accesses add up to 100 %");
        zone.first_unit + scale(random.next_u64(), zone.units)
    }
}

fn zipf(units: u64, theta: f64) -> Zipf<f64> {
    // Close to 1 the sampler's 1 / (1 - theta) loses all precision, while the distribution hardly changes.
    let theta = if (theta - 1.0).abs() < 1e-6 { 1.0 } else { theta };
    Zipf::new(units as f64, theta).expect("units is at least 1 and theta above 0: both were checked")
}

/// A bijection of `0..units`, keyed by the seed, that keeps neighbours together only by chance.
///
/// fio hashes ranks and takes the remainder, which never touches a third of the blocks and puts several ranks on others; a
/// bijection keeps the frequency of each rank. Multiplying by an odd number, xoring with a right shift and adding are each
/// one-to-one on k bits. A result outside `0..units` is mapped again until it is inside ("cycle walking", Black and Rogaway,
/// "Ciphers with Arbitrary Finite Domains", 2002), at most twice on average.
#[derive(Debug, Clone)]
pub(super) struct Scramble {
    units: u64,
    mask: u64,
    shift: u32,
    add: u64,
    multiply: [u64; 3],
}

impl Scramble {
    pub(super) fn new(units: u64, seed: u64) -> Self {
        let bits = u64::BITS - (units - 1).leading_zeros();
        // A stream that no thread uses: hot blocks must not depend on the number of draws or threads.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        random.long_jump();
        Self {
            units,
            mask: 1u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1),
            shift: bits.div_ceil(2).max(1),
            add: random.next_u64(),
            multiply: [(); 3].map(|()| random.next_u64() | 1),
        }
    }

    #[inline]
    pub(super) fn apply(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            x = x.wrapping_add(self.add) & self.mask;
            for factor in self.multiply {
                x = x.wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.units {
                return x;
            }
        }
    }
}
