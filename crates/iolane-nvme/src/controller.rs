//! One controller: brought up, asked what it is, given queues, reset when it stops answering, shut down in order.
//! Shared by the queues of all threads; what they do per request never comes here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use iolane_core::{Error, ErrorKind, Pool, Result};

use crate::command::{Command, Status, admin, feature, identify, log_page};
use crate::identity::{ControllerIdentity, IDENTIFY_BYTES, Namespace};
use crate::memory::{MappedPool, PAGE_BYTES, SharedPages};
use crate::queue_pair::{Doorbells, QueuePair, Shadow};
use crate::registers::{
    ACQ, AQA, ASQ, CAP, CC, CC_ENABLE, CC_ENTRY_SIZES, CC_SHUTDOWN_MASK, CC_SHUTDOWN_NORMAL, CSTS, CSTS_FATAL,
    CSTS_READY, CSTS_SHUTDOWN_COMPLETE, CSTS_SHUTDOWN_MASK, ControllerCapabilities, DOORBELLS, GONE, Registers, VS,
};
use crate::transport::Transport;

/// How a controller is used; all of its queues share this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerOptions {
    /// How long a command may take before it is aborted, and the controller reset if that does not end it.
    pub timeout: Duration,
    /// Whether doorbells are shadowed in memory where the controller can do that.
    pub shadow_doorbells: bool,
    /// Whether SGLs are used where the controller takes them.
    pub scatter_gather_lists: bool,
    /// Interrupts are held back until so many completions wait, or so long: number, and units of 100 microseconds
    /// (Interrupt Coalescing feature, figure 322), both as the feature's fields hold them: the number less one.
    pub coalescing: Option<(u8, u8)>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        // As long as Linux waits (nvme_core.io_timeout).
        let timeout = Duration::from_secs(30);
        Self { timeout, shadow_doorbells: true, scatter_gather_lists: true, coalescing: None }
    }
}

/// An Abort is answered at once, or the controller is stuck.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Commands in flight on the admin queue: one, and an Abort beside it.
const ADMIN_DEPTH: u32 = 3;
/// The most I/O queue pairs asked for.
const QUEUES_MAX: u16 = 256;

/// A controller that works.
pub struct Controller {
    transport: Arc<dyn Transport>,
    registers: Registers,
    capabilities: ControllerCapabilities,
    options: ControllerOptions,
    identity: ControllerIdentity,
    shadow: Option<ShadowDoorbells>,
    /// How often it was reset. A queue that was made before has to be made anew.
    resets: AtomicU32,
    admin: Mutex<Admin>,
    pools: Mutex<Vec<Weak<MappedPool>>>,
    interrupts: OnceLock<Vec<OwnedFd>>,
}

/// The two pages of Doorbell Buffer Config.
struct ShadowDoorbells {
    values: SharedPages,
    event_indices: SharedPages,
}

/// What one thread at a time does.
struct Admin {
    pair: QueuePair,
    /// Data of admin commands.
    data: SharedPages,
    /// The identifier of the last command.
    identifier: u16,
    /// Whether an I/O queue identifier is taken, from 1 on.
    queues: Vec<bool>,
    /// Why it works no longer, for good.
    dead: Option<String>,
}

/// An I/O queue pair that the controller serves, and since which reset.
pub(crate) struct IoQueuePair {
    pub(crate) pair: QueuePair,
    pub(crate) resets: u32,
    vector: Option<u16>,
}

/// Why an admin command did not succeed.
enum Failure {
    Status(Status),
    TimedOut,
    Gone,
}

