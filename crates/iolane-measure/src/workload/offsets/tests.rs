//! Tests of patterns, generators and skew together: what a person asks for is what the engine gets.

use super::*;
use crate::workload::skew::Scramble;
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
    let chi_square: f64 = hits("uniform", 1000, 1_000_000, 1).iter().map(|n| (*n as f64 - 1000.0).powi(2) / 1e3).sum();
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
        let skew = Skew::new(Distribution::Pareto { h: 0.999_999_999_999_999_9 }, 3, seed);
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
fn a_share_too_small_for_a_block_is_only_a_place_to_start() {
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
        "zoned:",
        "zoned:90/10",
        "zoned:50/50:50/0:0/50",
        "zoned:60/50:50/50",
        "zoned:50/60:50/50",
        "zoned:12/12:11/11:11/11:11/11:11/11:11/11:11/11:11/11:11/11",
        "sequence:",
        "sequence:1,2",
        "sequence:1:x",
        "sequence:1/",
        "sequence:0:1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16",
        "skip:",
        "skip:0",
        "skip:-0",
        "skip:4k/0",
        "skip:-8k/16k",
        "skip:9223372036854775808",
        "skip:--8k",
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
        (0u8..=100, 1u8..100).prop_map(|(access, space)| {
            OffsetPattern::zoned(&[(access, space), (100 - access, 100 - space)]).unwrap()
        }),
        (prop::collection::vec(any::<u32>(), 1..=16), any::<u32>())
            .prop_map(|(blocks, advance)| OffsetPattern::sequence(&blocks, advance).unwrap()),
    ]
}

/// Skips by multiples of an alignment, forwards also after some bytes.
fn any_skip(align_bytes: u32, block_bytes_max: u32) -> impl Strategy<Value = OffsetPattern> {
    let aligned = move |units: i64| units * i64::from(align_bytes);
    let beyond_a_block = i64::from(block_bytes_max / align_bytes) + 1;
    prop_oneof![
        (1i64..1 << 20).prop_map(move |units| OffsetPattern::skip(aligned(units), None).unwrap()),
        (0i64..1 << 20).prop_map(move |units| OffsetPattern::skip(-aligned(beyond_a_block + units), None).unwrap()),
        (1i64..1 << 20, 1i64..99).prop_map(move |(units, every)| {
            OffsetPattern::skip(aligned(units), Some(aligned(every) as u64)).unwrap()
        }),
    ]
}

/// The first offsets of a sequential thread, in blocks of 4 KiB.
fn walked(pattern: &str, blocks: u64, count: usize, thread: ThreadShare) -> Vec<u64> {
    let region = region(blocks * 4096, 4096);
    let mut offsets = OffsetGenerator::new(pattern.parse().unwrap(), Access::Read, region, thread, 1).unwrap();
    (0..count).map(|_| offsets.next(4096) / 4096).collect()
}

#[test]
fn sequential_access_leaves_out_what_is_skipped_and_starts_over_at_the_end() {
    assert_eq!(walked("skip:8k", 8, 5, ThreadShare::ALONE), [0, 3, 6, 0, 3]);
    assert_eq!(walked("skip:12k/8k", 12, 7, ThreadShare::ALONE), [0, 1, 5, 6, 10, 11, 0]);
    assert_eq!(walked("skip:1t", 8, 3, ThreadShare::ALONE), [0, 0, 0]);
}

#[test]
fn a_skip_back_over_two_blocks_reads_all_blocks_from_the_end_to_the_start() {
    assert_eq!(walked("skip:-8k", 4, 6, ThreadShare::ALONE), [3, 2, 1, 0, 3, 2]);
    assert_eq!(walked("skip:-12k", 6, 4, ThreadShare::ALONE), [5, 3, 1, 5]);
}

#[test]
fn a_sequence_of_blocks_is_repeated_or_moves_on() {
    let drawn = |pattern: &str| {
        let mut offsets = generator(pattern, region(12 * 4096, 4096), 1);
        [(); 7].map(|()| offsets.next(4096) / 4096)
    };
    assert_eq!(drawn("sequence:2:0:1"), [2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(drawn("sequence:2:0:1/3"), [2, 0, 1, 5, 3, 4, 8]);
    assert_eq!(drawn("sequence:11/2"), [11, 1, 3, 5, 7, 9, 11]);
}

#[test]
fn each_thread_skips_within_its_share() {
    let second = ThreadShare { index: 1, count: 2 };
    assert_eq!(walked("skip:4k", 8, 4, second), [4, 6, 4, 6]);
    assert_eq!(walked("skip:-8k", 8, 5, second), [7, 6, 5, 4, 7]);
}

#[test]
fn a_zone_gets_its_share_of_the_accesses_where_it_lies() {
    let hits = hits("zoned:50/5:30/15:20/80", 10_000, 1_000_000, 1);
    for (zone, share) in [(0..500, 0.5), (500..2000, 0.3), (2000..10_000, 0.2)] {
        let found = hits[zone.clone()].iter().sum::<u64>() as f64 / 1e6;
        assert!((found - share).abs() < 0.003, "{zone:?}: {found}, expected {share}");
        // Evenly within the zone: half of them in its first half.
        let half = hits[zone.start..zone.start + zone.len() / 2].iter().sum::<u64>() as f64 / 1e6;
        assert!((half - share / 2.0).abs() < 0.003, "{zone:?}: {half} in the first half, expected {}", share / 2.0);
    }
}

#[test]
fn zones_work_in_a_region_of_fewer_blocks_than_zones() {
    assert!(hits("zoned:50/5:30/15:20/80", 1, 100, 1).iter().all(|n| *n == 100));
    assert!(hits("zoned:10/1:10/1:80/98", 2, 1000, 1).iter().all(|n| *n > 0));
}

proptest! {
    #[test]
    fn a_printed_skip_parses_back_to_itself(skip in any_skip(512, 4096)) {
        prop_assert_eq!(skip.to_string().parse::<OffsetPattern>().unwrap(), skip);
    }

    #[test]
    fn a_printed_pattern_parses_back_to_itself(pattern in any_pattern()) {
        prop_assert_eq!(pattern.to_string().parse::<OffsetPattern>().unwrap(), pattern);
    }

    #[test]
    fn no_text_makes_the_pattern_parser_panic(text in "(uniform|zipf|pareto|hot|zoned|sequence|skip)?:?(\\PC|[0-9./e-]){0,12}") {
        let _ = text.parse::<OffsetPattern>();
    }

    #[test]
    fn every_offset_is_aligned_and_its_block_lies_in_the_region(
        pattern in any_pattern(),
        is_random: bool,
        (start, spare) in prop_oneof![
            (0u64..1 << 20, 0u64..1 << 16),
            (0u64..1 << 61, 0u64..1 << 61),
        ],
        (align_bytes, block_bytes_max, skip) in
            prop_oneof![(1u32..=9000, 1u32..=100_000), (Just(4096), Just(65536))]
                .prop_flat_map(|(align, block)| (Just(align), Just(block), prop::option::of(any_skip(align, block)))),
        blocks in prop::collection::vec(0.0f64..=1.0, 1..50),
        (index, count) in (1u32..9).prop_flat_map(|count| (0..count, Just(count))),
        seed: u64,
    ) {
        let (access, pattern) = match is_random {
            true => (Access::RandRead, pattern),
            false => (Access::Read, skip.unwrap_or(OffsetPattern::UNIFORM)),
        };
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
