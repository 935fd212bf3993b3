//! The [`Queue`] on one pair of rings: requests become commands, completion entries become completions. If the controller stops
//! answering, every request still completes once, with an error. Opened by `interface`.
//!
//! The slot of a request is the lower part of its command identifier. The upper part counts the uses of the slot, so that a
//! duplicate completion, or one of an earlier command, is recognised.

mod rare;
mod recovery;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use iolane_core::nvme::FORCE_UNIT_ACCESS;
use iolane_core::{
    AtomicWrites, Buffer, Completion, IoError, Operation, Operations, Pool, Queue, QueueStats, Request, Result, Slots,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command::{Command, CompletionEntry, nvm};
use crate::controller::Controller;
use crate::data_pointer::{DataPointers, LIST_BYTES_MAX};
use crate::identity::Namespace;
use crate::memory::{DmaPool, PAGE_BYTES};
use crate::queue_pair::{IoQueuePair, QueuePair};

/// The part of a command identifier that is the slot.
const SLOT_BITS: u32 = 12;
const SLOT_MASK: u16 = (1 << SLOT_BITS) - 1;
const GENERATION_MASK: u8 = (1 << (16 - SLOT_BITS)) - 1;
/// The most blocks of one command: the field has 16 bits and holds one less.
const BLOCKS_MAX: u64 = 1 << 16;
/// Polls without a completion between two checks of the clock.
const POLLS_PER_CLOCK_CHECK: u32 = 1024;
/// The age at which a command has timed out, in checks of the clock; the checks divide the timeout.
const AGE_MAX: u8 = 5;
/// Polls of a queue with interrupts before it sleeps: some microseconds, less than a wake-up takes.
const POLLS_BEFORE_SLEEP: u32 = 2000;

/// How to open a queue.
pub struct NvmeQueueConfig<'a> {
    /// Most requests in flight.
    pub depth: u32,
    /// The pools that buffers come from.
    pub pools: &'a [Pool],
    /// Whether requests may write.
    pub writable: bool,
    /// Whether the controller raises interrupts for completions; otherwise the queue is polled.
    pub interrupts: bool,
    /// Whether [`Queue::event_fd`] will be used; needs interrupts.
    pub event_fd: bool,
}

/// One thread's queue on one namespace.
pub struct NvmeQueue {
    controller: Arc<Controller>,
    queue: IoQueuePair,
    namespace: Namespace,
    block_shift: u32,
    writable: bool,
    /// Most bytes of one command, a multiple of the block size.
    command_bytes_max: u64,
    atomic_writes: Option<AtomicWrites>,
    slots: Slots,
    flights: Box<[Flight]>,
    /// Completions without an entry from the controller.
    answered: Vec<Completion>,
    pointers: DataPointers,
    pools: Vec<Arc<DmaPool>>,
    /// Whether the controller raises interrupts for it, and whether the caller waits on their descriptor.
    has_interrupt: bool,
    signals_caller: bool,
    /// The controller failed and could not be reset.
    is_dead: bool,
    /// Polls since the last check of the clock, and the time of that check.
    polls: u32,
    last_check: Duration,
    syscalls: u64,
    counts: Counts,
}

/// The counters of a queue since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Commands submitted to the controller.
    pub commands: u64,
    /// Doorbell registers written.
    pub register_writes: u64,
    /// Completions that belong to no command in flight.
    pub strays: u64,
    /// Commands that timed out.
    pub timeouts: u64,
}

/// The state of a command in flight, besides its request.
#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    /// The number of uses of the slot, modulo 16.
    generation: u8,
    age: u8,
    timed_out: bool,
    /// Whether it is the last command of the request.
    is_last: bool,
    /// Bytes of the request, bytes moved by earlier commands, and bytes of this command.
    total: u64,
    moved: u64,
    moving: u64,
}

/// A command identifier: the slot, and the number of its uses.
#[inline]
fn identifier(slot: u32, generation: u8) -> u16 {
    slot as u16 | u16::from(generation) << SLOT_BITS
}

