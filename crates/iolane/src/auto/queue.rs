//! The queue of `auto`: one queue for each path that it uses. New requests go to the path in use, and those that it does not take to the
//! general one. After a change, what the former path has in flight completes there; nothing is moved, lost or doubled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use iolane_core::targets::no_room_for;
use iolane_core::{
    AutoOptions, Change, Choices, Completion, Error, IoError, IoPath, Operation, Queue, QueueConfig, QueueStats,
    Request, Result, Target, TargetId, Targets,
};
use iolane_policy::{Reason, Window};

use super::lane::{GENERAL, Lane, Residence};
use super::policy::Policy;
use super::recall::Recall;
use super::watch::Watch;

/// Changes that are remembered.
const CHANGES_MAX: usize = 256;

/// How long a wait on one of several queues lasts before the others are looked at.
const TURN: Duration = Duration::from_micros(50);

/// How long a submission thread may still look for requests after its last one: two ticks of 4 ms, for its idle time is one (`sqidle=1`).
const SUBMISSION_THREAD_SLEEPS_NS: u64 = 8_000_000;

/// The queues of `auto` that are open in this process.
static OPEN: AtomicUsize = AtomicUsize::new(0);

pub(super) struct AutoQueue<R: Residence> {
    target: Target,
    config: QueueConfig,
    lanes: Vec<Lane<R>>,
    /// Which of them takes new requests.
    current: usize,
    targets: Targets<Target>,
    attached: Vec<TargetId>,
    /// Requests that their lane has no room for, in order.
    waiting: VecDeque<Request>,
    /// Completions of requests that no lane had.
    ended: Vec<Completion>,
    /// Of each lane, the requests that have to complete until the window of the current one begins.
    draining: Vec<usize>,
    /// What the current lane and the general one had carried when the window began.
    carried_before: [u64; 2],
    /// Whether the current lane alone has requests, all of them in flight.
    is_simple: bool,
    /// Whether the current lane takes fewer at once than this queue.
    is_small: bool,
    /// Turns that are handed on until the next one of the watch's sample: as they are, if the current lane takes everything, or after a look at
    /// each request. What completed in them is still to be counted.
    unseen_turns: u64,
    checked_turns: u64,
    unseen_ios: u64,
    policy: Policy,
    recall: Option<Recall>,
    watch: Watch,
    /// When it was opened, on the clock of `watch`.
    opened: u64,
    changes: VecDeque<Change>,
    /// Passed on, and empty between calls.
    one: Vec<Request>,
}

/// How to look for completions of a lane.
#[derive(Clone, Copy)]
enum Wait {
    Not,
    For(usize),
    Within(Duration),
}

impl<R: Residence> AutoQueue<R> {
    /// A queue that chooses among the general path, which is open, and others.
    pub(super) fn open(
        general: Lane<R>,
        others: Vec<Lane<R>>,
        options: AutoOptions,
        target: &Target,
        config: &QueueConfig,
    ) -> Result<Self> {
        let mut config = config.clone();
        config.event_fd = false;
        let lanes = Vec::from_iter(std::iter::once(general).chain(others));
        let recall =
            config.memory.as_ref().map(|memory| Recall::new(memory, target, options, !config.pools.is_empty()));
        let known = recall.as_ref().map_or_else(Vec::new, |recall| recall.known(&paths(&lanes)));
        let policy = Policy::new(options, lanes.len(), known);
        let first = policy.first();
        OPEN.fetch_add(1, Ordering::Relaxed);
        let watch = Watch::new(first.window_ns, options.restless.then_some(16));
        let mut queue = Self {
            target: target.clone(),
            lanes,
            current: GENERAL,
            targets: Targets::new(config.targets, target.clone()),
            attached: Vec::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
            draining: Vec::new(),
            carried_before: [0; 2],
            is_simple: false,
            is_small: false,
            unseen_turns: 0,
            checked_turns: 0,
            unseen_ios: 0,
            policy,
            recall,
            opened: watch.now(),
            watch,
            changes: VecDeque::new(),
            one: Vec::with_capacity(config.depth as usize),
            config,
        };
        queue.note(first.reason);
        queue.see_whether_simple();
        Ok(queue)
    }

