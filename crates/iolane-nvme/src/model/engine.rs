//! What a model controller does in one step: follows its registers, listens to its doorbells, carries commands out and
//! completes them, with the faults that it was told to have. Called by [`Model`](super::Model) alone, under its lock.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::chance::Chance;
use super::config::{Counts, Faults, ModelConfig};
use super::disk::Disk;
use super::dma::Dma;
use super::pointers::Origin;
use super::queues::{CompletionQueue, Ring, SubmissionQueue};
use super::{identify, status};
use crate::command::{Command, CompletionEntry, Status};
use crate::registers::{
    ACQ, AQA, ASQ, CAP, CC, CC_ENABLE, CC_ENTRY_SIZES, CC_SHUTDOWN_MASK, CSTS, CSTS_FATAL, CSTS_READY,
    CSTS_SHUTDOWN_COMPLETE, DOORBELLS, GONE, Registers, VS,
};

/// What a doorbell holds that was not written since it was looked at. No driver writes it: a ring has at most 65536 entries.
const UNRUNG: u32 = u32::MAX;

/// A controller that does not stop carries out a command that it holds every so many steps.
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
    /// CSTS.RDY changes no more.
    Stuck,
    /// It was not given admin queues that it can use; it waits for CC.EN to be 0.
    Refused,
}

/// Where the driver keeps shadow doorbells, and where the controller says at which it wants the register written.
#[derive(Clone, Copy)]
pub(super) struct Shadow {
    pub(super) doorbells: u64,
    pub(super) event_indexes: u64,
}

/// A command that is answered late or never.
struct Held {
    origin: Origin,
    command: Command,
    /// The step at which it is answered; `None` for never.
    due: Option<u64>,
    is_done: bool,
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
    held: Vec<Held>,
    shadow: Option<Shadow>,
    power: Power,
    is_fatal: bool,
    is_gone: bool,
    is_shut_down: bool,
    /// Whether any completion queue has an interrupt due.
    interrupt_due: bool,
}

