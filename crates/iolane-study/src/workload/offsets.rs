//! Where each request goes: the distribution a person asks for (`OffsetPattern`) and the generator that the engine
//! calls once per request (`OffsetGenerator`). Nothing here allocates, locks or looks at a clock after construction.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;

use iolane::units::Bytes;
use iolane::{Error, Result};
use rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Access;

/// How random accesses spread over the region.
///
/// | written | means |
/// |---|---|
/// | `uniform` (or fio's `random`) | every block equally often |
/// | `zipf:1.2` | the block of rank r in proportion to r^-1.2 |
/// | `pareto:0.2` | a share h = 0.2 of the blocks takes 1 - h of the accesses, and so on within it (fio's `pareto`) |
/// | `hot:90/10` | 90 % of the accesses, evenly, to 10 % of the blocks; the others, evenly, to the rest |
///
/// Which blocks are hot follows from the seed; they are scattered over the region. Printing and parsing are inverse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffsetPattern(Kind);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Uniform,
    Zipf { theta: f64 },
    Pareto { h: f64 },
    Hot { access_percent: u8, space_percent: u8 },
}

impl OffsetPattern {
    /// Every block equally often.
    pub const UNIFORM: Self = Self(Kind::Uniform);

    /// The largest zipf exponent taken; one block has all but 2^-100 of the accesses there.
    pub const THETA_MAX: f64 = 100.0;

    /// Zipf's law with exponent `theta`, above 0 and up to [`THETA_MAX`](Self::THETA_MAX).
    ///
    /// # Errors
    /// `Usage` if it is outside.
    pub fn zipf(theta: f64) -> Result<Self> {
        if theta > 0.0 && theta <= Self::THETA_MAX {
            return Ok(Self(Kind::Zipf { theta }));
        }
        Err(refused(&format!("zipf:{theta}"), "theta is above 0 and at most 100"))
    }

    /// Pareto's rule: a share `h` of the blocks takes `1 - h` of the accesses; 0.5 is uniform.
    ///
    /// # Errors
    /// `Usage` if it is not between 0 and 1.
    pub fn pareto(h: f64) -> Result<Self> {
        if h > 0.0 && h < 1.0 {
            return Ok(Self(Kind::Pareto { h }));
        }
        Err(refused(&format!("pareto:{h}"), "h is above 0 and below 1"))
    }

    /// `access_percent` of the accesses go to `space_percent` of the blocks.
    ///
    /// # Errors
    /// `Usage` if one of them is not between 1 and 99.
    pub fn hot(access_percent: u8, space_percent: u8) -> Result<Self> {
        if (1..=99).contains(&access_percent) && (1..=99).contains(&space_percent) {
            return Ok(Self(Kind::Hot { access_percent, space_percent }));
        }
        Err(refused(&format!("hot:{access_percent}/{space_percent}"), "both are percentages between 1 and 99"))
    }
}

fn refused(text: &str, cause: &str) -> Error {
    Error::usage(format!("offset pattern `{text}`"), cause)
        .remedy("write it like uniform, zipf:1.2, pareto:0.2 or hot:90/10")
}

impl FromStr for OffsetPattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |value: &str| value.parse::<f64>().map_err(|_| refused(text, &format!("`{value}` is no number")));
        match text.split_once(':') {
            None if matches!(text, "uniform" | "random") => Ok(Self::UNIFORM),
            Some(("zipf", theta)) => Self::zipf(number(theta)?),
            Some(("pareto", h)) => Self::pareto(number(h)?),
            Some(("hot", shares)) => match shares.split_once('/').map(|(a, b)| (a.parse(), b.parse())) {
                Some((Ok(access_percent), Ok(space_percent))) => Self::hot(access_percent, space_percent),
                _ => Err(refused(text, "not two percentages")),
            },
            _ => Err(refused(text, "no pattern of that name")),
        }
    }
}

impl fmt::Display for OffsetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Uniform => f.write_str("uniform"),
            Kind::Zipf { theta } => write!(f, "zipf:{theta}"),
            Kind::Pareto { h } => write!(f, "pareto:{h}"),
            Kind::Hot { access_percent, space_percent } => write!(f, "hot:{access_percent}/{space_percent}"),
        }
    }
}