    /// After anything but a turn.
    fn see_whether_simple(&mut self) {
        (self.unseen_turns, self.checked_turns) = (0, 0);
        let depth = self.lanes[self.current].open().map(|open| open.queue.depth());
        let is_alone = (0..self.lanes.len()).all(|i| i == self.current || self.lanes[i].in_flight() == 0);
        self.is_small = depth.is_some_and(|depth| depth < self.config.depth as usize);
        self.is_simple = depth.is_some() && is_alone && self.waiting.is_empty() && self.ended.is_empty();
    }

    /// The lane for a request: the current one, or the general one for what that does not take.
    fn lane_for(&mut self, request: &Request) -> usize {
        let takes = self.lanes[self.current].open().is_some_and(|open| open.takes(request));
        if takes { self.current } else { GENERAL }
    }

    /// Hands waiting requests to their lanes, in order, as far as there is room.
    fn pump(&mut self) {
        while let Some(mut request) = self.waiting.pop_front() {
            if self.targets.get(request.target).is_none() {
                self.ended.push(request.complete(Err(IoError::NOT_ATTACHED)));
                continue;
            }
            let index = self.lane_for(&request);
            let Some(open) = self.lanes[index].open().filter(|open| open.room() > 0) else {
                self.waiting.push_front(request);
                break;
            };
            open.translate(&mut request);
            self.one.push(request);
            let taken = open.queue.submit(&mut self.one);
            debug_assert!(taken == 1, "a queue with room takes a request");
        }
    }

    /// Looks for completions of one lane.
    fn reap_lane(&mut self, index: usize, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        self.count_unseen();
        let (before, in_flight) = (completions.len(), self.in_flight());
        let Some(open) = self.lanes[index].open() else { return Ok(0) };
        let reaped = match wait {
            Wait::Not => open.queue.reap(0, completions),
            Wait::For(min) => open.queue.reap(min, completions),
            Wait::Within(timeout) => open.queue.reap_within(1, timeout, completions),
        };
        let count = completions.len() - before;
        open.ios += count as u64;
        self.watch.completes(count, in_flight);
        if index != self.current && count > 0 {
            self.note_drained(index, count);
        }
        reaped.map(|_| count)
    }