impl Failure {
    fn error(self, controller: &Controller, what: &str) -> Error {
        let what = format!("{}: {what}", controller.name());
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

impl Controller {
    /// Resets and enables the controller and asks what it is.
    ///
    /// # Errors
    /// `Unavailable` if it is gone, is no NVMe controller that this driver can drive, or does not become ready;
    /// `Exhausted` if memory runs out.
    pub fn start(transport: Arc<dyn Transport>, options: ControllerOptions) -> Result<Arc<Self>> {
        let registers = transport.registers();
        let refuse = |cause: String| Err(Error::unavailable(transport.name(), cause).remedy("check the drive"));
        if registers.bytes() < DOORBELLS + 16 {
            return refuse(format!("its registers are {} bytes, which is no NVMe controller", registers.bytes()));
        }
        if registers.read(CSTS) == GONE || registers.read(VS) == GONE {
            return refuse("its registers read as ones: it is gone, or its memory is switched off".into());
        }
        let capabilities = ControllerCapabilities(registers.read64(CAP));
        if !capabilities.nvm_command_set() {
            return refuse("it does not have the NVM command set".into());
        }
        if capabilities.page_bytes_min() > PAGE_BYTES as u64 {
            return refuse(format!("it takes no pages below {} bytes", capabilities.page_bytes_min()));
        }
        let doorbells = Doorbells { registers, stride_bytes: capabilities.doorbell_stride_bytes() };
        if registers.bytes() < DOORBELLS + 4 * doorbells.stride_bytes {
            return refuse(format!("its registers of {} bytes have no room for doorbells", registers.bytes()));
        }
        let pair = QueuePair::new(&transport, &doorbells, 0, ADMIN_DEPTH, |_| None)?;
        let data = SharedPages::new(&transport, PAGE_BYTES)?;
        let admin = Admin { pair, data, identifier: 0, queues: Vec::new(), dead: None };
        let mut controller = Self {
            registers,
            capabilities,
            options,
            identity: ControllerIdentity::parse(&[0; IDENTIFY_BYTES], PAGE_BYTES as u64),
            shadow: None,
            resets: AtomicU32::new(0),
            admin: Mutex::new(admin),
            pools: Mutex::new(Vec::new()),
            interrupts: OnceLock::new(),
            transport,
        };
        controller.set_up()?;
        Ok(Arc::new(controller))
    }

    /// What is done once, at the start, beside enabling.
    fn set_up(&mut self) -> Result<()> {
        self.transport.set_bus_master(true)?;
        let mut admin = self.lock();
        self.enable(&mut admin)?;
        let page = self.identify(&mut admin, identify::CONTROLLER, 0)?;
        let identity = ControllerIdentity::parse(&page, self.capabilities.page_bytes_min());
        let shadow = match self.options.shadow_doorbells && identity.doorbell_buffers {
            true => Some(ShadowDoorbells {
                values: SharedPages::new(&self.transport, PAGE_BYTES)?,
                event_indices: SharedPages::new(&self.transport, PAGE_BYTES)?,
            }),
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

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        self.transport.name()
    }

    /// What it says of itself.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// How it is used.
    pub fn options(&self) -> ControllerOptions {
        self.options
    }

    /// Most commands in flight on one queue.
    pub fn depth_max(&self) -> u32 {
        // A command identifier has 12 bits for the slot.
        (self.capabilities.queue_entries_max() - 1).clamp(1, DEPTH_MAX)
    }

    /// How often it was reset because it did not answer.
    pub fn resets(&self) -> u32 {
        self.resets.load(Ordering::Acquire)
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// CC.EN to 0 and to 1, with the admin queue told in between (NVMe Base Specification 2.0, section 3.5.1).
    fn enable(&self, admin: &mut Admin) -> Result<()> {
        let registers = self.registers;
        self.disable()?;
        admin.pair.restart();
        let (submissions, completions) = admin.pair.addresses();
        let entries = admin.pair.entries() - 1;
        registers.write(AQA, entries << 16 | entries);
        registers.write64(ASQ, submissions);
        registers.write64(ACQ, completions);
        registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE);
        self.wait_for("it does not become ready", |status| status & CSTS_READY != 0)
    }

    /// Once this has succeeded the controller has forgotten its queues, and reads and writes no memory of ours.
    fn disable(&self) -> Result<()> {
        let configuration = self.registers.read(CC);
        if configuration & CC_ENABLE != 0 {
            self.registers.write(CC, configuration & !(CC_ENABLE | CC_SHUTDOWN_MASK));
        }
        self.wait_for("it does not stop", |status| status & CSTS_READY == 0)
    }

    fn wait_for(&self, otherwise: &str, reached: impl Fn(u32) -> bool) -> Result<()> {
        let unavailable = |cause: &str| Error::unavailable(self.name(), cause);
        // The timeout of a controller may be 0, and clocks are coarse.
        let patience = Duration::from_millis(self.capabilities.ready_timeout_ms().max(500) + 500);
        let began = self.transport.now();
        loop {
            let status = self.registers.read(CSTS);
            if status == GONE {
                return Err(unavailable("it is gone: its registers read as ones").remedy("check that it is plugged in"));
            }
            if reached(status) {
                return Ok(());
            }
            if self.transport.now().saturating_sub(began) > patience {
                let fatal = if status & CSTS_FATAL != 0 { " (fatal status)" } else { "" };
                return Err(unavailable(&format!("{otherwise} within {} s{fatal}", patience.as_secs()))
                    .remedy("power the drive off and on; it may be broken"));
            }
            self.transport.relax();
        }
    }

    /// What the controller has to be told after each reset.
    fn configure(&self, admin: &mut Admin) -> Result<()> {
        let asked = u32::from(QUEUES_MAX - 1);
        let command = features(feature::NUMBER_OF_QUEUES, asked << 16 | asked);
        let granted = self.execute(admin, command).map_err(|failure| failure.error(self, "asking for queues"))?;
        let by_registers = (self.registers.bytes() - DOORBELLS) / self.capabilities.doorbell_stride_bytes() / 2 - 1;
        let pages = self.shadow.as_ref().map_or(usize::MAX, |shadow| shadow.values.bytes());
        let by_shadow = pages / self.capabilities.doorbell_stride_bytes() / 2 - 1;
        let granted = (granted & 0xffff).min(granted >> 16) as usize + 1;
        let count = granted.min(by_registers).min(by_shadow).min(QUEUES_MAX.into());
        admin.queues.resize(count, false);
        if let Some(shadow) = &self.shadow {
            self.shadow_doorbells(admin, shadow)
                .map_err(|failure| failure.error(self, "setting up shadow doorbells"))?;
        }
        if let Some((number, time)) = self.options.coalescing {
            let command = features(feature::INTERRUPT_COALESCING, u32::from(time) << 8 | u32::from(number));
            self.execute(admin, command).map_err(|failure| failure.error(self, "coalescing interrupts"))?;
        }
        Ok(())
    }

    fn shadow_doorbells(&self, admin: &mut Admin, shadow: &ShadowDoorbells) -> Result<(), Failure> {
        for page in [&shadow.values, &shadow.event_indices] {
            page.clear();
        }
        let data = [shadow.values.address(), shadow.event_indices.address()];
        self.execute(admin, Command { opcode: admin::DOORBELL_BUFFER_CONFIG, data, ..Command::default() }).map(drop)
    }

    /// Carries out one admin command and waits for it.
    fn execute(&self, admin: &mut Admin, command: Command) -> Result<u32, Failure> {
        self.execute_within(admin, command, self.options.timeout)
    }

    /// As [`execute`](Self::execute). A command that is not answered may still be carried out, on memory that is used for
    /// something else by then: the controller is reset.
    fn execute_or_reset(&self, admin: &mut Admin, command: Command) -> Result<u32, Failure> {
        let outcome = self.execute(admin, command);
        if let Err(Failure::TimedOut | Failure::Gone) = outcome {
            self.reset(admin);
        }
        outcome
    }

    fn execute_within(&self, admin: &mut Admin, command: Command, patience: Duration) -> Result<u32, Failure> {
        admin.identifier = admin.identifier.wrapping_add(1);
        let identifier = admin.identifier;
        admin.pair.push(Command { identifier, ..command });
        admin.pair.ring();
        let began = self.transport.now();
        loop {
            while let Some(entry) = admin.pair.pop() {
                admin.pair.release();
                if entry.identifier == identifier {
                    return if entry.status.is_success() {
                        Ok(entry.result)
                    } else {
                        Err(Failure::Status(entry.status))
                    };
                }
            }
            if self.registers.read(CSTS) == GONE {
                return Err(Failure::Gone);
            }
            if self.transport.now().saturating_sub(began) > patience {
                return Err(Failure::TimedOut);
            }
            self.transport.relax();
        }
    }

    fn identify(&self, admin: &mut Admin, what: u32, namespace: u32) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        let dwords = [what, 0, 0, 0, 0, 0];
        self.fetch(
            admin,
            Command { opcode: admin::IDENTIFY, namespace, dwords, ..Command::default() },
            "asking what it is",
        )
    }

    /// Carries out an admin command that fills a page.
    fn fetch(&self, admin: &mut Admin, command: Command, what: &str) -> Result<Box<[u8; IDENTIFY_BYTES]>> {
        self.ensure_alive(admin)?;
        admin.data.clear();
        let data = [admin.data.address(), 0];
        self.execute_or_reset(admin, Command { data, ..command }).map_err(|failure| failure.error(self, what))?;
        Ok(admin.data.copy())
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

    /// Lets the controller reach a pool, once for all queues that use it.
    pub(crate) fn map_pool(&self, pool: &Pool) -> Result<Arc<MappedPool>> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|mapped| mapped.strong_count() > 0);
        if let Some(mapped) = pools.iter().filter_map(Weak::upgrade).find(|mapped| mapped.pool().span() == pool.span())
        {
            return Ok(mapped);
        }
        let mapped = Arc::new(MappedPool::new(&self.transport, pool)?);
        pools.push(Arc::downgrade(&mapped));
        Ok(mapped)
    }

    /// Makes an I/O queue pair that has room for `depth` commands, with an interrupt vector of its own or polled.
    pub(crate) fn create_queue_pair(&self, depth: u32, interrupts: bool) -> Result<IoQueuePair> {
        let mut admin = self.lock();
        self.ensure_alive(&admin)?;
        let Some(index) = admin.queues.iter().position(|taken| !taken) else {
            return Err(Error::unavailable(
                self.name(),
                format!("all of its {} I/O queues are taken", admin.queues.len()),
            )
            .with_kind(ErrorKind::Exhausted)
            .remedy("use fewer threads"));
        };
        let identifier = index as u16 + 1;
        // Vector 0 is the admin queue's.
        let vector = interrupts.then_some(identifier);
        if interrupts && self.interrupts()?.len() <= usize::from(identifier) {
            let cause =
                format!("it has {} interrupt vectors, one of them for commands of its own", self.interrupts()?.len());
            return Err(Error::unavailable(self.name(), cause)
                .with_kind(ErrorKind::Exhausted)
                .remedy("use fewer threads, or path nvme, which polls"));
        }
        let doorbells =
            Doorbells { registers: self.registers, stride_bytes: self.capabilities.doorbell_stride_bytes() };
        let shadow = |completion| {
            let shadow = self.shadow.as_ref()?;
            // SAFETY: a pair is used by those who hold the controller, and both sides access the pages by atomics.
            Some(unsafe { Shadow::at(&shadow.values, &shadow.event_indices, doorbells.offset(identifier, completion)) })
        };
        let pair = QueuePair::new(&self.transport, &doorbells, identifier, depth, shadow)?;
        let mut registered = self.register_pair(&mut admin, &pair, vector);
        if let Err((Failure::TimedOut | Failure::Gone, _)) = registered {
            // It was reset, and may answer now.
            self.ensure_alive(&admin)?;
            registered = self.register_pair(&mut admin, &pair, vector);
        }
        registered.map_err(|(failure, what)| failure.error(self, what))?;
        admin.queues[index] = true;
        Ok(IoQueuePair { pair, resets: self.resets(), vector })
    }

    /// All interrupt vectors, made when the first queue wants one.
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

    /// Whether it says itself that it works no longer, or is gone or going.
    pub(crate) fn has_failed(&self) -> bool {
        // All ones has that bit too.
        self.registers.read(CSTS) & CSTS_FATAL != 0 || self.transport.is_leaving()
    }

    /// Create I/O Completion Queue and Create I/O Submission Queue (sections 5.4 and 5.5). If it fails, the controller has let
    /// go of the rings; where it did not answer, it was reset for that.
    fn register_pair(
        &self,
        admin: &mut Admin,
        pair: &QueuePair,
        vector: Option<u16>,
    ) -> Result<(), (Failure, &'static str)> {
        const CONTIGUOUS: u32 = 1;
        const INTERRUPTS: u32 = 1 << 1;
        let (submissions, completions) = pair.addresses();
        let size_and_identifier = (pair.entries() - 1) << 16 | u32::from(pair.identifier());
        let interrupts = vector.map_or(0, |vector| u32::from(vector) << 16 | INTERRUPTS);
        let create = |opcode, address, attributes| Command {
            opcode,
            data: [address, 0],
            dwords: [size_and_identifier, attributes, 0, 0, 0, 0],
            ..Command::default()
        };
        let completion_queue = create(admin::CREATE_COMPLETION_QUEUE, completions, interrupts | CONTIGUOUS);
        let submission_queue =
            create(admin::CREATE_SUBMISSION_QUEUE, submissions, u32::from(pair.identifier()) << 16 | CONTIGUOUS);
        self.execute_or_reset(admin, completion_queue).map_err(|failure| (failure, "creating a completion queue"))?;
        self.execute_or_reset(admin, submission_queue).map_err(|failure| {
            let delete = delete(admin::DELETE_COMPLETION_QUEUE, pair.identifier());
            // The rings are freed next: the controller has to let go of them.
            if matches!(failure, Failure::Status(_)) && self.execute(admin, delete).is_err() {
                self.reset(admin);
            }
            (failure, "creating a submission queue")
        })?;
        Ok(())
    }

    /// Makes a pair anew after a reset, in the same memory. What was in flight has been answered.
    pub(crate) fn rebuild(&self, queue: &mut IoQueuePair) -> Result<()> {
        let mut admin = self.lock();
        self.ensure_alive(&admin)?;
        queue.pair.restart();
        let registered = self.register_pair(&mut admin, &queue.pair, queue.vector);
        registered.map_err(|(failure, what)| failure.error(self, what))?;
        queue.resets = self.resets();
        Ok(())
    }

    /// Deletes a pair. Afterwards the controller has nothing of its commands in hand: it answered or dropped them before it
    /// answered Delete I/O Submission Queue (section 5.7). If it does not answer, it is reset.
    pub(crate) fn delete_queue_pair(&self, queue: &IoQueuePair) {
        let identifier = queue.pair.identifier();
        let mut admin = self.lock();
        if admin.dead.is_none() && queue.resets == self.resets() {
            let deleted = [admin::DELETE_SUBMISSION_QUEUE, admin::DELETE_COMPLETION_QUEUE]
                .into_iter()
                .try_for_each(|opcode| self.execute(&mut admin, delete(opcode, identifier)).map(drop));
            if deleted.is_err() {
                self.reset(&mut admin);
            }
        }
        if let Some(taken) = admin.queues.get_mut(usize::from(identifier) - 1) {
            *taken = false;
        }
    }

    /// Asks the controller to give up a command (section 5.1); whether it did is seen on the command's own queue.
    pub(crate) fn abort(&self, queue: &IoQueuePair, identifier: u16) {
        let mut admin = self.lock();
        if admin.dead.is_some() || queue.resets != self.resets() {
            return;
        }
        let dwords = [u32::from(identifier) << 16 | u32::from(queue.pair.identifier()), 0, 0, 0, 0, 0];
        let abort = Command { opcode: admin::ABORT, dwords, ..Command::default() };
        if let Err(Failure::TimedOut | Failure::Gone) = self.execute_within(&mut admin, abort, ABORT_TIMEOUT) {
            self.reset(&mut admin);
        }
    }

    /// Resets the controller, unless someone did since `resets` were counted. Afterwards nothing that was in flight on any
    /// queue can touch memory any more, and each queue has to be rebuilt.
    pub(crate) fn recover(&self, resets: u32) {
        let mut admin = self.lock();
        if admin.dead.is_none() && self.resets() == resets {
            self.reset(&mut admin);
        }
    }

    fn reset(&self, admin: &mut Admin) {
        let outcome = self.revive(admin);
        if let Err(error) = outcome {
            // It may still read and write memory, which goes back to its owners now: the bus is taken away from it.
            let _ = self.transport.set_bus_master(false);
            admin.dead = Some(error.cause().to_owned());
        }
        // Release: whoever sees the new number sees a controller that lets go of its memory.
        self.resets.fetch_add(1, Ordering::Release);
    }

    fn revive(&self, admin: &mut Admin) -> Result<()> {
        if self.transport.is_leaving() {
            return Err(Error::unavailable(self.name(), "it is being taken away"));
        }
        // Whatever else was set up in its PCI configuration may be lost with what made it fail.
        self.transport.set_bus_master(true)?;
        self.enable(admin)?;
        self.configure(admin)
    }

    fn ensure_alive(&self, admin: &Admin) -> Result<()> {
        match &admin.dead {
            None => Ok(()),
            Some(why) => Err(Error::unavailable(self.name(), format!("it failed and could not be reset: {why}"))
                .remedy("power the drive off and on")),
        }
    }
}

/// A command identifier has 12 bits for the slot; a ring has one entry more than commands.
const DEPTH_MAX: u32 = 4095;

fn features(identifier: u32, value: u32) -> Command {
    let dwords = [identifier, value, 0, 0, 0, 0];
    Command { opcode: admin::SET_FEATURES, dwords, ..Command::default() }
}

fn delete(opcode: u8, identifier: u16) -> Command {
    Command { opcode, dwords: [identifier.into(), 0, 0, 0, 0, 0], ..Command::default() }
}

impl Drop for Controller {
    /// An orderly shutdown (section 3.6.1): what is in a volatile cache is kept. Then the controller is stopped, so that it
    /// reaches none of the memory that is freed next.
    fn drop(&mut self) {
        let dead = self.lock().dead.is_some();
        if dead {
            return;
        }
        self.registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE | CC_SHUTDOWN_NORMAL);
        let done = |status| status & CSTS_SHUTDOWN_MASK == CSTS_SHUTDOWN_COMPLETE;
        let stopped = self.wait_for("it does not shut down", done).and_then(|()| self.disable());
        if stopped.is_err() {
            let _ = self.transport.set_bus_master(false);
        }
    }
}
