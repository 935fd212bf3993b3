//! The driver with faulty model controllers, by seed: each queue keeps its contract (`iolane-contract`); nothing hangs; only mapped memory is
//! accessed; what was written is read back; and a queue works again after a reset.
//!
//! A failing seed is printed; run it by itself with `IOLANE_MODEL_SEED=N cargo test -p iolane-nvme --test faults`;
//! `IOLANE_MODEL_SEEDS=N` runs N seeds of each test, from 0 or from `IOLANE_MODEL_SEED` on. `cargo xtask campaign model` runs more.

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iolane_contract::Contract;
use iolane_core::{Buffer, Buffers, Completion, IoError, Operation, Pages, Pool, Queue, Request, Result};
use iolane_nvme::controller::{Controller, ControllerOptions};
use iolane_nvme::identity::Namespace;
use iolane_nvme::model::{Faults, Model, ModelConfig, ModelPort, NamespaceConfig};
use iolane_nvme::queue::{NvmeQueue, NvmeQueueConfig, atomic_writes};
use iolane_nvme::registers::{CSTS, CSTS_READY, Registers};
use iolane_nvme::transport::Transport;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Steps that one call of the driver may take: the longest admin timeout is 12 000, and a recovery waits for several.
const STEPS_MAX: u64 = 400_000;

const FRAME_BYTES: usize = 8192;
const FRAMES: usize = 160;

/// The model, with an end to patience: a driver that waits for ever fails its test instead.
struct Watched {
    port: ModelPort,
    steps: Arc<AtomicU64>,
    other: Other,
}

/// A queue of another thread, which hands its commands over while the controller is off, and how often it did.
type Other = Arc<Mutex<Option<(NvmeQueue, u32)>>>;

// SAFETY: as for the port.
unsafe impl Transport for Watched {
    fn name(&self) -> &str {
        self.port.name()
    }

    unsafe fn registers(&self) -> Registers {
        // SAFETY: as our caller promised.
        unsafe { self.port.registers() }
    }

    unsafe fn map(&self, memory: NonNull<u8>, bytes: usize) -> Result<u64> {
        // SAFETY: as our caller promised.
        unsafe { self.port.map(memory, bytes) }
    }

    unsafe fn unmap(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: as our caller promised.
        unsafe { self.port.unmap(address, bytes) }
    }

    fn interrupts(&self, most: u32) -> Result<Vec<OwnedFd>> {
        self.port.interrupts(most)
    }

    fn relax(&self, _looks: u32) {
        // One panic is enough: what is dropped while it unwinds waits, too.
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        assert!(steps != STEPS_MAX, "the driver waits for ever");
        // SAFETY: the port is there, and nothing is written.
        let is_off = unsafe { self.port.registers() }.read(CSTS) & CSTS_READY == 0;
        if is_off && let Some((queue, flushes)) = &mut *self.other.lock().unwrap() {
            queue.flush().unwrap();
            *flushes += 1;
        }
        self.port.relax(1);
    }

    fn now(&self) -> Duration {
        self.port.now()
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<()> {
        // SAFETY: as our caller promised.
        unsafe { self.port.set_bus_master(on) }
    }
}

/// Says which seed it was.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was IOLANE_MODEL_SEED={}", self.0);
        }
    }
}

/// Runs the usual number of seeds, or those that were asked for, and returns how many.
fn for_each_seed(usual: u64, run: impl Fn(u64)) -> u64 {
    for_each_seed_up_to(u64::MAX, usual, run)
}

/// The same with at most `most` seeds, for a test whose seeds take long.
fn for_each_seed_up_to(most: u64, usual: u64, run: impl Fn(u64)) -> u64 {
    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let first = number("IOLANE_MODEL_SEED");
    let seeds = number("IOLANE_MODEL_SEEDS").unwrap_or(if first.is_some() { 1 } else { usual }).min(most);
    for number in (first.unwrap_or(0)..).take(seeds as usize) {
        let seed = Seed(number);
        run(seed.0);
        if (number + 1).is_multiple_of(1000) && seeds > usual {
            println!("up to seed {number}");
        }
    }
    seeds
}

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A rate in 65536: mostly none, else rare to frequent.
    fn rate(&mut self) -> u32 {
        self.one_of(&[0, 0, 0, 50, 400, 3000])
    }
}

/// Faults after which a controller still does what it was asked, or nothing.
fn honest_faults(random: &mut Random) -> Faults {
    Faults {
        seed: random.0.next_u64(),
        late_completion: random.rate(),
        late_steps_max: random.one_of(&[3, 40, 20_000]),
        missing_completion: random.rate() / 4,
        failed_command: random.rate(),
        duplicate_completion: random.rate() / 4,
        wrong_submission_head: random.rate() / 4,
        wrong_submission_queue: random.rate() / 4,
        fatal: random.rate() / 8,
        gone: random.one_of(&[0, 0, 0, 0, 0, 50]),
        stuck_reset: random.one_of(&[0, 0, 0, 0, 6000]),
        idle_abort: random.one_of(&[0, 0, 30_000]),
        ..Faults::default()
    }
}

/// Those, and faults that end a command in the driver's eyes which the controller still works on.
fn dishonest_faults(random: &mut Random) -> Faults {
    let wrong_phase = random.rate() / 4;
    Faults { wrong_phase, wrong_identifier: random.rate(), ..honest_faults(random) }
}

fn shape(random: &mut Random, faults: Faults) -> ModelConfig {
    let block_bytes = random.one_of(&[512, 4096]);
    ModelConfig {
        namespaces: vec![NamespaceConfig { blocks: (4 << 20) / u64::from(block_bytes), block_bytes }],
        queues_max: 4,
        queue_entries_max: 64,
        transfer_pages_log2: random.one_of(&[0, 1, 2, 5]),
        doorbell_stride_bytes: random.one_of(&[4, 4, 16]),
        sgl: random.below(2) == 0,
        shadow_doorbells: random.below(2) == 0,
        shadow_awake_steps: random.one_of(&[1, 3, 30]),
        step_ns: 5_000_000,
        ready_steps: random.one_of(&[0, 1, 20]),
        faults,
        ..ModelConfig::default()
    }
}

