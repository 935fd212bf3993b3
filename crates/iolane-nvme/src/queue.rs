//! A queue of the library's on one pair of rings: requests become commands, completions become answers, and when the
//! controller falls silent each request is answered all the same, once.
//!
//! A request's slot is the lower part of its command identifier; the upper part counts how often the slot was used, so that
//! an answer that comes twice, or for a command of before, is told from the one that is due.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use iolane_core::{Completion, IoError, Operation, Operations, Pool, Queue, Request, Result, Slots};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command::{Command, CompletionEntry, nvm};
use crate::controller::{Controller, IoQueuePair};
use crate::data_pointer::{DataPointers, LIST_BYTES_MAX};
use crate::identity::Namespace;
use crate::memory::{MappedPool, PAGE_BYTES};

/// The part of a command identifier that is the slot.
const SLOT_BITS: u32 = 12;
const SLOT_MASK: u16 = (1 << SLOT_BITS) - 1;
const GENERATION_MASK: u8 = (1 << (16 - SLOT_BITS)) - 1;
/// What Number of Logical Blocks, a field of 16 bits that holds one less, can say.
const BLOCKS_MAX: u64 = 1 << 16;
/// How often a queue is looked at in vain before a look at the clock.
const LOOKS_PER_CLOCK: u32 = 1024;
/// Looks at a command's age until it is too old: what is between one look and the next is a part of the timeout.
const AGE_MAX: u8 = 5;
/// How often a queue with interrupts is looked at before it sleeps: some microseconds, less than waking takes.
const LOOKS_BEFORE_SLEEP: u32 = 2000;

/// What a queue is opened with.
pub struct NvmeQueueConfig<'a> {
    /// Most requests in flight.
    pub depth: u32,
    /// Memory that requests' buffers come from.
    pub pools: &'a [Pool],
    /// Whether requests may write.
    pub writable: bool,
    /// Whether the controller interrupts when commands end; the queue is polled without.
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
    /// What one command moves at most, in bytes: whole blocks.
    command_bytes_max: u64,
    slots: Slots,
    flights: Box<[Flight]>,
    /// Answers that no completion entry will bring.
    answered: Vec<Completion>,
    pointers: DataPointers,
    pools: Vec<Arc<MappedPool>>,
    /// Whether the controller interrupts for it, and whether that is also told to the caller.
    has_interrupt: bool,
    tells_of_completions: bool,
    /// The controller failed and could not be reset.
    is_dead: bool,
    /// Looks at the ring since the last one at the clock, and when that was.
    looks: u32,
    last_look: Duration,
    syscalls: u64,
    counts: Counts,
}

/// What a queue counted since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Commands given to the controller.
    pub commands: u64,
    /// Doorbell registers written.
    pub register_writes: u64,
    /// Completions that no command in flight was waiting for.
    pub strays: u64,
    /// Commands that were too old.
    pub timeouts: u64,
}

/// What there is to know of a command in flight beside its request.
#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    /// How often the slot was used, four bits of it.
    generation: u8,
    age: u8,
    timed_out: bool,
    /// Nothing of the request is left to send.
    is_last: bool,
    /// Bytes of the request, of which commands before this one moved so many, and this one moves so many.
    total: u64,
    moved: u64,
    moving: u64,
}

/// A command identifier: the slot, and how often it was used.
#[inline]
fn identifier(slot: u32, generation: u8) -> u16 {
    slot as u16 | u16::from(generation) << SLOT_BITS
}

/// Operations that a namespace of this controller takes.
pub fn operations(controller: &Controller) -> Operations {
    let identity = controller.identity();
    let always = Operations::READ.with(Operations::WRITE).with(Operations::FSYNC).with(Operations::FDATASYNC);
    let with =
        |operations: Operations, has: bool, more: Operations| if has { operations.with(more) } else { operations };
    let operations = with(always, identity.dataset_management, Operations::DISCARD);
    with(operations, identity.write_zeroes, Operations::WRITE_ZEROES)
}

