//! Small random reads of compressed blocks, each decompressed to another place in memory: the second load of floe26.

use std::time::Instant;

use iolane::Result;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Channel, Load};
use crate::data::{PACKED_BYTES, Packed, UNPACKED_BYTES};
use crate::run::Job;
use crate::tally::Tally;

/// Where the blocks are decompressed to: more than the processor's caches hold.
const MEMORY_BYTES: usize = 64 << 20;

pub(super) struct Decompress {
    channel: Channel,
    start: u64,
    blocks: u64,
    memory: Vec<u8>,
    /// When each request in flight began, by its number; the number with the block is its tag.
    begun: Vec<Instant>,
    free: Vec<usize>,
    random: Xoshiro256PlusPlus,
}

impl Decompress {
    pub(super) fn open(job: &Job<'_>, seed: u64) -> Result<Self> {
        let packed = job.prepared.layout.packed;
        Ok(Self {
            channel: Channel::open(&job.by, job.target, job.depth, PACKED_BYTES)?,
            start: packed.start,
            blocks: packed.blocks(PACKED_BYTES),
            memory: vec![0; MEMORY_BYTES],
            begun: vec![Instant::now(); job.depth as usize],
            free: (0..job.depth as usize).collect(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }
}

impl Load for Decompress {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        while self.channel.room() > 0
            && let Some(place) = self.free.pop()
        {
            let block = self.random.next_u64() % self.blocks;
            self.begun[place] = Instant::now();
            let tag = block << 32 | place as u64;
            self.channel.read(tag, self.start + block * PACKED_BYTES as u64, PACKED_BYTES)?;
        }
        for done in self.channel.wait(1)? {
            let (block, place) = (done.tag >> 32, done.tag as u32 as usize);
            let to = self.random.next_u64() as usize % (MEMORY_BYTES / UNPACKED_BYTES) * UNPACKED_BYTES;
            let to = &mut self.memory[to..to + UNPACKED_BYTES];
            Packed::open(block, done.buffer.as_deref().unwrap_or_default(), to)?;
            tally.note(1, UNPACKED_BYTES, self.begun[place].elapsed());
            self.free.push(place);
        }
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}
