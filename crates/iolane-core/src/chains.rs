//! Chains and barriers over any queue: requests of which each begins when the one before has completed in full. They are ordered
//! here, in user space, so that they mean the same on every path. Performs no I/O; the queue below does.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::choice::Choices;
use crate::error::{Error, Result};
use crate::interface::Queue;
use crate::queue_stats::QueueStats;
use crate::request::{Completion, IoError, Request};
use crate::slots::Slots;
use crate::target::Target;
use crate::targets::TargetId;

/// A queue that also takes chains and barriers.
///
/// A **chain** is a list of requests. Each begins when the one before has completed in full: a write, then the sync that
/// makes it durable, then the write that refers to it. If one fails or moves fewer bytes than it was asked to, those behind it
/// do not begin and complete as [`Cancelled`](crate::IoErrorKind::Cancelled), with their buffers. Chains do not wait
/// for each other.
///
/// A **barrier** is one request that begins when all submitted before it have completed, well or not; what is submitted after it begins
/// when it has completed.
///
/// All requests, those outside of chains too, are submitted through this queue. It gives the queue below tags of its own, and the
/// completions carry the caller's.
///
/// Links of the kernel (IOSQE_IO_LINK, io_uring_enter(2)) exist on some paths only and hold within one submission; decision 23 says more.
///
/// ```
/// # use iolane_core::{Chains, Pool, Queue, Request, Result};
/// /// Writes a page, makes it durable, then writes what refers to it; all three are in flight at once.
/// fn publish(queue: &mut Chains, pool: &Pool) -> Result<bool> {
///     let (Some(page), Some(root)) = (pool.take(), pool.take()) else { return Ok(false) };
///     let mut chain = vec![
///         Request::write(1, 8192, page),
///         Request::fdatasync(2),
///         Request::write(3, 0, root),
///     ];
///     let has_room = queue.submit_chain(&mut chain);
///     queue.flush()?;
///     Ok(has_room)
/// }
/// ```
pub struct Chains {
    queue: Box<dyn Queue>,
    /// What the queue below has; the slot is the tag there.
    passed: Slots<Passed>,
    /// What waits for a barrier, or for room, in the order of submission.
    waiting: VecDeque<Waiting>,
    /// How many requests wait, here or behind others of their chain.
    held: usize,
    /// Whether a barrier is with the queue below.
    at_barrier: bool,
    /// Requests that completed without it.
    ended: Vec<Completion>,
    /// Passed on to it, and empty between calls.
    requests: Vec<Request>,
    below: Vec<Completion>,
}

/// A request that the queue below has.
struct Passed {
    tag: u64,
    /// Bytes it is to move.
    bytes: usize,
    /// The rest of its chain.
    rest: VecDeque<Request>,
}

/// A request that waits for a barrier, or for room, with the rest of its chain.
struct Waiting {
    first: Request,
    rest: VecDeque<Request>,
    is_barrier: bool,
}

