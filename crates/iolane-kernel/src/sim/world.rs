//! Virtual time, and the drives of the targets that share it. Time passes only when a queue waits, and then it moves to the next event.
//! `sim` hands requests over and asks which have completed. Threads that take turns (`turns`) wait for each other: time passes when all of
//! them wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use iolane_core::{Error, Result};
use iolane_drive::{Service, Time};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::faults::random;
use super::settings::{SimSettings, Timing};
use super::turns::{Turns, Wait};

/// Time and drives that targets share.
#[derive(Debug, Default)]
pub(super) struct World {
    now_ns: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What happens next, in order of time; at the same time, in the order in which it was planned.
    planned: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    drives: Vec<Drive>,
    /// Requests in drives, and places for others.
    requests: Vec<InDrive>,
    free: Vec<usize>,
    /// What has completed and was not taken, by queue.
    completed: Vec<VecDeque<u64>>,
    turns: Turns,
    /// Targets that were opened.
    targets: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The units of a drive are done with a request.
    Served(usize),
    /// A request completes.
    Completes(usize),
}

#[derive(Debug)]
struct Drive {
    settings: SimSettings,
    serving: Serving,
    random: Xoshiro256PlusPlus,
    /// Requests that it has taken.
    served: u64,
    /// After a stall, the time at which it takes requests again.
    ready_ns: Time,
}

/// How a drive serves requests.
#[derive(Debug)]
enum Serving {
    /// Each takes as long, however many there are.
    Fixed { latency_ns: Time, jitter_ns: Time },
    /// By its units.
    Units(Service),
}

impl Drive {
    /// Its units, if it has some.
    fn units(&mut self) -> Option<&mut Service> {
        match &mut self.serving {
            Serving::Fixed { .. } => None,
            Serving::Units(service) => Some(service),
        }
    }
}

/// What a queue hands to a drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct InDrive {
    pub(super) queue: usize,
    /// By which the queue knows it.
    pub(super) number: u64,
    pub(super) drive: usize,
    pub(super) what: Work,
}

/// What a request is to a drive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Bytes.
    Read(u64),
    Write(u64),
    /// It has no cache to empty: a sync takes as long as a write, and neither unit nor ceiling.
    Sync,
}

/// How long a turn may take, in real time.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 60 });

/// The part of a seed's random numbers that timing has; faults have those below.
const TIMING: u64 = 1 << 32;

/// The worlds that have a name and a target.
static WORLDS: Mutex<BTreeMap<String, Weak<World>>> = Mutex::new(BTreeMap::new());

