//! One of the paths that `auto` chooses from, with its queue once it is open. `queue` opens it and hands requests to it.

use iolane_core::{Error, Interface, IoPath, Operations, Queue, QueueConfig, Request, Result, Target, TargetId};

use super::limits::{Kind, Limits};

/// The place of the general path among the lanes. It is always open.
pub(super) const GENERAL: usize = 0;

/// Whether the queues below stay with the thread that opened them, and `auto` with them.
pub(super) trait Residence {
    type Queue: Queue + ?Sized;

    fn open(
        interface: &dyn Interface,
        path: &IoPath,
        target: &Target,
        config: &QueueConfig,
    ) -> Result<Box<Self::Queue>>;
}

/// They are as fast as they can be.
pub(super) struct Stays;

/// Any thread may call on them, one at a time.
pub(super) struct Moves;

impl Residence for Stays {
    type Queue = dyn Queue;

    fn open(interface: &dyn Interface, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        interface.open(path, target, config)
    }
}

impl Residence for Moves {
    type Queue = dyn Queue + Send;

    fn open(
        interface: &dyn Interface,
        path: &IoPath,
        target: &Target,
        config: &QueueConfig,
    ) -> Result<Box<dyn Queue + Send>> {
        interface.open_movable(path, target, config)
    }
}

pub(super) struct Lane<R: Residence> {
    path: IoPath,
    state: State<R>,
}

enum State<R: Residence> {
    Closed,
    Open(OpenLane<R>),
    Unusable(String),
}

/// A path with an open queue.
pub(super) struct OpenLane<R: Residence> {
    pub(super) queue: Box<R::Queue>,
    /// Requests that completed.
    pub(super) ios: u64,
    /// `None` if it takes everything that the general path takes.
    limits: Option<Limits>,
    /// Kinds of targets, and whether the path takes as much of them as of the first one.
    kinds: Vec<(Kind, bool)>,
    /// The numbers that its queue gave targets, by their place; the first one has the same number everywhere.
    ids: Vec<Option<(TargetId, TargetId)>>,
}

impl<R: Residence> Lane<R> {
    pub(super) fn new(path: IoPath) -> Self {
        Self { path, state: State::Closed }
    }

    pub(super) fn path(&self) -> &IoPath {
        &self.path
    }

    /// Its queue, if it is open.
    #[inline(always)]
    pub(super) fn open(&mut self) -> Option<&mut OpenLane<R>> {
        match &mut self.state {
            State::Open(open) => Some(open),
            State::Closed | State::Unusable(_) => None,
        }
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.opened().map_or(0, |open| open.queue.in_flight())
    }

    /// Why it cannot be used, if it was tried and cannot.
    pub(super) fn refusal(&self) -> Option<&str> {
        match &self.state {
            State::Unusable(why) => Some(why),
            State::Closed | State::Open(_) => None,
        }
    }

    /// It cannot be opened.
    pub(super) fn refuse(&mut self, why: String) {
        debug_assert!(self.opened().is_none(), "requests on it would be lost");
        self.state = State::Unusable(why);
    }

    /// Opens its queue on a target, which stays only if `keeps` says so, with the others that are attached; whether it was not open yet.
    /// `general` is the general path.
    pub(super) fn make_ready(
        &mut self,
        target: &Target,
        keeps: bool,
        others: impl Iterator<Item = (TargetId, Target)>,
        config: &QueueConfig,
        general: &IoPath,
    ) -> Result<bool> {
        match &self.state {
            State::Open(_) => return Ok(false),
            State::Unusable(why) => return Err(Error::unavailable(self.path.to_string(), why.clone())),
            State::Closed => {}
        }
        let interface = interface_of(&self.path)?;
        let (limits, depth_max) = Limits::new(interface, &self.path, target, config)?;
        let mut open = self.open_queue(interface, target, depth_max, config)?;
        let of_general = operations_of(general, target)?;
        open.limits = Some(limits).filter(|limits| limits.are_narrower_than(of_general));
        open.kinds.push((Kind::of(target), true));
        if !keeps {
            open.detach(TargetId::FIRST)?;
        }
        for (id, other) in others {
            open.attach_if_it_suits(&self.path, id, &other, config, general);
        }
        self.state = State::Open(open);
        Ok(true)
    }

    /// Attaches a target to its queue, if it is open and the target suits its path.
    pub(super) fn attach(&mut self, id: TargetId, target: &Target, config: &QueueConfig, general: &IoPath) {
        if let State::Open(open) = &mut self.state {
            open.attach_if_it_suits(&self.path, id, target, config, general);
        }
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
    ) -> Result<OpenLane<R>> {
        let sqpoll_cpu = config.sqpoll_cpu.filter(|_| self.path.polls_submissions());
        let config = config.clone().depth(config.depth.min(depth_max)).sqpoll_cpu(sqpoll_cpu);
        Ok(OpenLane {
            queue: R::open(interface, &self.path, target, &config)?,
            ios: 0,
            limits: None,
            kinds: Vec::new(),
            ids: Vec::new(),
        })
    }

    /// The requests that completed on its queue.
    pub(super) fn ios(&self) -> u64 {
        self.opened().map_or(0, |open| open.ios)
    }