/// The part of a target that is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Every offset is a multiple of this, counted from the start of the target; the smallest block size as a rule.
    pub align_bytes: u32,
    /// The largest block that will be asked for.
    pub block_bytes_max: u32,
}

/// Which of the threads of a run a generator serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadShare {
    /// Number of this thread, from 0.
    pub index: u32,
    /// How many threads there are.
    pub count: u32,
}

impl ThreadShare {
    /// A run of one thread.
    pub const ALONE: Self = Self { index: 0, count: 1 };
}

/// Gives the offset of each request in turn; the same for the same arguments, on every machine for `uniform` and `hot`
/// (the others go through the C library's `pow`).
///
/// Random access draws from the whole region, each thread from a stream of its own, all agreeing on which blocks are
/// hot. Sequential access walks the thread's own share and starts over at its end; where a share is smaller than the
/// largest block, it starts at the share and walks the whole region.
#[derive(Debug, Clone)]
pub struct OffsetGenerator {
    grid: Grid,
    /// What follows from the block size of the last call. Kept, so that only a change of size pays for a division.
    fit: Fit,
    random: Xoshiro256PlusPlus,
    order: Order,
}

// With a tag of its own, which is read faster than one folded into a variant's.
#[derive(Debug, Clone)]
#[repr(u32)]
enum Order {
    Uniform,
    Sequential(Walk),
    Skewed(Skew),
}

impl OffsetGenerator {
    /// A generator over `region` for one thread. A sequential `access` takes no notice of `pattern`.
    ///
    /// # Errors
    /// `Usage` if the region cannot hold the largest block at an aligned offset, reaches beyond 2^63 - 1 bytes (the
    /// kernel's `loff_t`), an alignment or block size is 0, or the thread is not one of the count.
    pub fn new(pattern: OffsetPattern, access: Access, region: Region, thread: ThreadShare, seed: u64) -> Result<Self> {
        if thread.index >= thread.count {
            return Err(Error::usage(
                format!("thread {} of {}", thread.index, thread.count),
                "threads count from 0 to below their number",
            ));
        }
        let grid = Grid::new(region)?;
        let units = grid.fit(region.align_bytes.min(region.block_bytes_max)).positions;
        let order = match pattern.0 {
            _ if !access.is_random() => Order::Sequential(Walk::new(&grid, region.block_bytes_max, thread)),
            Kind::Uniform => Order::Uniform,
            kind => Order::Skewed(Skew::new(kind, units, seed)),
        };
        let fit = grid.fit(region.block_bytes_max);
        Ok(Self { grid, fit, random: random_stream(seed, thread.index), order })
    }

    /// The offset, in bytes from the start of the target, of the next block of `block_bytes`.
    ///
    /// The block lies in the region if `block_bytes` is at most the region's `block_bytes_max`.
    #[inline(always)]
    pub fn next(&mut self, block_bytes: u32) -> u64 {
        if block_bytes != self.fit.block_bytes {
            self.fit = self.grid.fit(block_bytes);
        }
        let last = self.fit.positions - 1;
        let place = match &mut self.order {
            Order::Uniform => scale(self.random.next_u64(), self.fit.positions),
            Order::Sequential(walk) => return self.grid.first + walk.next(&self.fit),
            // A block is hot by its first byte, whatever its size; the last ones are moved down until they fit.
            Order::Skewed(skew) => skew.next(&mut self.random).min(last),
        };
        self.grid.first + place * self.grid.align_bytes.get()
    }
}

/// The stream of random numbers of one thread; streams of different threads do not overlap within 2^128 draws.
pub fn random_stream(seed: u64, thread: u32) -> Xoshiro256PlusPlus {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..thread).for_each(|_| random.jump());
    random
}

