//! Deadlines of requests, over any queue: a wait ends when the first of them passes, and names the requests that are late.
//! Performs no I/O; the queue does.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use crate::error::Result;
use crate::interface::Queue;
use crate::request::Completion;

/// The deadlines of requests in flight, by their tags.
///
/// A request is **late** if it has not completed when its deadline passes. It is named once. What to do then is the caller's choice: ask
/// another copy of the data, answer its own client, or end the request, which [`reap_or_cancel`](Self::reap_or_cancel) does. Each request completes
/// once all the same, with its buffer: a drive carries out what it was given ([`Queue::cancel`]).
///
/// A tag with a deadline is that of one request at a time. Requests without a deadline may share the queue.
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use iolane_core::{Buffer, Completion, Deadlines, Queue, Request, Result};
/// /// Reads a block; the answer is whether it came within 5 ms.
/// fn read(queue: &mut dyn Queue, buffer: Buffer, completions: &mut Vec<Completion>) -> Result<bool> {
///     let mut deadlines = Deadlines::new();
///     deadlines.set(7, Instant::now() + Duration::from_millis(5));
///     queue.submit(&mut vec![Request::read(7, 0, buffer)]);
///     let late = deadlines.reap_or_cancel(queue, 1, completions)?;
///     Ok(late.is_empty())
/// }
/// ```
#[derive(Debug, Default)]
pub struct Deadlines {
    by_tag: HashMap<u64, Instant>,
    in_order: BTreeSet<(Instant, u64)>,
}

impl Deadlines {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the request with this tag a deadline, in place of an earlier one of that tag. The request may be submitted before or after.
    pub fn set(&mut self, tag: u64, deadline: Instant) {
        self.clear(tag);
        self.by_tag.insert(tag, deadline);
        self.in_order.insert((deadline, tag));
    }

    /// Takes the deadline of a request away, and returns it. Completions and lateness do so themselves.
    pub fn clear(&mut self, tag: u64) -> Option<Instant> {
        let deadline = self.by_tag.remove(&tag)?;
        self.in_order.remove(&(deadline, tag));
        Some(deadline)
    }

    /// The earliest deadline, for example for the timer of an event loop.
    pub fn first(&self) -> Option<Instant> {
        self.in_order.first().map(|(deadline, _)| *deadline)
    }

    /// As [`Queue::reap`], but ends when a deadline passes, and returns the tags of the requests that are late, in the order of
    /// their deadlines. If there are none, it appended at least `min` completions, or all that were in flight.
    ///
    /// The thread sleeps in the kernel meanwhile, as in [`Queue::reap_within`]. On a path that polls it polls; on a blocking path, such as
    /// `psync`, requests have completed when it returns.
    ///
    /// # Errors
    /// As [`Queue::reap`]. Completions that came before the error are appended; no request is named late.
    pub fn reap(&mut self, queue: &mut dyn Queue, min: usize, completions: &mut Vec<Completion>) -> Result<Vec<u64>> {
        let wanted = completions.len() + min.min(queue.in_flight());
        loop {
            let before = completions.len();
            let missing = wanted.saturating_sub(before);
            let reaped = match self.first() {
                Some(first) => {
                    let left = first.saturating_duration_since(Instant::now());
                    queue.reap_within(missing, left, completions)
                }
                None => queue.reap(missing, completions),
            };
            for completion in &completions[before..] {
                self.clear(completion.tag);
            }
            reaped?;
            let late = self.take_late();
            if !late.is_empty() || completions.len() >= wanted {
                return Ok(late);
            }
        }
    }

    /// As [`reap`](Self::reap), and cancels the requests that are late. Those that end early complete as
    /// [`Cancelled`](crate::IoErrorKind::Cancelled) in a later call.
    ///
    /// # Errors
    /// As [`reap`](Self::reap), and those of [`Queue::cancel`]: all that were late are still in flight then, and the next call names
    /// those that it finds so.
    pub fn reap_or_cancel(
        &mut self,
        queue: &mut dyn Queue,
        min: usize,
        completions: &mut Vec<Completion>,
    ) -> Result<Vec<u64>> {
        let late = self.reap(queue, min, completions)?;
        if let Err(error) = late.iter().try_for_each(|tag| queue.cancel(*tag).map(drop)) {
            let now = Instant::now();
            late.iter().for_each(|tag| self.set(*tag, now));
            return Err(error);
        }
        Ok(late)
    }

