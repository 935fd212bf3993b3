//! Merges two sorted runs into one, as a compaction does: chunks of both are read ahead, merged record by record, and written; after
//! every 32 MiB the output is synced, as at the end of a table. Reads ahead and writes are in flight while it compares.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use iolane::{Buffer, Error, Pages, Pool, QueueConfig, Result};

use super::load::Load;
use crate::channel::Channel;
use crate::data::{Part, RECORD_BYTES, Record, record_at};
use crate::job::Job;
use crate::tally::Tally;

/// Bytes of a chunk where a merge is all that runs.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Output between two syncs where a merge is all that runs.
const TABLE_BYTES: u64 = 32 << 20;

/// One of the runs.
struct Side {
    part: Part,
    /// The next chunk to be read, and the next one to be merged.
    next_read: u64,
    next: u64,
    /// Chunks that were read and wait for their turn.
    ahead: BTreeMap<u64, Buffer>,
    /// The chunk that is being merged, and its next record.
    current: Option<(Buffer, usize)>,
}

pub(super) struct Merge {
    channel: Channel,
    sides: [Side; 2],
    /// Chunks that are read ahead of each run.
    ahead: u64,
    chunk_bytes: usize,
    /// Output between two syncs.
    table_bytes: u64,
    output: Part,
    /// Bytes written since it began; they wrap around in the output.
    written: u64,
    to_sync: u64,
    writes: usize,
    filling: Option<(Buffer, usize)>,
    last_key: u64,
    begun: Instant,
}

/// What a request is for; the rest of a tag is the number of the chunk.
const NUMBER: u64 = (1 << 56) - 1;
const WRITE: u64 = 2 << 56;
const SYNC: u64 = 3 << 56;

impl Merge {
    pub(super) fn open(job: &Job<'_>) -> Result<Self> {
        Self::with_sizes(job, CHUNK_BYTES, TABLE_BYTES)
    }

    fn with_sizes(job: &Job<'_>, chunk_bytes: usize, table_bytes: u64) -> Result<Self> {
        let ahead = u64::from(job.depth / 4).max(1);
        // Each run has chunks ahead and one that is merged; the output one that is filled and as many that are written.
        let buffers = 3 * (ahead as usize + 1);
        let pool = Pool::new(buffers, chunk_bytes, Pages::Base)?;
        let config = QueueConfig::new(job.by.depth(job.target, job.depth)?).pool(&pool);
        let layout = &job.prepared.layout;
        let side = |part| Side { part, next_read: 0, next: 0, ahead: BTreeMap::new(), current: None };
        Ok(Self {
            channel: Channel::with_pool(&job.by, job.target, config, pool)?,
            sides: layout.runs.map(side),
            ahead,
            chunk_bytes,
            table_bytes,
            output: layout.output,
            written: 0,
            to_sync: 0,
            writes: 0,
            filling: None,
            last_key: 0,
            begun: Instant::now(),
        })
    }

    fn read_ahead(&mut self) -> Result<()> {
        for (number, side) in self.sides.iter_mut().enumerate() {
            let chunks = side.part.blocks(self.chunk_bytes);
            while side.next_read < chunks.min(side.next + self.ahead) && self.channel.room() > 0 {
                let offset = side.part.start + side.next_read * self.chunk_bytes as u64;
                self.channel.read((number as u64) << 56 | side.next_read, offset, self.chunk_bytes)?;
                side.next_read += 1;
            }
        }
        self.channel.submit()
    }

    /// Waits for at least `min` requests, and puts what was read where it belongs.
    fn take(&mut self, min: usize) -> Result<()> {
        for done in self.channel.wait(min)? {
            match done.tag {
                SYNC => {}
                WRITE => self.writes -= 1,
                tag => {
                    let side = &mut self.sides[(tag >> 56) as usize];
                    side.ahead.extend(done.buffer.map(|buffer| (tag & NUMBER, buffer)));
                }
            }
        }
        Ok(())
    }

    /// Whether both runs have a chunk to merge, or are at their end.
    fn is_ready(&mut self) -> bool {
        for side in &mut self.sides {
            if side.current.is_none()
                && let Some(chunk) = side.ahead.remove(&side.next)
            {
                side.current = Some((chunk, 0));
                side.next += 1;
            }
        }
        let chunk_bytes = self.chunk_bytes;
        self.sides.iter().all(|side| side.current.is_some() || side.next == side.part.blocks(chunk_bytes))
    }

    /// Both runs are merged: they are merged again.
    fn start_over(&mut self) {
        for side in &mut self.sides {
            (side.next_read, side.next) = (0, 0);
        }
        self.last_key = 0;
    }

