//! One step of a model controller: it follows its registers and doorbells, carries commands out and completes them. Called only by
//! [`Model`](super::Model), under its lock; `doorbells`, `faults`, `admin` and `nvm` hold the parts.

use std::os::fd::OwnedFd;

use super::chance::Chance;
use super::config::{Counts, ModelConfig};
use super::disk::Disk;
use super::dma::Dma;
use super::pointers::Origin;
use super::queues::{CompletionQueue, Ring, SubmissionQueue};
use super::{identify, status};
use crate::command::{Command, CompletionEntry, Status};
use crate::registers::{
    ACQ, AQA, ASQ, CAP, CC, CC_ENABLE, CC_ENTRY_SIZES, CC_SHUTDOWN_MASK, CSTS, CSTS_FATAL, CSTS_READY,
    CSTS_SHUTDOWN_COMPLETE, GONE, Registers, VS,
};

/// A controller that does not stop carries out one held command per this many steps.
const STUCK_STEPS: u64 = 64;

/// How far the controller has followed CC.EN.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    Off,
    /// It will be ready at this step.
    Starting(u64),
    On,
    /// It will be off at this step.
    Stopping(u64),
    /// CSTS.RDY does not change any more.
    Stuck,
    /// Its admin queues are invalid; it waits for CC.EN to be 0.
    Refused,
}

/// The addresses of the shadow doorbells, and of the values at which the controller needs the register written.
#[derive(Clone, Copy)]
pub(super) struct Shadow {
    pub(super) doorbells: u64,
    pub(super) event_indexes: u64,
}

/// A command that completes late or never.
pub(super) struct Held {
    pub(super) origin: Origin,
    pub(super) command: Command,
    /// The step at which it completes; `None` for never.
    pub(super) due: Option<u64>,
    pub(super) is_done: bool,
}

pub(super) struct Engine {
    pub(super) config: ModelConfig,
    pub(super) registers: Registers,
    pub(super) dma: Dma,
    pub(super) disks: Vec<Disk>,
    pub(super) chance: Chance,
    pub(super) counts: Counts,
    pub(super) interrupts: Vec<OwnedFd>,
    pub(super) submission: Vec<Option<SubmissionQueue>>,
    pub(super) completion: Vec<Option<CompletionQueue>>,
    pub(super) event_requests: u32,
    pub(super) write_cache: bool,
    pub(super) coalescing: u32,
    /// The submission queues that there are, in order of creation.
    active: Vec<u16>,
    pub(super) held: Vec<Held>,
    pub(super) shadow: Option<Shadow>,
    power: Power,
    is_fatal: bool,
    is_gone: bool,
    is_shut_down: bool,
    /// Whether any completion queue has an interrupt due.
    interrupt_due: bool,
}

impl Engine {
    /// A controller after power-on.
    pub(super) fn new(config: ModelConfig, registers: Registers) -> Self {
        let queues = usize::from(config.queues_max) + 1;
        let engine = Self {
            registers,
            dma: Dma::new(),
            disks: config.namespaces.iter().copied().map(Disk::new).collect(),
            chance: Chance::new(config.faults.seed),
            counts: Counts::default(),
            interrupts: Vec::new(),
            submission: (0..queues).map(|_| None).collect(),
            completion: (0..queues).map(|_| None).collect(),
            event_requests: 0,
            write_cache: config.volatile_write_cache,
            coalescing: 0,
            active: Vec::with_capacity(queues),
            held: Vec::new(),
            shadow: None,
            power: Power::Off,
            is_fatal: false,
            is_gone: false,
            is_shut_down: false,
            interrupt_due: false,
            config,
        };
        engine.publish_capabilities();
        engine.unring_all();
        engine
    }