/// Regions of the namespace that requests use, one at a time each.
const REGIONS: u64 = 64;
const REGION_BYTES: u64 = (4 << 20) / REGIONS;
const SECTOR_BYTES: u64 = 512;

/// What is on the namespace, as far as the driver's answers tell: for each sector all that may be there. Every word of a
/// sector holds the number of the write that it is from; 0 is never written.
#[derive(Default)]
struct Mirror(HashMap<u64, Vec<u64>>);

/// Whether all that follows repeats the first bytes.
fn is_periodic(data: &[u8], bytes: usize) -> bool {
    data[bytes..] == data[..data.len() - bytes]
}

impl Mirror {
    fn sectors(offset: u64, bytes: u64) -> std::ops::Range<u64> {
        offset / SECTOR_BYTES..(offset + bytes) / SECTOR_BYTES
    }

    fn written(&mut self, offset: u64, bytes: u64, number: u64, is_certain: bool) {
        for sector in Self::sectors(offset, bytes) {
            let possible = self.0.entry(sector).or_insert_with(|| vec![0]);
            if is_certain {
                possible.clear();
            }
            possible.push(number);
        }
    }

    fn check_read(&mut self, offset: u64, data: &[u8]) {
        for (sector, data) in Self::sectors(offset, data.len() as u64).zip(data.chunks_exact(SECTOR_BYTES as usize)) {
            let first = u64::from_le_bytes(data[..8].try_into().expect("8 bytes"));
            assert!(is_periodic(data, 8), "sector {sector} is of several writes");
            let possible = self.0.entry(sector).or_insert_with(|| vec![0]);
            assert!(possible.contains(&first), "sector {sector} holds {first}, of {possible:?}");
            *possible = vec![first];
        }
    }
}

/// What a request in flight was to do.
struct Asked {
    region: u64,
    offset: u64,
    bytes: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Read,
    Write,
    Zero,
    Fsync,
    /// It cannot be done.
    Nonsense,
}

/// Resets that are still to come once nothing goes wrong any more: for what stands in each ring from before.
const RESETS_MAX: u32 = 3;

/// How a queue took to reads after all that went wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Recovery {
    Works,
    Refuses,
    Unfinished,
}

struct Drill {
    random: Random,
    model: Arc<Model>,
    /// Those of the current call of the driver.
    steps: Arc<AtomicU64>,
    queues: Vec<NvmeQueue>,
    pool: Pool,
    block_bytes: u64,
    /// What each queue has yet to answer.
    contracts: Vec<Contract<Asked>>,
    regions: Vec<u64>,
    /// Buffers that came back, and what they were filled with since.
    kept: Vec<(Buffer, u8)>,
    mirror: Mirror,
    next_tag: u64,
    /// Whether a controller that goes wrong leaves buffers alone that were handed back.
    is_honest: bool,
    succeeded: u64,
    failed: u64,
    controller: Arc<Controller>,
}

/// A pool, in every other case of memory that begins within a page.
fn pool(random: &mut Random) -> Pool {
    if random.below(2) == 0 {
        return Pool::new(FRAMES, FRAME_BYTES, Pages::Base).unwrap();
    }
    let mut memory = vec![0u8; FRAMES * FRAME_BYTES + 8192].into_boxed_slice();
    let base = NonNull::from(&mut memory[..]).cast::<u8>();
    let offset = base.align_offset(4096) + random.one_of(&[512, 1024, 4]);
    // SAFETY: it lies within the box, which is kept by the pool, and used by it alone.
    unsafe { Pool::from_region(base.add(offset), FRAMES, FRAME_BYTES, memory).unwrap() }
}

/// Fills a buffer with a tag, over and over.
fn fill(buffer: &mut Buffer, tag: u64) {
    buffer[..8].copy_from_slice(&tag.to_le_bytes());
    let mut filled = 8;
    while filled < buffer.len() {
        let more = filled.min(buffer.len() - filled);
        buffer.copy_within(..more, filled);
        filled += more;
    }
}

impl Drill {
    /// `None` if the controller could not be brought up, which must leave nothing behind.
    fn new(seed: u64, faults: impl Fn(&mut Random) -> Faults, is_honest: bool) -> Option<Self> {
        let mut random = Random::new(seed);
        let faults = faults(&mut random);
        let config = shape(&mut random, faults);
        let block_bytes = config.namespaces[0].block_bytes.into();
        let model = Model::new(config);
        let steps = Arc::new(AtomicU64::new(0));
        let pool = pool(&mut random);
        let opened = open(&model, &steps, &pool, &mut random);
        let Ok((controller, queues)) = opened else {
            assert_eq!(model.violations(), [""; 0]);
            assert_eq!(model.mappings(), 0, "memory is still mapped for a controller that was given up");
            return None;
        };
        Some(Self {
            contracts: queues.iter().map(|_| Contract::default()).collect(),
            random,
            model,
            steps,
            queues,
            pool,
            block_bytes,
            regions: (0..REGIONS).collect(),
            kept: Vec::new(),
            mirror: Mirror::default(),
            next_tag: 1,
            is_honest,
            succeeded: 0,
            failed: 0,
            controller,
        })
    }

