//! The admin queue of a controller: carries out one command at a time and waits for its completion. Called by `controller`,
//! under its lock.

use std::time::Duration;

use iolane_core::Error;

use crate::command::{Command, Status};
use crate::memory::DmaPages;
use crate::queue_pair::QueuePair;
use crate::registers::{CSTS, GONE, Registers};
use crate::transport::{Patience, Transport};

/// The rings of the admin queue, and a page for the data of its commands.
pub(crate) struct AdminQueue {
    pub(crate) pair: QueuePair,
    pub(crate) data: DmaPages,
    /// The identifier of the last command.
    identifier: u16,
}

/// Why an admin command failed.
pub(crate) enum Failure {
    Status(Status),
    TimedOut,
    Gone,
}

impl Failure {
    pub(crate) fn error(self, controller: &str, what: &str) -> Error {
        let what = format!("{controller}: {what}");
        match self {
            Self::Status(status) => {
                Error::failed(what, format!("the controller answered with status {:#05x}", status.0 & 0x7ff))
            }
            Self::TimedOut => {
                Error::failed(what, "the controller does not answer").remedy("reset it: iolane nvme restore")
            }
            Self::Gone => Error::unavailable(what, "the controller is gone").remedy("check that it is plugged in"),
        }
    }
}

impl AdminQueue {
    pub(crate) fn new(pair: QueuePair, data: DmaPages) -> Self {
        Self { pair, data, identifier: 0 }
    }

    /// Carries out a command and waits for it, `patience` at most.
    pub(crate) fn execute(
        &mut self,
        transport: &dyn Transport,
        registers: Registers,
        command: Command,
        patience: Duration,
    ) -> Result<u32, Failure> {
        self.identifier = self.identifier.wrapping_add(1);
        let identifier = self.identifier;
        debug_assert!(!self.pair.is_pushed(), "the last command was handed over");
        self.pair.push(Command { identifier, ..command });
        self.pair.ring();
        let mut patience = Patience::new(transport, patience);
        loop {
            while let Some(entry) = self.pair.pop() {
                if self.pair.is_release_due() {
                    self.pair.release();
                }
                if entry.identifier == identifier {
                    return if entry.status.is_success() {
                        Ok(entry.result)
                    } else {
                        Err(Failure::Status(entry.status))
                    };
                }
            }
            if registers.read(CSTS) == GONE {
                return Err(Failure::Gone);
            }
            if patience.is_over(transport) {
                return Err(Failure::TimedOut);
            }
            transport.relax(1);
        }
    }
}
