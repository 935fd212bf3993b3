//! One of the paths that `auto` chooses from, with its queue once it is open. `queue` opens it, hands requests to it and
//! closes it.

use iolane_core::{
    Buffer, Error, Interface, IoPath, Operations, Pool, Queue, QueueConfig, Request, Result, Target, TargetId,
};

pub(super) struct Lane {
    path: IoPath,
    state: State,
    /// Requests that completed.
    pub(super) ios: u64,
    /// System calls of queues that were closed; `None` if one could not count them.
    closed_syscalls: Option<u64>,
}

enum State {
    Closed,
    Open(OpenLane),
    Unusable(String),
}

/// A path with an open queue.
pub(super) struct OpenLane {
    pub(super) queue: Box<dyn Queue>,
    /// `None` for the general path, which takes everything.
    limits: Option<Limits>,
    /// The numbers that its queue gave targets, by their place; the first one has the same number everywhere.
    ids: Vec<Option<(TargetId, TargetId)>>,
}

/// What a path takes.
struct Limits {
    operations: Operations,
    request_bytes_max: usize,
    /// For a path that moves only registered memory.
    registered: Option<Registered>,
}

/// The memory that a path with registered buffers takes on a device.
struct Registered {
    /// Pools whose frames begin at whole blocks.
    pools: Vec<Pool>,
    /// The bits of a length that are zero if it is of whole blocks.
    block_mask: usize,
}

impl Registered {
    fn new(target: &Target, pools: &[Pool]) -> Self {
        let block_mask = target.block_bytes() as usize - 1;
        let begins_at_blocks = |pool: &&Pool| (pool.span().0.addr().get() | pool.frame_bytes()) & block_mask == 0;
        Self { pools: pools.iter().filter(begins_at_blocks).cloned().collect(), block_mask }
    }

    #[inline(always)]
    fn holds(&self, buffer: &Buffer) -> bool {
        buffer.len() & self.block_mask == 0 && self.pools.iter().any(|pool| pool.owns(buffer))
    }
}

impl Lane {
    pub(super) fn new(path: IoPath) -> Self {
        Self { path, state: State::Closed, ios: 0, closed_syscalls: Some(0) }
    }

    pub(super) fn path(&self) -> &IoPath {
        &self.path
    }

    /// Its queue, if it is open.
    #[inline(always)]
    pub(super) fn open(&mut self) -> Option<&mut OpenLane> {
        match &mut self.state {
            State::Open(open) => Some(open),
            State::Closed | State::Unusable(_) => None,
        }
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        match &self.state {
            State::Open(open) => open.queue.in_flight(),
            State::Closed | State::Unusable(_) => 0,
        }
    }

    /// Why it cannot be used, if it was tried and cannot.
    pub(super) fn refusal(&self) -> Option<&str> {
        match &self.state {
            State::Unusable(why) => Some(why),
            State::Closed | State::Open(_) => None,
        }
    }

    pub(super) fn refuse(&mut self, why: String) {
        self.close();
        self.state = State::Unusable(why);
    }

    /// Opens its queue on a target, with the others that are attached.
    pub(super) fn make_ready(
        &mut self,
        target: &Target,
        others: impl Iterator<Item = (TargetId, Target)>,
        config: &QueueConfig,
    ) -> Result<()> {
        match &self.state {
            State::Open(_) => return Ok(()),
            State::Unusable(why) => return Err(Error::unavailable(self.path.to_string(), why.clone())),
            State::Closed => {}
        }
        let interface = interface_of(&self.path)?;
        let capabilities = interface.probe(&self.path, target)?;
        let limits = Limits {
            operations: capabilities.operations,
            request_bytes_max: capabilities.request_bytes_max.map_or(usize::MAX, |bytes| bytes as usize),
            registered: interface
                .requires_registered_memory(&self.path)
                .then(|| Registered::new(target, &config.pools)),
        };
        let mut open = self.open_queue(interface, target, capabilities.depth_max, config)?;
        open.limits = Some(limits);
        for (id, other) in others {
            // A target on which the path does not work is left to the general path.
            let _ = open.attach(id, &other);
        }
        self.state = State::Open(open);
        Ok(())
    }