    fn note_drained(&mut self, index: usize, count: usize) {
        if !self.is_draining() {
            return;
        }
        if let Some(left) = self.draining.get_mut(index) {
            *left = left.saturating_sub(count);
        }
        if !self.is_draining() {
            self.carried_before = self.ios_of_current_and_general();
            self.watch.restart();
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.iter().any(|left| *left > 0)
    }

    /// The lanes with requests in flight.
    fn busy(&self) -> Vec<usize> {
        (0..self.lanes.len()).filter(|index| self.lanes[*index].in_flight() > 0).collect()
    }

    /// Whether waiting on a lane means looking at it again and again.
    fn spins(&self, index: usize) -> bool {
        let path = self.lanes[index].path();
        path.asks_for_polling()
            || path.polls_submissions()
            || super::lane::interface_of(path).is_ok_and(|i| i.is_blocking())
    }

    /// As `reap`, for every case; until `deadline` at most, if there is one.
    fn reap_any(&mut self, min: usize, deadline: Option<Instant>, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let mut count = 0;
        let mut looked = false;
        loop {
            self.pump();
            let ended = self.ended.len();
            completions.append(&mut self.ended);
            count += ended;
            let busy = self.busy();
            let before = completions.len();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let missing = min.saturating_sub(count);
            if looked && (missing == 0 || left == Some(Duration::ZERO)) {
                break;
            }
            match busy[..] {
                [] => looked = true,
                [only] if missing > 0 => {
                    let wait = match left {
                        None if self.waiting.is_empty() => Wait::For(missing),
                        None => Wait::For(1),
                        Some(left) => Wait::Within(left),
                    };
                    count += self.reap_lane(only, wait, completions)?;
                    // With a deadline it may have returned early, and says so.
                    if left.is_some() && completions.len() == before {
                        break;
                    }
                    looked = true;
                }
                _ => {
                    let mut found = 0;
                    for index in &busy {
                        found += self.reap_lane(*index, Wait::Not, completions)?;
                    }
                    count += found;
                    // Nothing yet: sleep on the first, if none has to be looked at all the time.
                    if found == 0 && missing > 0 && !busy.iter().any(|index| self.spins(*index)) {
                        let turn = left.map_or(TURN, |left| left.min(TURN));
                        count += self.reap_lane(busy[0], Wait::Within(turn), completions)?;
                    }
                    looked = true;
                }
            }
        }
        self.end_window();
        Ok(count)
    }

    /// Decides anew if a window has ended.
    fn end_window(&mut self) {
        self.count_unseen();
        if self.watch.may_be_over() && !self.is_draining() {
            let policy = &self.policy;
            if let Some(window) = self.watch.ended(|window| policy.is_hopeless(window)) {
                self.choose(window);
            }
        }
        self.see_whether_simple();
    }

    #[cold]
    fn choose(&mut self, mut window: Window) {
        let polled_submissions = self.lanes[self.current].path().polls_submissions();
        if polled_submissions {
            window.cpu_ns += window.busy_ns;
        }
        // The general path carries what the current one does not take.
        if self.current != GENERAL {
            let [own, of_general] = self.carried().map(|ios| ios as f64);
            window.carried_elsewhere = (window.ios as f64 * of_general / (own + of_general).max(1.0)) as u64;
        }
        let count = self.lanes.len();
        let mut decision = self.policy.next(&window, count);
        let is_new = loop {
            match self.make_ready(decision.candidate) {
                Ok(is_new) => break is_new,
                Err(why) => self.lanes[decision.candidate].refuse(why.to_string()),
            }
            decision = self.policy.refuse(count);
        };
        let leaves_a_thread = polled_submissions && decision.candidate != self.current;
        if decision.candidate != self.current {
            self.current = decision.candidate;
            self.draining.clear();
            self.draining.extend(self.lanes.iter().map(Lane::in_flight));
            self.draining[self.current] = 0;
            self.note(decision.reason);
            if decision.reason != Reason::Tried {
                self.remember();
            }
        } else if decision.reason != Reason::Tried
            && self.changes.back().is_some_and(|last| last.reason != decision.reason.text())
        {
            self.note(decision.reason);
        }
        self.watch.begin(decision.window_ns, self.policy.sampling(&decision));
        if self.watch.decides() {
            let thread_ns = if leaves_a_thread { SUBMISSION_THREAD_SLEEPS_NS } else { 0 };
            self.watch.begins_after(decision.settling_ns.max(thread_ns));
        }
        if is_new {
            self.watch.warms_up();
        }
        self.carried_before = self.ios_of_current_and_general();
    }

    /// What the current lane and the general one have carried.
    fn ios_of_current_and_general(&self) -> [u64; 2] {
        [self.lanes[self.current].ios(), self.lanes[GENERAL].ios()]
    }

    /// The same since the window began.
    fn carried(&self) -> [u64; 2] {
        let [own, of_general] = self.ios_of_current_and_general();
        let [own_before, of_general_before] = self.carried_before;
        [own - own_before, of_general - of_general_before]
    }

    /// Opens the queue of a lane, unless it is open; whether it was opened.
    fn make_ready(&mut self, index: usize) -> Result<bool> {
        // It may have requests in flight, and stays, however many other queues there are now.
        if self.lanes[index].open().is_some() {
            return Ok(false);
        }
        let path = self.lanes[index].path();
        if path.polls_submissions() && self.config.sqpoll_cpu.is_none() {
            // A thread that polls for submissions needs a core of its own: without one, the path falls to a thirteenth
            // (systor22, figure 3). The calling threads need theirs.
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let queues = OPEN.load(Ordering::Relaxed);
            if cores < 2 * queues {
                let cause = format!("{cores} cores for {queues} threads and as many submission threads");
                return Err(Error::unavailable(path.to_string(), cause));
            }
        }
        let general = self.lanes[GENERAL].path().clone();
        let attached = self.attached.iter().filter_map(|id| Some((*id, self.targets.get(*id)?.clone())));
        // It may have been opened on a target that was detached meanwhile.
        let keeps = self.targets.get(TargetId::FIRST).is_some();
        self.lanes[index].make_ready(&self.target, keeps, attached, &self.config, &general)
    }

    #[inline(never)]
    fn turn_with_checks(
        &mut self,
        requests: &mut Vec<Request>,
        min: usize,
        completions: &mut Vec<Completion>,
    ) -> Result<usize> {
        if self.checked_turns == 0 {
            self.count_unseen();
        }
        if self.is_simple
            && let Some(open) = self.lanes[self.current].open()
            // What has no room stays with the caller, as it is: with the targets' numbers of this queue and not of the lane.
            && (!self.is_small && open.takes_all() || open.has_room(requests.len()))
            && open.prepares(requests)
        {
            if self.checked_turns > 0 {
                self.checked_turns -= 1;
                let before = completions.len();
                let turned = open.queue.turn(requests, min, completions);
                self.unseen_ios += (completions.len() - before) as u64;
                return turned;
            }
            let in_flight = open.queue.in_flight();
            if let Some(first) = requests.first() {
                self.watch.submits(bytes_of(&first.operation), in_flight == 0);
            }
            let (offered, before) = (requests.len(), completions.len());
            let turned = open.queue.turn(requests, min, completions);
            let (taken, count) = (offered - requests.len(), completions.len() - before);
            open.ios += count as u64;
            let skips = self.watch.completes(count, in_flight + taken);
            let needs_no_check = open.takes_all() && !self.is_small;
            *(if needs_no_check { &mut self.unseen_turns } else { &mut self.checked_turns }) = skips;
            if self.watch.may_be_over() {
                self.end_window();
            }
            return turned;
        }
        self.submit(requests);
        self.reap(min, completions)
    }

    fn count_unseen(&mut self) {
        let ios = std::mem::take(&mut self.unseen_ios);
        if ios > 0
            && let Some(open) = self.lanes[self.current].open()
        {
            open.ios += ios;
            self.watch.counts(ios);
        }
    }

    /// Waits for what other lanes than the current one have in flight; the caller gets it at its next call.
    fn settle(&mut self) -> Result<()> {
        let mut others = self.busy();
        others.retain(|index| *index != self.current);
        for index in others {
            let mut early = Vec::new();
            let settled = self.reap_lane(index, Wait::For(usize::MAX), &mut early);
            self.ended.append(&mut early);
            settled?;
        }
        self.see_whether_simple();
        Ok(())
    }

    /// Adds what was learnt to the memory.
    fn remember(&self) {
        if let Some(recall) = &self.recall {
            recall.note(&paths(&self.lanes), self.policy.known());
        }
    }

    fn note(&mut self, reason: Reason) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        let after = Duration::from_nanos(self.watch.since_ns(self.opened));
        let path = self.lanes[self.current].path().clone();
        self.changes.push_back(Change::new(after, path, reason.text()));
    }
}