    /// A request for a region that no other uses now.
    fn request(&mut self, queue: usize) -> Option<Request> {
        let region = self.regions.pop()?;
        let blocks = REGION_BYTES / self.block_bytes;
        let first = self.random.below(blocks);
        let bytes = (1 + self.random.below(blocks - first)).min(1 + self.random.below(blocks)) * self.block_bytes;
        let mut offset = region * REGION_BYTES + first * self.block_bytes;
        let tag = self.next_tag;
        let kind = self.random.below(20);
        // Some are scattered in memory.
        let pieces = if matches!(kind, 0..3 | 7..10) { 1 + self.random.below(4) } else { 1 };
        let mut memory = if kind < 15 { self.buffers(bytes, pieces) } else { Vec::new() };
        let one = |mut memory: Vec<Buffer>| memory.remove(0);
        let (what, operation) = match kind {
            0..15 if memory.is_empty() => {
                self.regions.push(region);
                return None;
            }
            0..7 => {
                memory.iter_mut().for_each(|buffer| buffer.fill(0xa5));
                let read = if kind < 3 {
                    Operation::ReadVectored(Buffers::new(memory).unwrap())
                } else {
                    Operation::Read(one(memory))
                };
                (What::Read, read)
            }
            7..14 => {
                memory.iter_mut().for_each(|buffer| fill(buffer, tag));
                let write = match kind {
                    7 | 8 => Operation::WriteVectored(Buffers::new(memory).unwrap()),
                    9 => Operation::DurableWriteVectored(Buffers::new(memory).unwrap()),
                    10 | 11 => Operation::Write(one(memory)),
                    _ => Operation::DurableWrite(one(memory)),
                };
                (What::Write, write)
            }
            14 => {
                offset = self.random.one_of(&[offset + 4, 4 << 20, u64::MAX - 511]);
                (What::Nonsense, Operation::Read(one(memory)))
            }
            15 => (What::Zero, Operation::Discard { bytes }),
            16 | 17 => (What::Zero, Operation::WriteZeroes { bytes }),
            18 => (What::Fsync, Operation::Fsync),
            _ => (What::Fsync, Operation::Fdatasync),
        };
        self.next_tag += 1;
        let request = Request::new(tag, offset, operation);
        self.contracts[queue].asks(&request, Asked { region, offset, bytes, what });
        Some(request)
    }

    /// Memory of whole blocks in at most this many pieces; none if the pool has not enough.
    fn buffers(&mut self, bytes: u64, pieces: u64) -> Vec<Buffer> {
        let (mut memory, mut left) = (Vec::new(), bytes);
        while left > 0 {
            let is_last = memory.len() as u64 + 1 == pieces;
            let blocks = left / self.block_bytes;
            let piece = if is_last { left } else { (1 + self.random.below(blocks)) * self.block_bytes };
            let Some(buffer) = self.buffer(piece as usize) else { return Vec::new() };
            memory.push(buffer);
            left -= piece;
        }
        memory
    }

    fn buffer(&mut self, bytes: usize) -> Option<Buffer> {
        let frames = bytes.div_ceil(FRAME_BYTES);
        let start = self.random.below(FRAMES as u64) as usize;
        let free = (0..FRAMES).map(|step| (start + step) % FRAMES);
        let mut buffer = free.into_iter().find_map(|first| self.pool.take_frames(first, frames))?;
        buffer.set_len(bytes).unwrap();
        Some(buffer)
    }

    /// Submits some requests on one queue, and reaps some.
    fn turn(&mut self, queue: usize) {
        self.steps.store(0, Ordering::Relaxed);
        let count = self.random.below(12) as usize;
        let mut requests: Vec<Request> = (0..count).map_while(|_| self.request(queue)).collect();
        self.contracts[queue].submit(&mut self.queues[queue], &mut requests).unwrap();
        for request in requests {
            self.regions.push(self.contracts[queue].withdraws(request.tag).region);
        }
        let min = self.random.below(self.queues[queue].in_flight() as u64 + 1) as usize;
        self.reap(queue, min);
        // Time for a controller that goes wrong to do more than it should.
        (0..70).for_each(|_| self.model.step());
        self.release_some();
    }

    fn reap(&mut self, queue: usize, min: usize) {
        let mut completions = Vec::new();
        let waits = self.random.below(4) > 0 || min == self.queues[queue].in_flight();
        // Less than a step, or some of them.
        let within = (!waits).then(|| Duration::from_millis(self.random.below(50)));
        let contract = &self.contracts[queue];
        let reaped = match within {
            None => contract.reap(&mut self.queues[queue], min, &mut completions),
            Some(within) => contract.reap_within(&mut self.queues[queue], min, within, &mut completions),
        };
        reaped.unwrap().unwrap();
        completions.into_iter().for_each(|completion| self.take_answer(queue, completion));
        self.contracts[queue].counts(&self.queues[queue], 0).unwrap();
    }

    fn take_answer(&mut self, queue: usize, completion: Completion) {
        let owed = self.contracts[queue].answers(&completion).unwrap();
        let Completion { tag, result, buffer, buffers, .. } = completion;
        let memory: Vec<Buffer> = buffer.into_iter().chain(buffers.into_iter().flat_map(Buffers::into_vec)).collect();
        let Asked { region, offset, bytes, what } = owed.note;
        self.regions.push(region);
        match result {
            Ok(moved) => {
                assert_eq!(moved as usize, owed.bytes, "a drive moves all or nothing");
                assert!(what != What::Nonsense, "it cannot have been done");
                self.succeeded += 1;
            }
            Err(_) => self.failed += 1,
        }
        match what {
            What::Read if self.is_honest && result.is_ok() => {
                let mut at = offset;
                for buffer in &memory {
                    self.mirror.check_read(at, buffer);
                    at += buffer.len() as u64;
                }
            }
            What::Write => self.mirror.written(offset, bytes, tag, result.is_ok()),
            What::Zero => self.mirror.written(offset, bytes, 0, result.is_ok()),
            _ => {}
        }
        for mut buffer in memory {
            if self.kept.len() < 30 {
                let mark = self.random.below(256) as u8;
                buffer.fill(mark);
                self.kept.push((buffer, mark));
            }
        }
    }