/// Maps 64 random bits to `0..below` without a division: the high half of the product (Lemire, "Fast Random Integer
/// Generation in an Interval", 2019). Its bias, `below` / 2^64, is far under what any run could show.
#[inline]
pub(super) fn scale(random: u64, below: u64) -> u64 {
    ((u128::from(random) * u128::from(below)) >> 64) as u64
}

/// The aligned offsets of a region.
#[derive(Debug, Clone)]
struct Grid {
    /// The first aligned byte of the region.
    first: u64,
    /// From there to the region's end.
    bytes: u64,
    align_bytes: NonZero<u64>,
}

/// How blocks of one size lie on a grid.
#[derive(Debug, Clone)]
struct Fit {
    block_bytes: u32,
    /// At how many offsets a block can begin; 1 or more.
    positions: u64,
    /// The block size rounded up to the alignment.
    stride_bytes: u64,
}

impl Grid {
    fn new(region: Region) -> Result<Self> {
        let bad = |cause: String| {
            let Region { start, bytes, .. } = region;
            Error::usage(format!("a region of {} at {start}", Bytes(bytes)), cause)
        };
        let align_bytes = NonZero::new(u64::from(region.align_bytes)).filter(|_| region.block_bytes_max > 0);
        let align_bytes = align_bytes.ok_or_else(|| bad("blocks and their alignment are 1 byte or more".into()))?;
        let end = region.start.checked_add(region.bytes).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| bad("it reaches beyond 2^63 - 1 bytes".into()))?;
        let first = region.start.next_multiple_of(align_bytes.get());
        let bytes = end.saturating_sub(first);
        if bytes < u64::from(region.block_bytes_max) {
            let block = Bytes(region.block_bytes_max.into());
            return Err(bad(format!("it cannot hold a block of {block} aligned to {align_bytes} bytes"))
                .remedy("use smaller blocks or a larger --size"));
        }
        Ok(Self { first, bytes, align_bytes })
    }

    /// Kept out of line, so that drawing blocks of one size stays short.
    #[inline(never)]
    fn fit(&self, block_bytes: u32) -> Fit {
        let block = u64::from(block_bytes.max(1));
        debug_assert!(block <= self.bytes, "a block of {block} bytes in a region of {}", self.bytes);
        Fit {
            block_bytes,
            positions: self.bytes.saturating_sub(block) / self.align_bytes + 1,
            stride_bytes: ((block - 1) / self.align_bytes + 1) * self.align_bytes.get(),
        }
    }
}

/// Sequential access, in bytes from the start of the grid.
#[derive(Debug, Clone)]
struct Walk {
    next: u64,
    low: u64,
    high: u64,
}

impl Walk {
    fn new(grid: &Grid, block_bytes_max: u32, thread: ThreadShare) -> Self {
        let units = u128::from(grid.bytes / grid.align_bytes);
        let bound = |index: u32| (units * u128::from(index) / u128::from(thread.count)) as u64 * grid.align_bytes.get();
        let low = bound(thread.index);
        let high = if thread.index + 1 == thread.count { grid.bytes } else { bound(thread.index + 1) };
        if high - low < u64::from(block_bytes_max) {
            return Self { next: low, low: 0, high: grid.bytes };
        }
        Self { next: low, low, high }
    }

    #[inline]
    fn next(&mut self, fit: &Fit) -> u64 {
        let at = if self.next + u64::from(fit.block_bytes) > self.high { self.low } else { self.next };
        self.next = at + fit.stride_bytes;
        at
    }
}

/// Random access that prefers some blocks: a draw of a rank, 0 the hottest, and a scramble from ranks to blocks.
#[derive(Debug, Clone)]
struct Skew {
    rank: Rank,
    scramble: Scramble,
}

#[derive(Debug, Clone)]
enum Rank {
    Zipf(Zipf<f64>),
    Pareto { power: f64 },
    Hot { hot_units: u64, hot_up_to: u64 },
}