    /// The system calls of its queue; `None` if that does not count them.
    pub(super) fn syscalls(&self) -> Option<u64> {
        self.opened().map_or(Some(0), |open| open.queue.syscalls())
    }

    /// The batches of its queue; `None` if that does not count them.
    pub(super) fn batches(&self) -> Option<u64> {
        self.opened().map_or(Some(0), |open| open.queue.stats().batches)
    }

    #[inline]
    fn opened(&self) -> Option<&OpenLane<R>> {
        match &self.state {
            State::Open(open) => Some(open),
            State::Closed | State::Unusable(_) => None,
        }
    }
}

impl<R: Residence> OpenLane<R> {
    /// How many more requests its queue takes.
    pub(super) fn room(&self) -> usize {
        self.queue.depth() - self.queue.in_flight()
    }

    /// Whether it takes everything that the queue of `auto` takes.
    #[inline(always)]
    pub(super) fn takes_all(&self) -> bool {
        self.limits.is_none() && self.ids.is_empty()
    }

    /// Whether this number of requests fits beside those in flight.
    pub(super) fn has_room(&self, requests: usize) -> bool {
        self.queue.in_flight() + requests <= self.queue.depth()
    }

    /// Whether the path can carry all these requests out; if so, they name their targets by the numbers of its queue.
    #[inline(always)]
    pub(super) fn prepares(&self, requests: &mut [Request]) -> bool {
        let is_plain = |limits: &Limits, request: &Request| {
            limits.allow_plain(&request.operation) && request.target == TargetId::FIRST
        };
        match &self.limits {
            None if self.ids.is_empty() => true,
            Some(limits) if requests.iter().all(|request| is_plain(limits, request)) => true,
            _ => self.prepares_each(requests),
        }
    }

    fn prepares_each(&self, requests: &mut [Request]) -> bool {
        let takes_all = requests.iter().all(|request| self.takes(request));
        if takes_all {
            requests.iter_mut().for_each(|request| self.translate(request));
        }
        takes_all
    }

    /// Whether the path can carry a request out.
    pub(super) fn takes(&self, request: &Request) -> bool {
        self.limits.as_ref().is_none_or(|limits| limits.allow(&request.operation))
            && (request.target == TargetId::FIRST || self.id_of(request.target).is_some())
    }

    /// Replaces the number of a request's target by that of its own queue.
    pub(super) fn translate(&self, request: &mut Request) {
        if request.target != TargetId::FIRST
            && let Some(own) = self.id_of(request.target)
        {
            request.target = own;
        }
    }

    fn id_of(&self, id: TargetId) -> Option<TargetId> {
        self.ids.get(id.place())?.filter(|(theirs, _)| *theirs == id).map(|(_, own)| own)
    }

    /// Attaches a target, which the queue of `auto` calls `id`. Until then, requests on it are another path's.
    pub(super) fn attach(&mut self, id: TargetId, target: &Target) -> Result<()> {
        self.make_place(id);
        self.ids[id.place()] = Some((id, self.queue.attach(target)?));
        Ok(())
    }

    /// The same, unless the path does not work on the target, or takes less of it than of the first one.
    fn attach_if_it_suits(
        &mut self,
        path: &IoPath,
        id: TargetId,
        target: &Target,
        config: &QueueConfig,
        general: &IoPath,
    ) {
        self.make_place(id);
        if self.suits(path, target, config, general) {
            let _ = self.attach(id, target);
        }
    }

    fn suits(&mut self, path: &IoPath, target: &Target, config: &QueueConfig, general: &IoPath) -> bool {
        let kind = Kind::of(target);
        if let Some((_, suits)) = self.kinds.iter().find(|(known, _)| *known == kind) {
            return *suits;
        }
        let suits = || -> Result<bool> {
            let (here, _) = Limits::new(interface_of(path)?, path, target, config)?;
            Ok(match &self.limits {
                Some(first) => first.are_within(&here),
                None => !here.are_narrower_than(operations_of(general, target)?),
            })
        };
        let suits = suits().unwrap_or(false);
        self.kinds.push((kind, suits));
        suits
    }

    /// A place for the number of a target, empty at first.
    fn make_place(&mut self, id: TargetId) {
        if self.ids.len() <= id.place() {
            self.ids.resize(id.place() + 1, None);
        }
        self.ids[id.place()] = None;
    }

    /// Detaches a target, if it is attached.
    pub(super) fn detach(&mut self, id: TargetId) -> Result<()> {
        let own = if id == TargetId::FIRST { Some(id) } else { self.id_of(id) };
        let Some(own) = own else { return Ok(()) };
        self.queue.detach(own)?;
        if let Some(place) = self.ids.get_mut(id.place()).filter(|_| id != TargetId::FIRST) {
            *place = None;
        }
        Ok(())
    }
}

/// What a path can do on a target.
fn operations_of(path: &IoPath, target: &Target) -> Result<Operations> {
    Ok(interface_of(path)?.probe(path, target)?.operations)
}

/// The interface of a path of the kernel.
pub(super) fn interface_of(path: &IoPath) -> Result<&'static dyn Interface> {
    let found = iolane_kernel::INTERFACES.iter().find(|interface| interface.name() == path.interface());
    found.copied().ok_or_else(|| Error::usage(path.to_string(), "this build has no such interface"))
}
