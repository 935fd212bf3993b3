//! One controller: enables and identifies it, creates its queues, resets it when it stops answering, shuts it down in order.
//! Shared by the queues of all threads; the work per request is in `queue`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use iolane_core::{Error, ErrorKind, Pool, Result};

use crate::admin_queue::{AdminQueue, Failure};
use crate::command::{Command, admin, feature, identify, log_page};
use crate::identity::{ControllerIdentity, IDENTIFY_BYTES, Namespace};
use crate::memory::{DmaPages, DmaPool, PAGE_BYTES};
use crate::queue_pair::{Doorbells, IoQueuePair, QueuePair};
use crate::registers::{
    ACQ, AQA, ASQ, CAP, CC, CC_ENABLE, CC_ENTRY_SIZES, CC_SHUTDOWN_MASK, CC_SHUTDOWN_NORMAL, CSTS, CSTS_FATAL,
    CSTS_READY, CSTS_SHUTDOWN_COMPLETE, CSTS_SHUTDOWN_MASK, ControllerCapabilities, DOORBELLS, GONE, Registers, VS,
};
use crate::reset_gate::{Gate, Resets};
use crate::shadow_doorbells::ShadowDoorbells;
use crate::transport::{Patience, Transport};

/// Settings of a controller, shared by all of its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerOptions {
    /// How long a command may take before it is aborted, and the controller reset if that does not end it.
    pub timeout: Duration,
    /// Whether doorbells are shadowed in memory, if the controller supports it.
    pub shadow_doorbells: bool,
    /// Whether SGLs are used, if the controller supports them.
    pub scatter_gather_lists: bool,
    /// Interrupt coalescing: the controller delays an interrupt until this number of completions wait, or for this many units
    /// of 100 microseconds (Interrupt Coalescing feature, figure 322). The number is stored as in the feature, less one.
    pub coalescing: Option<(u8, u8)>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        // The default of Linux (nvme_core.io_timeout).
        let timeout = Duration::from_secs(30);
        Self { timeout, shadow_doorbells: true, scatter_gather_lists: true, coalescing: None }
    }
}

/// A working controller completes an Abort at once.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a reset waits for a thread that lost its processor between two instructions, while it rings a doorbell.
const RINGING_AT_MOST: Duration = Duration::from_secs(1);
const RINGING_PAUSE: Duration = Duration::from_micros(50);
/// Commands in flight on the admin queue: one, and an Abort.
const ADMIN_DEPTH: u32 = 3;
/// The number of I/O queue pairs requested.
const QUEUES_MAX: u16 = 256;

/// A running controller.
pub struct Controller {
    transport: Arc<dyn Transport>,
    registers: Registers,
    capabilities: ControllerCapabilities,
    options: ControllerOptions,
    identity: ControllerIdentity,
    shadow: Option<ShadowDoorbells>,
    /// Queues created before a reset have to be recreated.
    pub(crate) resets: Resets,
    admin: Mutex<Admin>,
    pools: Mutex<Vec<Weak<DmaPool>>>,
    interrupts: OnceLock<Vec<OwnedFd>>,
}

/// The state that one thread at a time uses.
struct Admin {
    queue: AdminQueue,
    /// The queue that has each I/O queue identifier, from 1 on.
    queues: Vec<Option<Arc<Gate>>>,
    /// The number of identifiers that may be used. A reset may change it, and leaves those in use taken.
    queues_granted: usize,
    /// Why the controller failed for good.
    dead: Option<String>,
}

