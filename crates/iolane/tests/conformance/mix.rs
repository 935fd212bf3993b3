//! Random mixes of every operation, by seed, against a copy of the data: the queue keeps its contract (`iolane-contract`); a read returns
//! what the writes before it stored; and a failed request changed nothing. On `sim`, which has faults, ten thousand seeds.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use iolane::{
    Buffer, Buffers, Capabilities, Completion, IoErrorKind, Operations, Pool, Queue, QueueConfig, Request, Target,
};
use iolane_contract::{Contract, Owed};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::bench::{Bench, check_each, pool, times, turn};
use crate::drive::seed;
use crate::report;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;
/// Most blocks of one request.
const SPAN: usize = 4;
/// Fills buffers before they are read into.
const UNREAD: u8 = 0xa5;

/// What a vectored durable write is.
const VECTORED_DURABLE: Operations = Operations::VECTORED.with(Operations::DURABLE_WRITE);

/// A request in flight: what it is, which blocks are its own until it completes, and what a write stores.
struct Begun {
    kind: Operations,
    blocks: Range<usize>,
    reads: bool,
    content: Vec<u8>,
}

/// A run of one seed.
struct Mix {
    random: Xoshiro256PlusPlus,
    queue: Box<dyn Queue>,
    pool: Pool,
    kinds: Vec<Operations>,
    /// Most blocks of an atomic write.
    atomic_blocks_max: usize,
    /// Whether the device fails and shortens requests.
    has_faults: bool,
    stored: Vec<u8>,
    contract: Contract<Begun>,
    waiting: Vec<Request>,
    ended: Vec<Completion>,
    next_tag: u64,
    counts: HashMap<&'static str, u64>,
}