impl World {
    /// The world of a target with these settings, and the number of its drive in it.
    ///
    /// # Errors
    /// `Usage` if the target shares a drive that has other settings.
    pub(super) fn of(settings: &SimSettings) -> Result<(Arc<Self>, usize)> {
        let world = match &settings.world {
            None => Arc::default(),
            Some(name) => {
                let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
                worlds.retain(|_, world| world.strong_count() > 0);
                worlds.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
                    let world = Arc::default();
                    worlds.insert(name.clone(), Arc::downgrade(&world));
                    world
                })
            }
        };
        let drive = world.state().drive(settings)?;
        Ok((world, drive))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Time {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// A number for a new queue, from 0.
    pub(super) fn new_queue(&self) -> usize {
        let mut state = self.state();
        state.completed.push(VecDeque::new());
        state.completed.len() - 1
    }

    /// A number for a new target, from 0.
    pub(super) fn new_target(&self) -> u64 {
        let mut state = self.state();
        state.targets += 1;
        state.targets - 1
    }

    /// A request reaches its drive now.
    pub(super) fn submit(&self, request: InDrive) {
        self.state().submit(self.now(), request);
    }

    /// The numbers of the requests of a queue that have completed by now, in order of completion; each once.
    pub(super) fn take_completed(&self, queue: usize) -> VecDeque<u64> {
        let mut state = self.state();
        while state.step(self.now()).is_some() {}
        std::mem::take(&mut state.completed[queue])
    }

    /// Time passes until a request of the queue completes, at `latest` until then. Returns whether one has. Without threads that take
    /// turns it may return earlier, when anything happens.
    pub(super) fn wait_for(&self, queue: usize, latest: Time) -> bool {
        let state = self.state();
        if !state.completed[queue].is_empty() {
            return true;
        }
        match state.turns.current() {
            Some(thread) => {
                let state = self.give_turn(state, thread, Wait { queue: Some(queue), latest });
                !state.completed[queue].is_empty()
            }
            None => self.pass(state, latest),
        }
    }

    /// Time passes until then.
    pub(super) fn wait_until(&self, at: Time) {
        let state = self.state();
        if let Some(thread) = state.turns.current() {
            drop(self.give_turn(state, thread, Wait { queue: None, latest: at }));
            return;
        }
        drop(state);
        while self.pass(self.state(), at) {}
    }

    /// Time passes until the next event, or until `latest` if there is none until then. Returns whether there was.
    fn pass(&self, mut state: MutexGuard<'_, State>, latest: Time) -> bool {
        let event = state.step(latest);
        // Without an event nothing ever happens: then a wait without an end does not pass time.
        let at = event.or((latest < Time::MAX).then_some(latest));
        self.now_ns.fetch_max(at.unwrap_or(0), Ordering::Relaxed);
        event.is_some()
    }

    /// Gives the turn away until the thread has what it waits for.
    fn give_turn<'a>(&'a self, mut state: MutexGuard<'a, State>, thread: usize, wait: Wait) -> MutexGuard<'a, State> {
        state.turns.wait(thread, wait);
        self.pass_turn(&mut state);
        self.turn_of(state, thread)
    }

    fn turn_of<'a>(&'a self, mut state: MutexGuard<'a, State>, thread: usize) -> MutexGuard<'a, State> {
        let (mut seen, mut since) = (state.turns.given(), Instant::now());
        while !state.turns.may_go_on(thread) {
            drop(state);
            std::thread::park_timeout(PATIENCE);
            state = self.state();
            if state.turns.given() != seen {
                (seen, since) = (state.turns.given(), Instant::now());
            } else if since.elapsed() >= PATIENCE && !state.turns.may_go_on(thread) {
                let why = state.turns.why_not();
                drop(state);
                panic!("no turn was passed on for {} s: {why}", PATIENCE.as_secs());
            }
        }
        state
    }

    /// The turn goes to the first thread that can go on; if none can, time passes until one can.
    fn pass_turn(&self, state: &mut State) {
        loop {
            let now = self.now();
            while state.step(now).is_some() {}
            let State { turns, completed, .. } = &mut *state;
            if turns.pass(now, |queue| !completed[queue].is_empty()) {
                break;
            }
            let next_event = state.planned.peek().map(|Reverse((at, ..))| *at);
            let next = next_event.into_iter().chain(state.turns.earliest()).min().filter(|at| *at < Time::MAX);
            let Some(next) = next else {
                // Nothing will ever happen: every wait ends.
                state.turns.release();
                continue;
            };
            self.now_ns.fetch_max(next, Ordering::Relaxed);
        }
    }

    /// The thread begins, as one of as many that take turns, when all of them have come and it is its turn.
    pub(super) fn begin_turns(&self, thread: usize, threads: usize) {
        let mut state = self.state();
        state.turns.arrive(thread, threads);
        drop(self.turn_of(state, thread));
    }

    /// Ends all turns for good.
    pub(super) fn cancel_turns(&self) {
        self.state().turns.cancel();
    }

    /// The thread takes no more turns. It has the turn, unless turns were cancelled.
    pub(super) fn end_turns(&self, thread: usize) {
        let mut state = self.state();
        if state.turns.leave(thread) {
            self.pass_turn(&mut state);
        }
    }
}