    fn take_late(&mut self) -> Vec<u64> {
        let mut late = Vec::new();
        if self.in_order.is_empty() {
            return late;
        }
        let now = Instant::now();
        while let Some((_, tag)) = self.in_order.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.clear(tag);
            late.push(tag);
        }
        late
    }
}

#[cfg(test)]
mod tests {
    //! A queue that completes only what the test says, so that nothing depends on how long anything takes.

    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::{Error, IoError, Request};

    /// Completes one of `answers` for each wait, and whatever was cancelled.
    #[derive(Default)]
    struct Device {
        in_flight: Vec<Request>,
        answers: VecDeque<u64>,
        cancelled: Vec<u64>,
        fails: bool,
        fails_to_cancel: bool,
        /// Timeouts that it was asked to wait for.
        timeouts: Vec<Duration>,
    }

    impl Device {
        fn complete(&mut self, tag: u64, result: Result<u32, IoError>, completions: &mut Vec<Completion>) -> usize {
            let before = completions.len();
            let of_tag = self.in_flight.extract_if(.., |request| request.tag == tag);
            completions.extend(of_tag.map(|request| request.complete(result)));
            completions.len() - before
        }

        fn with(tags: impl IntoIterator<Item = u64>, answers: impl IntoIterator<Item = u64>) -> Self {
            let in_flight = tags.into_iter().map(Request::fdatasync).collect();
            Self { in_flight, answers: answers.into_iter().collect(), ..Self::default() }
        }
    }

    impl Queue for Device {
        fn submit(&mut self, requests: &mut Vec<Request>) -> usize {
            let count = requests.len();
            self.in_flight.append(requests);
            count
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }

        fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<usize> {
            let mut count = 0;
            for tag in std::mem::take(&mut self.cancelled) {
                count += self.complete(tag, Err(IoError::CANCELLED), completions);
            }
            while let Some(tag) = self.answers.pop_front() {
                count += self.complete(tag, Ok(0), completions);
                if count >= min {
                    break;
                }
            }
            assert!(count >= min, "it would wait for ever");
            Ok(count)
        }

        /// The time passes at once.
        fn reap_within(&mut self, _: usize, timeout: Duration, completions: &mut Vec<Completion>) -> Result<usize> {
            self.timeouts.push(timeout);
            let count = self.reap(0, completions)?;
            if self.fails { Err(Error::usage("reap", "told to fail")) } else { Ok(count) }
        }

        fn cancel(&mut self, tag: u64) -> Result<usize> {
            if self.fails_to_cancel {
                return Err(Error::usage("cancel", "told to fail"));
            }
            self.cancelled.push(tag);
            Ok(1)
        }

        fn depth(&self) -> usize {
            8
        }

        fn in_flight(&self) -> usize {
            self.in_flight.len()
        }

        fn syscalls(&self) -> Option<u64> {
            None
        }
    }

    fn tags(completions: &[Completion]) -> Vec<u64> {
        completions.iter().map(|completion| completion.tag).collect()
    }

    fn past(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).expect("the machine has been up for some seconds")
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn late_requests_are_named_once_in_the_order_of_their_deadlines() {
        let (mut device, mut completions) = (Device::with([1, 2, 3, 4], []), Vec::new());
        let mut deadlines = Deadlines::new();
        let (early, later) = (past(2), past(1));
        deadlines.set(1, later);
        deadlines.set(2, early);
        deadlines.set(3, far());
        assert_eq!(deadlines.first(), Some(early));
        let late = deadlines.reap(&mut device, 4, &mut completions).expect("it does not fail");
        assert_eq!(late, [2, 1], "neither 3, which has an hour, nor 4, which has no deadline");
        assert!(device.cancelled.is_empty() && completions.is_empty());
        device.answers.extend([4, 3, 2, 1]);
        let late = deadlines.reap(&mut device, 4, &mut completions).expect("it does not fail");
        assert!(late.is_empty(), "{late:?}");
        assert_eq!(tags(&completions), [4, 3, 2, 1]);
        assert_eq!(deadlines.first(), None, "completions took the last one away");
    }