    /// Buffers that were handed back are ours alone.
    fn release_some(&mut self) {
        let keep = self.random.below(30) as usize;
        while self.kept.len() > keep {
            let (buffer, mark) = self.kept.remove(0);
            let is_whole = buffer[0] == mark && is_periodic(&buffer, 1);
            assert!(is_whole || !self.is_honest, "a buffer was written after it had been handed back");
        }
    }

    fn drain(&mut self) {
        for queue in 0..self.queues.len() {
            self.steps.store(0, Ordering::Relaxed);
            self.reap(queue, self.queues[queue].in_flight());
            assert_eq!(self.queues[queue].in_flight(), 0);
        }
    }

    /// Turns in any order, until all is answered.
    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            let queue = self.random.below(self.queues.len() as u64) as usize;
            self.turn(queue);
        }
        self.drain();
    }

    /// Without faults, the queues work again once what went wrong before has been noticed, or all is refused, for the
    /// controller is gone for good. Says which.
    fn recover(&mut self) -> Vec<Recovery> {
        self.model.set_faults(Faults::default());
        let resets = self.controller.resets();
        for _ in 0..8 {
            // Long enough for each ring to come round: what is left in it from before is seen then.
            for _ in 0..12 {
                (0..self.queues.len()).for_each(|queue| self.turn(queue));
            }
            self.drain();
            let recoveries: Vec<_> = (0..self.queues.len()).map(|queue| self.recovery(queue)).collect();
            if !recoveries.contains(&Recovery::Unfinished) {
                assert!(self.controller.resets() - resets <= RESETS_MAX, "one fault costs no more than one reset");
                return recoveries;
            }
        }
        panic!("the queues do not work again: {:?}", self.model.counts());
    }

    /// What becomes of a few reads.
    fn recovery(&mut self, queue: usize) -> Recovery {
        (self.succeeded, self.failed) = (0, 0);
        for _ in 0..16 {
            self.steps.store(0, Ordering::Relaxed);
            self.kept.clear();
            let region = self.regions.remove(0);
            let (tag, offset, bytes) = (self.next_tag, region * REGION_BYTES, REGION_BYTES);
            self.next_tag += 1;
            let buffer = self.buffer(bytes as usize).expect("all buffers are back");
            let request = Request::read(tag, offset, buffer);
            self.contracts[queue].asks(&request, Asked { region, offset, bytes, what: What::Read });
            self.contracts[queue].submit(&mut self.queues[queue], &mut vec![request]).unwrap();
            self.reap(queue, 1);
        }
        match (self.succeeded, self.failed) {
            (_, 0) => Recovery::Works,
            (0, _) => Recovery::Refuses,
            _ => Recovery::Unfinished,
        }
    }

    /// One more queue, for nothing.
    fn open_and_close(&mut self) {
        let Ok(namespace) = self.controller.namespace(1) else { return };
        let pools = std::slice::from_ref(&self.pool);
        let config = NvmeQueueConfig { depth: 5, pools, writable: true, interrupts: false, event_fd: false };
        drop(NvmeQueue::open(&self.controller, namespace, config));
        // What is late has time to come.
        (0..50_000).for_each(|_| self.model.step());
    }

    fn end(mut self) {
        self.kept.clear();
        assert!(self.pool.take_frames(0, FRAMES).is_some(), "all buffers are back");
        assert_eq!(self.model.violations(), [""; 0]);
        let Self { model, steps, queues, controller, .. } = self;
        steps.store(0, Ordering::Relaxed);
        drop(queues);
        drop(controller);
        assert_eq!(model.violations(), [""; 0]);
        assert_eq!(model.mappings(), 0, "memory is still mapped");
    }
}

fn open(
    model: &Arc<Model>,
    steps: &Arc<AtomicU64>,
    pool: &Pool,
    random: &mut Random,
) -> Result<(Arc<Controller>, Vec<NvmeQueue>)> {
    let options = ControllerOptions {
        shadow_doorbells: random.below(4) > 0,
        scatter_gather_lists: random.below(4) > 0,
        ..ControllerOptions::default()
    };
    let controller =
        Controller::start(Watched { port: model.port(), steps: steps.clone(), other: Other::default() }, options)?;
    let namespace: Namespace = controller.namespace(1)?;
    let queues = (0..1 + random.below(3))
        .map(|_| {
            let depth = random.one_of(&[1, 2, 7, 32]);
            let pools = std::slice::from_ref(pool);
            let config = NvmeQueueConfig { depth, pools, writable: true, interrupts: false, event_fd: false };
            NvmeQueue::open(&controller, namespace, config)
        })
        .collect::<Result<_>>()?;
    Ok((controller, queues))
}

fn drill(seed: u64, faults: impl Fn(&mut Random) -> Faults, is_honest: bool) {
    let has_admin_faults = faults(&mut Random::new(seed)).admin;
    let Some(mut drill) = Drill::new(seed, faults, is_honest) else { return };
    drill.run(40);
    let recoveries = drill.recover();
    // A queue that could not be made anew refuses alone.
    let is_alike = recoveries.iter().all(|recovery| *recovery == recoveries[0]);
    assert!(is_alike || has_admin_faults, "{recoveries:?}");
    drill.end();
}

#[test]
fn without_faults_all_is_answered_and_read_as_it_was_written() {
    for_each_seed(200, |seed| {
        let mut drill = Drill::new(seed, |_| Faults::default(), true).expect("a controller without faults");
        drill.run(60);
        assert!(drill.succeeded > drill.failed);
        assert!(drill.recover().iter().all(|recovery| *recovery == Recovery::Works));
        drill.end();
    });
}

#[test]
fn with_honest_faults_each_request_is_answered_once_and_data_is_as_it_was_answered() {
    for_each_seed(10_000, |seed| drill(seed, honest_faults, true));
}

