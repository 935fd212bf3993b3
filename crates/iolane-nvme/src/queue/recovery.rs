//! Commands that get no answer, and resets: what times out is aborted, then the controller is reset, and each queue is recreated. They are
//! apart from `queue`, whose hot path they leave alone.

use iolane_core::IoError;

use super::{AGE_MAX, NvmeQueue, identifier};

impl NvmeQueue {
    /// A completion that belongs to no command in flight: the controller's state is unknown, so it is reset.
    #[cold]
    pub(super) fn stray(&mut self) {
        self.counts.strays += 1;
        self.controller.recover(self.queue.resets);
    }

    /// Recovers from a reset, unless it is under way: the call would wait for it.
    #[cold]
    pub(super) fn recover_once_over(&mut self) {
        if self.controller.resets.is_over_since(self.queue.resets) {
            self.recreate();
        }
    }

    /// Checks the clock, and ages the commands in flight.
    #[cold]
    pub(super) fn check_clock(&mut self) {
        self.polls = 0;
        let timeout = self.controller.options().timeout;
        let now = self.controller.transport().now();
        if now.saturating_sub(self.last_check) < timeout / u32::from(AGE_MAX - 1) {
            return;
        }
        self.last_check = now;
        if self.controller.has_failed() {
            return self.controller.recover(self.queue.resets);
        }
        let timed_out_slots = self.age_commands();
        if timed_out_slots.is_empty() {
            return;
        }
        self.counts.timeouts += timed_out_slots.len() as u64;
        for slot in &timed_out_slots {
            let flight = &mut self.flights[*slot as usize];
            let identifier = identifier(*slot, flight.generation);
            // An Abort may miss it: it is sent once, and the next time the controller is reset.
            if std::mem::replace(&mut flight.timed_out, true) {
                self.controller.recover(self.queue.resets);
                return;
            }
            self.controller.abort(&self.queue, identifier);
        }
    }

    /// Ages the commands in flight, and returns the slots of those that have timed out.
    fn age_commands(&mut self) -> Vec<u32> {
        let mut timed_out_slots = Vec::new();
        for (slot, flight) in self.flights.iter_mut().enumerate() {
            if self.slots.get(slot as u32).is_some() {
                flight.age += 1;
                if flight.age >= AGE_MAX {
                    // One check more, for the Abort to take effect.
                    flight.age = AGE_MAX - 1;
                    timed_out_slots.push(slot as u32);
                }
            }
        }
        timed_out_slots
    }

    /// After a reset: requests in flight complete with an error, since their progress is unknown, and the queue is recreated. If
    /// that fails, every later request fails.
    #[cold]
    fn recreate(&mut self) {
        self.is_dead = self.controller.rebuild(&mut self.queue).is_err();
        for slot in 0..self.slots.depth() as u32 {
            let errno = match self.flights[slot as usize].timed_out {
                _ if self.is_dead => libc::ENODEV,
                true => libc::ETIMEDOUT,
                false => libc::ECANCELED,
            };
            self.answer(slot, Err(IoError::from_errno(errno)));
        }
        debug_assert_eq!(self.slots.in_flight(), 0, "a reset completes every request");
    }
}
