//! Small random reads of compressed blocks, each decompressed to another place in memory: the second load of floe26.

use std::collections::VecDeque;
use std::time::Instant;

use iolane::Result;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::load::Load;
use crate::channel::Channel;
use crate::data::{PACKED_BYTES, Packed, UNPACKED_BYTES};
use crate::job::Job;
use crate::tally::Tally;

/// Where the blocks are decompressed to: more than the processor's caches hold.
const MEMORY_BYTES: usize = 64 << 20;

pub(super) struct Decompress {
    channel: Channel,
    start: u64,
    blocks: u64,
    memory: Vec<u8>,
    /// Blocks that the program wants and did not get yet, as many as the depth: which, and since when. Its place with its number is the tag.
    wanted: Vec<(u64, Instant)>,
    /// Places of those whose read has not begun.
    waiting: VecDeque<usize>,
    /// Draws blocks, in the order in which they are wanted: the same for every way.
    random: Xoshiro256PlusPlus,
    /// Draws places in memory.
    places: Xoshiro256PlusPlus,
}

impl Decompress {
    pub(super) fn open(job: &Job<'_>, seed: u64) -> Result<Self> {
        let packed = job.prepared.layout.packed;
        let depth = job.depth as usize;
        let mut decompress = Self {
            channel: Channel::open(&job.by, job.target, job.depth, PACKED_BYTES)?,
            start: packed.start,
            blocks: packed.blocks(PACKED_BYTES),
            // Written once, so that no page of it is missing when it is measured.
            memory: vec![1; MEMORY_BYTES],
            wanted: vec![(0, Instant::now()); depth],
            waiting: VecDeque::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            places: Xoshiro256PlusPlus::seed_from_u64(!seed),
        };
        (0..depth).for_each(|place| decompress.want_another(place));
        Ok(decompress)
    }

    fn want_another(&mut self, place: usize) {
        self.wanted[place] = (self.random.next_u64() % self.blocks, Instant::now());
        self.waiting.push_back(place);
    }
}

impl Load for Decompress {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        while self.channel.room() > 0
            && let Some(place) = self.waiting.pop_front()
        {
            let (block, _) = self.wanted[place];
            let tag = block << 32 | place as u64;
            self.channel.read(tag, self.start + block * PACKED_BYTES as u64, PACKED_BYTES)?;
        }
        for done in self.channel.wait(1)? {
            let (block, place) = (done.tag >> 32, done.tag as u32 as usize);
            let to = self.places.next_u64() as usize % (MEMORY_BYTES / UNPACKED_BYTES) * UNPACKED_BYTES;
            let to = &mut self.memory[to..to + UNPACKED_BYTES];
            Packed::open(block, done.buffer.as_deref().unwrap_or_default(), to)?;
            let (_, since) = self.wanted[place];
            tally.note(1, UNPACKED_BYTES, since.elapsed());
            self.want_another(place);
        }
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}