impl Mix {
    fn new(seed: u64, queue: Box<dyn Queue>, pool: Pool, capabilities: &Capabilities, has_faults: bool) -> Self {
        let all = [
            (Operations::READ, 5),
            (Operations::WRITE, 5),
            (Operations::DURABLE_WRITE, 2),
            (Operations::ATOMIC_WRITE, 2),
            (Operations::VECTORED, 4),
            (VECTORED_DURABLE, 2),
            (Operations::FSYNC, 1),
            (Operations::FDATASYNC, 1),
            (Operations::DISCARD, 1),
            (Operations::WRITE_ZEROES, 1),
        ];
        let atomic = capabilities.atomic_writes.filter(|writes| writes.bytes_min <= BLOCK as u64);
        let atomic_blocks_max = atomic.map_or(0, |writes| writes.bytes_max as usize / BLOCK);
        let fits = |kind: Operations| kind != Operations::ATOMIC_WRITE || atomic_blocks_max > 0;
        // What a discarded range reads as depends on the device; `sim` reads as zeroes.
        let known = |kind: Operations| has_faults || kind != Operations::DISCARD;
        let kinds =
            all.into_iter().filter(|(kind, _)| capabilities.operations.contains(*kind) && known(*kind) && fits(*kind));
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            queue,
            pool,
            kinds: kinds.flat_map(|(kind, weight)| std::iter::repeat_n(kind, weight)).collect(),
            atomic_blocks_max,
            has_faults,
            stored: vec![0; BLOCKS * BLOCK],
            contract: Contract::default(),
            waiting: Vec::new(),
            ended: Vec::new(),
            next_tag: 0,
            counts: HashMap::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.random.next_u64() % limit as u64) as usize
    }

    fn run(&mut self, steps: usize) -> Result<()> {
        for _ in 0..steps {
            match self.below(10) {
                0..5 => self.begin()?,
                5 => self.cancel()?,
                6 => self.queue.flush()?,
                7 => {
                    let min = self.below(4);
                    self.contract.reap_within(&mut *self.queue, min, Duration::from_micros(50), &mut self.ended)??;
                }
                _ => {
                    let min = self.below(3);
                    self.reap(min)?;
                }
            }
            self.check_ended()?;
        }
        while !self.waiting.is_empty() || self.queue.in_flight() > 0 {
            self.contract.submit(&mut *self.queue, &mut self.waiting)?;
            self.reap(1)?;
            self.check_ended()?;
        }
        let free: Vec<_> = std::iter::from_fn(|| self.pool.take()).collect();
        ensure!(free.len() == self.pool.frames(), "{} of {} frames came back", free.len(), self.pool.frames());
        Ok(())
    }

    fn reap(&mut self, min: usize) -> Result<()> {
        self.contract.reap(&mut *self.queue, min, &mut self.ended)??;
        Ok(())
    }

    /// Submits a request on blocks that no other has; there may be none.
    fn begin(&mut self) -> Result<()> {
        let index = self.below(self.kinds.len());
        let kind = self.kinds[index];
        let first = self.below(BLOCKS - SPAN);
        let mut blocks = first..first + 1 + self.below(SPAN);
        if kind == Operations::ATOMIC_WRITE {
            // A power of two at a multiple of itself, and no more than there may be.
            let count = self.atomic_blocks_max.min(1 << blocks.len().ilog2());
            let first = first / count * count;
            blocks = first..first + count;
        }
        let is_sync = kind == Operations::FSYNC || kind == Operations::FDATASYNC;
        let overlaps = |other: &Begun| other.blocks.start < blocks.end && blocks.start < other.blocks.end;
        if !is_sync && self.contract.owed().values().any(|owed| overlaps(&owed.note)) {
            return Ok(());
        }
        let (tag, offset, bytes) = (self.next_tag, (blocks.start * BLOCK) as u64, blocks.len() * BLOCK);
        let mut begun = Begun { kind, blocks, reads: false, content: Vec::new() };
        let request = if is_sync {
            begun.blocks = 0..0;
            if kind == Operations::FSYNC { Request::fsync(tag) } else { Request::fdatasync(tag) }
        } else if kind == Operations::DISCARD {
            Request::discard(tag, offset, bytes as u64)
        } else if kind == Operations::WRITE_ZEROES {
            Request::write_zeroes(tag, offset, bytes as u64)
        } else {
            begun.reads = kind == Operations::READ || (kind == Operations::VECTORED && self.below(2) == 0);
            let is_vectored = kind.contains(Operations::VECTORED);
            let lengths = if is_vectored { self.parts(bytes) } else { vec![bytes] };
            let Some(buffers) = self.buffers(&lengths, begun.reads)? else { return Ok(()) };
            begun.content = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
            transfer(kind, begun.reads, tag, offset, buffers)?
        };
        self.next_tag += 1;
        self.contract.asks(&request, begun);
        self.waiting.push(request);
        self.contract.submit(&mut *self.queue, &mut self.waiting)?;
        Ok(())
    }

    /// Divides bytes into the lengths of buffers, each a number of blocks.
    fn parts(&mut self, bytes: usize) -> Vec<usize> {
        let mut blocks = bytes / BLOCK;
        let mut parts = Vec::new();
        while blocks > 0 {
            let part = 1 + self.below(blocks);
            parts.push(part * BLOCK);
            blocks -= part;
        }
        parts
    }

    /// Buffers of these lengths: with a mark to be read over, or with content to be written. `None` if the pool has too few.
    fn buffers(&mut self, lengths: &[usize], reads: bool) -> Result<Option<Vec<Buffer>>> {
        let mut buffers: Vec<Buffer> = std::iter::from_fn(|| self.pool.take()).take(lengths.len()).collect();
        if buffers.len() < lengths.len() {
            return Ok(None);
        }
        for (buffer, bytes) in buffers.iter_mut().zip(lengths) {
            buffer.set_len(*bytes)?;
            if reads { buffer.fill(UNREAD) } else { self.random.fill_bytes(buffer) }
        }
        Ok(Some(buffers))
    }

    fn cancel(&mut self) -> Result<()> {
        let mut tags: Vec<u64> = self.contract.owed().keys().copied().collect();
        tags.sort_unstable();
        let waits = |tag: u64| self.waiting.iter().any(|request| request.tag == tag);
        tags.retain(|tag| !waits(*tag));
        if tags.is_empty() {
            return Ok(());
        }
        let tag = tags[self.below(tags.len())];
        self.contract.cancel(&mut *self.queue, tag)?;
        Ok(())
    }

    fn check_ended(&mut self) -> Result<()> {
        for completion in std::mem::take(&mut self.ended) {
            let owed = self.contract.answers(&completion)?;
            let outcome = self.check(&owed, &completion);
            let Begun { kind, blocks, .. } = &owed.note;
            outcome.with_context(|| format!("{kind} of blocks {blocks:?}: {:?}", completion.result))?;
        }
        Ok(self.contract.counts(&*self.queue, self.waiting.len())?)
    }

    fn check(&mut self, owed: &Owed<Begun>, completion: &Completion) -> Result<()> {
        let begun = &owed.note;
        let buffers = completion.buffer.iter().chain(completion.buffers.iter().flatten());
        let bytes: Vec<u8> = buffers.flat_map(|buffer| buffer.iter().copied()).collect();
        let range = begun.blocks.start * BLOCK..begun.blocks.end * BLOCK;
        match completion.result {
            Ok(moved) => {
                let moved = moved as usize;
                if bytes.is_empty() {
                    if begun.kind == Operations::DISCARD || begun.kind == Operations::WRITE_ZEROES {
                        self.stored[range].fill(0);
                    }
                    *self.counts.entry("whole").or_default() += 1;
                    return Ok(());
                }
                let is_whole = moved == range.len();
                ensure!(is_whole || (self.has_faults && moved > 0 && moved < range.len()), "{moved} bytes");
                *self.counts.entry(if is_whole { "whole" } else { "short" }).or_default() += 1;
                let part = range.start..range.start + moved;
                if begun.reads {
                    ensure!(bytes[..moved] == self.stored[part], "other data than was stored");
                    ensure!(bytes[moved..].iter().all(|byte| *byte == UNREAD), "bytes beyond those it counts");
                } else {
                    ensure!(bytes == begun.content, "a write changed its buffer");
                    self.stored[part].copy_from_slice(&begun.content[..moved]);
                }
            }
            Err(error) => match error.kind() {
                IoErrorKind::Cancelled if owed.asked_to_cancel => *self.counts.entry("cancelled").or_default() += 1,
                IoErrorKind::Media if self.has_faults => *self.counts.entry("failed").or_default() += 1,
                _ => bail!("an error that nothing explains"),
            },
        }
        Ok(())
    }
}