/// The operations of a namespace.
pub fn operations(controller: &Controller, namespace: Namespace) -> Operations {
    let identity = controller.identity();
    let always = Operations::READ
        .with(Operations::WRITE)
        .with(Operations::DURABLE_WRITE)
        .with(Operations::VECTORED)
        .with(Operations::FSYNC)
        .with(Operations::FDATASYNC);
    let with =
        |operations: Operations, has: bool, more: Operations| if has { operations.with(more) } else { operations };
    let operations = with(always, identity.dataset_management, Operations::DISCARD);
    let operations = with(operations, atomic_writes(controller, namespace).is_some(), Operations::ATOMIC_WRITE);
    with(operations, identity.write_zeroes, Operations::WRITE_ZEROES)
}

/// The writes of a namespace that a power cut leaves whole or undone.
pub fn atomic_writes(controller: &Controller, namespace: Namespace) -> Option<AtomicWrites> {
    namespace.atomic_writes(controller.identity().atomic_write_blocks, command_bytes_max(controller, namespace))
}

/// Most bytes of one command, a multiple of the block size.
fn command_bytes_max(controller: &Controller, namespace: Namespace) -> u64 {
    // A buffer may begin within a page.
    let one_list = LIST_BYTES_MAX - PAGE_BYTES as u64;
    let transfer_max = controller.identity().transfer_bytes_max.unwrap_or(u64::MAX);
    let block_bytes = u64::from(namespace.block_bytes);
    let most = transfer_max.min(one_list).min(BLOCKS_MAX * block_bytes) / block_bytes * block_bytes;
    most.max(block_bytes)
}

/// Whether it is among the operations of `rare`.
#[inline(always)]
fn is_rare(operation: &Operation) -> bool {
    use Operation::{AtomicWrite, DurableWriteVectored, ReadVectored, WriteVectored};
    matches!(operation, ReadVectored(_) | WriteVectored(_) | DurableWriteVectored(_) | AtomicWrite(_))
}

/// What a request moved that is not an ordinary transfer.
#[cold]
fn moved_by_others(operation: &Operation, moved: u64) -> u32 {
    if is_rare(operation) { moved as u32 } else { 0 }
}

/// Dwords 10 to 15 of a command on these blocks: the first in 10 and 11, their number less one in 12.
#[inline(always)]
fn of_blocks(first: u64, blocks: u64) -> [u32; 6] {
    [first as u32, (first >> 32) as u32, (blocks.wrapping_sub(1)) as u32, 0, 0, 0]
}

impl NvmeQueue {
    /// Opens a queue on a namespace.
    ///
    /// # Errors
    /// `Usage` if no queue of the controller has that depth; `Exhausted` if the controller has no queue left, or memory, locked memory or addresses run out; `Failed` or
    /// `Unavailable` if the controller does not answer.
    pub fn open(controller: &Arc<Controller>, namespace: Namespace, config: NvmeQueueConfig<'_>) -> Result<Self> {
        controller.require_depth(config.depth)?;
        let scatter_gather = controller.options().scatter_gather_lists && controller.identity().scatter_gather_lists;
        let pools = config.pools.iter().map(|pool| controller.map_pool(pool)).collect::<Result<_>>()?;
        let pointers = DataPointers::new(controller.transport(), config.depth, scatter_gather)?;
        let queue = controller.create_queue_pair(config.depth, config.interrupts)?;
        Ok(Self {
            last_check: controller.transport().now(),
            controller: controller.clone(),
            queue,
            namespace,
            block_shift: namespace.block_bytes.trailing_zeros(),
            writable: config.writable,
            command_bytes_max: command_bytes_max(controller, namespace),
            atomic_writes: atomic_writes(controller, namespace),
            slots: Slots::new(config.depth as usize),
            flights: vec![Flight::default(); config.depth as usize].into(),
            answered: Vec::new(),
            pointers,
            pools,
            has_interrupt: config.interrupts,
            signals_caller: config.interrupts && config.event_fd,
            is_dead: false,
            polls: 0,
            syscalls: 0,
            counts: Counts::default(),
        })
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        Counts { register_writes: self.queue.pair.register_writes(), ..self.counts }
    }