impl Controller {
    /// Resets, enables and identifies the controller. It has the transport to itself.
    ///
    /// # Errors
    /// `Unavailable` if it is gone, is not an NVMe controller that this driver supports, or does not become ready;
    /// `Exhausted` if memory runs out.
    pub fn start(transport: impl Transport + 'static, options: ControllerOptions) -> Result<Arc<Self>> {
        let transport: Arc<dyn Transport> = Arc::new(transport);
        // SAFETY: the controller and its queue pairs hold the transport as long as they use the registers. Commands name only memory
        // of the driver and of requests in flight.
        let registers = unsafe { transport.registers() };
        let refuse = |cause: String| Err(Error::unavailable(transport.name(), cause).remedy("check the drive"));
        if registers.bytes() < DOORBELLS + 16 {
            return refuse(format!("its registers are {} bytes, too few for an NVMe controller", registers.bytes()));
        }
        if registers.read(CSTS) == GONE || registers.read(VS) == GONE {
            return refuse("its registers read as ones: it is gone, or its memory space is disabled".into());
        }
        let capabilities = ControllerCapabilities(registers.read64(CAP));
        if !capabilities.nvm_command_set() {
            return refuse("it does not support the NVM command set".into());
        }
        if capabilities.page_bytes_min() > PAGE_BYTES as u64 {
            return refuse(format!("its smallest memory page is {} bytes", capabilities.page_bytes_min()));
        }
        if capabilities.queue_entries_max() < 2 {
            return refuse("its queues have one entry at most, which is too few for a command".into());
        }
        let doorbells = Doorbells { registers, stride_bytes: capabilities.doorbell_stride_bytes() };
        if registers.bytes() < DOORBELLS + 4 * doorbells.stride_bytes {
            return refuse(format!("its registers of {} bytes have no room for doorbells", registers.bytes()));
        }
        let pair = QueuePair::new(&transport, &doorbells, 0, ADMIN_DEPTH, ADMIN_DEPTH + 1, |_| None)?;
        let data = DmaPages::new(&transport, PAGE_BYTES)?;
        let admin = Admin {
            queue: AdminQueue::new(pair, data),
            queues: vec![None; QUEUES_MAX.into()],
            queues_granted: 0,
            dead: None,
        };
        let mut controller = Self {
            registers,
            capabilities,
            options,
            identity: ControllerIdentity::parse(&[0; IDENTIFY_BYTES], PAGE_BYTES as u64),
            shadow: None,
            resets: Resets::new(),
            admin: Mutex::new(admin),
            pools: Mutex::new(Vec::new()),
            interrupts: OnceLock::new(),
            transport,
        };
        controller.set_up()?;
        Ok(Arc::new(controller))
    }

    /// The steps that are done only at the start.
    fn set_up(&mut self) -> Result<()> {
        // SAFETY: nothing is mapped that the driver does not own, and the controller is reset next.
        unsafe { self.transport.set_bus_master(true) }?;
        let mut admin = self.lock();
        self.enable(&mut admin)?;
        let page = self.identify(&mut admin, identify::CONTROLLER, 0)?;
        let identity = ControllerIdentity::parse(&page, self.capabilities.page_bytes_min());
        // The shadows of the admin queue and of one I/O queue have to fit their page.
        let fits = 4 * self.capabilities.doorbell_stride_bytes() <= PAGE_BYTES;
        let shadow = match self.options.shadow_doorbells && identity.doorbell_buffers && fits {
            true => Some(ShadowDoorbells::new(&self.transport)?),
            false => None,
        };
        drop(admin);
        (self.identity, self.shadow) = (identity, shadow);
        let mut admin = self.lock();
        self.configure(&mut admin)
    }