impl NvmeQueue {
    /// Opens a queue on a namespace.
    ///
    /// # Errors
    /// `Exhausted` if the controller has no queue left, or memory, locked memory or addresses run out; `Failed` or
    /// `Unavailable` if the controller does not answer.
    pub fn open(controller: &Arc<Controller>, namespace: Namespace, config: NvmeQueueConfig<'_>) -> Result<Self> {
        let scatter_gather = controller.options().scatter_gather_lists && controller.identity().scatter_gather_lists;
        let pools = config.pools.iter().map(|pool| controller.map_pool(pool)).collect::<Result<_>>()?;
        let pointers = DataPointers::new(controller.transport(), config.depth, scatter_gather)?;
        let queue = controller.create_queue_pair(config.depth, config.interrupts)?;
        // A buffer may begin within a page.
        let one_list = LIST_BYTES_MAX - PAGE_BYTES as u64;
        let transfer_max = controller.identity().transfer_bytes_max.unwrap_or(u64::MAX);
        let block_bytes = u64::from(namespace.block_bytes);
        let command_bytes_max = transfer_max.min(one_list).min(BLOCKS_MAX * block_bytes) / block_bytes * block_bytes;
        Ok(Self {
            last_look: controller.transport().now(),
            controller: controller.clone(),
            queue,
            namespace,
            block_shift: namespace.block_bytes.trailing_zeros(),
            writable: config.writable,
            command_bytes_max: command_bytes_max.max(block_bytes),
            slots: Slots::new(config.depth as usize),
            flights: vec![Flight::default(); config.depth as usize].into(),
            answered: Vec::new(),
            pointers,
            pools,
            has_interrupt: config.interrupts,
            tells_of_completions: config.interrupts && config.event_fd,
            is_dead: false,
            looks: 0,
            syscalls: 0,
            counts: Counts::default(),
        })
    }

    /// What it counted since it was opened.
    pub fn counts(&self) -> Counts {
        Counts { register_writes: self.queue.pair.register_writes(), ..self.counts }
    }