    /// Takes one request: puts a command into the ring, or completes it with an error if there is no such command.
    #[inline]
    fn take(&mut self, request: Request) {
        if is_rare(&request.operation) {
            return self.take_rare(request);
        }
        let slot = self.slots.next();
        let made = self.check(&request).and_then(|total| Ok((total, self.command(&request, slot, 0, total)?)));
        match made {
            Ok((total, (command, moving))) => self.push(request, slot, total, command, moving),
            Err(error) => self.refuse(request, error),
        }
    }

    /// Puts the first command of a request of `total` bytes into the ring; it moves `moving` of them.
    #[inline(always)]
    fn push(&mut self, request: Request, slot: u32, total: u64, command: Command, moving: u64) {
        debug_assert!(self.slots.get(slot).is_none(), "the slot of a new request is free");
        let flight = &mut self.flights[slot as usize];
        let generation = flight.generation.wrapping_add(1) & GENERATION_MASK;
        *flight = Flight { generation, is_last: moving == total, total, moving, ..Flight::default() };
        let identifier = identifier(slot, generation);
        self.slots.insert(request);
        self.counts.commands += 1;
        self.queue.pair.push(Command { identifier, ..command });
    }

    #[cold]
    fn refuse(&mut self, request: Request, error: IoError) {
        self.answered.push(request.complete(Err(error)));
    }

    /// The bytes of a request, or the error of a request that the controller need not see.
    #[inline]
    fn check(&self, request: &Request) -> Result<u64, IoError> {
        let bytes = match &request.operation {
            _ if self.is_dead => return Err(IoError::from_errno(libc::ENODEV)),
            Operation::Read(buffer) => buffer.len() as u64,
            Operation::Fsync | Operation::Fdatasync => return Ok(0),
            _ if !self.writable => return Err(IoError::READ_ONLY),
            Operation::Write(buffer) | Operation::DurableWrite(buffer) => buffer.len() as u64,
            Operation::Discard { .. } if !self.controller.identity().dataset_management => {
                return Err(IoError::NOT_SUPPORTED);
            }
            Operation::WriteZeroes { .. } if !self.controller.identity().write_zeroes => {
                return Err(IoError::NOT_SUPPORTED);
            }
            Operation::Discard { bytes } | Operation::WriteZeroes { bytes } => *bytes,
            _ => return Err(IoError::NOT_SUPPORTED),
        };
        self.check_range(request, bytes)
    }

    /// Whether these bytes are whole blocks of the namespace.
    #[inline(always)]
    fn check_range(&self, request: &Request, bytes: u64) -> Result<u64, IoError> {
        let mask = u64::from(self.namespace.block_bytes) - 1;
        let is_inside = request.offset.checked_add(bytes).is_some_and(|end| end <= self.namespace.bytes);
        if (request.offset | bytes) & mask != 0 || bytes == 0 || !is_inside {
            return Err(IoError::INVALID);
        }
        Ok(bytes)
    }

    /// The controller's address of the first byte of a buffer.
    #[inline]
    fn address_of(&self, buffer: &Buffer) -> Result<u64, IoError> {
        self.pools.iter().find_map(|pool| pool.address_of(buffer)).ok_or(IoError::NOT_REGISTERED)
    }

    /// The command for the rest of a request of `total` bytes of which `moved` are done, without its identifier, and the bytes of
    /// the command.
    #[inline(always)]
    fn command(&self, request: &Request, slot: u32, moved: u64, total: u64) -> Result<(Command, u64), IoError> {
        let mut command = Command { namespace: self.namespace.identifier, ..Command::default() };
        let (opcode, most) = match &request.operation {
            Operation::Read(_) => (nvm::READ, self.command_bytes_max),
            Operation::Write(_) | Operation::DurableWrite(_) => (nvm::WRITE, self.command_bytes_max),
            Operation::WriteZeroes { .. } => (nvm::WRITE_ZEROES, BLOCKS_MAX << self.block_shift),
            Operation::Discard { .. } => (nvm::DATASET_MANAGEMENT, u64::from(u32::MAX) << self.block_shift),
            Operation::Fsync | Operation::Fdatasync => return Ok((Command { opcode: nvm::FLUSH, ..command }, 0)),
            _ => return Err(IoError::NOT_SUPPORTED),
        };
        debug_assert!(moved < total, "something of the request is left: {moved} of {total}");
        let moving = (total - moved).min(most);
        let first_block = (request.offset + moved) >> self.block_shift;
        let blocks = moving >> self.block_shift;
        command.opcode = opcode;
        command.dwords = of_blocks(first_block, blocks);
        match &request.operation {
            Operation::Read(buffer) | Operation::Write(buffer) | Operation::DurableWrite(buffer) => {
                if matches!(request.operation, Operation::DurableWrite(_)) {
                    command.dwords[2] |= FORCE_UNIT_ACCESS;
                }
                let address =
                    self.pools.iter().find_map(|pool| pool.address_of(buffer)).ok_or(IoError::NOT_REGISTERED)?;
                (command.flags, command.data) = self.pointers.point(slot, address + moved, moving as u32)?;
            }
            Operation::Discard { .. } => {
                (command.flags, command.data) = self.pointers.point_to_range(slot, first_block, blocks as u32);
                // Number of ranges less one; attribute deallocate (NVM Command Set Specification 1.0, section 3.2.3).
                command.dwords = [0, 1 << 2, 0, 0, 0, 0];
            }
            _ => {}
        }
        Ok((command, moving))
    }