#[test]
fn with_any_faults_each_request_is_answered_once_and_queues_recover() {
    for_each_seed(1000, |seed| drill(seed, dishonest_faults, false));
}

#[test]
fn with_faults_at_admin_commands_opening_and_recovery_end() {
    for_each_seed(300, |seed| {
        drill(seed, |random| Faults { admin: true, ..dishonest_faults(random) }, false);
    });
}

#[test]
fn admin_commands_that_are_carried_out_too_late_reach_no_memory_that_was_freed() {
    for_each_seed(300, |seed| {
        let faults = |random: &mut Random| Faults {
            seed: random.0.next_u64(),
            admin: true,
            late_completion: random.one_of(&[2000, 8000]),
            late_steps_max: 40_000,
            missing_completion: random.one_of(&[0, 2000]),
            failed_command: random.one_of(&[0, 4000]),
            ..Faults::default()
        };
        let Some(mut drill) = Drill::new(seed, faults, true) else { return };
        drill.run(3);
        for _ in 0..3 {
            drill.steps.store(0, Ordering::Relaxed);
            let _ = drill.controller.smart_log();
            let _ = drill.controller.namespace(1);
            drill.open_and_close();
        }
        drill.end();
    });
}

#[test]
fn a_drive_that_lies_about_itself_is_refused_or_used_within_bounds() {
    for_each_seed(2000, |seed| {
        let faults =
            |random: &mut Random| Faults { seed: random.0.next_u64(), false_identify: 40_000, ..Faults::default() };
        let mut random = Random::new(seed);
        let faults = faults(&mut random);
        let config = shape(&mut random, faults);
        let model = Model::new(config);
        let steps = Arc::new(AtomicU64::new(0));
        let pool = pool(&mut random);
        if let Ok((controller, mut queues)) = open(&model, &steps, &pool, &mut random) {
            let _ = controller.namespaces();
            for queue in &mut queues {
                let requests = (0..8u64).filter_map(|tag| Some(Request::read(tag, tag << 16, pool.take()?)));
                let mut requests: Vec<Request> = requests.collect();
                let count = queue.submit(&mut requests);
                let mut completions = Vec::new();
                assert_eq!(queue.reap(count, &mut completions).unwrap(), count);
            }
        }
        assert_eq!(model.mappings(), 0);
        // It may ask for more than the drive really takes, and never point to what is not its own.
        let is_bound = |text: &&String| text.contains("mapped") || text.contains("PRP");
        assert_eq!(model.violations().iter().find(is_bound), None);
    });
}

/// A CAP of any bits, or one that looks right but for one field.
fn false_capabilities(random: &mut Random) -> u64 {
    // 64 entries, contiguous, 500 ms, NVM command set.
    let plausible = 63 | 1 << 16 | 1 << 24 | 1 << 37;
    let field = |value: u64, mask: u64, shift: u32| plausible & !(mask << shift) | (value & mask) << shift;
    let value = random.0.next_u64();
    match random.below(6) {
        0 => value,
        1 => value | 1 << 37,
        2 => field(random.one_of(&[0, 1, 2, 0xffff]), 0xffff, 0),
        3 => field(value, 0xff, 24),
        4 => field(value, 0xf, 32),
        _ => field(value, 0xf, 48),
    }
}

#[test]
fn false_registers_and_grants_are_refused_in_a_line_or_used_within_bounds() {
    let (started, refused) = (Cell::new(0), Cell::new(0));
    let seeds = for_each_seed(2000, |seed| {
        let mut random = Random::new(seed);
        let config = shape(&mut random, Faults::default());
        let (bits, coin) = (random.0.next_u64() as u32, random.below(4));
        let model = Model::new(ModelConfig {
            capabilities: (coin > 0).then(|| false_capabilities(&mut random)),
            version: Some(random.one_of(&[0, bits, u32::MAX - 1, u32::MAX])),
            status: random.one_of(&[None, None, None, Some(bits), Some(u32::MAX), Some(0)]),
            queues_granted: random.one_of(&[
                None,
                Some(0),
                Some(bits),
                Some(u32::MAX),
                Some(0xffff),
                Some(0xffff << 16),
            ]),
            ..config
        });
        let steps = Arc::new(AtomicU64::new(0));
        let pool = pool(&mut random);
        match open(&model, &steps, &pool, &mut random) {
            Ok((_controller, mut queues)) => {
                started.set(started.get() + 1);
                for queue in &mut queues {
                    let requests = (0..8u64).filter_map(|tag| Some(Request::read(tag, tag << 16, pool.take()?)));
                    let mut requests: Vec<Request> = requests.collect();
                    let count = queue.submit(&mut requests);
                    let mut completions = Vec::new();
                    steps.store(0, Ordering::Relaxed);
                    assert_eq!(queue.reap(count, &mut completions).unwrap(), count);
                }
            }
            Err(error) => {
                refused.set(refused.get() + 1);
                let text = error.to_string();
                assert!(text.lines().count() == 1 && text.starts_with("model: "), "{text}");
            }
        }
        assert_eq!(model.mappings(), 0);
        let is_memory = |text: &&String| text.contains("mapped") || text.contains("PRP");
        assert_eq!(model.violations().iter().find(is_memory), None);
    });
    // A few seeds may all have one end.
    let both = started.get().min(refused.get()) > seeds / 20;
    assert!(seeds < 100 || both, "{} started, {} refused", started.get(), refused.get());
}