    fn publish_capabilities(&self) {
        let entries_less_one = u64::from(self.config.queue_entries_max - 1);
        let timeout = u64::from(self.config.ready_timeout_half_seconds);
        let stride = u64::from(self.config.doorbell_stride_bytes.ilog2() - 2);
        let (contiguous, nvm_command_set) = (1 << 16, 1 << 37);
        let capabilities = entries_less_one | contiguous | timeout << 24 | stride << 32 | nvm_command_set;
        self.registers.write64(CAP, self.config.capabilities.unwrap_or(capabilities));
        self.registers.write(VS, self.config.version.unwrap_or(identify::VERSION));
    }

    /// Reads registers and doorbells once, and does all pending work.
    pub(super) fn step(&mut self) {
        self.counts.steps += 1;
        if self.is_gone {
            return self.read_as_ones();
        }
        self.follow_configuration();
        if !self.is_working() {
            return;
        }
        if !self.held.is_empty() {
            self.answer_late();
        }
        let mut index = 0;
        while let Some(queue) = self.active.get(index) {
            self.serve(*queue);
            index += 1;
        }
        if self.interrupt_due {
            self.raise_interrupts();
        }
    }

    /// Whether it takes and completes commands.
    fn is_working(&self) -> bool {
        self.power == Power::On && !self.is_fatal && !self.is_gone && !self.is_shut_down && self.dma.bus_master
    }

    fn publish_status(&self) {
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let is_ready = matches!(self.power, Power::On | Power::Stopping(_));
        let stuck = if self.power == Power::Stuck { self.registers.read(CSTS) & CSTS_READY } else { 0 };
        let status = bit(is_ready, CSTS_READY) | bit(self.is_fatal, CSTS_FATAL) | stuck;
        let status = status | bit(self.is_shut_down, CSTS_SHUTDOWN_COMPLETE);
        self.registers.write(CSTS, self.config.status.filter(|_| self.power == Power::On).unwrap_or(status));
    }

    fn follow_configuration(&mut self) {
        let configuration = self.registers.read(CC);
        let is_enabled = configuration & CC_ENABLE != 0;
        if configuration & CC_SHUTDOWN_MASK != 0 && !self.is_shut_down {
            self.finish_held();
            self.is_shut_down = true;
            self.publish_status();
        }
        let now = self.counts.steps;
        match self.power {
            Power::Off if is_enabled => self.start(configuration),
            Power::Starting(_) | Power::Refused if !is_enabled => self.stop(),
            Power::Starting(due) if now >= due => {
                self.power = Power::On;
                self.counts.starts += 1;
                self.publish_status();
            }
            Power::On if !is_enabled => {
                self.power = match self.draw(|faults| faults.stuck_reset) {
                    true => Power::Stuck,
                    false => Power::Stopping(now + self.config.ready_steps),
                };
            }
            // A controller may move data as long as it reports that it is ready.
            Power::Stopping(due) if now >= due => {
                self.finish_held();
                self.stop();
            }
            Power::Stuck if now.is_multiple_of(STUCK_STEPS) => self.finish_one_held(),
            _ => {}
        }
    }

    fn start(&mut self, configuration: u32) {
        (self.is_shut_down, self.is_fatal) = (false, false);
        self.refuse_early();
        self.unring_all();
        if self.draw(|faults| faults.stuck_reset) {
            self.power = Power::Stuck;
            return;
        }
        self.power = Power::Starting(self.counts.steps + self.config.ready_steps);
        if let Err(text) = self.create_admin_queues(configuration) {
            self.dma.violation(text);
            (self.power, self.is_fatal) = (Power::Refused, true);
        }
        self.publish_status();
    }