impl State {
    fn drive(&mut self, settings: &SimSettings) -> Result<usize> {
        let shared = settings
            .drive
            .as_ref()
            .and_then(|name| self.drives.iter().position(|drive| drive.settings.drive.as_ref() == Some(name)));
        if let Some(shared) = shared {
            if !self.drives[shared].settings.is_drive_of(settings) {
                let name = settings.drive.as_deref().unwrap_or_default();
                return Err(Error::usage(
                    format!("simulated drive {name}"),
                    "another target shares it and has other settings of the drive",
                )
                .remedy("give both the same settings, or the drives different names"));
            }
            return Ok(shared);
        }
        self.drives.push(Drive {
            serving: match settings.timing {
                Timing::Fixed { latency_ns, jitter_ns } => Serving::Fixed { latency_ns, jitter_ns },
                Timing::Units(drive) => Serving::Units(Service::new(drive)),
            },
            random: random(settings.seed, TIMING + self.drives.len() as u64),
            settings: settings.clone(),
            served: 0,
            ready_ns: 0,
        });
        Ok(self.drives.len() - 1)
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.planned.push(Reverse((at, self.count, event)));
    }

    fn submit(&mut self, now: Time, request: InDrive) {
        let id = match self.free.pop() {
            Some(id) => {
                self.requests[id] = request;
                id
            }
            None => {
                self.requests.push(request);
                self.requests.len() - 1
            }
        };
        let drive = &mut self.drives[request.drive];
        drive.served += 1;
        let SimSettings { stall_every, stall_ns, .. } = drive.settings;
        if stall_every > 0 && drive.served.is_multiple_of(stall_every) {
            drive.ready_ns = drive.ready_ns.max(now) + stall_ns;
        }
        if drive.units().is_none_or(|service| service.admit(id)) {
            self.serve(now, id);
        }
    }

    fn serve(&mut self, now: Time, id: usize) {
        let request = self.requests[id];
        let drive = &mut self.drives[request.drive];
        let begin = drive.ready_ns.max(now);
        let (at, event) = match (&mut drive.serving, request.what) {
            (Serving::Fixed { latency_ns, jitter_ns }, _) => {
                let jitter_ns = if *jitter_ns == 0 { 0 } else { drive.random.next_u64() % (*jitter_ns + 1) };
                (begin + *latency_ns + jitter_ns, Event::Completes(id))
            }
            (Serving::Units(service), Work::Sync) => (begin + service.drive().write_ns as Time, Event::Completes(id)),
            (Serving::Units(service), Work::Read(bytes)) => {
                (service.serve(begin, bytes, false, &mut drive.random), Event::Served(id))
            }
            (Serving::Units(service), Work::Write(bytes)) => {
                (service.serve(begin, bytes, true, &mut drive.random), Event::Served(id))
            }
        };
        self.plan(at, event);
    }

    /// Plays the next event if it is due by then, and returns its time.
    fn step(&mut self, latest: Time) -> Option<Time> {
        let at = self.planned.peek().map(|Reverse((at, ..))| *at).filter(|at| *at <= latest)?;
        let Reverse((_, _, event)) = self.planned.pop()?;
        match event {
            Event::Served(id) => {
                let InDrive { drive, what, .. } = self.requests[id];
                let (Work::Read(bytes) | Work::Write(bytes)) = what else { return Some(at) };
                let done = self.drives[drive].units().map_or(at, |service| service.transfer(at, bytes, None));
                self.plan(done.max(at), Event::Completes(id));
            }
            Event::Completes(id) => {
                let InDrive { queue, number, drive, .. } = self.requests[id];
                self.completed[queue].push_back(number);
                self.free.push(id);
                let next = self.drives[drive].units().and_then(Service::release);
                if let Some(next) = next {
                    self.serve(at, next);
                }
            }
        }
        Some(at)
    }
}
