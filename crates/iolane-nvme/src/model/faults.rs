//! The faults of a model controller: commands that complete late, wrongly or never, and the commands that it holds for that. Called by `engine` and `admin`.

use super::config::Faults;
use super::engine::{Engine, Held};
use super::pointers::Origin;
use crate::command::{Command, CompletionEntry, Status};

impl Engine {
    /// Draws whether a fault occurs now.
    pub(super) fn draw(&mut self, fault: impl Fn(&Faults) -> u32) -> bool {
        let strikes = self.chance.strikes(fault(&self.config.faults));
        self.counts.faults += u64::from(strikes);
        strikes
    }

    /// Whether commands of this queue may have faults.
    pub(super) fn may_strike(&self, queue: u16) -> bool {
        queue > 0 || self.config.faults.admin
    }

    /// Draws the faults of a command before it is carried out; true if one occurred.
    pub(super) fn strike(&mut self, origin: Origin, command: Command) -> bool {
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

    /// Completes held commands that are due.
    pub(super) fn answer_late(&mut self) {
        let now = self.counts.steps;
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].due.is_none_or(|due| due > now) {
                index += 1;
                continue;
            }
            let Held { origin, command, .. } = self.held.remove(index);
            self.execute_and_answer(origin, &command);
            // The command may have removed others from the list.
            index = index.min(self.held.len());
        }
    }

    /// Carries out held commands without completing them, as a controller may do while it is being disabled.
    pub(super) fn finish_held(&mut self) {
        while !self.held.is_empty() {
            self.finish_one_held();
        }
    }

    pub(super) fn finish_one_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let Held { origin, command, is_done, .. } = self.held.remove(0);
        if !is_done && origin.queue > 0 && self.dma.bus_master {
            let _ = self.execute(origin, &command);
        }
    }

    /// Completes a held command as aborted; false if it is not held.
    pub(super) fn abort_held(&mut self, aborted: Origin) -> bool {
        let is_it = |held: &Held| (held.origin.queue, held.origin.identifier) == (aborted.queue, aborted.identifier);
        let Some(index) = self.held.iter().position(is_it) else { return false };
        self.held.remove(index);
        self.answer(aborted, Err(Status::ABORT_REQUESTED));
        true
    }

    /// Removes the held commands of a queue that is about to be deleted, and completes those that were due later.
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

    /// Corrupts an entry. Its `phase` selects the correct phase or the wrong one.
    pub(super) fn spoil(&mut self, entry: &mut CompletionEntry, entries: u32) {
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
}
