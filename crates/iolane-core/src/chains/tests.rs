//! Chains and barriers over a queue that completes requests in any order, in part, and with errors.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::{Buffers, IoErrorKind, Pages, Pool};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Begins(u64),
    Ends {
        id: u64,
        in_full: bool,
    },
    /// It is asked to cancel it.
    Asked(u64),
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
    fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
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
            let (id, bytes) = (request.offset, request.operation.bytes() as u32);
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
        let asked = self.in_flight.iter().filter(|request| request.tag == tag);
        let ids: Vec<u64> = asked.map(|request| request.offset).collect();
        self.log.borrow_mut().extend(ids.iter().copied().map(Event::Asked));
        Ok(ids.len())
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

fn is_cancelled(completion: &Completion) -> bool {
    completion.result.is_err_and(|error| error.kind() == IoErrorKind::Cancelled)
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
            Some(buffer) if id.is_multiple_of(4) => Request::write(tag_of(id), 0, buffer),
            Some(buffer) => Request::write_vectored(tag_of(id), 0, Buffers::new(vec![buffer]).unwrap()),
            None => Request::fdatasync(tag_of(id)),
        };
        Request { offset: id, ..request }
    }

    fn submit(&mut self, count: usize, is_barrier: bool) {
        let mut chain: Vec<Request> = (0..count).map(|_| self.request()).collect();
        let ids: Vec<u64> = chain.iter().map(|request| request.offset).collect();
        let has_room = self.queue.room() > 0;
        let taken = match (is_barrier, count) {
            (true, _) => chain.pop().is_some_and(|request| self.queue.submit_barrier(request).is_ok()),
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
            let ids = |submitted: &[Submitted]| submitted.iter().flat_map(|one| one.ids.clone()).collect::<Vec<_>>();
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
        let cancelled = self.ended.iter().filter(|completion| is_cancelled(completion));
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
fn a_tag_is_cancelled_wherever_its_requests_are() {
    let pool = Pool::new(1, 4096, Pages::Base).expect("memory for a test");
    let mut trial = Trial::over(4, Xoshiro256PlusPlus::seed_from_u64(1), false, &pool);
    // Tag 0 is below, alone and before the rest of a chain, which has it too. Tag 1 waits: a barrier, and one behind it.
    trial.next = 2;
    trial.submit(1, false);
    trial.next = 0;
    trial.submit(2, false);
    trial.next = 3;
    trial.submit(1, true);
    trial.submit(1, false);
    assert_eq!(trial.queue.cancel(1).expect("it does not fail"), 2, "both wait");
    assert_eq!(trial.queue.cancel(0).expect("it does not fail"), 3, "two are below, one waits in its chain");
    assert_eq!(trial.queue.in_flight(), 5);
    let asked: Vec<Event> =
        trial.log.borrow().iter().copied().filter(|event| matches!(event, Event::Asked(_))).collect();
    assert_eq!(asked, [Event::Asked(2), Event::Asked(0)], "and no other");
    let ended = &mut trial.ended;
    trial.queue.drain(ended).expect("it does not fail");
    trial.check();
    assert_eq!(trial.ended.iter().filter(|completion| is_cancelled(completion)).count(), 3);
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
        let first = trial.ended.iter().position(is_cancelled).unwrap_or(4);
        assert!(trial.ended[first..].iter().all(is_cancelled), "seed {seed}");
        *outcomes.entry(first).or_default() += 1;
    }
    assert!(outcomes.len() == 4, "chains ended at each of their requests: {outcomes:?}");
}