impl Skew {
    fn new(kind: Kind, units: u64, seed: u64) -> Self {
        let rank = match kind {
            Kind::Hot { access_percent, space_percent } => {
                let hot_units = (u128::from(units) * u128::from(space_percent) / 100).max(1) as u64;
                let hot_up_to = (u128::from(u64::MAX) * u128::from(access_percent) / 100) as u64;
                Rank::Hot { hot_units, hot_up_to }
            }
            Kind::Zipf { theta } => Rank::Zipf(zipf(units, theta)),
            Kind::Pareto { h } => Rank::Pareto { power: h.ln() / (-h).ln_1p() },
            // Never asked for; the exponent that gives it all the same.
            Kind::Uniform => Rank::Pareto { power: 1.0 },
        };
        Self { rank, scramble: Scramble::new(units, seed) }
    }

    /// Kept out of line, so that uniform offsets pay for no stack frame.
    #[inline(never)]
    fn next(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
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
        // Rounding can carry a float to one past the last rank; and where there is one block, no rank is cold.
        self.scramble.apply(rank.min(units - 1))
    }
}

fn zipf(units: u64, theta: f64) -> Zipf<f64> {
    // Next to 1 the sampler's 1 / (1 - theta) loses all its digits; the law itself hardly changes there.
    let theta = if (theta - 1.0).abs() < 1e-6 { 1.0 } else { theta };
    Zipf::new(units as f64, theta).expect("units is 1 or more, theta above 0: both parsed")
}

/// A bijection of `0..units`, keyed by the seed, that leaves no neighbours together but by chance.
///
/// fio hashes ranks and takes the remainder, which leaves a third of the blocks never touched and doubles others up;
/// a bijection keeps each rank's frequency as it was drawn. Multiplying by an odd number, xoring with a right shift and
/// adding are each one-to-one on k bits; what lands outside `0..units` is mapped again until it lands inside
/// ("cycle walking", Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002), twice at most on average.
#[derive(Debug, Clone)]
struct Scramble {
    units: u64,
    mask: u64,
    shift: u32,
    add: u64,
    multiply: [u64; 3],
}