#[test]
fn doorbells_of_any_stride_are_used_and_shadowed_where_a_page_holds_them() {
    for shift in 0..16 {
        let config = shape(&mut Random::new(1), Faults::default());
        let doorbell_stride_bytes = 4 << shift;
        let model = Model::new(ModelConfig { doorbell_stride_bytes, shadow_doorbells: true, queues_max: 2, ..config });
        let controller = Controller::start(model.port(), ControllerOptions::default()).unwrap();
        let namespace = controller.namespace(1).unwrap();
        let pool = Pool::new(1, FRAME_BYTES, Pages::Base).unwrap();
        let pools = std::slice::from_ref(&pool);
        let config = NvmeQueueConfig { depth: 1, pools, writable: false, interrupts: false, event_fd: false };
        let mut queue = NvmeQueue::open(&controller, namespace, config).unwrap();
        queue.submit(&mut [Request::read(0, 0, pool.take().unwrap())].into());
        let mut completions = Vec::new();
        queue.drain(&mut completions).unwrap();
        assert_eq!(completions[0].result, Ok(FRAME_BYTES as u32), "{doorbell_stride_bytes}");
        assert_eq!(model.violations(), [""; 0], "{doorbell_stride_bytes}");
    }
}

#[test]
fn a_queue_keeps_its_identifier_when_a_reset_grants_fewer_queues_and_a_later_one_more() {
    let mut drill = Drill::new(1, |_| Faults::default(), true).expect("a controller without faults");
    drill.queues.clear();
    let open = |drill: &Drill| {
        let pools = std::slice::from_ref(&drill.pool);
        let config = NvmeQueueConfig { depth: 1, pools, writable: false, interrupts: false, event_fd: false };
        NvmeQueue::open(&drill.controller, drill.controller.namespace(1).unwrap(), config)
    };
    let read = |drill: &Drill, queue: &mut NvmeQueue| {
        queue.submit(&mut [Request::read(0, 0, drill.pool.take().unwrap())].into());
        let mut completions = Vec::new();
        queue.drain(&mut completions).unwrap();
        completions[0].result
    };
    let mut queues: Vec<NvmeQueue> = (0..3).map(|_| open(&drill).unwrap()).collect();
    for (granted, works) in [(1, [true, false, false]), (4, [true, true, true])] {
        drill.model.grant_queues(granted);
        drill.model.fail();
        // The first read of each queue finds the failure, or the reset that another has done.
        for queue in &mut queues {
            let _ = read(&drill, queue);
        }
        let seen: Vec<bool> = queues.iter_mut().map(|queue| read(&drill, queue).is_ok()).collect();
        assert_eq!(seen, works, "{granted} granted");
        if granted == 1 {
            assert!(open(&drill).err().unwrap().to_string().contains("all of its 1 I/O queues are taken"));
        }
    }
    // One identifier of the four is free, and no other is given twice.
    let fourth = open(&drill).unwrap();
    assert!(open(&drill).err().unwrap().to_string().contains("all of its 4 I/O queues are taken"));
    assert_eq!(drill.model.violations(), [""; 0]);
    drop((queues, fourth));
}

#[test]
fn an_entry_that_no_command_can_have_has_the_controller_reset() {
    let faults = |wrong_submission_head, wrong_submission_queue| Faults {
        wrong_submission_head,
        wrong_submission_queue,
        ..Faults::default()
    };
    for faults in [faults(1 << 16, 0), faults(0, 1 << 16)] {
        let mut drill = Drill::new(1, |_| Faults::default(), true).expect("a controller without faults");
        drill.model.set_faults(faults);
        assert_eq!(drill.recovery(0), Recovery::Refuses);
        assert!(drill.controller.resets() > 0 && drill.queues[0].counts().strays > 0);
        assert!(drill.recover().iter().all(|recovery| *recovery == Recovery::Works));
        drill.end();
    }
}

#[test]
fn each_command_of_a_durable_write_forces_unit_access_and_those_of_other_writes_do_not() {
    for_each_seed(20, |seed| {
        let mut drill = Drill::new(seed, |_| Faults::default(), true).expect("a controller without faults");
        let mut write = |request: fn(u64, u64, Buffer) -> Request| {
            let before = drill.model.counts();
            let buffer = drill.pool.take_frames(0, FRAMES / 2).unwrap();
            drill.queues[0].submit(&mut [request(1, 0, buffer)].into());
            let mut completions = Vec::new();
            drill.queues[0].drain(&mut completions).unwrap();
            assert_eq!(completions[0].result, Ok((FRAMES / 2 * FRAME_BYTES) as u32));
            let after = drill.model.counts();
            (after.commands - before.commands, after.forced - before.forced)
        };
        let (commands, forced) = write(Request::write);
        assert_eq!((forced, write(Request::durable_write)), (0, (commands, commands)));
    });
}

#[test]
fn each_command_of_a_vectored_durable_write_forces_unit_access() {
    for_each_seed(20, |seed| {
        let mut drill = Drill::new(seed, |_| Faults::default(), true).expect("a controller without faults");
        let block_bytes = drill.block_bytes as usize;
        let mut write = |request: fn(u64, u64, Buffers) -> Request| {
            // A part of a page and a page meet at no boundary, which takes a command each.
            let parts = [(0, block_bytes), (1, FRAME_BYTES), (4, FRAME_BYTES)];
            let parts = parts.map(|(first, bytes)| {
                let mut buffer = drill.pool.take_frames(first, 1).unwrap();
                buffer.set_len(bytes).unwrap();
                buffer
            });
            let before = drill.model.counts();
            drill.queues[0].submit(&mut [request(1, 0, Buffers::new(parts.into()).unwrap())].into());
            let mut completions = Vec::new();
            drill.queues[0].drain(&mut completions).unwrap();
            assert_eq!(completions[0].result, Ok((block_bytes + 2 * FRAME_BYTES) as u32));
            let after = drill.model.counts();
            (after.commands - before.commands, after.forced - before.forced)
        };
        let (commands, forced) = write(Request::write_vectored);
        assert!(commands > 1 || block_bytes == 4096, "{commands} commands");
        assert_eq!((forced, write(Request::durable_write_vectored)), (0, (commands, commands)));
    });
}

