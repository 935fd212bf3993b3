//! Admin commands of the model (NVMe Base Specification 2.0, section 5), with the checks that the specification requires. Called by
//! `engine`.

use super::engine::{Engine, Shadow};
use super::identify::{self, EVENT_REQUESTS_MAX};
use super::pointers::Origin;
use super::queues::{CompletionQueue, Ring, SubmissionQueue};
use super::status;
use crate::command::{Command, PSDT_PRP, Status, admin, feature, identify as structure, log_page};
use crate::memory::PAGE_BYTES;

/// Asynchronous Event Request.
const EVENT_REQUEST: u8 = 0x0c;

/// Bytes of all error entries, and of the SMART log.
const LOG_BYTES_MAX: u64 = 512;

/// Result of Abort, bit 0: the command was not aborted.
const NOT_ABORTED: u32 = 1;

impl Engine {
    /// Carries out an admin command; `None` if it completes later.
    pub(super) fn administer(&mut self, origin: Origin, command: &Command) -> Option<Result<u32, Status>> {
        if command.flags & 0xc0 != PSDT_PRP {
            self.dma.command_violation(origin, "an SGL in an admin command");
            return Some(Err(Status::INVALID_FIELD));
        }
        Some(match command.opcode {
            admin::DELETE_SUBMISSION_QUEUE => self.delete_submission_queue(command),
            admin::CREATE_SUBMISSION_QUEUE => self.create_submission_queue(origin, command),
            admin::GET_LOG_PAGE => self.get_log_page(origin, command),
            admin::DELETE_COMPLETION_QUEUE => self.delete_completion_queue(command),
            admin::CREATE_COMPLETION_QUEUE => self.create_completion_queue(origin, command),
            admin::IDENTIFY => self.identify(origin, command),
            admin::ABORT => Ok(self.abort(command)),
            admin::SET_FEATURES => self.set_features(command),
            admin::GET_FEATURES => self.get_features(command),
            admin::DOORBELL_BUFFER_CONFIG => self.set_shadow(origin, command),
            EVENT_REQUEST if self.event_requests < EVENT_REQUESTS_MAX => {
                self.event_requests += 1;
                return None;
            }
            EVENT_REQUEST => Err(status::TOO_MANY_EVENT_REQUESTS),
            _ => Err(Status::INVALID_OPCODE),
        })
    }

    fn identify(&mut self, origin: Origin, command: &Command) -> Result<u32, Status> {
        let mut data = match command.dwords[0] & 0xff {
            structure::NAMESPACE => {
                let disk = self.disk_index(command.namespace)?;
                identify::namespace(&self.config, self.disks[disk].config)
            }
            structure::CONTROLLER => identify::controller(&self.config),
            structure::ACTIVE_NAMESPACES if command.namespace >= u32::MAX - 1 => {
                return Err(Status::INVALID_NAMESPACE);
            }
            structure::ACTIVE_NAMESPACES => identify::active_namespaces(self.disks.len() as u32, command.namespace),
            _ => return Err(Status::INVALID_FIELD),
        };
        if self.draw(|faults| faults.false_identify) {
            identify::falsify(&mut data, &mut self.chance);
        }
        self.give(origin, command, &data).map(|()| 0)
    }

    /// A queue's identifier and its number of entries, from dword 10.
    fn new_queue(&self, command: &Command, exists: impl Fn(&Self, usize) -> bool) -> Result<(u16, u32), Status> {
        let (queue, entries) = (command.dwords[0] as u16, (command.dwords[0] >> 16) + 1);
        if queue == 0 || queue > self.config.queues_max || exists(self, queue.into()) {
            return Err(Status::INVALID_QUEUE);
        }
        if entries < 2 || entries > self.config.queue_entries_max {
            return Err(status::INVALID_QUEUE_SIZE);
        }
        // CAP.CQR: the queue is contiguous.
        if command.dwords[1] & 1 == 0 {
            return Err(Status::INVALID_FIELD);
        }
        Ok((queue, entries))
    }

    fn new_ring(&mut self, origin: Origin, base: u64, entries: u32, entry_bytes: usize) -> Result<Ring, Status> {
        if !base.is_multiple_of(PAGE_BYTES as u64) {
            self.dma.command_violation(origin, &format!("a queue at {base:#x}, no multiple of {PAGE_BYTES}"));
            return Err(status::INVALID_PRP_OFFSET);
        }
        self.reach_ring(origin, base, entries, entry_bytes)
    }

    fn create_completion_queue(&mut self, origin: Origin, command: &Command) -> Result<u32, Status> {
        let (queue, entries) = self.new_queue(command, |engine, index| engine.completion[index].is_some())?;
        let vector = (command.dwords[1] >> 16) as u16;
        let interrupts = command.dwords[1] & 2 != 0;
        if interrupts && u32::from(vector) >= self.config.vectors {
            return Err(status::INVALID_VECTOR);
        }
        let ring = self.new_ring(origin, command.data[0], entries, Ring::COMPLETION_BYTES)?;
        self.unring(queue, true);
        self.completion[usize::from(queue)] = Some(CompletionQueue::new(ring, interrupts.then_some(vector)));
        Ok(0)
    }