impl Scramble {
    fn new(units: u64, seed: u64) -> Self {
        let bits = u64::BITS - (units - 1).leading_zeros();
        // A stream no thread uses: hot blocks must not depend on the number of draws or threads.
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
    fn apply(&self, rank: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn region(bytes: u64, block_bytes: u32) -> Region {
        Region { start: 0, bytes, align_bytes: block_bytes, block_bytes_max: block_bytes }
    }

    fn generator(pattern: &str, region: Region, seed: u64) -> OffsetGenerator {
        OffsetGenerator::new(pattern.parse().unwrap(), Access::RandRead, region, ThreadShare::ALONE, seed).unwrap()
    }

    /// How often each of `blocks` blocks of 4 KiB is hit in `draws` draws.
    fn hits(pattern: &str, blocks: u64, draws: usize, seed: u64) -> Vec<u64> {
        let mut offsets = generator(pattern, region(blocks * 4096, 4096), seed);
        let mut hits = vec![0; blocks as usize];
        for _ in 0..draws {
            hits[(offsets.next(4096) / 4096) as usize] += 1;
        }
        hits
    }

    fn hottest_first(mut hits: Vec<u64>) -> Vec<u64> {
        hits.sort_unstable_by(|a, b| b.cmp(a));
        hits
    }

    #[test]
    fn uniform_offsets_pass_a_chi_square_test() {
        // 999 degrees of freedom: mean 999, standard deviation 45; 6 in 100 000 fair generators are 4 of them off.
        let chi_square: f64 =
            hits("uniform", 1000, 1_000_000, 1).iter().map(|n| (*n as f64 - 1000.0).powi(2) / 1e3).sum();
        assert!((999.0 - 179.0..999.0 + 179.0).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn hot_90_10_sends_nine_tenths_of_the_accesses_to_a_tenth_of_the_blocks() {
        let hits = hits("hot:90/10", 10_000, 1_000_000, 1);
        let hot: Vec<usize> = (0..hits.len()).filter(|block| hits[*block] > 450).collect();
        assert_eq!(hot.len(), 1000);
        let share = hot.iter().map(|block| hits[*block]).sum::<u64>() as f64 / 1e6;
        assert!((share - 0.9).abs() < 0.003, "{share}");
        assert!(hits.iter().all(|n| *n > 0), "the cold blocks are all visited: 11 times each on average");
    }

    #[test]
    fn hot_blocks_are_scattered_over_the_region() {
        for (pattern, above) in [("hot:90/10", 450), ("zipf:0.9", 300), ("pareto:0.2", 300)] {
            let hits = hits(pattern, 10_000, 1_000_000, 1);
            let hot: Vec<usize> = (0..hits.len()).filter(|block| hits[*block] > above).collect();
            let tenth = hot.len() / 10;
            for tenth_of_region in 0..10 {
                let here = hot.iter().filter(|block| **block / 1000 == tenth_of_region).count();
                assert!(here > tenth / 3 && here < tenth * 2 + 10, "{pattern}: {here} of {} in a tenth", hot.len());
            }
            let pairs = hot.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(pairs < hot.len() / 4, "{pattern}: {pairs} of {} hot blocks have a hot neighbour", hot.len());
        }
    }

    #[test]
    fn zipf_frequencies_fall_with_the_rank_as_the_exponent_says() {
        let hits = hottest_first(hits("zipf:1.2", 1000, 1_000_000, 1));
        let sum: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-1.2)).sum();
        for rank in [1u32, 2, 4, 8, 16, 32] {
            let expected = 1e6 * f64::from(rank).powf(-1.2) / sum;
            let found = hits[rank as usize - 1] as f64;
            assert!((found / expected - 1.0).abs() < 0.05, "rank {rank}: {found}, expected {expected}");
        }
    }

    #[test]
    fn pareto_20_sends_four_fifths_of_the_accesses_to_a_fifth_of_the_blocks() {
        let hits = hottest_first(hits("pareto:0.2", 1000, 1_000_000, 1));
        let share = |blocks: usize| hits[..blocks].iter().sum::<u64>() as f64 / 1e6;
        assert!((share(200) - 0.8).abs() < 0.01, "{}", share(200));
        assert!((share(40) - 0.64).abs() < 0.01, "the same within the hot fifth: {}", share(40));
    }

    #[test]
    fn a_rank_that_rounding_carries_past_the_last_is_the_last() {
        for seed in 0..20 {
            let skew = Skew::new(Kind::Pareto { h: 0.999_999_999_999_999_9 }, 3, seed);
            assert_eq!(skew.next(&mut random_stream(seed, 0)), skew.scramble.apply(2));
        }
    }

    #[test]
    fn a_hot_share_below_one_block_is_one_block() {
        let hits = hottest_first(hits("hot:50/1", 10, 100_000, 1));
        assert!((hits[0] as f64 / 1e5 - 0.5).abs() < 0.01 && hits[1] < 7_000, "{hits:?}");
    }

    #[test]
    fn the_scramble_keeps_no_distance_between_ranks() {
        let scramble = Scramble::new(4096, 1);
        let places: Vec<u64> = (0..4096).map(|rank| scramble.apply(rank)).collect();
        let distances: HashSet<u64> = places.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) % 4096).collect();
        assert!(distances.len() > 1000, "{} distances", distances.len());
    }

    #[test]
    fn a_zipf_exponent_next_to_one_behaves_as_one() {
        let at_one = hits("zipf:1", 1000, 10_000, 3);
        assert_eq!(hits("zipf:1.0000000000000002", 1000, 10_000, 3), at_one);
        assert_eq!(hits("zipf:0.9999999999999999", 1000, 10_000, 3), at_one);
    }

    #[test]
    fn threads_draw_different_offsets_and_agree_on_the_hot_blocks() {
        let of_thread = |pattern: &str, index: u32| -> Vec<u64> {
            let thread = ThreadShare { index, count: 4 };
            let pattern = pattern.parse().unwrap();
            let region = region(1000 << 12, 4096);
            let mut offsets = OffsetGenerator::new(pattern, Access::RandWrite, region, thread, 9).unwrap();
            (0..20_000).map(|_| offsets.next(4096)).collect()
        };
        assert_ne!(of_thread("uniform", 0), of_thread("uniform", 1));
        let hot = |index: u32| -> HashSet<u64> {
            let mut hits = HashMap::new();
            of_thread("hot:99/1", index).into_iter().for_each(|offset| *hits.entry(offset).or_insert(0) += 1);
            hits.into_iter().filter(|(_, count)| *count > 500).map(|(offset, _)| offset).collect()
        };
        assert_eq!(hot(0).len(), 10);
        assert_eq!(hot(0), hot(3));
    }

