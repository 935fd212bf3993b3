//! When the requests of one thread are due in an open loop, and how the thread waits for that. The engine asks it.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::workload::{Arrivals, Workload, random_stream};

/// The schedule of one thread of an open loop.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Mean distance between two requests of this thread, in nanoseconds.
    interval_ns: f64,
    /// When the first request is due, as a share of the interval: threads take turns.
    first: f64,
    /// Draws the distances of random arrivals.
    random: Option<Xoshiro256PlusPlus>,
    /// How long before a request is due the thread stops sleeping, and looks at the clock without pause; 0 where other
    /// threads need the processor.
    lead_ns: u64,
}

/// A thread that sleeps until a time wakes up some microseconds to tens of microseconds late, so it wakes up earlier by this
/// much.
const LEAD_NS: u64 = 60_000;

/// Distinct from the random streams of requests and of a study's order.
const ARRIVALS_STREAM: u32 = 61;

impl Pace {
    /// The pace of thread `index` of `threads`; `None` without a rate. `has_cpu` says whether each thread has a processor of
    /// its own.
    pub(crate) fn of(workload: &Workload, index: usize, threads: usize, has_cpu: bool) -> Option<Self> {
        assert!(index < threads, "thread {index} of {threads}");
        let rate = workload.rate?;
        // Threads draw from streams of their own: a seed for each, since a stream is found by jumping from the one before.
        let seed = workload.seed.wrapping_add((index as u64) << 32);
        Some(Self {
            interval_ns: threads as f64 * 1e9 / rate.per_s(),
            first: index as f64 / threads as f64,
            random: (workload.arrivals == Arrivals::Poisson).then(|| random_stream(seed, ARRIVALS_STREAM)),
            lead_ns: if has_cpu { LEAD_NS } else { 0 },
        })
    }

    /// The schedule of a phase that begins now.
    pub(crate) fn begin(&mut self, begin_ns: u64) -> Schedule {
        let first = if self.random.is_some() { self.random_distance() } else { self.first };
        Schedule { begin_ns, interval_ns: self.interval_ns, lead_ns: self.lead_ns, next: first }
    }

    /// Moves a schedule to its next request.
    #[inline]
    pub(crate) fn advance(&mut self, schedule: &mut Schedule) {
        schedule.next += if self.random.is_some() { self.random_distance() } else { 1.0 };
    }

    /// A distance of a Poisson process, in intervals: exponentially distributed with mean 1.
    fn random_distance(&mut self) -> f64 {
        let Some(random) = &mut self.random else { return 1.0 };
        // 53 random bits, above 0 and at most 1.
        let share = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -share.ln()
    }
}

/// When the requests of one phase are due, regardless of completions.
#[derive(Debug)]
pub(crate) struct Schedule {
    begin_ns: u64,
    interval_ns: f64,
    lead_ns: u64,
    /// When the next request is due, in intervals since the phase began.
    next: f64,
}

impl Schedule {
    /// When the next request is due.
    pub(crate) fn next_ns(&self) -> u64 {
        // Saturates for a rate close to 0, where the next request is never due.
        self.begin_ns.saturating_add((self.next * self.interval_ns) as u64)
    }

    /// When a sleep until the next request has to end.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.next_ns().saturating_sub(self.lead_ns)
    }

    /// How many requests are due before a time and have not started; of random arrivals the mean number.
    pub(crate) fn late(&self, before_ns: u64) -> u64 {
        let until = before_ns.saturating_sub(self.begin_ns) as f64 / self.interval_ns;
        (until - self.next).ceil().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Rate;

    fn workload(per_s: f64, arrivals: Arrivals) -> Workload {
        Workload { rate: Some(Rate::new(per_s).unwrap()), arrivals, ..Workload::default() }
    }

    /// The times of the first `count` requests of a thread, from a begin of 1 s.
    fn times_ns(workload: &Workload, index: usize, threads: usize, count: usize) -> Vec<u64> {
        let mut pace = Pace::of(workload, index, threads, true).unwrap();
        let mut schedule = pace.begin(1_000_000_000);
        let mut next = || {
            let at = schedule.next_ns();
            pace.advance(&mut schedule);
            at
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn without_a_rate_there_is_no_pace() {
        assert!(Pace::of(&Workload::default(), 0, 1, true).is_none());
    }

    #[test]
    fn even_requests_of_several_threads_alternate() {
        let load = workload(1000.0, Arrivals::Even);
        let mut all: Vec<u64> = (0..4).flat_map(|thread| times_ns(&load, thread, 4, 3)).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|number| 1_000_000_000 + number * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_an_exponential_distribution() {
        const COUNT: usize = 100_000;
        for threads in [1, 4] {
            let times = times_ns(&workload(1000.0, Arrivals::Poisson), threads - 1, threads, COUNT);
            let distances: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
            let mean = distances.iter().sum::<f64>() / distances.len() as f64;
            let variance = distances.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / distances.len() as f64;
            // The mean of an exponential distribution is its standard deviation; 1 % is three standard errors.
            let expected = threads as f64;
            assert!((mean / expected - 1.0).abs() < 0.01, "{mean} ms with {threads} threads");
            assert!((variance.sqrt() / expected - 1.0).abs() < 0.02, "{variance} with {threads} threads");
            // A share of 1/e is longer than the mean.
            let longer = distances.iter().filter(|one| **one > mean).count() as f64 / distances.len() as f64;
            assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
        }
    }

    #[test]
    fn a_seed_and_a_thread_decide_the_random_arrivals() {
        let load = workload(1000.0, Arrivals::Poisson);
        assert_eq!(times_ns(&load, 1, 4, 50), times_ns(&load, 1, 4, 50));
        assert_ne!(times_ns(&load, 1, 4, 50), times_ns(&load, 2, 4, 50));
        assert_ne!(times_ns(&Workload { seed: 2, ..load.clone() }, 1, 4, 50), times_ns(&load, 1, 4, 50));
    }

    #[test]
    fn what_is_due_and_has_not_started_is_counted() {
        let mut pace = Pace::of(&workload(1000.0, Arrivals::Even), 0, 1, true).unwrap();
        let mut schedule = pace.begin(0);
        assert_eq!(schedule.late(10_000_000), 10);
        (0..4).for_each(|_| pace.advance(&mut schedule));
        assert_eq!((schedule.late(10_000_000), schedule.late(4_000_001), schedule.late(1_000_000)), (6, 1, 0));
    }

    #[test]
    fn a_thread_wakes_up_early_only_where_it_has_a_processor() {
        let load = workload(1000.0, Arrivals::Even);
        let wake_ns = |has_cpu| {
            let mut pace = Pace::of(&load, 0, 1, has_cpu).unwrap();
            let mut schedule = pace.begin(0);
            pace.advance(&mut schedule);
            schedule.wake_ns()
        };
        assert_eq!((wake_ns(true), wake_ns(false)), (1_000_000 - LEAD_NS, 1_000_000));
    }
}