    fn create_submission_queue(&mut self, origin: Origin, command: &Command) -> Result<u32, Status> {
        let (queue, entries) = self.new_queue(command, |engine, index| engine.submission[index].is_some())?;
        let completion = (command.dwords[1] >> 16) as u16;
        if completion == 0 || completion > self.config.queues_max {
            return Err(Status::INVALID_QUEUE);
        }
        if self.completion[usize::from(completion)].is_none() {
            return Err(status::INVALID_COMPLETION_QUEUE);
        }
        let ring = self.new_ring(origin, command.data[0], entries, Ring::COMMAND_BYTES)?;
        self.unring(queue, false);
        self.add_submission_queue(queue, SubmissionQueue::new(ring, completion));
        Ok(0)
    }

    fn delete_submission_queue(&mut self, command: &Command) -> Result<u32, Status> {
        let queue = command.dwords[0] as u16;
        if queue == 0 || self.submission.get(usize::from(queue)).is_none_or(Option::is_none) {
            return Err(Status::INVALID_QUEUE);
        }
        self.give_up(queue);
        self.remove_submission_queue(queue);
        Ok(0)
    }

    fn delete_completion_queue(&mut self, command: &Command) -> Result<u32, Status> {
        let index = usize::from(command.dwords[0] as u16);
        match self.completion.get(index).and_then(Option::as_ref) {
            _ if index == 0 => Err(Status::INVALID_QUEUE),
            None => Err(Status::INVALID_QUEUE),
            Some(queue) if queue.users > 0 => Err(status::INVALID_QUEUE_DELETION),
            Some(_) => {
                self.completion[index] = None;
                Ok(0)
            }
        }
    }

    fn set_features(&mut self, command: &Command) -> Result<u32, Status> {
        let value = command.dwords[1];
        match command.dwords[0] & 0xff {
            feature::VOLATILE_WRITE_CACHE if self.config.volatile_write_cache => {
                self.write_cache = value & 1 == 1;
                Ok(0)
            }
            feature::NUMBER_OF_QUEUES => {
                if value & 0xffff == 0xffff || value >> 16 == 0xffff {
                    return Err(Status::INVALID_FIELD);
                }
                if self.submission[1..].iter().any(Option::is_some) || self.completion[1..].iter().any(Option::is_some)
                {
                    return Err(status::SEQUENCE);
                }
                Ok(self.queues_allocated())
            }
            feature::INTERRUPT_COALESCING => {
                self.coalescing = value & 0xffff;
                Ok(0)
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn get_features(&self, command: &Command) -> Result<u32, Status> {
        match command.dwords[0] & 0xff {
            feature::VOLATILE_WRITE_CACHE if self.config.volatile_write_cache => Ok(u32::from(self.write_cache)),
            feature::NUMBER_OF_QUEUES => Ok(self.queues_allocated()),
            feature::INTERRUPT_COALESCING => Ok(self.coalescing),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Grants all of its queues regardless of the number requested, as many controllers do.
    fn queues_allocated(&self) -> u32 {
        let less_one = u32::from(self.config.queues_max) - 1;
        self.config.queues_granted.unwrap_or(less_one << 16 | less_one)
    }

    fn get_log_page(&mut self, origin: Origin, command: &Command) -> Result<u32, Status> {
        let page = command.dwords[0] & 0xff;
        if page != log_page::ERROR && page != log_page::SMART {
            return Err(status::INVALID_LOG_PAGE);
        }
        let dwords = u64::from(command.dwords[0] >> 16 | (command.dwords[1] & 0xffff) << 16) + 1;
        let offset = u64::from(command.dwords[2]) | u64::from(command.dwords[3]) << 32;
        if offset.saturating_add(dwords * 4) > LOG_BYTES_MAX {
            return Err(Status::INVALID_FIELD);
        }
        let mut data = [0; LOG_BYTES_MAX as usize];
        if page == log_page::SMART {
            // Composite temperature in kelvin, available spare and its threshold in percent.
            data[1..3].copy_from_slice(&300u16.to_le_bytes());
            (data[3], data[4]) = (100, 10);
        }
        self.give(origin, command, &data[offset as usize..][..dwords as usize * 4]).map(|()| 0)
    }

    fn abort(&mut self, command: &Command) -> u32 {
        let (queue, identifier) = (command.dwords[0] as u16, (command.dwords[0] >> 16) as u16);
        if self.draw(|faults| faults.idle_abort) || !self.abort_held(Origin { queue, identifier }) {
            return NOT_ABORTED;
        }
        0
    }

    fn set_shadow(&mut self, origin: Origin, command: &Command) -> Result<u32, Status> {
        if !self.config.shadow_doorbells {
            return Err(Status::INVALID_OPCODE);
        }
        let [doorbells, event_indexes] = command.data;
        if !(doorbells | event_indexes).is_multiple_of(PAGE_BYTES as u64) {
            self.dma.command_violation(origin, "shadow doorbells that do not begin with a page");
            return Err(status::INVALID_PRP_OFFSET);
        }
        self.dma.reach(origin, doorbells, PAGE_BYTES)?;
        self.dma.reach(origin, event_indexes, PAGE_BYTES)?;
        self.use_shadow(Shadow { doorbells, event_indexes });
        Ok(0)
    }
}
