//! Chains and barriers over any queue: requests of which each begins when the one before has completed in full. They are ordered
//! here, in user space, so that they mean the same on every path. Performs no I/O; the queue below does.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::interface::Queue;
use crate::request::{Completion, IoError, Request};
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
/// # use std::collections::VecDeque;
/// # use iolane_core::{Chains, Pool, Queue, Request, Result};
/// /// Writes a page, makes it durable, then writes what refers to it; all three are in flight at once.
/// fn publish(queue: &mut Chains, pool: &Pool) -> Result<bool> {
///     let (Some(page), Some(root)) = (pool.take(), pool.take()) else { return Ok(false) };
///     let mut chain = VecDeque::from([
///         Request::write(1, 8192, page),
///         Request::fdatasync(2),
///         Request::write(3, 0, root),
///     ]);
///     let has_room = queue.submit_chain(&mut chain);
///     queue.flush()?;
///     Ok(has_room)
/// }
/// ```
pub struct Chains {
    queue: Box<dyn Queue>,
    /// One for each request that the queue below has, by the tag it has there.
    places: Vec<Place>,
    free: Vec<u32>,
    /// What waits for a barrier, or for room, in the order of submission.
    waiting: VecDeque<Waiting>,
    /// How many requests `waiting` holds, those of its chains included.
    waiting_requests: usize,
    /// How many requests wait behind others of their chain.
    linked: usize,
    /// Whether a barrier is with the queue below.
    at_barrier: bool,
    /// Requests that completed without it.
    ended: Vec<Completion>,
    /// Passed on to it, and empty between calls.
    requests: VecDeque<Request>,
    below: Vec<Completion>,
}

