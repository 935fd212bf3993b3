//! A simulated controller in memory: registers, queues, namespaces, and faults drawn from a seed. Its port implements [`Transport`],
//! so that tests, fuzzers and benchmarks run the unmodified driver on any machine; nothing else uses it.

mod admin;
mod chance;
mod config;
mod disk;
mod dma;
mod doorbells;
mod engine;
mod faults;
mod identify;
mod nvm;
mod pointers;
mod queues;
mod status;

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use iolane_core::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};

pub use config::{Counts, Faults, ModelConfig, NamespaceConfig};

use crate::command::CompletionEntry;
use crate::memory::PAGE_BYTES;
use crate::registers::{DOORBELLS, Registers};
use crate::transport::Transport;
use engine::Engine;

/// Its name in messages.
const NAME: &str = "model";

/// Steps without work after which the model's thread yields.
const IDLE_TURNS_MAX: u32 = 256;

/// A simulated controller.
///
/// It works in steps: each reads the registers and doorbells, and does all pending work. Steps are run either by the driver while
/// it waits ([`new`](Self::new)), which makes a run repeat exactly, or continuously by a thread ([`spawn`](Self::spawn)), as a
/// device would.
///
/// Bus mastering is off at first.
pub struct Model {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Whether a driver has its port.
    is_driven: AtomicBool,
}

/// The side of a [`Model`] that its driver has.
pub struct ModelPort(Arc<Model>);

struct Shared {
    engine: Mutex<Engine>,
    /// The number of threads that wait for the lock. The model's thread, which holds it nearly all the time, then releases it.
    waiting: AtomicUsize,
    is_dropped: AtomicBool,
    registers: Registers,
    /// The memory of `registers`: pairs, for alignment to 8 bytes. It never grows, so it never moves.
    _register_memory: Vec<RegisterPair>,
}

#[repr(align(8))]
struct RegisterPair {
    _registers: [AtomicU32; 2],
}

impl Shared {
    fn new(config: ModelConfig) -> Self {
        let queues = usize::from(config.queues_max) + 1;
        let bytes = (DOORBELLS + 2 * queues * config.doorbell_stride_bytes).next_multiple_of(PAGE_BYTES);
        let pair = || RegisterPair { _registers: [AtomicU32::new(0), AtomicU32::new(0)] };
        let memory: Vec<RegisterPair> = (0..bytes / size_of::<RegisterPair>()).map(|_| pair()).collect();
        let base = NonNull::from(&memory[..]).cast();
        // SAFETY: the memory is aligned to 8 bytes, consists of atomics, and lives as long as this, which holds both. Users of
        // `Transport::registers` hold the port, and by it the model, as long as they use them.
        let registers = unsafe { Registers::new(base, bytes) };
        Self {
            engine: Mutex::new(Engine::new(config, registers)),
            waiting: AtomicUsize::new(0),
            is_dropped: AtomicBool::new(false),
            registers,
            _register_memory: memory,
        }
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps until the model is dropped.
    fn run(&self) {
        let mut idle_turns = 0;
        while !self.is_dropped.load(Ordering::Acquire) {
            if self.waiting.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
                continue;
            }
            let mut engine = self.engine();
            let before = engine.counts.completions;
            engine.step();
            idle_turns = if engine.counts.completions == before { idle_turns + 1 } else { 0 };
            drop(engine);
            if idle_turns >= IDLE_TURNS_MAX {
                std::thread::yield_now();
            }
        }
    }
}

impl Model {
    /// A model that steps when its driver waits for it ([`Transport::relax`]) or [`step`](Self::step) is called.
    ///
    /// # Panics
    /// If the configuration is invalid, which is an error of the test.
    pub fn new(config: ModelConfig) -> Arc<Self> {
        check(&config);
        Arc::new(Self { shared: Arc::new(Shared::new(config)), thread: None, is_driven: AtomicBool::new(false) })
    }

    /// A model with a thread that runs steps until the model is dropped.
    ///
    /// # Panics
    /// As [`new`](Self::new), or if no thread can be started.
    pub fn spawn(config: ModelConfig) -> Arc<Self> {
        check(&config);
        let shared = Arc::new(Shared::new(config));
        let runs = shared.clone();
        let thread = std::thread::Builder::new().name(NAME.into()).spawn(move || runs.run()).expect("a thread");
        Arc::new(Self { shared, thread: Some(thread), is_driven: AtomicBool::new(false) })
    }

    /// Its port, for a driver; free again when it is dropped.
    ///
    /// # Panics
    /// If a driver has it already, which is an error of the test.
    pub fn port(self: &Arc<Self>) -> ModelPort {
        // Acquire: a driver sees what the one before did.
        assert!(!self.is_driven.swap(true, Ordering::Acquire), "a driver has the model already");
        ModelPort(self.clone())
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let engine = self.shared.engine();
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        engine
    }

    /// Runs one step.
    pub fn step(&self) {
        self.shared.engine().step();
    }

    /// The first violations of the specification by the driver, in order.
    pub fn violations(&self) -> Vec<String> {
        self.engine().dma.violations()
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.engine().counts
    }

    /// The number of live mappings.
    pub fn mappings(&self) -> usize {
        self.engine().dma.mappings()
    }

    /// Replaces the faults, and draws from their seed anew.
    pub fn set_faults(&self, faults: Faults) {
        let mut engine = self.engine();
        engine.config.faults = faults;
        engine.chance = chance::Chance::new(faults.seed);
    }

