//! Large random reads to places all over a memory map that is too large to be registered: the first load of floe26. A path with
//! registered buffers reads into a few of them, and copies to the map.

use std::collections::VecDeque;
use std::time::Instant;

use iolane::{Buffer, Pages, Pool, QueueConfig, Result, interface_of};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::load::Load;
use crate::by::By;
use crate::channel::Channel;
use crate::data::{Part, Sorted};
use crate::job::Job;
use crate::tally::Tally;

const BLOCK_BYTES: usize = 128 << 10;
/// More than most machines allow a program to lock (`ulimit -l`), and far more than their caches.
const MAP_BLOCKS: usize = 2048;

/// Where the blocks go.
enum Map {
    /// The queue reads into it. Those that no request has are here.
    Direct(Vec<Buffer>),
    /// Blocks are copied to it from registered buffers.
    Copied(Vec<u8>),
}

pub(super) struct MemoryMap {
    channel: Channel,
    map: Map,
    part: Part,
    /// When the program began to want a block, for each of as many as the depth; its place is the tag.
    wanted: Vec<Instant>,
    /// Places of those whose read has not begun.
    waiting: VecDeque<usize>,
    random: Xoshiro256PlusPlus,
}

impl MemoryMap {
    pub(super) fn open(job: &Job<'_>, seed: u64) -> Result<Self> {
        let registers = match &job.by {
            By::Path(path) => interface_of(path)?.requires_registered_memory(path),
            By::Rival(_) => false,
        };
        let (channel, map) = match registers {
            true => {
                let channel = Channel::open(&job.by, job.target, job.depth, BLOCK_BYTES)?;
                (channel, Map::Copied(vec![0; MAP_BLOCKS * BLOCK_BYTES]))
            }
            false => {
                let pool = Pool::new(MAP_BLOCKS, BLOCK_BYTES, Pages::Base)?;
                let blocks: Vec<Buffer> = (0..MAP_BLOCKS).filter_map(|_| pool.take()).collect();
                let config = QueueConfig::new(job.by.depth(job.target, job.depth)?);
                (Channel::with_pool(&job.by, job.target, config, pool)?, Map::Direct(blocks))
            }
        };
        Ok(Self {
            channel,
            map,
            part: job.prepared.layout.sorted(),
            wanted: vec![Instant::now(); job.depth as usize],
            waiting: (0..job.depth as usize).collect(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }

    fn random_below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end as u64) as usize
    }
}

impl Load for MemoryMap {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        while self.channel.room() > 0
            && let Some(place) = self.waiting.pop_front()
        {
            let offset =
                self.part.start + (self.random_below(self.part.blocks(BLOCK_BYTES) as usize) * BLOCK_BYTES) as u64;
            let there = match &self.map {
                Map::Direct(blocks) => Some(blocks.len()),
                Map::Copied(_) => None,
            };
            let tag = place as u64;
            let at = self.random_below(there.unwrap_or(1));
            match &mut self.map {
                Map::Direct(blocks) => {
                    let block = blocks.swap_remove(at);
                    self.channel.read_into(tag, offset, block);
                }
                Map::Copied(_) => self.channel.read(tag, offset, BLOCK_BYTES)?,
            }
        }
        for done in self.channel.wait(1)? {
            let Some(block) = done.buffer else { continue };
            Sorted::check(&block)?;
            let to = self.random_below(MAP_BLOCKS) * BLOCK_BYTES;
            match &mut self.map {
                Map::Direct(blocks) => blocks.push(block),
                Map::Copied(map) => map[to..to + BLOCK_BYTES].copy_from_slice(&block),
            }
            let place = done.tag as usize;
            tally.note(1, BLOCK_BYTES, self.wanted[place].elapsed());
            self.wanted[place] = Instant::now();
            self.waiting.push_back(place);
        }
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}