    /// Merges until the output or a chunk is at its end.
    fn merge(&mut self) -> Result<()> {
        let (mut output, mut at) = match self.filling.take() {
            Some(filling) => filling,
            None => (self.channel.take(self.chunk_bytes)?, 0),
        };
        while at < output.len() {
            let next = |side: &Side| side.current.as_ref().map(|(chunk, record)| record_at(chunk, *record));
            let (first, second) = (next(&self.sides[0]), next(&self.sides[1]));
            let (side, record) = match (first, second) {
                (Some(first), Some(second)) if second < first => (1, second),
                (Some(first), _) => (0, first),
                (None, Some(second)) => (1, second),
                (None, None) => break,
            };
            if record != Record::of(record.key) || record.key < self.last_key {
                return Err(Error::failed("a sorted run", "it is not sorted any more")
                    .remedy("let nothing else write to the target"));
            }
            self.last_key = record.key;
            let current = &mut self.sides[side].current;
            let Some((chunk, number)) = current else { break };
            output[at..at + RECORD_BYTES].copy_from_slice(&chunk[*number * RECORD_BYTES..(*number + 1) * RECORD_BYTES]);
            at += RECORD_BYTES;
            *number += 1;
            if *number * RECORD_BYTES == chunk.len() {
                *current = None;
                break;
            }
        }
        self.filling = Some((output, at));
        Ok(())
    }

    /// Writes the output if it is full.
    fn write_full(&mut self, tally: &mut Tally) -> Result<()> {
        let Some((output, _)) = self.filling.take_if(|(output, at)| *at == output.len()) else { return Ok(()) };
        while self.writes > self.ahead as usize - 1 || self.channel.room() == 0 {
            self.take(1)?;
        }
        let bytes = output.len() as u64;
        let chunks = self.output.blocks(output.len());
        let offset = self.output.start + self.written / bytes % chunks * bytes;
        self.channel.write(WRITE, offset, output);
        self.channel.submit()?;
        self.writes += 1;
        self.written += bytes;
        self.to_sync += bytes;
        tally.note(1, bytes as usize, self.begun.elapsed());
        self.begun = Instant::now();
        if self.to_sync < self.table_bytes {
            return Ok(());
        }
        // A sync covers what is written when it begins.
        while self.channel.in_flight() > 0 {
            self.take(1)?;
        }
        self.channel.sync(SYNC);
        while self.channel.in_flight() > 0 {
            self.take(1)?;
        }
        self.to_sync = 0;
        Ok(())
    }
}

impl Load for Merge {
    fn turn(&mut self, _share: f64, tally: &mut Tally) -> Result<()> {
        self.read_ahead()?;
        if !self.is_ready() {
            return self.take(1);
        }
        if self.sides.iter().all(|side| side.current.is_none()) {
            self.start_over();
            return Ok(());
        }
        self.merge()?;
        self.write_full(tally)
    }

    fn syscalls(&self) -> Option<u64> {
        self.channel.syscalls()
    }
}

/// A merge in the background, at a rate, that runs in the last third of the measured phase. Nothing of it is counted.
pub(super) struct Background {
    merge: Merge,
    began: Option<Instant>,
    uncounted: Tally,
}

/// Bytes of output per second.
const BACKGROUND_RATE: f64 = 32e6;
/// Shorter, so that lookups do not wait for long ones.
const BACKGROUND_CHUNK_BYTES: usize = 64 << 10;
/// Less, so that even a short run has syncs.
const BACKGROUND_TABLE_BYTES: u64 = 4 << 20;
const NAP: Duration = Duration::from_millis(1);

impl Background {
    pub(super) fn open(job: &Job<'_>) -> Result<Self> {
        let merge =
            Merge::with_sizes(&Job { depth: 8, ..job.clone() }, BACKGROUND_CHUNK_BYTES, BACKGROUND_TABLE_BYTES)?;
        Ok(Self { merge, began: None, uncounted: Tally::new() })
    }
}

impl Load for Background {
    fn turn(&mut self, share: f64, _tally: &mut Tally) -> Result<()> {
        let is_on = share >= 2.0 / 3.0;
        let began = *self.began.get_or_insert_with(Instant::now);
        if !is_on {
            self.began = None;
        }
        if !is_on || self.merge.written as f64 > began.elapsed().as_secs_f64() * BACKGROUND_RATE {
            std::thread::sleep(NAP);
            return Ok(());
        }
        self.merge.turn(share, &mut self.uncounted)
    }

    fn syscalls(&self) -> Option<u64> {
        self.merge.syscalls()
    }
}
