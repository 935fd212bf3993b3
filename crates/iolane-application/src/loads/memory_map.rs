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
    sorted: Sorted,
    /// Blocks that the program wants and did not get yet, as many as the depth: offset, and since when. A place among them is the tag.
    wanted: Vec<(u64, Instant)>,
    /// Places of those whose read has not begun.
    waiting: VecDeque<usize>,
    /// Draws offsets, in the order in which blocks are wanted: the same for every way.
    random: Xoshiro256PlusPlus,
    /// Draws places in the map.
    places: Xoshiro256PlusPlus,
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
                // Written once, so that no page of it is missing when it is measured: a pool has all of its pages, too.
                (channel, Map::Copied(vec![1; MAP_BLOCKS * BLOCK_BYTES]))
            }
            false => {
                let pool = Pool::new(MAP_BLOCKS, BLOCK_BYTES, Pages::Base)?;
                let blocks: Vec<Buffer> = (0..MAP_BLOCKS).filter_map(|_| pool.take()).collect();
                let config = QueueConfig::new(job.by.depth(job.target, job.depth)?);
                (Channel::with_pool(&job.by, job.target, config, pool)?, Map::Direct(blocks))
            }
        };
        let depth = job.depth as usize;
        let mut memory_map = Self {
            channel,
            map,
            part: job.prepared.layout.sorted(),
            sorted: Sorted::new(&job.prepared.layout),
            wanted: vec![(0, Instant::now()); depth],
            waiting: VecDeque::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            places: Xoshiro256PlusPlus::seed_from_u64(!seed),
        };
        (0..depth).for_each(|place| memory_map.want_another(place));
        Ok(memory_map)
    }

    fn want_another(&mut self, place: usize) {
        let block = self.random.next_u64() % self.part.blocks(BLOCK_BYTES);
        self.wanted[place] = (self.part.start + block * BLOCK_BYTES as u64, Instant::now());
        self.waiting.push_back(place);
    }

    /// Begins the read of a block that is wanted.
    fn read(&mut self, place: usize) -> Result<()> {
        let (offset, _) = self.wanted[place];
        match &mut self.map {
            Map::Copied(_) => self.channel.read(place as u64, offset, BLOCK_BYTES),
            Map::Direct(blocks) => {
                let block = blocks.swap_remove((self.places.next_u64() % blocks.len() as u64) as usize);
                self.channel.read_into(place as u64, offset, block);
                Ok(())
            }
        }
    }
}

impl Load for MemoryMap {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        while self.channel.room() > 0
            && let Some(place) = self.waiting.pop_front()
        {
            self.read(place)?;
        }
        for done in self.channel.wait(1)? {
            let Some(block) = done.buffer else { continue };
            let place = done.tag as usize;
            let (offset, since) = self.wanted[place];
            self.sorted.check(offset, &block)?;
            match &mut self.map {
                Map::Direct(blocks) => blocks.push(block),
                Map::Copied(map) => {
                    let to = (self.places.next_u64() % MAP_BLOCKS as u64) as usize * BLOCK_BYTES;
                    map[to..to + BLOCK_BYTES].copy_from_slice(&block);
                }
            }
            tally.note(1, BLOCK_BYTES, since.elapsed());
            self.want_another(place);
        }
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}