    fn create_admin_queues(&mut self, configuration: u32) -> Result<(), String> {
        let expected = CC_ENTRY_SIZES | CC_ENABLE;
        if configuration != expected {
            return Err(format!("CC was set to {configuration:#x}, and {expected:#x} is what this controller can do"));
        }
        let attributes = self.registers.read(AQA);
        let (submission, completion) = ((attributes & 0xfff) + 1, (attributes >> 16 & 0xfff) + 1);
        let (submission_base, completion_base) = (self.registers.read64(ASQ), self.registers.read64(ACQ));
        if submission < 2 || completion < 2 || (submission_base | completion_base) & 0xfff != 0 {
            return Err(format!("AQA {attributes:#x}, ASQ {submission_base:#x}, ACQ {completion_base:#x}: no queues"));
        }
        let missing = |name: &str| format!("{name} is not mapped for the controller");
        let ring = Ring::new(&mut self.dma, completion_base, completion, Ring::COMPLETION_BYTES);
        // Vector 0 is always that of the admin completion queue (section 3.3.1.1).
        self.completion[0] = Some(CompletionQueue::new(ring.ok_or_else(|| missing("ACQ"))?, Some(0)));
        let ring = Ring::new(&mut self.dma, submission_base, submission, Ring::COMMAND_BYTES);
        self.add_submission_queue(0, SubmissionQueue::new(ring.ok_or_else(|| missing("ASQ"))?, 0));
        Ok(())
    }

    /// Turns off: drops all state except the disks.
    fn stop(&mut self) {
        self.submission.iter_mut().for_each(|queue| *queue = None);
        self.completion.iter_mut().for_each(|queue| *queue = None);
        self.active.clear();
        self.held.clear();
        (self.shadow, self.event_requests, self.coalescing) = (None, 0, 0);
        (self.power, self.is_fatal) = (Power::Off, false);
        self.write_cache = self.config.volatile_write_cache;
        self.unring_all();
        self.publish_status();
    }

    /// Reports a fatal error, and does nothing until it is reset.
    pub(super) fn fail(&mut self) {
        self.is_fatal = true;
        self.publish_status();
    }