#[test]
fn an_atomic_write_is_one_command_of_a_length_that_the_drive_does_not_tear() {
    let most_of_all = Cell::new(0);
    let seeds = for_each_seed(20, |seed| {
        let mut drill = Drill::new(seed, |_| Faults::default(), true).expect("a controller without faults");
        let unit = drill.block_bytes;
        let namespace = drill.controller.namespace(1).unwrap();
        let lengths = atomic_writes(&drill.controller, namespace).expect("the drive has some");
        let mut write = |offset: u64, bytes: u64| {
            let before = drill.model.counts().commands;
            let mut buffer = drill.pool.take_frames(0, bytes.div_ceil(FRAME_BYTES as u64) as usize).unwrap();
            buffer.set_len(bytes as usize).unwrap();
            drill.queues[0].submit(&mut [Request::atomic_write(1, offset, buffer)].into());
            let mut completions = Vec::new();
            drill.queues[0].drain(&mut completions).unwrap();
            (completions[0].result, drill.model.counts().commands - before)
        };
        // The model's drive has eight blocks, of which its commands hold some or all.
        let most = lengths.bytes_max / unit;
        assert!(lengths.bytes_min == unit && most <= 8, "{lengths:?}");
        most_of_all.set(most_of_all.get().max(most));
        for blocks in [1, 2, 4, 8].into_iter().filter(|blocks| *blocks <= most) {
            assert_eq!(write(blocks * unit, blocks * unit), (Ok((blocks * unit) as u32), 1), "{blocks} blocks");
        }
        for (first, blocks) in [(1, 2), (2, 4), (0, 3), (4, 8), (0, 2 * most)] {
            assert_eq!(write(first * unit, blocks * unit), (Err(IoError::INVALID), 0), "{blocks} blocks at {first}");
        }
    });
    assert!(seeds < 20 || most_of_all.get() == 8, "all that the drive has");
}

#[test]
fn a_fatal_error_costs_one_reset() {
    for_each_seed(40, |seed| {
        let mut drill = Drill::new(seed, |_| Faults::default(), true).expect("a controller without faults");
        for resets in 1..4 {
            drill.run(seed as usize % 7 + 3);
            drill.model.fail();
            assert!(drill.recover().iter().all(|recovery| *recovery == Recovery::Works));
            assert_eq!(drill.controller.resets(), resets);
        }
        drill.end();
    });
}

#[test]
fn commands_that_a_thread_hands_over_while_another_resets_the_controller_ring_no_doorbell() {
    for shadow_doorbells in [false, true] {
        let model = Model::new(ModelConfig { shadow_doorbells, ..ModelConfig::default() });
        let other = Other::default();
        let watched = Watched { port: model.port(), steps: Arc::default(), other: other.clone() };
        let controller = Controller::start(watched, ControllerOptions::default()).unwrap();
        let namespace = controller.namespace(1).unwrap();
        let pool = Pool::new(2, FRAME_BYTES, Pages::Base).unwrap();
        let pools = std::slice::from_ref(&pool);
        let config = || NvmeQueueConfig { depth: 1, pools, writable: false, interrupts: false, event_fd: false };
        let mut queues = [(); 2].map(|()| NvmeQueue::open(&controller, namespace, config()).unwrap());
        for queue in &mut queues {
            queue.submit(&mut [Request::read(1, 0, pool.take().unwrap())].into());
        }
        let [mut resets, flushes] = queues;
        *other.lock().unwrap() = Some((flushes, 0));
        model.fail();
        let mut completions = Vec::new();
        assert_eq!((resets.reap(1, &mut completions).unwrap(), controller.resets()), (1, 1));
        let (mut flushes, times) = other.lock().unwrap().take().unwrap();
        assert!(times > 0 && flushes.counts().register_writes == 0, "{times} times");
        assert_eq!(flushes.reap(1, &mut completions).unwrap(), 1);
        assert_eq!(completions[1].result, Err(IoError::CANCELLED));
        assert_eq!(model.violations(), [""; 0]);
    }
}

/// The queue that is waited for has no thread in it: only its descriptor can tell that another has had the controller reset.
#[test]
fn a_reset_by_another_queue_wakes_who_waits_on_a_descriptor() {
    let model = Model::new(ModelConfig::default());
    let controller = Controller::start(model.port(), ControllerOptions::default()).unwrap();
    let namespace = controller.namespace(1).unwrap();
    let pool = Pool::new(2, FRAME_BYTES, Pages::Base).unwrap();
    let pools = std::slice::from_ref(&pool);
    let open = |waits| {
        let config = NvmeQueueConfig { depth: 1, pools, writable: false, interrupts: waits, event_fd: waits };
        NvmeQueue::open(&controller, namespace, config).unwrap()
    };
    let (mut waiting, mut other) = (open(true), open(false));
    model.fail();
    for queue in [&mut waiting, &mut other] {
        queue.submit(&mut [Request::read(1, 0, pool.take().unwrap())].into());
        queue.flush().unwrap();
    }
    let mut completions = Vec::new();
    assert_eq!(other.reap(1, &mut completions).unwrap(), 1);
    assert_eq!(controller.resets(), 1);
    let descriptor = waiting.event_fd().unwrap();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&at_once)).unwrap(), 1);
    assert_eq!(waiting.reap(0, &mut completions).unwrap(), 1);
    assert_eq!(completions[1].result, Err(IoError::CANCELLED));
}