fn transfer(kind: Operations, reads: bool, tag: u64, offset: u64, mut buffers: Vec<Buffer>) -> Result<Request> {
    if kind.contains(Operations::VECTORED) {
        let buffers = Buffers::new(buffers)?;
        let request = match kind {
            VECTORED_DURABLE => Request::durable_write_vectored,
            _ if reads => Request::read_vectored,
            _ => Request::write_vectored,
        };
        return Ok(request(tag, offset, buffers));
    }
    let buffer = buffers.pop().context("it has one buffer")?;
    let request = match kind {
        Operations::READ => Request::read,
        Operations::WRITE => Request::write,
        Operations::ATOMIC_WRITE => Request::atomic_write,
        _ => Request::durable_write,
    };
    Ok(request(tag, offset, buffer))
}

#[test]
fn a_random_mix_leaves_the_data_that_its_completions_tell() {
    let bench = Bench::everywhere();
    check_each(&bench.pairs_that_move_data(), |pair| {
        for number in 0..times(10, 2) as u64 {
            let depth = pair.depth([1, 3, 16][number as usize % 3]);
            if pair.request_bytes(SPAN * BLOCK) < SPAN * BLOCK {
                return Ok(());
            }
            let pool = pool(depth as usize + SPAN, SPAN * BLOCK)?;
            pair.put(0, &vec![0; BLOCKS * BLOCK])?;
            let queue = pair.queue(depth, &pool)?;
            let mix_seed = seed().wrapping_add(number);
            let mut mix = Mix::new(mix_seed, queue, pool, &pair.capabilities, false);
            mix.run(times(200, 40)).with_context(|| format!("seed {mix_seed}"))?;
        }
        Ok(())
    });
}

/// `IOLANE_CONFORMANCE_SEED` is the first of them.
#[test]
fn ten_thousand_mixes_with_faults_on_the_simulated_device_go_by_the_copy_of_its_data() {
    let _turn = turn();
    let path = iolane::IoPath::new("sim");
    if !crate::paths::all().contains(&path) {
        report::skipped_everywhere("faults of sim", &report::Skip::new("IOLANE_CONFORMANCE_PATHS leaves it out", "-"));
        return;
    }
    let mut counts: HashMap<&'static str, u64> = HashMap::new();
    for seed in (seed()..).take(times(10_000, 500)) {
        let settings = ["", "short=0.2", "error=0.1", "short=0.1,error=0.1,jitter=200us", "stall-every=7,stall=1ms"];
        let settings = settings[seed as usize % settings.len()];
        let depth = [1, 2, 7, 32][seed as usize / 5 % 4];
        let target = Target::options().write_unguarded().open(format!("sim:1m,seed={seed},{settings}")).unwrap();
        let pool = pool(depth + SPAN, SPAN * BLOCK).unwrap();
        let config = QueueConfig::new(depth as u32).pool(&pool);
        let queue = iolane::open_queue(&path, &target, &config).unwrap();
        let capabilities = iolane::probe(&path, &target).unwrap();
        let mut mix = Mix::new(seed, queue, pool, &capabilities, true);
        mix.run(60).unwrap_or_else(|error| panic!("IOLANE_CONFORMANCE_SEED={seed}: {error:#}"));
        mix.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
    }
    for what in ["whole", "short", "failed", "cancelled"] {
        assert!(counts.get(what).is_some_and(|count| *count > 100), "too few are {what}: {counts:?}");
    }
}