    /// Completes the request in a slot.
    #[cold]
    fn answer(&mut self, slot: u32, result: Result<u32, IoError>) {
        if let Some(request) = self.slots.take(slot.into()) {
            self.answered.push(request.complete(result));
        }
    }

    /// Appends the completions in the ring and returns how many.
    #[inline]
    fn poll_ring(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        // At most as many as the ring holds, in case the controller keeps adding some.
        for _ in 0..self.queue.pair.completion_entries() {
            let Some(entry) = self.queue.pair.pop() else { break };
            self.complete(entry, completions);
        }
        if self.queue.pair.is_release_due() {
            self.release();
        }
        completions.append(&mut self.answered);
        completions.len() - before
    }

    #[inline]
    fn complete(&mut self, entry: CompletionEntry, completions: &mut Vec<Completion>) {
        let slot = entry.identifier & SLOT_MASK;
        let generation = (entry.identifier >> SLOT_BITS) as u8;
        let is_ours = entry.submission_queue == self.queue.pair.identifier()
            && u32::from(entry.submission_head) < self.queue.pair.entries();
        let awaited = |flight: &&mut Flight| is_ours && flight.generation == generation;
        let Some(flight) = self.flights.get_mut(usize::from(slot)).filter(awaited) else {
            return self.stray();
        };
        flight.moved += flight.moving;
        if !flight.is_last && entry.status.is_success() {
            return self.send_rest(slot.into());
        }
        // A duplicate of this completion finds no request.
        flight.is_last = true;
        let (moved, total, is_timed_out) = (flight.moved, flight.total, flight.timed_out);
        let Some(request) = self.slots.take(slot.into()) else { return self.stray() };
        debug_assert!(moved <= total, "the commands of a request move no more than it asks for: {moved} of {total}");
        let result = match (entry.status.check(), &request.operation) {
            (Ok(()), Operation::Read(_) | Operation::Write(_) | Operation::DurableWrite(_)) => Ok(moved as u32),
            (Ok(()), operation) => Ok(moved_by_others(operation, moved)),
            (Err(_), _) if is_timed_out => Err(IoError::from_errno(libc::ETIMEDOUT)),
            (Err(error), _) => Err(error),
        };
        completions.push(request.complete(result));
    }

    /// Sends the next command of a request that is larger than one command.
    #[cold]
    fn send_rest(&mut self, slot: u32) {
        let Some(request) = self.slots.get(slot) else { return self.stray() };
        let Flight { moved, total, generation, .. } = self.flights[slot as usize];
        let made = match is_rare(&request.operation) {
            true => self.rare_command(request, slot, moved),
            false => self.command(request, slot, moved, total),
        };
        let (command, moving) = match made {
            Ok(made) => made,
            Err(error) => return self.answer(slot, Err(error)),
        };
        let generation = generation.wrapping_add(1) & GENERATION_MASK;
        let is_last = moved + moving == total;
        self.flights[slot as usize] = Flight { generation, is_last, total, moved, moving, ..Flight::default() };
        self.counts.commands += 1;
        self.queue.pair.push(Command { identifier: identifier(slot, generation), ..command });
        self.ring();
    }