/// Time is real here, as the driver really sleeps, and the order of commands is the scheduler's: a few seeds, and faults only
/// once all queues are open. A controller that a reset did not revive answers with errors, so the reads that it takes are
/// counted over all seeds.
#[test]
fn with_interrupts_and_a_controller_at_work_beside_it_all_is_answered() {
    let answered = Cell::new(0);
    let seeds = for_each_seed_up_to(2000, 30, |seed| {
        let mut random = Random::new(seed);
        let faults = Faults {
            seed,
            late_completion: random.one_of(&[0, 500]),
            late_steps_max: 1000,
            lost_interrupt: random.one_of(&[0, 500]),
            missing_completion: random.one_of(&[0, 100]),
            failed_command: random.one_of(&[0, 500]),
            ..Faults::default()
        };
        let model = Model::spawn(shape(&mut random, Faults::default()));
        let timeout = Duration::from_millis(100);
        let controller = Controller::start(model.port(), ControllerOptions { timeout, ..Default::default() }).unwrap();
        let namespace = controller.namespace(1).unwrap();
        let readers: Vec<_> = (0..1 + random.below(3)).map(|_| Reader::open(&controller, namespace)).collect();
        model.set_faults(faults);
        let reads: usize = std::thread::scope(|scope| {
            let spawn = |(thread, reader): (u64, Reader)| scope.spawn(move || reader.read(seed ^ thread << 32));
            let threads: Vec<_> = (0..).zip(readers).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        answered.set(answered.get() + reads as u64);
        drop(controller);
        let is_forbidden = |text: &String| text.contains("mapped") || text.contains("was written");
        assert_eq!(model.violations().into_iter().find(is_forbidden), None);
        assert_eq!(model.mappings(), 0);
    });
    assert!(seeds < 10 || answered.get() > 100 * seeds, "{} reads with {seeds} seeds", answered.get());
}

/// An hour passes between any two looks at the controller, as on a machine that is suspended or paused again and again.
#[test]
fn a_machine_that_stood_still_is_not_taken_for_a_controller_that_does_not_answer() {
    let late = Faults { admin: true, late_completion: 1 << 16, late_steps_max: 3, ..Faults::default() };
    let hour = Duration::from_secs(3600);
    for seed in 0..20 {
        let faults = Faults { seed, ..late };
        let model = Model::new(ModelConfig { faults, step_ns: hour.as_nanos() as u64, ..ModelConfig::default() });
        let options = ControllerOptions { timeout: Duration::from_secs(1), ..ControllerOptions::default() };
        let controller = Controller::start(model.port(), options).unwrap();
        controller.namespace(1).unwrap();
        assert_eq!(controller.resets(), 0, "seed {seed}");
    }
}

/// A queue with interrupts, and its memory.
struct Reader {
    queue: NvmeQueue,
    pool: Pool,
}

impl Reader {
    fn open(controller: &Arc<Controller>, namespace: Namespace) -> Self {
        let pool = Pool::new(16, FRAME_BYTES, Pages::Base).unwrap();
        let pools = std::slice::from_ref(&pool);
        let config = NvmeQueueConfig { depth: 16, pools, writable: true, interrupts: true, event_fd: false };
        Self { queue: NvmeQueue::open(controller, namespace, config).unwrap(), pool }
    }

    /// Reads in batches, and returns how many reads were taken, each of which was answered once.
    fn read(mut self, seed: u64) -> usize {
        let mut random = Random::new(seed);
        let (mut completions, mut answered) = (Vec::new(), 0);
        for round in 0..40 {
            let requests = (0..random.below(16))
                .filter_map(|_| Some(Request::read(round, random.below(64) << 16, self.pool.take()?)));
            let mut requests: Vec<Request> = requests.collect();
            let taken = self.queue.submit(&mut requests);
            answered += taken;
            completions.clear();
            self.queue.drain(&mut completions).unwrap();
            assert_eq!(completions.len(), taken);
        }
        completions.clear();
        assert!(self.pool.take_frames(0, 16).is_some());
        answered
    }
}

#[test]
fn buffers_that_meet_at_pages_are_one_command_and_each_other_one_of_its_own() {
    let model = Model::new(ModelConfig { transfer_pages_log2: 5, ..ModelConfig::default() });
    let controller = Controller::start(model.port(), ControllerOptions::default()).unwrap();
    let namespace = controller.namespace(1).unwrap();
    assert_eq!(namespace.block_bytes, 512);
    let (pool, other) = (Pool::new(4, 8192, Pages::Base).unwrap(), Pool::new(1, 8192, Pages::Base).unwrap());
    let pools = std::slice::from_ref(&pool);
    let config = NvmeQueueConfig { depth: 4, pools, writable: true, interrupts: false, event_fd: false };
    let mut queue = NvmeQueue::open(&controller, namespace, config).unwrap();
    let sized = |bytes: usize, pool: &Pool| {
        let mut buffer = pool.take().unwrap();
        buffer.set_len(bytes).unwrap();
        buffer
    };
    let mut ended = |buffers: Vec<Buffer>| {
        let before = queue.counts().commands;
        queue.submit(&mut vec![Request::read_vectored(1, 0, Buffers::new(buffers).unwrap())]);
        let mut completions = Vec::new();
        queue.drain(&mut completions).unwrap();
        assert!(completions.len() == 1 && completions[0].buffers.is_some(), "{completions:?}");
        (completions[0].result, queue.counts().commands - before)
    };
    // Frames begin at pages.
    let of = |lengths: &[usize]| lengths.iter().map(|bytes| sized(*bytes, &pool)).collect::<Vec<Buffer>>();
    assert_eq!(ended(of(&[8192])), (Ok(8192), 1));
    assert_eq!(ended(of(&[4096, 8192, 512])), (Ok(12_800), 1));
    assert_eq!(ended(of(&[512, 4096])), (Ok(4608), 2));
    assert_eq!(ended(of(&[4096, 1024, 512, 8192])), (Ok(13_824), 3));
    // What no command can do is refused before the first one.
    assert_eq!(ended(of(&[4096, 100])), (Err(IoError::INVALID), 0));
    assert_eq!(ended(vec![sized(4096, &pool), sized(4096, &other)]), (Err(IoError::NOT_REGISTERED), 0));
    assert_eq!(model.violations(), [""; 0]);
}
