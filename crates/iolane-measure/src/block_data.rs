//! What written blocks hold, unless --verify decides it: random bytes, as far as the workload lets a device reduce them. Each
//! thread has one; the engine asks it once per write.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::workload::{Workload, percent_of, random_stream, scale};

/// A device that compresses looks at pieces of about this size or larger (fio's `buffer_compress_chunk`).
const CHUNK_BYTES: usize = 512;

/// A device that deduplicates compares pieces of this size or larger.
const PIECE_BYTES: usize = 4096;

/// Distinct from the random streams of requests, arrivals and a study's order.
const DATA_STREAM: u32 = 62;

#[derive(Debug, Clone)]
pub(crate) struct BlockData {
    random: Xoshiro256PlusPlus,
    /// Of each chunk, the bytes before the zeroes.
    random_bytes: usize,
    duplicates: Option<Duplicates>,
    /// Written at the start of each piece that repeats none, and then incremented; threads have ranges of their own.
    serial: u64,
}

#[derive(Debug, Clone)]
struct Duplicates {
    /// A block repeats another if 64 random bits are at most this.
    up_to: u64,
    /// Number of contents that are repeated.
    set: u64,
    /// The smallest block: the unit that is repeated.
    block_bytes: usize,
    /// The contents are the same for all threads.
    seed: u64,
}

impl BlockData {
    /// The data of a thread that writes to `region_bytes` of a target.
    pub(crate) fn new(workload: &Workload, region_bytes: u64, thread: u32) -> Self {
        let (pattern, block_bytes) = (workload.data, workload.block_sizes.min());
        let duplicates = pattern.duplicates().map(|(percent, set_percent)| Duplicates {
            up_to: percent_of(u64::MAX, percent.into()),
            set: percent_of(region_bytes / u64::from(block_bytes), set_percent.into()).max(1),
            block_bytes: block_bytes as usize,
            seed: workload.seed,
        });
        // A seed for each thread, since a stream is found by jumping from the one before.
        let seed = workload.seed.wrapping_add(u64::from(thread) << 32);
        Self {
            random: random_stream(seed, DATA_STREAM),
            random_bytes: CHUNK_BYTES - CHUNK_BYTES * usize::from(pattern.compress_percent()) / 100,
            duplicates,
            serial: u64::from(thread) << 40,
        }
    }

    /// Fills a buffer before its first use.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        fill_chunks(buffer, self.random_bytes, &mut self.random);
    }

    /// Makes the content of the next block from that of an earlier one.
    #[inline(never)]
    pub(crate) fn renew(&mut self, block: &mut [u8]) {
        let Some(duplicates) = &self.duplicates else { return self.make_distinct(block) };
        let (unit_bytes, up_to, set, seed) =
            (duplicates.block_bytes, duplicates.up_to, duplicates.set, duplicates.seed);
        for unit in block.chunks_mut(unit_bytes) {
            if self.random.next_u64() > up_to {
                self.make_distinct(unit);
                continue;
            }
            let content = scale(self.random.next_u64(), set);
            let mut of_content = Xoshiro256PlusPlus::seed_from_u64(seed ^ content.rotate_left(32));
            fill_chunks(unit, self.random_bytes, &mut of_content);
        }
    }

    /// Makes each piece differ from all others, without touching the rest of it. Only zeroes stay as they are.
    fn make_distinct(&mut self, block: &mut [u8]) {
        if self.random_bytes < size_of::<u64>() {
            return;
        }
        for piece in block.chunks_mut(PIECE_BYTES) {
            let length = piece.len().min(size_of::<u64>());
            piece[..length].copy_from_slice(&self.serial.to_le_bytes()[..length]);
            self.serial += 1;
        }
    }
}

/// Random bytes at the start of each chunk, zeroes after them.
fn fill_chunks(block: &mut [u8], random_bytes: usize, random: &mut Xoshiro256PlusPlus) {
    for chunk in block.chunks_mut(CHUNK_BYTES) {
        let (noise, zeroes) = chunk.split_at_mut(random_bytes.min(chunk.len()));
        random.fill_bytes(noise);
        zeroes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::workload::Access;

    fn data(pattern: &str, thread: u32) -> BlockData {
        let workload = Workload { access: Access::RandWrite, data: pattern.parse().unwrap(), ..Workload::default() };
        BlockData::new(&workload, 1000 * 4096, thread)
    }

    /// The contents of `count` blocks of 4 KiB that go through one buffer.
    fn written(data: &mut BlockData, count: usize) -> Vec<Vec<u8>> {
        let mut buffer = vec![0xff; 4096];
        data.fill(&mut buffer);
        let next = |_| {
            data.renew(&mut buffer);
            buffer.clone()
        };
        (0..count).map(next).collect()
    }

    fn share_of_zeroes(blocks: &[Vec<u8>]) -> f64 {
        let zeroes = blocks.iter().flatten().filter(|byte| **byte == 0).count();
        zeroes as f64 / (blocks.len() * 4096) as f64
    }

    #[test]
    fn no_two_pieces_of_random_data_are_alike_in_any_thread() {
        let mut pieces = HashSet::new();
        for thread in 0..3 {
            let mut data = data("random", thread);
            let mut buffer = vec![0; 16384];
            data.fill(&mut buffer);
            for _ in 0..100 {
                data.renew(&mut buffer);
                assert!(buffer.chunks(4096).all(|piece| pieces.insert(piece.to_vec())));
            }
        }
        assert_eq!(pieces.len(), 3 * 100 * 4);
    }

    #[test]
    fn a_share_of_every_512_bytes_is_zero() {
        for (pattern, share) in [("random", 0.0), ("compress:50", 0.5), ("compress:75", 0.75), ("compress:100", 1.0)] {
            let blocks = written(&mut data(pattern, 0), 20);
            let found = share_of_zeroes(&blocks);
            // One random byte in 256 is zero, and so are most bytes of a serial number.
            assert!((share..share + 0.006).contains(&found), "{pattern}: {found}");
        }
        let block = &written(&mut data("compress:50", 0), 1)[0];
        assert!(block.chunks(512).all(|chunk| chunk[256..].iter().all(|byte| *byte == 0)));
    }

    #[test]
    fn a_share_of_the_blocks_repeats_a_set_that_all_threads_have() {
        let mut seen = HashSet::new();
        let mut blocks = Vec::new();
        for thread in 0..2 {
            blocks.extend(written(&mut data("dedupe:40/5", thread), 5000));
        }
        let repeated = blocks.iter().filter(|block| !seen.insert((*block).clone())).count();
        // A set of 5 % of 1000 blocks: the first of each is no repetition.
        let share = (repeated + 50) as f64 / blocks.len() as f64;
        assert!((share - 0.4).abs() < 0.02, "{share}");
    }

    #[test]
    fn what_repeats_can_be_compressed_too() {
        let blocks = written(&mut data("compress:50+dedupe:50/5", 0), 1000);
        assert!((0.5..0.51).contains(&share_of_zeroes(&blocks)));
        let distinct: HashSet<&Vec<u8>> = blocks.iter().collect();
        assert!((500..620).contains(&distinct.len()), "{}", distinct.len());
    }
}