    #[test]
    fn a_seed_decides_every_offset() {
        for pattern in ["uniform", "zipf:1.2", "pareto:0.2", "hot:90/10"] {
            let run = |seed: u64| -> Vec<u64> {
                let mut offsets = generator(pattern, region(1 << 30, 4096), seed);
                (0..100).map(|_| offsets.next(4096)).collect()
            };
            assert_eq!(run(5), run(5), "{pattern}");
            assert_ne!(run(5), run(6), "{pattern}");
        }
    }

    fn walk(region: Region, thread: ThreadShare, blocks: &[u32]) -> Vec<u64> {
        let mut offsets = OffsetGenerator::new(OffsetPattern::UNIFORM, Access::Read, region, thread, 1).unwrap();
        blocks.iter().map(|bytes| offsets.next(*bytes)).collect()
    }

    #[test]
    fn sequential_offsets_follow_each_other_and_start_over_at_the_end() {
        let offsets = walk(Region { start: 1000, ..region(20_000, 4096) }, ThreadShare::ALONE, &[4096; 6]);
        assert_eq!(offsets, [4096, 8192, 12_288, 16_384, 4096, 8192]);
    }

    #[test]
    fn a_sequential_block_that_is_no_multiple_of_the_alignment_moves_on_to_the_next() {
        let region = Region { start: 0, bytes: 32_768, align_bytes: 4096, block_bytes_max: 6144 };
        assert_eq!(walk(region, ThreadShare::ALONE, &[6144, 4096, 6144, 1, 6144]), [0, 8192, 12_288, 20_480, 24_576]);
    }