    /// Takes one request: as a command in the ring, or answered already if it cannot be one.
    #[inline]
    fn take(&mut self, request: Request) {
        let slot = self.slots.next();
        let made = self.check(&request).and_then(|total| Ok((total, self.command(&request, slot, 0, total)?)));
        let (total, (command, moving)) = match made {
            Ok(made) => made,
            Err(error) => return self.refuse(request, error),
        };
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

    /// How many bytes a request is about; an error if no controller need be asked.
    #[inline]
    fn check(&self, request: &Request) -> Result<u64, IoError> {
        let bytes = match &request.operation {
            _ if self.is_dead => return Err(IoError::from_errno(libc::ENODEV)),
            Operation::Read(buffer) => buffer.len() as u64,
            Operation::Fsync | Operation::Fdatasync => return Ok(0),
            _ if !self.writable => return Err(IoError::READ_ONLY),
            Operation::Write(buffer) => buffer.len() as u64,
            Operation::Discard { .. } if !self.controller.identity().dataset_management => {
                return Err(IoError::NOT_SUPPORTED);
            }
            Operation::WriteZeroes { .. } if !self.controller.identity().write_zeroes => {
                return Err(IoError::NOT_SUPPORTED);
            }
            Operation::Discard { bytes } | Operation::WriteZeroes { bytes } => *bytes,
        };
        let mask = u64::from(self.namespace.block_bytes) - 1;
        let is_inside = request.offset.checked_add(bytes).is_some_and(|end| end <= self.namespace.bytes);
        if (request.offset | bytes) & mask != 0 || bytes == 0 || !is_inside {
            return Err(IoError::INVALID);
        }
        Ok(bytes)
    }

    /// The command for what is left of a request of `total` bytes once `moved` are, without its identifier, and how many
    /// bytes it is about.
    #[inline(always)]
    fn command(&self, request: &Request, slot: u32, moved: u64, total: u64) -> Result<(Command, u64), IoError> {
        let mut command = Command { namespace: self.namespace.identifier, ..Command::default() };
        let (opcode, most) = match &request.operation {
            Operation::Read(_) => (nvm::READ, self.command_bytes_max),
            Operation::Write(_) => (nvm::WRITE, self.command_bytes_max),
            Operation::WriteZeroes { .. } => (nvm::WRITE_ZEROES, BLOCKS_MAX << self.block_shift),
            Operation::Discard { .. } => (nvm::DATASET_MANAGEMENT, u64::from(u32::MAX) << self.block_shift),
            Operation::Fsync | Operation::Fdatasync => return Ok((Command { opcode: nvm::FLUSH, ..command }, 0)),
        };
        let moving = (total - moved).min(most);
        let first_block = (request.offset + moved) >> self.block_shift;
        let blocks = moving >> self.block_shift;
        command.opcode = opcode;
        // Starting LBA in dwords 10 and 11, number of blocks less one in dword 12.
        command.dwords = [first_block as u32, (first_block >> 32) as u32, (blocks - 1) as u32, 0, 0, 0];
        match &request.operation {
            Operation::Read(buffer) | Operation::Write(buffer) => {
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

    /// Ends the request in a slot.
    #[cold]
    fn answer(&mut self, slot: u32, result: Result<u32, IoError>) {
        if let Some(request) = self.slots.take(slot.into()) {
            self.answered.push(request.complete(result));
        }
    }

    /// Answers what the controller has completed, and says how many.
    #[inline]
    fn look(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        // As many as the ring holds, whatever the controller does meanwhile.
        for _ in 0..self.queue.pair.entries() {
            let Some(entry) = self.queue.pair.pop() else { break };
            self.complete(entry, completions);
        }
        if self.is_known() {
            self.queue.pair.release();
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
        // Should the same answer come again, it finds no request.
        flight.is_last = true;
        let (moved, is_timed_out) = (flight.moved as u32, flight.timed_out);
        let Some(request) = self.slots.take(slot.into()) else { return self.stray() };
        let result = match (entry.status.check(), &request.operation) {
            (Ok(()), Operation::Read(_) | Operation::Write(_)) => Ok(moved),
            (Ok(()), _) => Ok(0),
            (Err(_), _) if is_timed_out => Err(IoError::from_errno(libc::ETIMEDOUT)),
            (Err(error), _) => Err(error),
        };
        completions.push(request.complete(result));
    }

    /// Sends the next piece of a request that is larger than a command may be.
    #[cold]
    fn send_rest(&mut self, slot: u32) {
        let Some(request) = self.slots.get(slot) else { return self.stray() };
        let Flight { moved, total, generation, .. } = self.flights[slot as usize];
        let (command, moving) = match self.command(request, slot, moved, total) {
            Ok(made) => made,
            Err(error) => return self.answer(slot, Err(error)),
        };
        let generation = generation.wrapping_add(1) & GENERATION_MASK;
        let is_last = moved + moving == total;
        self.flights[slot as usize] = Flight { generation, is_last, total, moved, moving, ..Flight::default() };
        self.counts.commands += 1;
        self.queue.pair.push(Command { identifier: identifier(slot, generation), ..command });
        if self.is_known() {
            self.queue.pair.ring();
        }
    }

    /// A completion that belongs to no command in flight: the controller is not to be trusted with what is.
    #[cold]
    fn stray(&mut self) {
        self.counts.strays += 1;
        self.controller.recover(self.queue.resets);
    }

    /// Whether the controller knows the queue: it was not reset since. What a write to the doorbell of no queue does is not
    /// defined (NVMe over PCIe Transport Specification 1.0, section 3.1.2).
    #[inline]
    fn is_known(&self) -> bool {
        self.queue.resets == self.controller.resets()
    }

    /// If another thread, or this one, has had the controller reset.
    #[inline]
    fn notice_a_reset(&mut self) {
        if !self.is_known() {
            self.start_anew();
        }
    }

    /// Requests that were answered without the controller raise no interrupt.
    #[inline]
    fn tell_of_answers(&mut self) {
        if self.tells_of_completions
            && !self.answered.is_empty()
            && let Some(interrupt) = self.controller.interrupt(&self.queue)
        {
            self.syscalls += 1;
            let _ = rustix::io::write(interrupt, &1u64.to_ne_bytes());
        }
    }

    /// Looks at the clock now and then, and at how long commands have been in flight.
    #[cold]
    fn look_at_the_clock(&mut self) {
        self.looks = 0;
        let timeout = self.controller.options().timeout;
        let now = self.controller.transport().now();
        if now.saturating_sub(self.last_look) < timeout / u32::from(AGE_MAX - 1) {
            return;
        }
        self.last_look = now;
        if self.controller.has_failed() {
            return self.controller.recover(self.queue.resets);
        }
        let too_old = self.grow_older();
        if too_old.is_empty() {
            return;
        }
        self.counts.timeouts += too_old.len() as u64;
        for slot in &too_old {
            let flight = &mut self.flights[*slot as usize];
            let identifier = identifier(*slot, flight.generation);
            // An Abort may fail to find it: it is asked for once, and the next time the controller is reset.
            if std::mem::replace(&mut flight.timed_out, true) {
                self.controller.recover(self.queue.resets);
                return;
            }
            self.controller.abort(&self.queue, identifier);
        }
    }

    /// The slots of commands that are too old.
    fn grow_older(&mut self) -> Vec<u32> {
        let mut too_old = Vec::new();
        for (slot, flight) in self.flights.iter_mut().enumerate() {
            if self.slots.get(slot as u32).is_some() {
                flight.age += 1;
                if flight.age >= AGE_MAX {
                    // Time for the Abort to take effect.
                    flight.age = AGE_MAX - 1;
                    too_old.push(slot as u32);
                }
            }
        }
        too_old
    }

    /// After a reset: what was in flight is answered with an error, for nobody knows how far it came, and the queue is made
    /// anew. If that fails, so does all that comes.
    #[cold]
    fn start_anew(&mut self) {
        self.is_dead = self.controller.rebuild(&mut self.queue).is_err();
        for slot in 0..self.slots.depth() as u32 {
            let errno = match self.flights[slot as usize].timed_out {
                _ if self.is_dead => libc::ENODEV,
                true => libc::ETIMEDOUT,
                false => libc::ECANCELED,
            };
            self.answer(slot, Err(IoError::from_errno(errno)));
        }
    }

    /// Between two looks in vain: lets time pass, and sleeps if the controller will tell when there is something.
    fn wait(&mut self, looks: u32) {
        let is_asleep = self.has_interrupt && looks >= LOOKS_BEFORE_SLEEP;
        if let (true, Some(interrupt)) = (is_asleep, self.controller.interrupt(&self.queue)) {
            let patience = self.controller.options().timeout / u32::from(AGE_MAX - 1);
            let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            self.syscalls += 2;
            // A signal wakes too, and does no harm.
            let _ = poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&patience));
            clear(interrupt);
            self.look_at_the_clock();
        } else {
            self.controller.transport().relax();
        }
    }
}

/// Sets an interrupt's count to zero.
fn clear(interrupt: BorrowedFd<'_>) {
    let _ = rustix::io::read(interrupt, &mut [0; 8]);
}

impl Queue for NvmeQueue {
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
        self.notice_a_reset();
        let count = requests.len().min(self.depth() - self.in_flight());
        requests.drain(..count).for_each(|request| self.take(request));
        self.tell_of_answers();
        count
    }

    fn flush(&mut self) -> Result<()> {
        self.notice_a_reset();
        self.queue.pair.ring();
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.notice_a_reset();
        self.queue.pair.ring();
        let min = min.min(self.in_flight());
        if self.tells_of_completions {
            self.syscalls += 1;
            // Before the ring is looked at, so that a completion which comes later makes it readable again.
            self.controller.interrupt(&self.queue).map(clear);
        }
        let mut count = 0;
        for looks in 0.. {
            self.notice_a_reset();
            count += self.look(completions);
            self.looks += 1;
            if self.looks >= LOOKS_PER_CLOCK {
                self.look_at_the_clock();
            }
            if count >= min {
                break;
            }
            self.wait(looks);
        }
        Ok(count)
    }

    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        self.notice_a_reset();
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

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.tells_of_completions.then(|| self.controller.interrupt(&self.queue)).flatten()
    }
}

impl Drop for NvmeQueue {
    /// The controller lets go of the queue and of the memory that its commands name; then that is freed.
    fn drop(&mut self) {
        self.controller.delete_queue_pair(&self.queue);
    }
}