    /// Answers from now on that it grants this number of I/O queue pairs.
    pub fn grant_queues(&self, pairs: u16) {
        let less_one = u32::from(pairs) - 1;
        self.engine().config.queues_granted = Some(less_one << 16 | less_one);
    }

    /// Reports a fatal error now (CSTS.CFS), and does nothing until it is reset.
    pub fn fail(&self) {
        self.engine().fail();
    }

    /// Removes the device for good: its registers read as ones.
    pub fn vanish(&self) {
        self.engine().vanish();
    }

    /// Writes an arbitrary entry to a completion queue, now or as soon as there is room. Its `phase` selects the correct phase or
    /// the wrong one. Nothing happens if there is no such queue.
    pub fn post(&self, completion_queue: u16, entry: CompletionEntry) {
        let mut engine = self.engine();
        if usize::from(completion_queue) < engine.completion.len() {
            engine.forget(completion_queue, &entry);
            engine.complete(completion_queue, entry);
        }
    }

    /// Reads a namespace from `offset` on, bypassing the driver.
    ///
    /// # Panics
    /// If there is no such namespace.
    pub fn read_disk(&self, namespace: u32, offset: u64, data: &mut [u8]) {
        let engine = self.engine();
        let index = engine.disk_index(namespace).expect("a namespace of the model");
        // SAFETY: the slice is ours, exclusively, for the call.
        unsafe { engine.disks[index].read(offset, NonNull::from(&mut *data).cast(), data.len()) };
    }

    /// Writes to a namespace from `offset` on, bypassing the driver.
    ///
    /// # Panics
    /// If there is no such namespace.
    pub fn write_disk(&self, namespace: u32, offset: u64, data: &[u8]) {
        let mut engine = self.engine();
        let index = engine.disk_index(namespace).expect("a namespace of the model");
        // SAFETY: the slice is initialised, and shared for the call.
        unsafe { engine.disks[index].write(offset, NonNull::from(data).cast(), data.len()) };
    }
}

fn check(config: &ModelConfig) {
    assert!(config.queues_max > 0 && (2..=1 << 16).contains(&config.queue_entries_max));
    assert!(config.doorbell_stride_bytes.is_power_of_two() && (4..=4 << 15).contains(&config.doorbell_stride_bytes));
    assert!(config.namespaces.iter().all(|namespace| [512, 4096].contains(&namespace.block_bytes)));
    let fits = |namespace: &NamespaceConfig| namespace.blocks.checked_mul(namespace.block_bytes.into()).is_some();
    assert!(config.namespaces.iter().all(fits));
    assert!(config.transfer_pages_log2 <= 20);
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.is_dropped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // If it panicked, the test that waited for it has already failed.
            let _ = thread.join();
        }
    }
}

impl Drop for ModelPort {
    fn drop(&mut self) {
        self.0.is_driven.store(false, Ordering::Release);
    }
}

// SAFETY: the port holds the model, which holds the memory of the registers; `dma` limits the model to what was mapped; and there is
// one port at a time.
unsafe impl Transport for ModelPort {
    fn name(&self) -> &str {
        NAME
    }

    unsafe fn registers(&self) -> Registers {
        self.0.shared.registers
    }

    unsafe fn map(&self, memory: NonNull<u8>, bytes: usize) -> Result<u64> {
        if bytes == 0 || !(memory.addr().get() | bytes).is_multiple_of(PAGE_BYTES) {
            return Err(Error::failed(format!("{NAME}: {bytes} bytes at {memory:?}"), "they are not whole pages"));
        }
        Ok(self.0.engine().dma.map(memory, bytes))
    }

    unsafe fn unmap(&self, address: u64, bytes: usize) -> Result<()> {
        match self.0.engine().dma.unmap(address, bytes) {
            true => Ok(()),
            false => Err(Error::failed(format!("{NAME}: {bytes} bytes at {address:#x}"), "they were not mapped so")),
        }
    }

    fn interrupts(&self, most: u32) -> Result<Vec<OwnedFd>> {
        let mut engine = self.0.engine();
        let count = engine.config.vectors.min(most);
        let what = || format!("{NAME}: {count} interrupt vectors");
        if count == 0 {
            return Err(Error::unavailable(what(), "it was made without").remedy("use path nvme, which polls"));
        }
        let descriptors = (0..count)
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|errno| Error::system(what(), errno))?;
        let duplicates = descriptors.iter().map(OwnedFd::try_clone).collect::<std::io::Result<_>>();
        engine.interrupts = duplicates.map_err(|error| Error::system(what(), error))?;
        Ok(descriptors)
    }

    fn relax(&self, _looks: u32) {
        if self.0.thread.is_some() { std::thread::yield_now() } else { self.0.step() }
    }

    /// Without a thread, time is counted in steps, so that no run depends on the machine's speed.
    fn now(&self) -> Duration {
        if self.0.thread.is_some() {
            return rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).try_into().unwrap_or_default();
        }
        let engine = self.0.engine();
        Duration::from_nanos(engine.counts.steps.saturating_mul(engine.config.step_ns))
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<()> {
        let mut engine = self.0.engine();
        if engine.is_gone() {
            return Err(Error::failed(format!("{NAME}: bus mastering"), "the device is gone"));
        }
        engine.dma.bus_master = on;
        Ok(())
    }
}