impl Waiting {
    fn one(first: Request) -> Self {
        Self { first, rest: VecDeque::new(), is_barrier: false }
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

impl Chains {
    /// Over a queue that has nothing in flight.
    ///
    /// # Errors
    /// `Usage` if it has.
    pub fn new(queue: Box<dyn Queue>) -> Result<Self> {
        if queue.in_flight() > 0 {
            return Err(Error::usage("chains", "the queue has requests in flight").remedy("reap them first"));
        }
        let depth = queue.depth();
        Ok(Self {
            passed: Slots::new(depth),
            waiting: VecDeque::new(),
            held: 0,
            at_barrier: false,
            ended: Vec::new(),
            requests: Vec::with_capacity(depth),
            below: Vec::with_capacity(depth),
            queue,
        })
    }

    /// Submits a chain, whole or not at all: if the queue is full, it stays with the caller and the answer is false. However long,
    /// it takes the room of one request. An empty chain is none.
    pub fn submit_chain(&mut self, chain: &mut Vec<Request>) -> bool {
        if self.room() == 0 {
            return false;
        }
        let mut rest = VecDeque::from(std::mem::take(chain));
        if let Some(first) = rest.pop_front() {
            self.wait(Waiting { first, rest, is_barrier: false });
            self.begin();
        }
        true
    }

    /// Submits a barrier.
    ///
    /// # Errors
    /// The request, if the queue is full.
    pub fn submit_barrier(&mut self, request: Request) -> Result<(), Request> {
        if self.room() == 0 {
            return Err(request);
        }
        self.wait(Waiting { is_barrier: true, ..Waiting::one(request) });
        self.begin();
        Ok(())
    }

    /// How many more requests, chains and barriers there is room for.
    pub fn room(&self) -> usize {
        let taken = self.queue.in_flight() + self.waiting.len() + self.ended.len();
        self.queue.depth().saturating_sub(taken)
    }

    fn wait(&mut self, waiting: Waiting) {
        self.held += 1 + waiting.rest.len();
        self.waiting.push_back(waiting);
    }

    /// Passes on what waits, in order, up to the next barrier.
    fn begin(&mut self) {
        while !self.at_barrier
            && let Some(first) = self.waiting.front()
        {
            let (below, most) = (self.queue.in_flight() + self.requests.len(), self.queue.depth());
            if first.is_barrier && below > 0 || below == most {
                break;
            }
            let Some(first) = self.waiting.pop_front() else { break };
            self.at_barrier = first.is_barrier;
            self.pass(first.first, first.rest);
        }
        let passed = self.requests.len();
        let taken = self.queue.submit(&mut self.requests);
        debug_assert!(taken == passed, "no more is passed on than there is room for");
    }

    /// Gives a request that waited its slot, and that as its tag.
    fn pass(&mut self, mut request: Request, rest: VecDeque<Request>) {
        self.held -= 1;
        let bytes = request.operation.bytes();
        let slot = self.passed.insert(Passed { tag: request.tag, bytes, rest });
        request.tag = u64::from(slot);
        self.requests.push(request);
    }

    /// Passes on what the completions of the queue below made way for, and appends them with the caller's tags. The next requests are
    /// handed over even if the caller does not come back soon.
    fn advance(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        completions.append(&mut self.ended);
        let mut below = std::mem::take(&mut self.below);
        for mut completion in below.drain(..) {
            let Some(Passed { tag, bytes, mut rest }) = self.passed.take(completion.tag) else {
                debug_assert!(false, "the queue below completes each request once");
                continue;
            };
            let in_full = completion.result == Ok(bytes as u32);
            completion.tag = tag;
            completions.push(completion);
            if !in_full {
                self.held -= rest.len();
                completions.extend(rest.into_iter().map(|request| request.complete(Err(IoError::CANCELLED))));
            } else if let Some(next) = rest.pop_front() {
                self.pass(next, rest);
            }
        }
        self.below = below;
        self.at_barrier &= self.queue.in_flight() > 0;
        if !self.waiting.is_empty() || !self.requests.is_empty() {
            self.begin();
            // An error shows at the next call, which flushes again.
            let _ = self.queue.flush();
        }
        completions.len() - before
    }
}

impl Queue for Chains {
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
        let count = self.room().min(requests.len());
        requests.drain(..count).for_each(|request| self.wait(Waiting::one(request)));
        self.begin();
        count
    }

    fn flush(&mut self) -> Result<()> {
        self.queue.flush()
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
        let min = min.min(self.in_flight());
        let mut count = 0;
        loop {
            let wanted = min.saturating_sub(count + self.ended.len());
            let reaped = self.queue.reap(wanted.min(self.queue.in_flight()), &mut self.below);
            // Those that came before an error, too.
            count += self.advance(completions);
            reaped?;
            if count >= min {
                return Ok(count);
            }
        }
    }

    fn reap_within(&mut self, min: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
        let wanted = min.min(self.in_flight()).saturating_sub(self.ended.len());
        let reaped = self.queue.reap_within(wanted.min(self.queue.in_flight()), timeout, &mut self.below);
        let count = self.advance(completions);
        reaped.map(|_| count)
    }

    fn attach(&mut self, target: &Target) -> Result<TargetId> {
        self.queue.attach(target)
    }

    fn detach(&mut self, target: TargetId) -> Result<()> {
        let waiting = self.waiting.iter().flat_map(Waiting::requests);
        let linked = self.passed.iter().flat_map(|(_, passed)| &passed.rest);
        if waiting.chain(linked).any(|request| request.target == target) {
            return Err(Error::usage("detaching a target", "requests for it wait").remedy("reap them first"));
        }
        self.queue.detach(target)
    }

    /// Those that wait end at once, and what is behind them in their chain with them.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let before = self.ended.len();
        for Waiting { first, mut rest, is_barrier } in std::mem::take(&mut self.waiting) {
            if first.tag == tag {
                rest.push_front(first);
                self.ended.extend(cut(&mut rest, tag));
            } else {
                self.ended.extend(cut(&mut rest, tag));
                self.waiting.push_back(Waiting { first, rest, is_barrier });
            }
        }
        let mut below = Vec::new();
        for (slot, passed) in self.passed.iter_mut() {
            self.ended.extend(cut(&mut passed.rest, tag));
            if passed.tag == tag {
                below.push(slot);
            }
        }
        let mut count = self.ended.len() - before;
        self.held -= count;
        for slot in below {
            count += self.queue.cancel(u64::from(slot))?;
        }
        self.begin();
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// Those that wait included: with long chains they are more than the queue is deep.
    fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.held + self.ended.len()
    }

    fn syscalls(&self) -> Option<u64> {
        self.queue.syscalls()
    }

    /// Those of the queue below, with what waits here.
    fn stats(&self) -> QueueStats {
        let below = self.queue.stats();
        QueueStats::new(self.depth(), self.in_flight(), below.syscalls)
            .batches(below.batches)
            .held(below.held + self.held)
    }

    fn choices(&self) -> Option<Choices> {
        self.queue.choices()
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.queue.event_fd()
    }
}

/// Cuts a chain before the first request with this tag; the completions of that and of what is behind it.
fn cut(chain: &mut VecDeque<Request>, tag: u64) -> Vec<Completion> {
    let first = chain.iter().position(|request| request.tag == tag).unwrap_or(chain.len());
    chain.drain(first..).map(|request| request.complete(Err(IoError::CANCELLED))).collect()
}

#[cfg(test)]
mod tests;