    #[test]
    fn sequential_threads_walk_shares_that_together_cover_the_region_once() {
        let shares = (0..3).map(|index| ThreadShare { index, count: 3 });
        let mut all: Vec<u64> = shares.flat_map(|share| walk(region(10 * 4096, 4096), share, &[4096; 3])).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9, "no block is walked by two threads in 3 requests each");
        assert_eq!(walk(region(10 * 4096, 4096), ThreadShare { index: 1, count: 3 }, &[4096; 4])[3], 3 * 4096);
    }

    #[test]
    fn a_share_too_small_for_a_block_is_a_place_to_start_alone() {
        let thread = ThreadShare { index: 3, count: 4 };
        let region = Region { start: 0, bytes: 8 * 512, align_bytes: 512, block_bytes_max: 2048 };
        assert_eq!(walk(region, thread, &[512, 512, 2048, 512]), [6 * 512, 7 * 512, 0, 2048]);
    }

    #[test]
    fn regions_that_cannot_hold_a_block_are_refused() {
        let new = |region, thread| OffsetGenerator::new(OffsetPattern::UNIFORM, Access::RandRead, region, thread, 1);
        let error = new(region(4095, 4096), ThreadShare::ALONE).unwrap_err().to_string();
        assert!(error.contains("cannot hold a block of 4k"), "{error}");
        assert!(new(Region { start: 1, ..region(8191, 4096) }, ThreadShare::ALONE).is_ok());
        for bad in [
            Region { start: 1, ..region(4096, 4096) },
            Region { align_bytes: 0, ..region(4096, 4096) },
            Region { block_bytes_max: 0, ..region(4096, 4096) },
            Region { start: u64::MAX, ..region(4096, 4096) },
            region(u64::MAX, 4096),
        ] {
            assert!(new(bad, ThreadShare::ALONE).is_err(), "{bad:?}");
        }
        assert!(new(region(4096, 4096), ThreadShare { index: 2, count: 2 }).is_err());
    }

    #[test]
    fn texts_that_are_no_pattern_are_refused_and_named() {
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:nan",
            "zipf:inf",
            "zipf:101",
            "pareto:0",
            "pareto:1",
            "hot:90",
            "hot:0/10",
            "hot:90/100",
            "hot:90/10/1",
            "hot:300/1",
            "uniform:1",
            "Uniform",
        ] {
            let error = text.parse::<OffsetPattern>().expect_err(text).to_string();
            assert!(error.contains("offset pattern") && error.contains("zipf:1.2"), "{error}");
        }
        assert_eq!("random".parse::<OffsetPattern>().unwrap(), OffsetPattern::UNIFORM);
    }

    fn any_pattern() -> impl Strategy<Value = OffsetPattern> {
        prop_oneof![
            Just(OffsetPattern::UNIFORM),
            (1e-9f64..100.0).prop_map(|theta| OffsetPattern::zipf(theta).unwrap()),
            (1e-9f64..1.0).prop_map(|h| OffsetPattern::pareto(h).unwrap()),
            (1u8..100, 1u8..100).prop_map(|(access, space)| OffsetPattern::hot(access, space).unwrap()),
        ]
    }

    proptest! {
        #[test]
        fn a_printed_pattern_parses_back_to_itself(pattern in any_pattern()) {
            prop_assert_eq!(pattern.to_string().parse::<OffsetPattern>().unwrap(), pattern);
        }

        #[test]
        fn no_text_makes_the_pattern_parser_panic(text in "(uniform|zipf|pareto|hot)?:?(\\PC|[0-9./e-]){0,12}") {
            let _ = text.parse::<OffsetPattern>();
        }

        #[test]
        fn every_offset_is_aligned_and_its_block_lies_in_the_region(
            pattern in any_pattern(),
            random: bool,
            (start, spare) in prop_oneof![
                (0u64..1 << 20, 0u64..1 << 16),
                (0u64..1 << 61, 0u64..1 << 61),
            ],
            (align_bytes, block_bytes_max) in prop_oneof![(1u32..=9000, 1u32..=100_000), (Just(4096), Just(65536))],
            blocks in prop::collection::vec(0.0f64..=1.0, 1..50),
            (index, count) in (1u32..9).prop_flat_map(|count| (0..count, Just(count))),
            seed: u64,
        ) {
            let access = if random { Access::RandRead } else { Access::Read };
            let bytes = spare + u64::from(align_bytes) + u64::from(block_bytes_max);
            let region = Region { start, bytes, align_bytes, block_bytes_max };
            let mut offsets =
                OffsetGenerator::new(pattern, access, region, ThreadShare { index, count }, seed).unwrap();
            for fraction in blocks {
                let block_bytes = ((f64::from(block_bytes_max) * fraction) as u32).max(1);
                let offset = offsets.next(block_bytes);
                prop_assert!(offset >= start && offset + u64::from(block_bytes) <= start + bytes);
                prop_assert!(offset.is_multiple_of(u64::from(align_bytes)));
            }
        }

        #[test]
        fn blocks_of_one_size_never_overlap(pattern in any_pattern(), block_bytes in 1u32..5000, seed: u64) {
            let mut offsets = generator(&pattern.to_string(), region(1 << 20, block_bytes), seed);
            for _ in 0..50 {
                prop_assert!(offsets.next(block_bytes).is_multiple_of(u64::from(block_bytes)));
            }
        }

        #[test]
        fn the_scramble_maps_ranks_one_to_one(units in 1u64..3000, seed: u64) {
            let scramble = Scramble::new(units, seed);
            let places: HashSet<u64> = (0..units).map(|rank| scramble.apply(rank)).collect();
            prop_assert_eq!(places.len() as u64, units);
            prop_assert!(places.iter().all(|place| *place < units));
        }

        #[test]
        fn every_block_can_be_reached_whatever_the_size_of_the_region(blocks in 1u64..40, seed: u64) {
            let hits = hits("uniform", blocks, 2000, seed);
            prop_assert!(hits.iter().all(|n| *n > 0), "{:?}", hits);
        }
    }
}