/// The paths of lanes, in their order.
fn paths<R: Residence>(lanes: &[Lane<R>]) -> Vec<&IoPath> {
    lanes.iter().map(Lane::path).collect()
}

/// Bytes that a request moves.
#[inline(always)]
fn bytes_of(operation: &Operation) -> usize {
    operation.bytes()
}

impl<R: Residence> Queue for AutoQueue<R> {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        self.count_unseen();
        let in_flight = self.in_flight();
        let count = requests.len().min(self.config.depth as usize - in_flight);
        if let Some(first) = requests.first().filter(|_| count > 0) {
            self.watch.submits(bytes_of(&first.operation), in_flight == 0);
            // Time before these requests has fewer in flight.
            self.watch.completes(0, in_flight);
        }
        if let Some(open) = self.lanes[self.current].open().filter(|_| self.is_simple && requests.len() == count)
            && (!self.is_small || open.has_room(count))
            && open.prepares(requests)
        {
            let taken = open.queue.submit(requests);
            debug_assert!(taken == count, "there was room for {count}");
            return count;
        }
        self.waiting.extend(requests.drain(..count));
        self.pump();
        self.see_whether_simple();
        count
    }

    fn flush(&mut self) -> Result<()> {
        self.pump();
        for index in self.busy() {
            if let Some(open) = self.lanes[index].open() {
                open.queue.flush()?;
            }
        }
        Ok(())
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if !self.is_simple {
            return self.reap_any(min, None, completions);
        }
        let reaped = self.reap_lane(self.current, Wait::For(min), completions);
        self.end_window();
        reaped
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        // A time that no clock reaches is none.
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.reap_any(min, Some(deadline), completions),
            None => self.reap(min, completions),
        }
    }

    #[inline]
    fn turn(&mut self, requests: &mut Vec<Request>, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.unseen_turns > 0
            && let Some(open) = self.lanes[self.current].open()
        {
            self.unseen_turns -= 1;
            let before = completions.len();
            let turned = open.queue.turn(requests, min, completions);
            self.unseen_ios += (completions.len() - before) as u64;
            return turned;
        }
        self.turn_with_checks(requests, min, completions)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        let id = self.targets.next().ok_or_else(|| no_room_for(target, self.targets.most()))?;
        self.lanes[GENERAL].open().map_or(Ok(()), |open| open.attach(id, target))?;
        let general = self.lanes[GENERAL].path().clone();
        (self.unseen_turns, self.checked_turns) = (0, 0);
        for lane in &mut self.lanes[GENERAL + 1..] {
            lane.attach(id, target, &self.config, &general);
        }
        self.attached.push(id);
        self.targets.attach(target.clone()).map_err(|_| no_room_for(target, self.targets.most()))
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        if self.targets.get(target).is_none() {
            return Err(Error::usage("detaching a target", "it is not attached to this queue"));
        }
        let waits = self.waiting.iter().filter(|request| request.target == target).count();
        if waits > 0 {
            return Err(Error::usage("detaching a target", format!("requests on it in flight: {waits}"))
                .remedy("reap their completions first"));
        }
        // Only a queue with requests in flight may refuse, and then no other has been detached from.
        self.settle()?;
        self.lanes[self.current].open().map_or(Ok(()), |open| open.detach(target))?;
        for index in (0..self.lanes.len()).filter(|index| *index != self.current) {
            self.lanes[index].open().map_or(Ok(()), |open| open.detach(target))?;
        }
        self.attached.retain(|id| *id != target);
        self.targets.detach(target);
        Ok(())
    }

    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let before = self.ended.len();
        let (cancelled, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|request| request.tag == tag);
        self.waiting = VecDeque::from(waiting);
        self.ended.extend(cancelled.into_iter().map(|request| request.complete(Err(IoError::CANCELLED))));
        let mut count = self.ended.len() - before;
        for lane in &mut self.lanes {
            count += lane.open().map_or(Ok(0), |open| open.queue.cancel(tag))?;
        }
        self.see_whether_simple();
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.config.depth as usize
    }

    fn in_flight(&self) -> usize {
        if self.is_simple {
            return self.lanes[self.current].in_flight();
        }
        self.waiting.len() + self.ended.len() + self.lanes.iter().map(Lane::in_flight).sum::<usize>()
    }

    fn syscalls(&self) -> Option<u64> {
        let of_lanes: Option<u64> = self.lanes.iter().map(Lane::syscalls).sum();
        of_lanes.map(|calls| calls + self.watch.syscalls)
    }

    fn stats(&self) -> QueueStats {
        let batches = self.lanes.iter().map(Lane::batches).sum();
        QueueStats::new(self.depth(), self.in_flight(), self.syscalls()).batches(batches).held(self.waiting.len())
    }

    fn choices(&self) -> Option<Choices> {
        let of_lane = |(index, lane): (usize, &Lane<R>)| {
            let unseen = if index == self.current { self.unseen_ios } else { 0 };
            (lane.path().clone(), lane.ios() + unseen)
        };
        let mut used: Vec<_> = self.lanes.iter().enumerate().map(of_lane).filter(|(_, ios)| *ios > 0).collect();
        used.sort_by_key(|(_, ios)| std::cmp::Reverse(*ios));
        let unusable = self.lanes.iter().filter_map(|lane| Some((lane.path().clone(), lane.refusal()?.to_owned())));
        let mut choices = Choices::new(self.lanes[self.current].path().clone());
        (choices.used, choices.unusable) = (used, unusable.collect());
        choices.changes = self.changes.iter().cloned().collect();
        Some(choices)
    }
}

impl<R: Residence> Drop for AutoQueue<R> {
    fn drop(&mut self) {
        self.remember();
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