    fn lock(&self) -> MutexGuard<'_, Admin> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        self.transport.name()
    }

    /// Its Identify data.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// Its settings.
    pub fn options(&self) -> ControllerOptions {
        self.options
    }

    /// Most commands in flight on one queue.
    pub fn depth_max(&self) -> u32 {
        // A command identifier has 12 bits for the slot.
        (self.capabilities.queue_entries_max() - 1).clamp(1, DEPTH_MAX)
    }

    /// Refuses a depth that no queue of it has.
    pub(crate) fn require_depth(&self, depth: u32) -> Result<()> {
        if (1..=self.depth_max()).contains(&depth) {
            return Ok(());
        }
        let cause = format!("a queue of it has 1 to {} commands in flight, not {depth}", self.depth_max());
        Err(Error::usage(self.name(), cause).remedy("choose another depth"))
    }

    /// How often it was reset because it did not answer.
    pub fn resets(&self) -> u32 {
        self.resets.ended()
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// Clears and sets CC.EN, and configures the admin queue in between (NVMe Base Specification 2.0, section 3.5.1).
    fn enable(&self, admin: &mut Admin) -> Result<()> {
        let registers = self.registers;
        self.disable()?;
        admin.queue.pair.restart();
        let (submissions, completions) = admin.queue.pair.addresses();
        let entries = admin.queue.pair.entries() - 1;
        registers.write(AQA, entries << 16 | entries);
        registers.write64(ASQ, submissions);
        registers.write64(ACQ, completions);
        registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE);
        self.wait_for("it does not become ready", |status| status & CSTS_READY != 0)
    }

    /// Disables the controller. On success it has dropped its queues and accesses none of our memory.
    fn disable(&self) -> Result<()> {
        let configuration = self.registers.read(CC);
        if configuration & CC_ENABLE != 0 {
            self.registers.write(CC, configuration & !(CC_ENABLE | CC_SHUTDOWN_MASK));
        }
        self.wait_for("it does not stop", |status| status & CSTS_READY == 0)
    }

    fn wait_for(&self, otherwise: &str, reached: impl Fn(u32) -> bool) -> Result<()> {
        let unavailable = |cause: &str| Error::unavailable(self.name(), cause);
        // The controller's timeout may be 0, and clocks are coarse.
        let patience = Duration::from_millis(self.capabilities.ready_timeout_ms().max(500) + 500);
        let mut waiting = Patience::new(&*self.transport, patience);
        loop {
            let status = self.registers.read(CSTS);
            if status == GONE {
                return Err(unavailable("it is gone: its registers read as ones").remedy("check that it is plugged in"));
            }
            if reached(status) {
                return Ok(());
            }
            if waiting.is_over(&*self.transport) {
                let fatal = if status & CSTS_FATAL != 0 { " (fatal status)" } else { "" };
                return Err(unavailable(&format!("{otherwise} within {} s{fatal}", patience.as_secs()))
                    .remedy("power-cycle the drive; it may be defective"));
            }
            self.transport.relax(1);
        }
    }

    /// Configures the controller after a reset.
    fn configure(&self, admin: &mut Admin) -> Result<()> {
        let asked = u32::from(QUEUES_MAX - 1);
        let command = Command::set_feature(feature::NUMBER_OF_QUEUES, asked << 16 | asked);
        let granted = self
            .execute(admin, command)
            .map_err(|failure| failure.error(self.name(), "setting the number of queues"))?;
        // At least one each: `start` and `set_up` refuse less.
        let by_registers = (self.registers.bytes() - DOORBELLS) / self.capabilities.doorbell_stride_bytes() / 2 - 1;
        let pages = self.shadow.as_ref().map_or(usize::MAX, |shadow| shadow.bytes());
        let by_shadow = pages / self.capabilities.doorbell_stride_bytes() / 2 - 1;
        let granted = (granted & 0xffff).min(granted >> 16) as usize + 1;
        admin.queues_granted = granted.min(by_registers).min(by_shadow).min(QUEUES_MAX.into());
        if let Some(shadow) = &self.shadow {
            self.shadow_doorbells(admin, shadow)
                .map_err(|failure| failure.error(self.name(), "setting up shadow doorbells"))?;
        }
        if let Some((number, time)) = self.options.coalescing {
            let command = Command::set_feature(feature::INTERRUPT_COALESCING, u32::from(time) << 8 | u32::from(number));
            self.execute(admin, command).map_err(|failure| failure.error(self.name(), "coalescing interrupts"))?;
        }
        Ok(())
    }

    fn shadow_doorbells(&self, admin: &mut Admin, shadow: &ShadowDoorbells) -> Result<(), Failure> {
        shadow.clear();
        let data = shadow.addresses();
        self.execute(admin, Command { opcode: admin::DOORBELL_BUFFER_CONFIG, data, ..Command::default() }).map(drop)
    }

    /// Carries out one admin command and waits for it.
    fn execute(&self, admin: &mut Admin, command: Command) -> Result<u32, Failure> {
        self.execute_within(admin, command, self.options.timeout)
    }

    /// As [`execute`](Self::execute). A command that does not complete may still be carried out later, on memory that is reused by
    /// then, so the controller is reset.
    fn execute_or_reset(&self, admin: &mut Admin, command: Command) -> Result<u32, Failure> {
        let outcome = self.execute(admin, command);
        if let Err(Failure::TimedOut | Failure::Gone) = outcome {
            self.reset(admin);
        }
        outcome
    }

    fn execute_within(&self, admin: &mut Admin, command: Command, patience: Duration) -> Result<u32, Failure> {
        admin.queue.execute(&*self.transport, self.registers, command, patience)
    }

    fn identify(&self, admin: &mut Admin, what: u32, namespace: u32) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        let dwords = [what, 0, 0, 0, 0, 0];
        self.fetch(
            admin,
            Command { opcode: admin::IDENTIFY, namespace, dwords, ..Command::default() },
            "identifying it",
        )
    }

    /// Carries out an admin command that fills a page.
    fn fetch(&self, admin: &mut Admin, command: Command, what: &str) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        self.ensure_alive(admin)?;
        admin.queue.data.clear();
        let data = [admin.queue.data.address(), 0];
        self.execute_or_reset(admin, Command { data, ..command })
            .map_err(|failure| failure.error(self.name(), what))?;
        Ok(admin.queue.data.copy())
    }

    /// The identifiers of its active namespaces (at most 1024).
    ///
    /// # Errors
    /// `Failed` if it does not answer.
    pub fn namespaces(&self) -> Result<Vec<u32>> {
        let page = self.identify(&mut self.lock(), identify::ACTIVE_NAMESPACES, 0)?;
        let identifiers = page.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")));
        Ok(identifiers.take_while(|identifier| *identifier != 0).collect())
    }

    /// A namespace by its identifier.
    ///
    /// # Errors
    /// As [`Namespace::parse`]; `Failed` if the controller does not answer.
    pub fn namespace(&self, identifier: u32) -> Result<Namespace> {
        let page = self.identify(&mut self.lock(), identify::NAMESPACE, identifier)?;
        Namespace::parse(&page, identifier, self.name())
    }

    /// The SMART and health log page (NVMe Base Specification 2.0, figure 207).
    ///
    /// # Errors
    /// `Failed` if it does not answer.
    pub fn smart_log(&self) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        self.log_page(log_page::SMART, 512)
    }

    /// The error log page: entries of 64 bytes, the newest first (figure 206).
    ///
    /// # Errors
    /// `Failed` if it does not answer.
    pub fn error_log(&self) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        self.log_page(log_page::ERROR, 64)
    }

    fn log_page(&self, page: u32, bytes: u32) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        let dwords = [(bytes / 4 - 1) << 16 | page, 0, 0, 0, 0, 0];
        let command = Command { opcode: admin::GET_LOG_PAGE, namespace: u32::MAX, dwords, ..Command::default() };
        self.fetch(&mut self.lock(), command, "reading a log page")
    }

    /// Maps a pool for the controller, once for all queues that use it.
    pub(crate) fn map_pool(&self, pool: &Pool) -> Result<Arc<DmaPool>> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|mapped| mapped.strong_count() > 0);
        if let Some(mapped) = pools.iter().filter_map(Weak::upgrade).find(|mapped| mapped.pool().span() == pool.span())
        {
            return Ok(mapped);
        }
        let mapped = Arc::new(DmaPool::new(&self.transport, pool)?);
        pools.push(Arc::downgrade(&mapped));
        Ok(mapped)
    }

    /// Creates an I/O queue pair with room for `depth` commands, with an interrupt vector of its own or polled.
    pub(crate) fn create_queue_pair(&self, depth: u32, interrupts: bool) -> Result<IoQueuePair> {
        let mut admin = self.lock();
        self.ensure_alive(&admin)?;
        let Some(index) = admin.queues[..admin.queues_granted].iter().position(Option::is_none) else {
            return Err(Error::unavailable(
                self.name(),
                format!("all of its {} I/O queues are taken", admin.queues_granted),
            )
            .with_kind(ErrorKind::Exhausted)
            .remedy("use fewer threads"));
        };
        let identifier = index as u16 + 1;
        // Vector 0 is the admin queue's.
        let vector = interrupts.then_some(identifier);
        if interrupts && self.interrupts()?.len() <= usize::from(identifier) {
            let cause =
                format!("it has {} interrupt vectors, one of them for the admin queue", self.interrupts()?.len());
            return Err(Error::unavailable(self.name(), cause)
                .with_kind(ErrorKind::Exhausted)
                .remedy("use fewer threads, or path nvme, which polls"));
        }
        let doorbells =
            Doorbells { registers: self.registers, stride_bytes: self.capabilities.doorbell_stride_bytes() };
        let shadow = |completion| {
            // SAFETY: the users of a pair hold the controller, which keeps the pages, and both sides access them by atomics.
            self.shadow.as_ref().map(|shadow| unsafe { shadow.at(doorbells.offset(identifier, completion)) })
        };
        let entries_max = self.capabilities.queue_entries_max();
        let pair = QueuePair::new(&self.transport, &doorbells, identifier, depth, entries_max, shadow)?;
        let mut registered = self.register_pair(&mut admin, &pair, vector);
        if let Err((Failure::TimedOut | Failure::Gone, _)) = registered {
            // The controller was reset, so that a second attempt may succeed.
            self.ensure_alive(&admin)?;
            registered = self.register_pair(&mut admin, &pair, vector);
        }
        registered.map_err(|(failure, what)| failure.error(self.name(), what))?;
        let gate = Arc::new(Gate::new());
        admin.queues[index] = Some(gate.clone());
        Ok(IoQueuePair { pair, resets: self.resets.count(), vector, gate })
    }

    /// All interrupt vectors, set up when the first queue needs one.
    fn interrupts(&self) -> Result<&[OwnedFd]> {
        if self.interrupts.get().is_none() {
            let vectors = self.transport.interrupts(u32::from(QUEUES_MAX) + 1)?;
            let _ = self.interrupts.set(vectors);
        }
        Ok(self.interrupts.get().map_or(&[], Vec::as_slice))
    }

    /// The descriptor that counts a queue's interrupts; `None` for one that is polled.
    pub(crate) fn interrupt(&self, queue: &IoQueuePair) -> Option<BorrowedFd<'_>> {
        Some(self.interrupts.get()?.get(usize::from(queue.vector?))?.as_fd())
    }

    /// Whether it reports a fatal error, is gone, or is about to be removed.
    pub(crate) fn has_failed(&self) -> bool {
        // A register of a device that is gone reads as ones, which includes this bit.
        self.registers.read(CSTS) & CSTS_FATAL != 0 || self.transport.is_leaving()
    }

    /// Create I/O Completion Queue and Create I/O Submission Queue (sections 5.4 and 5.5). On failure the controller
    /// does not use the rings: if it did not answer, it was reset.
    fn register_pair(
        &self,
        admin: &mut Admin,
        pair: &QueuePair,
        vector: Option<u16>,
    ) -> Result<(), (Failure, &'static str)> {
        const CONTIGUOUS: u32 = 1;
        const INTERRUPTS: u32 = 1 << 1;
        let (submissions, completions) = pair.addresses();
        let identifier = u32::from(pair.identifier());
        let interrupts = vector.map_or(0, |vector| u32::from(vector) << 16 | INTERRUPTS);
        let create = |opcode, address, entries: u32, attributes| Command {
            opcode,
            data: [address, 0],
            dwords: [(entries - 1) << 16 | identifier, attributes, 0, 0, 0, 0],
            ..Command::default()
        };
        let (completion_entries, entries) = (pair.completion_entries(), pair.entries());
        let (completion_queue, submission_queue) = (
            create(admin::CREATE_COMPLETION_QUEUE, completions, completion_entries, interrupts | CONTIGUOUS),
            create(admin::CREATE_SUBMISSION_QUEUE, submissions, entries, identifier << 16 | CONTIGUOUS),
        );
        self.execute_or_reset(admin, completion_queue).map_err(|failure| (failure, "creating a completion queue"))?;
        self.execute_or_reset(admin, submission_queue).map_err(|failure| {
            let delete = Command::delete_queue(admin::DELETE_COMPLETION_QUEUE, pair.identifier());
            // The rings are freed next, so the controller must not use them any more.
            if matches!(failure, Failure::Status(_)) && self.execute(admin, delete).is_err() {
                self.reset(admin);
            }
            (failure, "creating a submission queue")
        })?;
        Ok(())
    }

    /// Recreates a pair after a reset, in the same memory. Its requests in flight have been completed.
    pub(crate) fn rebuild(&self, queue: &mut IoQueuePair) -> Result<()> {
        let mut admin = self.lock();
        self.ensure_alive(&admin)?;
        debug_assert_ne!(queue.resets, self.resets.count(), "a pair is rebuilt only after a reset");
        if usize::from(queue.pair.identifier()) > admin.queues_granted {
            let cause = format!("it grants only {} I/O queues since its reset", admin.queues_granted);
            return Err(Error::unavailable(self.name(), cause).with_kind(ErrorKind::Exhausted));
        }
        queue.pair.restart();
        let registered = self.register_pair(&mut admin, &queue.pair, queue.vector);
        registered.map_err(|(failure, what)| failure.error(self.name(), what))?;
        queue.resets = self.resets.count();
        Ok(())
    }

    /// Deletes a pair. Afterwards the controller has none of its commands: it completes or drops them before it completes Delete
    /// I/O Submission Queue (section 5.7). If it does not answer, it is reset.
    pub(crate) fn delete_queue_pair(&self, queue: &IoQueuePair) {
        let identifier = queue.pair.identifier();
        debug_assert_ne!(identifier, 0, "the admin queue is never deleted");
        let mut admin = self.lock();
        if admin.dead.is_none() && queue.resets == self.resets.count() {
            let deleted = [admin::DELETE_SUBMISSION_QUEUE, admin::DELETE_COMPLETION_QUEUE]
                .into_iter()
                .try_for_each(|opcode| self.execute(&mut admin, Command::delete_queue(opcode, identifier)).map(drop));
            if deleted.is_err() {
                self.reset(&mut admin);
            }
        }
        admin.queues[usize::from(identifier) - 1] = None;
    }

    /// Asks the controller to abort a command (section 5.1); the outcome appears on the command's own queue.
    pub(crate) fn abort(&self, queue: &IoQueuePair, identifier: u16) {
        let mut admin = self.lock();
        if admin.dead.is_some() || queue.resets != self.resets.count() {
            return;
        }
        let dwords = [u32::from(identifier) << 16 | u32::from(queue.pair.identifier()), 0, 0, 0, 0, 0];
        let abort = Command { opcode: admin::ABORT, dwords, ..Command::default() };
        if let Err(Failure::TimedOut | Failure::Gone) = self.execute_within(&mut admin, abort, ABORT_TIMEOUT) {
            self.reset(&mut admin);
        }
    }

    /// Resets the controller, unless it was reset since the resets were counted so. Afterwards no command in flight on any queue can access
    /// memory, and each queue has to be rebuilt.
    pub(crate) fn recover(&self, resets: u32) {
        let mut admin = self.lock();
        if admin.dead.is_none() && self.resets.count() == resets {
            self.reset(&mut admin);
        }
    }

    fn reset(&self, admin: &mut Admin) {
        let mut patience = Patience::new(&*self.transport, RINGING_AT_MOST);
        self.resets.begin(admin.queues.iter().flatten().map(Arc::as_ref), || {
            // It may be this core that the other thread needs.
            std::thread::sleep(RINGING_PAUSE);
            !patience.is_over(&*self.transport)
        });
        let outcome = self.revive(admin);
        if let Err(error) = outcome {
            // It may still access memory, which returns to its owners now, so bus mastering is disabled.
            // SAFETY: disabling.
            let _ = unsafe { self.transport.set_bus_master(false) };
            admin.dead = Some(error.cause().to_owned());
        }
        self.resets.end();
        self.wake(admin);
    }

    /// Wakes the threads that wait for an interrupt, which the queues that a reset has dropped do not raise any more.
    fn wake(&self, admin: &Admin) {
        let vectors = self.interrupts.get().map_or(&[][..], Vec::as_slice);
        let taken = admin.queues.iter().zip(vectors.iter().skip(1)).filter(|(queue, _)| queue.is_some());
        for (_, vector) in taken {
            // It fails only if the count is full, and then the descriptor is readable.
            let _ = rustix::io::write(vector, &1u64.to_ne_bytes());
        }
    }

    fn revive(&self, admin: &mut Admin) -> Result<()> {
        if self.transport.is_leaving() {
            return Err(Error::unavailable(self.name(), "it is being removed"));
        }
        // The PCI configuration may have been lost with the failure.
        // SAFETY: the controller was alive until now, with bus mastering on, and the commands that it has are those of requests in
        // flight; it is reset next, before these are completed.
        unsafe { self.transport.set_bus_master(true) }?;
        self.enable(admin)?;
        self.configure(admin)
    }

    fn ensure_alive(&self, admin: &Admin) -> Result<()> {
        match &admin.dead {
            None => Ok(()),
            Some(why) => Err(Error::unavailable(self.name(), format!("it failed and could not be reset: {why}"))
                .remedy("power-cycle the drive")),
        }
    }
}

/// A command identifier has 12 bits for the slot, and a ring has one entry more than commands in flight.
const DEPTH_MAX: u32 = 4095;

impl Drop for Controller {
    /// A normal shutdown (section 3.6.1), which writes back a volatile cache. Then the controller is disabled, so that it accesses
    /// none of the memory that is freed next.
    fn drop(&mut self) {
        let dead = self.lock().dead.is_some();
        if dead {
            return;
        }
        self.registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE | CC_SHUTDOWN_NORMAL);
        let done = |status| status & CSTS_SHUTDOWN_MASK == CSTS_SHUTDOWN_COMPLETE;
        let stopped = self.wait_for("it does not shut down", done).and_then(|()| self.disable());
        if stopped.is_err() {
            // SAFETY: disabling.
            let _ = unsafe { self.transport.set_bus_master(false) };
        }
    }
}
