//! How many requests one submission has at most, and how many completions are handed out at once: fio's `iodepth_batch` and
//! `iodepth_batch_complete_max`. A workload without such limits submits together what completed together.

use std::collections::VecDeque;

use iolane::{Completion, Request};

use crate::workload::Workload;

pub(super) struct Batches {
    submit_max: usize,
    complete_max: usize,
    /// The requests of the submission under way.
    batch: Vec<Request>,
    /// Completions that were fetched and not handed out yet.
    fetched: VecDeque<Completion>,
}

impl Batches {
    /// The limits of a workload; `None` if it has none.
    pub(super) fn of(workload: &Workload) -> Option<Self> {
        let max = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        let is_limited = workload.batch_submit.is_some() || workload.batch_complete_max.is_some();
        is_limited.then(|| Self {
            submit_max: max(workload.batch_submit),
            complete_max: max(workload.batch_complete_max),
            batch: Vec::with_capacity(workload.depth as usize),
            fetched: VecDeque::with_capacity(workload.depth as usize),
        })
    }

    /// The requests of the next submission, from the front of those that wait.
    pub(super) fn next(&mut self, waiting: &mut Vec<Request>) -> &mut Vec<Request> {
        let count = self.submit_max.min(waiting.len());
        self.batch.extend(waiting.drain(..count));
        &mut self.batch
    }

    /// Completions that were fetched and not handed out yet.
    pub(super) fn fetched(&self) -> usize {
        self.fetched.len()
    }

    /// Takes the completions that were fetched, and leaves as many as may be handed out now.
    pub(super) fn hand_out(&mut self, completions: &mut Vec<Completion>) -> usize {
        self.fetched.extend(completions.drain(..));
        let count = self.complete_max.min(self.fetched.len());
        completions.extend(self.fetched.drain(..count));
        count
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::atomic::AtomicBool;

    use iolane::{IoPath, Pages, Pool, Queue, QueueConfig, Result, Target};

    use super::*;
    use crate::clock::VirtualClock;
    use crate::engine::{Engine, Extent, Phase, Tally};
    use crate::workload::{RequestGenerator, ThreadShare};

    /// What reached a queue: the requests between two flushes or reaps, and the least number of each reap.
    #[derive(Default)]
    struct Seen {
        submitted: usize,
        submissions: Vec<usize>,
        awaited: Vec<usize>,
    }

    struct Watched(Box<dyn Queue>, Rc<RefCell<Seen>>);

    impl Watched {
        fn end_submission(&self) {
            let mut seen = self.1.borrow_mut();
            match std::mem::take(&mut seen.submitted) {
                0 => {}
                requests => seen.submissions.push(requests),
            }
        }
    }

    impl Queue for Watched {
        fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
            let taken = self.0.submit(requests);
            self.1.borrow_mut().submitted += taken;
            taken
        }

        fn flush(&mut self) -> Result<()> {
            self.end_submission();
            self.0.flush()
        }

        fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
            self.end_submission();
            self.1.borrow_mut().awaited.push(min);
            self.0.reap(min, completions)
        }

        fn depth(&self) -> usize {
            self.0.depth()
        }

        fn in_flight(&self) -> usize {
            self.0.in_flight()
        }

        fn syscalls(&self) -> Option<u64> {
            self.0.syscalls()
        }
    }

    /// 1000 reads at depth 8 on a simulated device that completes together what was submitted together, in virtual time.
    fn seen(workload: Workload, phase: Phase) -> (Seen, Tally) {
        let workload = Workload { depth: 8, ..workload };
        let target = Target::open("sim:1m,latency=100us,jitter=0us").unwrap();
        let pool = Pool::new(8, 4096, Pages::Base).unwrap();
        let queue = iolane::open_queue(&IoPath::new("sim"), &target, &QueueConfig::new(8)).unwrap();
        let seen = Rc::new(RefCell::new(Seen::default()));
        let queue = Box::new(Watched(queue, seen.clone()));
        let generator = RequestGenerator::new(&workload, 1 << 20, ThreadShare::ALONE).unwrap();
        let clock = VirtualClock(iolane::sim::clock(&target).unwrap());
        let mut engine = Engine::new(queue, clock, &workload, generator, None, &pool, None).unwrap();
        let mut tally = Tally::new();
        let extent = Extent { duration_ns: 1 << 40, bytes_max: 1000 * 4096 };
        engine.run(phase, extent, &AtomicBool::new(false), &mut tally).unwrap();
        drop(engine);
        (Rc::into_inner(seen).unwrap().into_inner(), tally)
    }

    #[test]
    fn a_submission_has_no_more_requests_than_allowed() {
        for most in [1, 2, 3, 8] {
            let limited = Workload { batch_submit: Some(most), ..Workload::default() };
            let (seen, tally) = seen(limited, Phase::Measure);
            assert_eq!((tally.ios, seen.submissions.iter().sum::<usize>()), (1000, 1000));
            assert_eq!(seen.submissions.iter().max(), Some(&(most as usize)));
        }
    }

    #[test]
    fn one_completion_at_a_time_is_replaced_by_one_request() {
        let one = Workload { batch_submit: Some(8), batch_complete_max: Some(1), ..Workload::default() };
        let (seen, tally) = seen(one, Phase::Measure);
        assert_eq!(seen.submissions[0], 8, "the queue is filled at first");
        assert!(seen.submissions[1..].iter().all(|requests| *requests == 1), "{:?}", seen.submissions);
        assert_eq!(tally.ios, 1000);
    }

    #[test]
    fn completions_that_are_left_over_count_among_those_that_are_awaited() {
        let two_to_seven = Workload { batch_complete: Some(2), batch_complete_max: Some(7), ..Workload::default() };
        let (seen, tally) = seen(two_to_seven, Phase::Measure);
        let refills = &seen.submissions[1..seen.submissions.len() - 1];
        assert!(refills.iter().all(|requests| (2..=7).contains(requests)), "{:?}", seen.submissions);
        assert!(seen.awaited.contains(&1), "one was left over, and one more awaited");
        assert_eq!(tally.ios, 1000);
    }

    #[test]
    fn each_submission_is_timed_by_itself() {
        let one = Workload { batch_submit: Some(1), ..Workload::default() };
        let (seen, tally) = seen(one, Phase::TimeSubmission);
        assert_eq!((tally.submissions.per_request.len(), seen.submissions.len()), (1000, 1000));
        assert_eq!(tally.submissions.batch(), Some(1.0));
    }
}
