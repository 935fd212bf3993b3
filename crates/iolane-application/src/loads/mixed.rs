//! Lookups that arrive at a rate, under a load that shifts in thirds of the run: single keys; batches of 64, as seldom as the rate
//! allows; single keys again, beside a merge in a thread of its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use iolane::{Error, Result};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::load::Load;
use super::multi_get::found;
use crate::channel::Channel;
use crate::data::{BLOCK_BYTES, RECORD_BYTES, Sorted};
use crate::job::Job;
use crate::tally::Tally;

const BATCH: u32 = 64;
/// How long a thread waits at most, so that the end of the run is noticed.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// A key that is looked up.
#[derive(Debug, Clone, Copy)]
struct Lookup {
    key: u64,
    arrived: Instant,
}

pub(super) struct Mixed {
    channel: Channel,
    sorted: Sorted,
    /// Keys per second of this thread.
    rate: f64,
    next_arrival: Instant,
    waiting: VecDeque<Lookup>,
    /// Lookups whose block is being read, by their tag.
    reading: Vec<Option<Lookup>>,
    free: Vec<usize>,
    random: Xoshiro256PlusPlus,
}

impl Mixed {
    pub(super) fn open(job: &Job<'_>, seed: u64, thread: usize) -> Result<Self> {
        let rate = job.rate.ok_or_else(|| {
            Error::usage("application mixed", "its lookups come at a rate").remedy("give its group a `rate`")
        })?;
        let depth = job.depth as usize;
        // The arrivals of all threads together are even.
        let first = Duration::from_secs_f64(thread as f64 / rate);
        let rate = rate / job.threads as f64;
        Ok(Self {
            channel: Channel::open(&job.by, job.target, job.depth, BLOCK_BYTES)?,
            sorted: Sorted::new(&job.prepared.layout),
            rate,
            next_arrival: Instant::now() + first,
            waiting: VecDeque::new(),
            reading: vec![None; depth],
            free: (0..depth).collect(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }

    /// Adds the lookups that have arrived.
    fn arrive(&mut self, share: f64) {
        let keys = if (1.0 / 3.0..2.0 / 3.0).contains(&share) { BATCH } else { 1 };
        let now = Instant::now();
        while self.next_arrival <= now {
            for _ in 0..keys {
                let key = self.sorted.nth_key(self.random.next_u64() % self.sorted.keys());
                self.waiting.push_back(Lookup { key, arrived: self.next_arrival });
            }
            self.next_arrival += Duration::from_secs_f64(f64::from(keys) / self.rate);
        }
    }
}

impl Load for Mixed {
    fn turn(&mut self, share: f64, tally: &mut Tally) -> Result<()> {
        self.arrive(share);
        while self.channel.room() > 0
            && let Some(place) = self.free.pop_if(|_| !self.waiting.is_empty())
            && let Some(lookup) = self.waiting.pop_front()
        {
            self.reading[place] = Some(lookup);
            self.channel.read(place as u64, self.sorted.offset_of(lookup.key), BLOCK_BYTES)?;
        }
        let until = self.next_arrival.saturating_duration_since(Instant::now()).min(WAIT_MAX);
        if self.channel.in_flight() == 0 {
            std::thread::sleep(until);
            return Ok(());
        }
        for done in self.channel.wait_within(1, until)? {
            let place = done.tag as usize;
            let Some(Lookup { key, arrived }) = self.reading[place].take() else { continue };
            found(done.buffer.as_deref().unwrap_or_default(), key)?;
            tally.note(1, RECORD_BYTES, arrived.elapsed());
            self.free.push(place);
        }
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}