    #[test]
    fn a_request_that_has_completed_is_not_late() {
        let (mut device, mut completions) = (Device::with([1], [1]), Vec::new());
        let mut deadlines = Deadlines::new();
        deadlines.set(1, past(1));
        let late = deadlines.reap(&mut device, 1, &mut completions).expect("it does not fail");
        assert_eq!((late, tags(&completions)), (vec![], vec![1]));
        // The tag is free for another request.
        device.submit(&mut [Request::fdatasync(1)].into());
        device.answers.push_back(1);
        let late = deadlines.reap(&mut device, 1, &mut completions).expect("it does not fail");
        assert_eq!((late, device.timeouts.len()), (vec![], 1), "without a deadline it waits without a timeout");
    }

    #[test]
    fn late_requests_are_cancelled_and_no_others() {
        let (mut device, mut completions) = (Device::with([1, 2], []), Vec::new());
        let mut deadlines = Deadlines::new();
        deadlines.set(1, past(1));
        deadlines.set(2, far());
        let late = deadlines.reap_or_cancel(&mut device, 1, &mut completions).expect("it does not fail");
        assert_eq!((late, device.cancelled.clone()), (vec![1], vec![1]));
        let late = deadlines.reap_or_cancel(&mut device, 1, &mut completions).expect("it does not fail");
        assert_eq!((late, tags(&completions)), (vec![], vec![1]));
        assert_eq!(completions[0].result, Err(IoError::CANCELLED));
        assert!(device.timeouts[1] > Duration::from_secs(3000), "it may wait until the next deadline");
    }

    #[test]
    fn a_later_deadline_replaces_an_earlier_one() {
        let (mut device, mut completions) = (Device::with([1], []), Vec::new());
        let mut deadlines = Deadlines::new();
        deadlines.set(1, past(1));
        deadlines.set(1, far());
        assert!(deadlines.reap(&mut device, 0, &mut completions).expect("it does not fail").is_empty());
        assert!(deadlines.clear(1).is_some_and(|deadline| deadline > Instant::now()));
        assert_eq!((deadlines.clear(1), deadlines.first()), (None, None));
    }

    #[test]
    fn it_waits_until_there_are_as_many_as_asked_for() {
        let (mut device, mut completions) = (Device::with([1, 2, 3], [1, 2, 3]), Vec::new());
        let mut deadlines = Deadlines::new();
        deadlines.set(3, far());
        let late = deadlines.reap(&mut device, 9, &mut completions).expect("it does not fail");
        assert_eq!((late, tags(&completions)), (vec![], vec![1, 2, 3]), "three waits brought one each");
    }

    #[test]
    fn an_error_loses_neither_completions_nor_deadlines() {
        let (mut device, mut completions) = (Device::with([1, 2], [1]), Vec::new());
        let mut deadlines = Deadlines::new();
        deadlines.set(1, past(1));
        deadlines.set(2, past(1));
        device.fails = true;
        assert!(deadlines.reap(&mut device, 2, &mut completions).is_err());
        assert_eq!(tags(&completions), [1]);
        device.fails = false;
        assert_eq!(deadlines.reap(&mut device, 1, &mut completions).expect("it does not fail"), [2]);
    }

    #[test]
    fn requests_that_could_not_be_cancelled_are_named_by_the_next_call() {
        let (mut device, mut completions) = (Device::with([1, 2, 3], []), Vec::new());
        let mut deadlines = Deadlines::new();
        [1, 2].into_iter().for_each(|tag| deadlines.set(tag, past(1)));
        deadlines.set(3, far());
        device.fails_to_cancel = true;
        assert!(deadlines.reap_or_cancel(&mut device, 1, &mut completions).is_err());
        device.fails_to_cancel = false;
        assert_eq!(deadlines.reap_or_cancel(&mut device, 1, &mut completions).expect("it does not fail"), [1, 2]);
        assert_eq!(device.cancelled, [1, 2]);
    }
}