    /// The device disappears for good.
    pub(super) fn vanish(&mut self) {
        self.is_gone = true;
        self.unring_all();
        self.read_as_ones();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn read_as_ones(&self) {
        for offset in (0..=ACQ + 4).step_by(4) {
            self.registers.write(offset, GONE);
        }
    }

    /// Whether a completion queue has room for one more entry, after those that wait.
    fn has_room(&mut self, id: u16) -> bool {
        loop {
            let Some(queue) = &self.completion[usize::from(id)] else { return false };
            if queue.is_full() && !self.makes_room(id) {
                return false;
            }
            let Some(queue) = &mut self.completion[usize::from(id)] else { return false };
            match queue.waiting.pop_front() {
                None => return true,
                Some(entry) => self.write(id, entry),
            }
        }
    }

    /// Takes the new commands of a submission queue.
    fn serve(&mut self, id: u16) {
        let Some(completion) = self.submission[usize::from(id)].as_ref().map(|queue| queue.completion_queue) else {
            return;
        };
        self.listen(id, completion);
        while self.is_working() && self.has_room(completion) {
            let Some(queue) = &mut self.submission[usize::from(id)] else { return };
            if queue.head == queue.tail {
                return;
            }
            let Some(command) = queue.take(&mut self.dma) else { return self.lose_ring(id) };
            let is_new = queue.begin(command.identifier);
            self.counts.commands += 1;
            let origin = Origin { queue: id, identifier: command.identifier };
            if !is_new {
                self.dma.command_violation(origin, "another command of this identifier is in flight");
                self.answer(origin, Err(status::IDENTIFIER_CONFLICT));
            } else if !self.strike(origin, command) {
                self.execute_and_answer(origin, &command);
            }
        }
    }

    fn lose_ring(&mut self, id: u16) {
        self.dma.violation(format!("the memory of queue {id} is not mapped for the controller any more"));
        self.fail();
    }

    pub(super) fn execute_and_answer(&mut self, origin: Origin, command: &Command) {
        if let Some(result) = self.execute(origin, command) {
            self.answer(origin, result);
        }
    }

    pub(super) fn execute(&mut self, origin: Origin, command: &Command) -> Option<Result<u32, Status>> {
        // Fused commands, and reserved bits.
        if command.flags & 0x3f != 0 {
            self.dma.command_violation(origin, &format!("flags {:#x}", command.flags));
            return Some(Err(Status::INVALID_FIELD));
        }
        if origin.queue == 0 { self.administer(origin, command) } else { Some(self.carry_out(origin, command)) }
    }

    pub(super) fn add_submission_queue(&mut self, id: u16, queue: SubmissionQueue) {
        if let Some(completion) = &mut self.completion[usize::from(queue.completion_queue)] {
            completion.users += 1;
        }
        self.submission[usize::from(id)] = Some(queue);
        self.active.push(id);
    }

    pub(super) fn remove_submission_queue(&mut self, id: u16) {
        let Some(queue) = self.submission[usize::from(id)].take() else { return };
        self.active.retain(|active| *active != id);
        if let Some(completion) = &mut self.completion[usize::from(queue.completion_queue)] {
            completion.users -= 1;
        }
    }

    pub(super) fn reach_ring(
        &mut self,
        origin: Origin,
        base: u64,
        entries: u32,
        entry_bytes: usize,
    ) -> Result<Ring, Status> {
        Ring::new(&mut self.dma, base, entries, entry_bytes).ok_or_else(|| {
            self.dma.command_violation(origin, &format!("a queue at {base:#x} is not mapped for the controller"));
            status::DATA_TRANSFER
        })
    }

    /// Completes a command, with its faults.
    pub(super) fn answer(&mut self, origin: Origin, result: Result<u32, Status>) {
        let Some(queue) = &mut self.submission[usize::from(origin.queue)] else { return };
        let completion = queue.completion_queue;
        let mut entry = CompletionEntry {
            result: result.unwrap_or(0),
            submission_head: queue.head as u16,
            submission_queue: origin.queue,
            identifier: origin.identifier,
            status: result.err().unwrap_or_default(),
            phase: true,
        };
        let entries = queue.entries();
        let is_struck = self.may_strike(origin.queue);
        let is_twice = is_struck && self.draw(|faults| faults.duplicate_completion);
        if is_struck {
            self.spoil(&mut entry, entries);
        }
        self.forget(completion, &entry);
        self.complete(completion, entry);
        if is_twice {
            self.complete(completion, entry);
        }
    }

    /// The driver takes this command as completed, even if another was meant, so its identifier may be reused.
    pub(super) fn forget(&mut self, completion: u16, entry: &CompletionEntry) {
        for id in &self.active {
            if let Some(queue) = &mut self.submission[usize::from(*id)]
                && queue.completion_queue == completion
            {
                queue.end(entry.identifier);
            }
        }
    }

    /// Writes an entry to a completion queue, or queues it until there is room.
    pub(super) fn complete(&mut self, id: u16, entry: CompletionEntry) {
        let has_room = self.has_room(id);
        match &mut self.completion[usize::from(id)] {
            Some(_) if has_room => self.write(id, entry),
            Some(queue) => queue.waiting.push_back(entry),
            None => {}
        }
    }

    fn write(&mut self, id: u16, entry: CompletionEntry) {
        let is_lost = self.may_strike(id) && self.draw(|faults| faults.lost_interrupt);
        let Some(queue) = &mut self.completion[usize::from(id)] else { return };
        if queue.write(&mut self.dma, entry).is_none() {
            return self.lose_ring(id);
        }
        let is_due = queue.vector.is_some() && !is_lost;
        queue.interrupt_due |= is_due;
        self.interrupt_due |= is_due;
        self.counts.completions += 1;
    }

    fn raise_interrupts(&mut self) {
        self.interrupt_due = false;
        for queue in self.completion.iter_mut().flatten().filter(|queue| queue.interrupt_due) {
            queue.interrupt_due = false;
            let Some(descriptor) = queue.vector.and_then(|vector| self.interrupts.get(usize::from(vector))) else {
                continue;
            };
            // It fails only if the counter is full, and then the descriptor is readable.
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
            self.counts.interrupts += 1;
        }
    }
}