impl Engine {
    /// A controller that was just powered on.
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
        self.registers.write64(CAP, entries_less_one | contiguous | timeout << 24 | stride << 32 | nvm_command_set);
        self.registers.write(VS, identify::VERSION);
    }

    /// Looks at registers and doorbells once, and does what is to be done.
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

    /// Whether it takes commands and answers them.
    fn is_working(&self) -> bool {
        self.power == Power::On && !self.is_fatal && !self.is_gone && !self.is_shut_down && self.dma.bus_master
    }

    fn publish_status(&self) {
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let is_ready = matches!(self.power, Power::On | Power::Stopping(_));
        let stuck = if self.power == Power::Stuck { self.registers.read(CSTS) & CSTS_READY } else { 0 };
        let status = bit(is_ready, CSTS_READY) | bit(self.is_fatal, CSTS_FATAL) | stuck;
        self.registers.write(CSTS, status | bit(self.is_shut_down, CSTS_SHUTDOWN_COMPLETE));
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
            // A controller may move data for as long as it says that it is ready.
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
        // Vector 0 belongs to the admin completion queue, always (section 3.3.1.1).
        self.completion[0] = Some(CompletionQueue::new(ring.ok_or_else(|| missing("ACQ"))?, Some(0)));
        let ring = Ring::new(&mut self.dma, submission_base, submission, Ring::COMMAND_BYTES);
        self.add_submission_queue(0, SubmissionQueue::new(ring.ok_or_else(|| missing("ASQ"))?, 0));
        Ok(())
    }

    /// Turns off: forgets all but what is on the disks.
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

    /// The device is gone, from now on.
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

    fn doorbell_offset(&self, queue: u16, completion: bool) -> usize {
        Registers::doorbell_offset(queue, completion, self.config.doorbell_stride_bytes)
    }

    fn unring_all(&self) {
        for offset in (DOORBELLS..self.registers.bytes()).step_by(4) {
            self.registers.at(offset).store(UNRUNG, Ordering::Relaxed);
        }
    }

    /// Makes a doorbell ready for a new queue.
    pub(super) fn unring(&mut self, queue: u16, completion: bool) {
        if self.rung(queue, completion).is_some() {
            self.dma.violation(format!("a doorbell of queue {queue} was written before there was such a queue"));
        }
        self.set_event_index(queue, completion, 0);
    }

    /// What was written to a doorbell since it was looked at last.
    #[inline]
    fn rung(&mut self, queue: u16, completion: bool) -> Option<u32> {
        let register = self.registers.at(self.doorbell_offset(queue, completion));
        if register.load(Ordering::Relaxed) == UNRUNG {
            return None;
        }
        self.counts.doorbells += 1;
        Some(register.swap(UNRUNG, Ordering::Acquire))
    }

    pub(super) fn use_shadow(&mut self, shadow: Shadow) {
        self.shadow = Some(shadow);
        let now = self.counts.steps;
        for queue in self.submission.iter_mut().flatten() {
            queue.attention.awake_until = now + self.config.shadow_awake_steps.max(1);
        }
    }

    /// A word of the shadow doorbells, or of the event indexes.
    fn shadow_word(&mut self, queue: u16, completion: bool, index: bool) -> Option<&std::sync::atomic::AtomicU32> {
        let Shadow { doorbells, event_indexes } = self.shadow?;
        let offset = self.doorbell_offset(queue, completion) - DOORBELLS;
        let address = if index { event_indexes } else { doorbells } + offset as u64;
        let Some(place) = self.dma.find(address, 4) else {
            self.dma.violation(format!("shadow doorbells at {address:#x} are not mapped for the controller"));
            self.shadow = None;
            return None;
        };
        // SAFETY: it is mapped, and aligned to the stride of doorbells, 4 at least; the driver accesses it by atomics.
        Some(unsafe { place.cast().as_ref() })
    }

    /// Asks that the register be written when the doorbell passes this value.
    fn set_event_index(&mut self, queue: u16, completion: bool, value: u32) {
        if let Some(place) = self.shadow_word(queue, completion, true) {
            place.store(value, Ordering::Relaxed);
            // The driver writes its doorbell, then reads this; we write this, then read its doorbell. With a full fence between
            // the two on either side, one of us sees what the other wrote.
            std::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    fn shadow_doorbell(&mut self, queue: u16, completion: bool) -> Option<u32> {
        self.shadow_word(queue, completion, false).map(|place| place.load(Ordering::Acquire))
    }

    /// Learns how far a submission queue was filled and its completion queue emptied. The admin queue has no shadow here, as
    /// drivers that have one ring its register all the same.
    fn listen(&mut self, id: u16, completion: u16) {
        let rung = self.rung(id, false);
        if self.shadow.is_some() && id > 0 {
            self.listen_to_shadow(id, rung.is_some());
        } else if let Some(tail) = rung {
            self.set_tail(id, tail);
        }
        if let Some(head) = self.rung(completion, true) {
            let shadow = if completion > 0 { self.shadow_doorbell(completion, true) } else { None };
            self.set_head(completion, shadow.unwrap_or(head));
        }
    }

    /// Looks at the shadow while awake. Before it falls asleep, it asks to be woken, and looks once more.
    fn listen_to_shadow(&mut self, id: u16, was_told: bool) {
        let now = self.counts.steps;
        let awake_until = now + self.config.shadow_awake_steps.max(1);
        let Some(queue) = &mut self.submission[usize::from(id)] else { return };
        if was_told {
            queue.attention.awake_until = awake_until;
        }
        if now > queue.attention.awake_until {
            return;
        }
        let (before, falls_asleep) = (queue.tail, now == queue.attention.awake_until);
        let Some(mut tail) = self.shadow_doorbell(id, false) else { return };
        if falls_asleep && tail == before {
            self.set_event_index(id, false, tail);
            tail = self.shadow_doorbell(id, false).unwrap_or(tail);
        }
        if tail != before {
            self.set_tail(id, tail);
            if let Some(queue) = &mut self.submission[usize::from(id)] {
                queue.attention.awake_until = awake_until;
            }
        }
    }

    fn set_tail(&mut self, id: u16, tail: u32) {
        let Some(queue) = &mut self.submission[usize::from(id)] else { return };
        if tail >= queue.entries() {
            let entries = queue.entries();
            return self.dma.violation(format!("the tail of submission queue {id} is {tail} of {entries} entries"));
        }
        queue.tail = tail;
    }

    fn set_head(&mut self, id: u16, head: u32) {
        let Some(queue) = &mut self.completion[usize::from(id)] else { return };
        if !queue.set_head(head) {
            self.dma.violation(format!("the head of completion queue {id} is {head}, beyond what was written to it"));
        }
    }

    /// Whether a completion queue takes one more entry, after those that wait for room.
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

    /// Looks whether the driver has emptied a full queue without ringing.
    fn makes_room(&mut self, id: u16) -> bool {
        if id == 0 || self.shadow.is_none() {
            return false;
        }
        let head = self.completion[usize::from(id)].as_ref().map_or(0, CompletionQueue::head);
        self.set_event_index(id, true, head);
        if let Some(head) = self.shadow_doorbell(id, true) {
            self.set_head(id, head);
        }
        self.completion[usize::from(id)].as_ref().is_some_and(|queue| !queue.is_full())
    }

    /// Takes what is new in a submission queue.
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

    fn execute_and_answer(&mut self, origin: Origin, command: &Command) {
        if let Some(result) = self.execute(origin, command) {
            self.answer(origin, result);
        }
    }

    fn execute(&mut self, origin: Origin, command: &Command) -> Option<Result<u32, Status>> {
        // Fused commands, and reserved bits.
        if command.flags & 0x3f != 0 {
            self.dma.command_violation(origin, &format!("flags {:#x}", command.flags));
            return Some(Err(Status::INVALID_FIELD));
        }
        if origin.queue == 0 { self.administer(origin, command) } else { Some(self.carry_out(origin, command)) }
    }

    /// Whether a fault strikes now.
    pub(super) fn draw(&mut self, fault: impl Fn(&Faults) -> u32) -> bool {
        let strikes = self.chance.strikes(fault(&self.config.faults));
        self.counts.faults += u64::from(strikes);
        strikes
    }

    /// Whether commands of this queue may be struck.
    fn may_strike(&self, queue: u16) -> bool {
        queue > 0 || self.config.faults.admin
    }

    /// Draws the faults that befall a command before it is carried out; true if one did.
    fn strike(&mut self, origin: Origin, command: Command) -> bool {
        if !self.may_strike(origin.queue) {
            return false;
        }
        if self.draw(|faults| faults.gone) {
            self.vanish();
            return true;
        }
        if self.draw(|faults| faults.fatal) {
            self.fail();
            return true;
        }
        if self.draw(|faults| faults.missing_completion) {
            let is_done = self.chance.coin();
            if is_done {
                let _ = self.execute(origin, &command);
            }
            self.held.push(Held { origin, command, due: None, is_done });
            return true;
        }
        if self.draw(|faults| faults.late_completion) {
            let late_steps = 1 + self.chance.below(self.config.faults.late_steps_max.max(1).into());
            self.held.push(Held { origin, command, due: Some(self.counts.steps + late_steps), is_done: false });
            return true;
        }
        if self.draw(|faults| faults.failed_command) {
            let status = (self.chance.bits() & 0x7fff) as u16;
            self.answer(origin, Err(Status(if status & 0x7ff == 0 { 1 } else { status })));
            return true;
        }
        false
    }

    /// Answers held commands that are due.
    fn answer_late(&mut self) {
        let now = self.counts.steps;
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].due.is_none_or(|due| due > now) {
                index += 1;
                continue;
            }
            let Held { origin, command, .. } = self.held.remove(index);
            self.execute_and_answer(origin, &command);
            // A command may have taken others out of the list.
            index = index.min(self.held.len());
        }
    }

    /// Does what held commands ask for, without answering: what a controller may do while it is being stopped.
    fn finish_held(&mut self) {
        while !self.held.is_empty() {
            self.finish_one_held();
        }
    }

    fn finish_one_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let Held { origin, command, is_done, .. } = self.held.remove(0);
        if !is_done && origin.queue > 0 && self.dma.bus_master {
            let _ = self.execute(origin, &command);
        }
    }

    /// Ends a held command as aborted; false if none is held so.
    pub(super) fn abort_held(&mut self, aborted: Origin) -> bool {
        let is_it = |held: &Held| (held.origin.queue, held.origin.identifier) == (aborted.queue, aborted.identifier);
        let Some(index) = self.held.iter().position(is_it) else { return false };
        self.held.remove(index);
        self.answer(aborted, Err(Status::ABORT_REQUESTED));
        true
    }

    /// Ends the held commands of a queue that is about to be deleted: those that were to be answered are.
    pub(super) fn give_up(&mut self, queue: u16) {
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].origin.queue != queue {
                index += 1;
                continue;
            }
            let Held { origin, due, .. } = self.held.remove(index);
            if due.is_some() {
                self.answer(origin, Err(Status::QUEUE_DELETED));
            }
        }
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

    /// Completes a command, as its faults have it.
    fn answer(&mut self, origin: Origin, result: Result<u32, Status>) {
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

    /// Makes an entry wrong. Its `phase` says whether it will have the right one.
    fn spoil(&mut self, entry: &mut CompletionEntry, entries: u32) {
        if self.draw(|faults| faults.wrong_phase) {
            entry.phase = false;
        }
        if self.draw(|faults| faults.wrong_identifier) {
            let near = 1 + self.chance.below(15) as u16;
            entry.identifier ^= if self.chance.coin() { near } else { self.chance.bits() as u16 | 1 };
        }
        if self.draw(|faults| faults.wrong_submission_head) && entries < 1 << 16 {
            entry.submission_head = (entries + self.chance.below((1 << 16) - u64::from(entries)) as u32) as u16;
        }
        if self.draw(|faults| faults.wrong_submission_queue) {
            entry.submission_queue ^= 1 + self.chance.below(0xffff) as u16;
        }
    }

    /// The driver will think that this command is done, whichever it was that was meant: its identifier may come again.
    pub(super) fn forget(&mut self, completion: u16, entry: &CompletionEntry) {
        for id in &self.active {
            if let Some(queue) = &mut self.submission[usize::from(*id)]
                && queue.completion_queue == completion
            {
                queue.end(entry.identifier);
            }
        }
    }

    /// Writes an entry to a completion queue, or keeps it until there is room.
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
            // It fails only where the counter is full, and then the descriptor is readable as it is.
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
            self.counts.interrupts += 1;
        }
    }
}