/// A request that the queue below has.
#[derive(Default)]
struct Place {
    taken: bool,
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
            places: (0..depth).map(|_| Place::default()).collect(),
            free: (0..depth as u32).rev().collect(),
            waiting: VecDeque::new(),
            waiting_requests: 0,
            linked: 0,
            at_barrier: false,
            ended: Vec::new(),
            requests: VecDeque::with_capacity(depth),
            below: Vec::with_capacity(depth),
            queue,
        })
    }

    /// Submits a chain, whole or not at all: if the queue is full, it stays with the caller and the answer is false. However long,
    /// it takes the room of one request. An empty chain is none.
    pub fn submit_chain(&mut self, chain: &mut VecDeque<Request>) -> bool {
        if self.room() == 0 {
            return false;
        }
        let mut rest = std::mem::take(chain);
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
        self.waiting_requests += 1 + waiting.rest.len();
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
            self.waiting_requests -= 1 + first.rest.len();
            self.linked += first.rest.len();
            self.at_barrier = first.is_barrier;
            self.pass(first.first, first.rest);
        }
        let passed = self.requests.len();
        let taken = self.queue.submit(&mut self.requests);
        debug_assert!(taken == passed, "no more is passed on than there is room for");
    }

    /// Gives a request its place, and the tag of that.
    fn pass(&mut self, mut request: Request, rest: VecDeque<Request>) {
        let bytes = request.operation.buffer().map_or(0, |buffer| buffer.len());
        let place = self.free.pop().expect("there are as many places as the queue is deep");
        self.places[place as usize] = Place { taken: true, tag: request.tag, bytes, rest };
        request.tag = u64::from(place);
        self.requests.push_back(request);
    }

    /// Passes on what the completions of the queue below made way for, and appends them with the caller's tags. The next requests are
    /// handed over even if the caller does not come back soon.
    fn advance(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        completions.append(&mut self.ended);
        let mut below = std::mem::take(&mut self.below);
        for mut completion in below.drain(..) {
            let place = &mut self.places[completion.tag as usize];
            debug_assert!(place.taken, "the queue below completes each request once");
            let Place { tag, bytes, mut rest, .. } = std::mem::take(place);
            self.free.push(completion.tag as u32);
            let in_full = completion.result == Ok(bytes as u32);
            completion.tag = tag;
            completions.push(completion);
            self.linked -= rest.len();
            if !in_full {
                completions.extend(rest.into_iter().map(|request| request.complete(Err(IoError::CANCELLED))));
            } else if let Some(next) = rest.pop_front() {
                self.linked += rest.len();
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
    fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
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
        let linked = self.places.iter().flat_map(|place| &place.rest);
        if waiting.chain(linked).any(|request| request.target == target) {
            return Err(Error::usage("detaching a target", "requests for it wait").remedy("reap them first"));
        }
        self.queue.detach(target)
    }

    /// Those that wait end at once, and what is behind them in their chain with them.
    fn cancel(&mut self, tag: u64) -> Result<usize> {
        let mut count = 0;
        for Waiting { first, mut rest, is_barrier } in std::mem::take(&mut self.waiting) {
            self.waiting_requests -= 1 + rest.len();
            let first = if first.tag == tag {
                rest.push_front(first);
                None
            } else {
                Some(first)
            };
            let ended = cut(&mut rest, tag);
            count += ended.len();
            self.ended.extend(ended);
            if let Some(first) = first {
                self.wait(Waiting { first, rest, is_barrier });
            }
        }
        for place in 0..self.places.len() {
            let ended = cut(&mut self.places[place].rest, tag);
            count += ended.len();
            self.linked -= ended.len();
            self.ended.extend(ended);
            if self.places[place].taken && self.places[place].tag == tag {
                count += self.queue.cancel(place as u64)?;
            }
        }
        self.begin();
        Ok(count)
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// Those that wait included: with long chains they are more than the queue is deep.
    fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.waiting_requests + self.linked + self.ended.len()
    }

    fn syscalls(&self) -> Option<u64> {
        self.queue.syscalls()
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
mod tests {
    use std::cell::RefCell;
    use std::collections::{HashMap, HashSet};
    use std::rc::Rc;

    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::{IoErrorKind, Pages, Pool};

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Event {
        Begins(u64),
        Ends { id: u64, in_full: bool },
    }

    /// Completes what it has in any order: in full, in part, or with an error. Offsets tell requests apart.
    struct Device {
        depth: usize,
        in_flight: Vec<Request>,
        log: Rc<RefCell<Vec<Event>>>,
        random: Xoshiro256PlusPlus,
        /// Whether `reap` fails after it has completed requests.
        fails: bool,
    }

    impl Queue for Device {
        fn submit(&mut self, requests: &mut VecDeque<Request>) -> usize {
            let count = requests.len().min(self.depth - self.in_flight.len());
            for request in requests.drain(..count) {
                self.log.borrow_mut().push(Event::Begins(request.offset));
                self.in_flight.push(request);
            }
            count
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }

        fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
            let most = self.in_flight.len();
            let count = min.min(most).max(below(&mut self.random, most + 1));
            for _ in 0..count {
                let number = below(&mut self.random, self.in_flight.len());
                let request = self.in_flight.swap_remove(number);
                let (id, bytes) = (request.offset, request.operation.buffer().map_or(0, |buffer| buffer.len() as u32));
                let result = match below(&mut self.random, 10) {
                    0 => Err(IoError::from_errno(libc::EIO)),
                    1 if bytes > 0 => Ok(bytes / 2),
                    _ => Ok(bytes),
                };
                self.log.borrow_mut().push(Event::Ends { id, in_full: result == Ok(bytes) });
                completions.push(request.complete(result));
            }
            if self.fails { Err(Error::usage("reap", "told to fail")) } else { Ok(count) }
        }

        fn cancel(&mut self, tag: u64) -> Result<usize> {
            Ok(self.in_flight.iter().filter(|request| request.tag == tag).count())
        }

        fn depth(&self) -> usize {
            self.depth
        }

        fn in_flight(&self) -> usize {
            self.in_flight.len()
        }

        fn syscalls(&self) -> Option<u64> {
            None
        }
    }

    fn below(random: &mut Xoshiro256PlusPlus, end: usize) -> usize {
        (random.next_u64() % end.max(1) as u64) as usize
    }

    /// What was submitted, in this order: chains by their ids, a single request being a chain of one.
    struct Submitted {
        ids: Vec<u64>,
        is_barrier: bool,
    }

    struct Trial {
        queue: Chains,
        log: Rc<RefCell<Vec<Event>>>,
        submitted: Vec<Submitted>,
        ended: Vec<Completion>,
        pool: Pool,
        next: u64,
    }

    /// Tags are not unique: three requests share each.
    fn tag_of(id: u64) -> u64 {
        id / 3
    }

    impl Trial {
        fn new(seed: u64, pool: &Pool) -> Self {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let depth = 1 + below(&mut random, 6);
            Self::over(depth, random, false, pool)
        }

        fn over(depth: usize, random: Xoshiro256PlusPlus, fails: bool, pool: &Pool) -> Self {
            let log = Rc::default();
            let device = Device { depth, in_flight: Vec::new(), log: Rc::clone(&log), random, fails };
            let queue = Chains::new(Box::new(device)).expect("nothing is in flight");
            Self { queue, log, submitted: Vec::new(), ended: Vec::new(), pool: pool.clone(), next: 0 }
        }

        fn request(&mut self) -> Request {
            let id = self.next;
            self.next += 1;
            let request = match id.is_multiple_of(2).then(|| self.pool.take()).flatten() {
                Some(buffer) => Request::write(tag_of(id), 0, buffer),
                None => Request::fdatasync(tag_of(id)),
            };
            Request { offset: id, ..request }
        }

        fn submit(&mut self, count: usize, is_barrier: bool) {
            let mut chain: VecDeque<Request> = (0..count).map(|_| self.request()).collect();
            let ids: Vec<u64> = chain.iter().map(|request| request.offset).collect();
            let has_room = self.queue.room() > 0;
            let taken = match (is_barrier, count) {
                (true, _) => chain.pop_front().is_some_and(|request| self.queue.submit_barrier(request).is_ok()),
                (false, 1) => self.queue.submit(&mut chain) == 1,
                (false, _) => self.queue.submit_chain(&mut chain),
            };
            assert_eq!(taken, has_room, "it takes what it has room for");
            assert!(taken || is_barrier || chain.len() == count, "what was not taken stays");
            if taken {
                self.submitted.push(Submitted { ids, is_barrier });
            }
        }

        fn check(&self) {
            let log = self.log.borrow();
            let at = |event: Event| log.iter().position(|known| *known == event);
            let ends = |id: u64| {
                let end = log.iter().position(|known| matches!(known, Event::Ends { id: known, .. } if *known == id));
                end.or_else(|| at(Event::Begins(id)).is_none().then_some(0))
            };
            for Submitted { ids, .. } in &self.submitted {
                for pair in ids.windows(2) {
                    if let Some(begins) = at(Event::Begins(pair[1])) {
                        let before = at(Event::Ends { id: pair[0], in_full: true });
                        assert!(before.is_some_and(|before| before < begins), "{pair:?}");
                    }
                }
            }
            for (number, barrier) in self.submitted.iter().enumerate().filter(|(_, submitted)| submitted.is_barrier) {
                let id = barrier.ids[0];
                let ids =
                    |submitted: &[Submitted]| submitted.iter().flat_map(|one| one.ids.clone()).collect::<Vec<_>>();
                if let Some(begins) = at(Event::Begins(id)) {
                    for earlier in ids(&self.submitted[..number]) {
                        assert!(ends(earlier).is_some_and(|end| end <= begins), "{earlier} before barrier {id}");
                    }
                }
                for later in ids(&self.submitted[number + 1..]) {
                    if let Some(begins) = at(Event::Begins(later)) {
                        assert!(ends(id).is_some_and(|end| end <= begins), "{later} behind barrier {id}");
                    }
                }
            }
            let mut tags: Vec<u64> = self.ended.iter().map(|completion| completion.tag).collect();
            let ids = self.submitted.iter().flat_map(|submitted| &submitted.ids);
            let mut expected: Vec<u64> = ids.clone().map(|id| tag_of(*id)).collect();
            tags.sort_unstable();
            expected.sort_unstable();
            assert_eq!(tags, expected, "each request completes once");
            let begun: HashSet<u64> = ids.filter(|id| at(Event::Begins(**id)).is_some()).copied().collect();
            let cancelled = self
                .ended
                .iter()
                .filter(|completion| completion.result.is_err_and(|error| error.kind() == IoErrorKind::Cancelled));
            assert_eq!(cancelled.count() + begun.len(), expected.len(), "what did not begin was cancelled");
        }
    }

    #[test]
    fn chains_and_barriers_keep_their_order_whatever_the_queue_below_does() {
        let pool = Pool::new(64, 4096, Pages::Base).expect("memory for a test");
        for seed in 0..10_000 {
            let mut trial = Trial::new(seed, &pool);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(!seed);
            for _ in 0..20 {
                match below(&mut random, 8) {
                    0..3 => trial.submit(1, false),
                    3 | 4 => {
                        let count = 2 + below(&mut random, 4);
                        trial.submit(count, false);
                    }
                    5 => trial.submit(1, true),
                    6 => {
                        let tag = below(&mut random, 1 + trial.next as usize / 3) as u64;
                        trial.queue.cancel(tag).expect("it does not fail");
                    }
                    _ => {
                        let (min, before) = (below(&mut random, 4), trial.queue.in_flight());
                        let count = trial.queue.reap(min, &mut trial.ended).expect("it does not fail");
                        assert!(count >= min.min(before), "seed {seed}: {count} of {before} for {min}");
                        assert_eq!(trial.queue.in_flight(), before - count, "seed {seed}");
                    }
                }
            }
            let ended = &mut trial.ended;
            trial.queue.drain(ended).expect("it does not fail");
            trial.check();
        }
        let free: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(free.len(), pool.frames(), "each buffer came back");
    }

    #[test]
    fn completions_that_come_before_an_error_are_handed_out() {
        let pool = Pool::new(2, 4096, Pages::Base).expect("memory for a test");
        let mut trial = Trial::over(1, Xoshiro256PlusPlus::seed_from_u64(1), true, &pool);
        for number in 1..=4 {
            trial.submit(1, false);
            assert!(trial.queue.reap(1, &mut trial.ended).is_err());
            assert_eq!((trial.ended.len(), trial.queue.in_flight()), (number, 0));
        }
        trial.check();
    }

    #[test]
    fn what_is_behind_a_failure_completes_as_cancelled_in_order() {
        let pool = Pool::new(8, 4096, Pages::Base).expect("memory for a test");
        let mut outcomes: HashMap<usize, usize> = HashMap::new();
        for seed in 0..200 {
            let mut trial = Trial::new(seed, &pool);
            trial.submit(4, false);
            let ended = &mut trial.ended;
            trial.queue.drain(ended).expect("it does not fail");
            let is_cancelled =
                |completion: &&Completion| completion.result.is_err_and(|error| error.kind() == IoErrorKind::Cancelled);
            let first = trial.ended.iter().position(|completion| is_cancelled(&completion)).unwrap_or(4);
            assert!(trial.ended[first..].iter().all(|completion| is_cancelled(&completion)), "seed {seed}");
            *outcomes.entry(first).or_default() += 1;
        }
        assert!(outcomes.len() == 4, "chains ended at each of their requests: {outcomes:?}");
    }
}