    /// Opens its queue as the general one, without a look at what it can do.
    pub(super) fn open_general(&mut self, target: &Target, config: &QueueConfig) -> Result<()> {
        let interface = interface_of(&self.path)?;
        let depth_max = if interface.is_blocking() { 1 } else { u32::MAX };
        self.state = State::Open(self.open_queue(interface, target, depth_max, config)?);
        Ok(())
    }

    fn open_queue(
        &self,
        interface: &dyn Interface,
        target: &Target,
        depth_max: u32,
        config: &QueueConfig,
    ) -> Result<OpenLane> {
        let sqpoll_cpu = config.sqpoll_cpu.filter(|_| self.path.polls_submissions());
        let config = QueueConfig { depth: config.depth.min(depth_max), sqpoll_cpu, ..config.clone() };
        Ok(OpenLane { queue: interface.open(&self.path, target, &config)?, limits: None, ids: Vec::new() })
    }

    /// Closes its queue; what is in flight is waited for and lost, so there is nothing.
    pub(super) fn close(&mut self) {
        if let State::Open(open) = std::mem::replace(&mut self.state, State::Closed) {
            debug_assert!(open.queue.in_flight() == 0, "completions of a closed queue would be lost");
            self.closed_syscalls = self.closed_syscalls.zip(open.queue.syscalls()).map(|(a, b)| a + b);
        }
    }

    /// The system calls of all its queues.
    pub(super) fn syscalls(&self) -> Option<u64> {
        match &self.state {
            State::Open(open) => self.closed_syscalls.zip(open.queue.syscalls()).map(|(a, b)| a + b),
            State::Closed | State::Unusable(_) => self.closed_syscalls,
        }
    }
}

impl OpenLane {
    /// How many more requests its queue takes.
    pub(super) fn room(&self) -> usize {
        self.queue.depth() - self.queue.in_flight()
    }

    /// Whether the path can carry a request out.
    #[inline(always)]
    pub(super) fn takes(&self, request: &Request) -> bool {
        let Some(limits) = &self.limits else { return true };
        let memory = request.operation.buffer().is_none_or(|buffer| {
            buffer.len() <= limits.request_bytes_max
                && limits.registered.as_ref().is_none_or(|registered| registered.holds(buffer))
        });
        memory
            && limits.operations.contains(Operations::of(&request.operation))
            && (request.target == TargetId::FIRST || self.id_of(request.target).is_some())
    }

    /// Replaces the numbers of requests' targets by those of its own queue.
    #[inline(always)]
    pub(super) fn translate<'a>(&self, requests: impl IntoIterator<Item = &'a mut Request>) {
        if !self.ids.is_empty() {
            requests.into_iter().for_each(|request| self.translate_one(request));
        }
    }

    fn translate_one(&self, request: &mut Request) {
        if request.target != TargetId::FIRST
            && let Some(own) = self.id_of(request.target)
        {
            request.target = own;
        }
    }

    fn id_of(&self, id: TargetId) -> Option<TargetId> {
        self.ids.get(id.place())?.filter(|(theirs, _)| *theirs == id).map(|(_, own)| own)
    }

    /// Attaches a target, which the queue of `auto` calls `id`.
    pub(super) fn attach(&mut self, id: TargetId, target: &Target) -> Result<()> {
        let own = self.queue.attach(target)?;
        if self.ids.len() <= id.place() {
            self.ids.resize(id.place() + 1, None);
        }
        self.ids[id.place()] = Some((id, own));
        Ok(())
    }

    /// Detaches a target, if it is attached.
    pub(super) fn detach(&mut self, id: TargetId) -> Result<()> {
        let own = if id == TargetId::FIRST { Some(id) } else { self.id_of(id) };
        let Some(own) = own else { return Ok(()) };
        self.queue.detach(own)?;
        if let Some(place) = self.ids.get_mut(id.place()) {
            *place = None;
        }
        Ok(())
    }
}

/// The interface of a path of the kernel.
pub(super) fn interface_of(path: &IoPath) -> Result<&'static dyn Interface> {
    let found = iolane_kernel::INTERFACES.iter().find(|interface| interface.name() == path.interface());
    found.copied().ok_or_else(|| Error::usage(path.to_string(), "this build has no such interface"))
}