    /// Gives the places of completions back, which is seldom due.
    #[cold]
    fn release(&mut self) {
        self.queue.ring(&self.controller.resets, QueuePair::release);
    }

    /// Rings the doorbell if commands were pushed, unless a reset has begun: then they are answered when the queue is recreated.
    #[inline]
    fn ring(&mut self) {
        if self.queue.pair.is_pushed() {
            self.queue.ring(&self.controller.resets, QueuePair::ring);
        }
    }

    /// Recovers if any thread has reset the controller.
    #[inline(always)]
    fn recover_from_reset(&mut self) {
        if self.controller.resets.count() != self.queue.resets {
            self.recover_once_over();
        }
    }

    /// Makes the descriptor readable for completions without the controller, which raise no interrupt.
    #[inline]
    fn signal_answered(&mut self) {
        if self.signals_caller
            && !self.answered.is_empty()
            && let Some(interrupt) = self.controller.interrupt(&self.queue)
        {
            self.syscalls += 1;
            let _ = rustix::io::write(interrupt, &1u64.to_ne_bytes());
        }
    }

    /// Waits between two polls, and sleeps if the controller will raise an interrupt.
    fn wait(&mut self, polls: u32) {
        if polls < POLLS_BEFORE_SLEEP || !self.sleep(Duration::MAX) {
            self.controller.transport().relax(polls);
        }
    }

    /// Sleeps until the controller raises an interrupt, for a part of the command timeout or `timeout` at most. `false` if it
    /// raises none.
    fn sleep(&mut self, timeout: Duration) -> bool {
        let interrupt = self.has_interrupt.then(|| self.controller.interrupt(&self.queue)).flatten();
        let Some(interrupt) = interrupt else { return false };
        let patience = self.controller.options().timeout / u32::from(AGE_MAX - 1);
        let patience = Timespec::try_from(patience.min(timeout)).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        self.syscalls += 2;
        // A signal also ends the sleep, which does no harm.
        let _ = poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&patience));
        clear(interrupt);
        self.check_clock();
        true
    }
}

/// Sets an interrupt's count to zero.
fn clear(interrupt: BorrowedFd<'_>) {
    let _ = rustix::io::read(interrupt, &mut [0; 8]);
}

impl Queue for NvmeQueue {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        self.recover_from_reset();
        let count = requests.len().min(self.depth() - self.in_flight());
        requests.drain(..count).for_each(|request| self.take(request));
        self.signal_answered();
        count
    }

    fn flush(&mut self) -> Result<()> {
        self.recover_from_reset();
        self.ring();
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.ring();
        let min = min.min(self.in_flight());
        if self.signals_caller {
            self.syscalls += 1;
            // Before the ring is read, so that a later completion makes it readable again.
            self.controller.interrupt(&self.queue).map(clear);
        }
        let mut count = 0;
        for polls in 1.. {
            self.recover_from_reset();
            count += self.poll_ring(completions);
            self.polls += 1;
            if self.polls >= POLLS_PER_CLOCK_CHECK {
                self.check_clock();
            }
            if count >= min {
                break;
            }
            self.wait(polls);
        }
        Ok(count)
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let count = self.reap(0, completions)?;
        match count < min && self.sleep(timeout) {
            true => Ok(count + self.reap(0, completions)?),
            false => Ok(count),
        }
    }

    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.recover_from_reset();
        let count = requests.len().min(self.depth() - self.in_flight());
        requests.drain(..count).for_each(|request| self.take(request));
        self.reap(min, completions)
    }

    fn depth(&self) -> usize {
        self.slots.depth()
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight() + self.answered.len()
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }

    fn stats(&self) -> QueueStats {
        QueueStats::new(self.depth(), self.in_flight(), self.syscalls()).batches(Some(self.queue.pair.batches()))
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.signals_caller.then(|| self.controller.interrupt(&self.queue)).flatten()
    }
}

impl Drop for NvmeQueue {
    /// The controller drops the queue and the memory that its commands name, before that memory is freed.
    fn drop(&mut self) {
        self.controller.delete_queue_pair(&self.queue);
    }
}
