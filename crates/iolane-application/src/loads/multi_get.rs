//! Lookups of many keys at once: the index names the block of each, the blocks are read at the same time, and each is searched.

use std::collections::BTreeMap;
use std::time::Instant;

use iolane::{Error, Result};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::load::Load;
use crate::channel::Channel;
use crate::data::{BLOCK_BYTES, RECORD_BYTES, Sorted};
use crate::job::Job;
use crate::tally::Tally;

pub(super) struct MultiGet {
    channel: Channel,
    sorted: Sorted,
    keys: usize,
    random: Xoshiro256PlusPlus,
}

impl MultiGet {
    pub(super) fn open(job: &Job<'_>, seed: u64) -> Result<Self> {
        Ok(Self {
            channel: Channel::open(&job.by, job.target, job.depth, BLOCK_BYTES)?,
            sorted: Sorted::new(&job.prepared.layout),
            keys: job.depth as usize,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }
}

impl Load for MultiGet {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        let begun = Instant::now();
        // A block that has several of the keys is read once.
        let mut wanted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for _ in 0..self.keys {
            let key = self.sorted.nth_key(self.random.next_u64() % self.sorted.keys());
            wanted.entry(self.sorted.offset_of(key)).or_default().push(key);
        }
        let mut offsets = wanted.keys();
        let mut left = wanted.len();
        while left > 0 {
            for offset in offsets.by_ref().take(self.channel.room()) {
                self.channel.read(*offset, *offset, BLOCK_BYTES)?;
            }
            for done in self.channel.wait(1)? {
                let block = done.buffer.as_deref().unwrap_or_default();
                wanted[&done.tag].iter().try_for_each(|key| found(block, *key))?;
                left -= 1;
            }
        }
        tally.note(self.keys as u64, self.keys * RECORD_BYTES, begun.elapsed());
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}

/// Checks that a block has the key with its value.
pub(super) fn found(block: &[u8], key: u64) -> Result<()> {
    match Sorted::find(block, key) {
        Some(value) if value == key.wrapping_mul(key) => Ok(()),
        _ => Err(Error::failed(format!("key {key}"), "its block does not have it")
            .remedy("let nothing else write to the target")),
    }
}
