//! How fast a run is while it goes on. Each engine counts its I/Os and their latencies where others can look; the runner
//! looks ten times a second, and leaves the latest rate and tail where a screen finds them. Nothing here takes a lock or
//! reads a clock for an I/O.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::latencies::LatencyCounts;

/// From one look to the next.
pub(crate) const TENTH: Duration = Duration::from_millis(100);

/// What one thread has done. Its owner alone writes it, so that plain loads and stores are enough; it has cache lines of its
/// own (two, which processors fetch as a pair), so that a look at it disturbs no other thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Dial {
    ios: AtomicU64,
    /// Of the phase that goes on; the thread makes them, so that they lie in memory near it.
    latencies: OnceLock<LatencyCounts>,
}

impl Dial {
    /// Lets others look at these latencies too.
    pub(crate) fn show(&self, latencies: &LatencyCounts) {
        let _ = self.latencies.set(latencies.clone());
    }

    /// Notes a batch of I/Os that have ended.
    #[inline(always)]
    pub(crate) fn add(&self, ios: usize) {
        self.ios.store(self.ios().wrapping_add(ios as u64), Ordering::Relaxed);
    }

    /// Takes one back that was noted with its batch and is no I/O: a failed one, or an fsync.
    #[cold]
    pub(crate) fn take_back(&self) {
        self.ios.store(self.ios().wrapping_sub(1), Ordering::Relaxed);
    }

    #[inline(always)]
    fn ios(&self) -> u64 {
        self.ios.load(Ordering::Relaxed)
    }
}

/// How fast the run that goes on is now, for whoever shows it.
#[derive(Debug)]
pub struct Gauge {
    iops: AtomicU64,
    p99_ns: AtomicU64,
    is_watched: AtomicBool,
}

/// No rate has these bits, and no latency is as long.
const NONE: u64 = u64::MAX;

impl Default for Gauge {
    fn default() -> Self {
        Self { iops: AtomicU64::new(NONE), p99_ns: AtomicU64::new(NONE), is_watched: AtomicBool::new(false) }
    }
}

impl Gauge {
    /// That somebody looks from now on. Until then no tail is worked out: that is a walk over the counts of each thread.
    pub fn watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// I/Os per second in the last tenth of a second; `None` while nothing is measured, or time is not real.
    pub fn iops(&self) -> Option<f64> {
        let bits = self.iops.load(Ordering::Relaxed);
        (bits != NONE).then(|| f64::from_bits(bits))
    }

    /// The 99th percentile of latency in nanoseconds, of all that has ended in the run's present phase; `None` as above, and
    /// unless it is watched.
    pub fn p99_ns(&self) -> Option<u64> {
        Some(self.p99_ns.load(Ordering::Relaxed)).filter(|ns| *ns != NONE)
    }

    fn set(&self, iops: Option<f64>, p99_ns: Option<u64>) {
        self.iops.store(iops.map_or(NONE, f64::to_bits), Ordering::Relaxed);
        self.p99_ns.store(p99_ns.unwrap_or(NONE), Ordering::Relaxed);
    }
}

/// Looks at the dials of a run ten times a second.
pub(crate) struct Sampler<'a> {
    dials: &'a [Arc<Dial>],
    gauge: &'a Gauge,
    begun: Instant,
    /// When it looked last, and what it saw.
    last: (Duration, u64),
    rates: Vec<f64>,
    looks: usize,
}

/// Tails are worked out at every so many looks: each look takes the lines that the threads count in from their caches.
const LOOKS_PER_TAIL: usize = 3;

/// So much of a tenth of a second stands for a whole one at a run's end, which comes a little early or late.
const NEARLY: f64 = 0.9;

impl<'a> Sampler<'a> {
    /// One that begins to look now.
    pub(crate) fn new(dials: &'a [Arc<Dial>], gauge: &'a Gauge, begun: Instant) -> Self {
        let ios = total(dials);
        Self { dials, gauge, begun, last: (Duration::ZERO, ios), rates: Vec::new(), looks: 0 }
    }

    /// How long it is from then until the next look.
    pub(crate) fn next_in(&self, now: Instant) -> Duration {
        (TENTH * (self.rates.len() as u32 + 1)).saturating_sub(now - self.begun)
    }

    /// Looks, now that this is the time.
    pub(crate) fn look(&mut self, now: Instant) {
        self.note(now - self.begun, total(self.dials));
    }

    /// I/Os per second of each tenth of a second, now that the run has ended.
    pub(crate) fn end(mut self, now: Instant) -> Vec<f64> {
        let at = now - self.begun;
        if (at - self.last.0).as_secs_f64() >= NEARLY * TENTH.as_secs_f64() {
            self.note(at, total(self.dials));
        }
        self.gauge.set(None, None);
        self.rates
    }

    /// Each tenth of a second since the last look gets the mean rate since then: there are several after a look that came
    /// late, on a machine that was busy.
    fn note(&mut self, at: Duration, ios: u64) {
        let (last_at, last_ios) = self.last;
        let since_s = at.saturating_sub(last_at).as_secs_f64();
        if since_s <= 0.0 {
            return;
        }
        let rate = ios.wrapping_sub(last_ios) as f64 / since_s;
        let tenths = (at.as_secs_f64() / TENTH.as_secs_f64() + (1.0 - NEARLY)) as usize;
        self.rates.resize(tenths.max(self.rates.len()), rate);
        self.last = (at, ios);
        self.looks += 1;
        let is_due = self.gauge.is_watched.load(Ordering::Relaxed) && self.looks % LOOKS_PER_TAIL == 1;
        let latencies = || self.dials.iter().filter_map(|dial| dial.latencies.get());
        let p99_ns = if is_due { LatencyCounts::quantile_ns(latencies(), 0.99) } else { self.gauge.p99_ns() };
        self.gauge.set(Some(rate), p99_ns);
    }
}

fn total(dials: &[Arc<Dial>]) -> u64 {
    dials.iter().fold(0, |total, dial| total.wrapping_add(dial.ios()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of looks after so many milliseconds, each with the I/Os done by then; the last is the end.
    fn rates(looks: &[(u64, usize)]) -> (Vec<f64>, Option<f64>) {
        let (dials, gauge, begun) = ([Arc::new(Dial::default())], Gauge::default(), Instant::now());
        dials[0].add(1000);
        let mut sampler = Sampler::new(&dials, &gauge, begun);
        let ((end_ms, end_ios), looks) = looks.split_last().unwrap();
        let mut seen = None;
        let mut done = 0;
        for (ms, ios) in looks {
            dials[0].add(ios - done);
            done = *ios;
            sampler.look(begun + Duration::from_millis(*ms));
            seen = gauge.iops();
        }
        dials[0].add(end_ios - done);
        let rates = sampler.end(begun + Duration::from_millis(*end_ms));
        assert_eq!(gauge.iops(), None, "nothing goes on any more");
        (rates.iter().map(|rate| rate.round()).collect(), seen)
    }

    #[test]
    fn each_tenth_of_a_second_has_its_rate_and_what_came_before_is_in_none() {
        assert_eq!(rates(&[(100, 10), (200, 30), (300, 30)]), (vec![100.0, 200.0, 0.0], Some(200.0)));
    }

    #[test]
    fn a_look_that_comes_late_stands_for_the_tenths_it_missed() {
        assert_eq!(rates(&[(100, 10), (400, 40), (401, 40)]).0, [100.0; 4]);
    }

    #[test]
    fn the_last_tenth_counts_where_it_is_nearly_whole() {
        assert_eq!(rates(&[(100, 10), (195, 29)]).0.len(), 2);
        assert_eq!(rates(&[(100, 10), (150, 20)]).0, [100.0]);
        assert_eq!(rates(&[(40, 20)]).0, [0.0; 0]);
    }

    #[test]
    fn looks_keep_to_their_times_whenever_the_one_before_was() {
        let (dials, gauge, begun) = ([], Gauge::default(), Instant::now());
        let mut sampler = Sampler::new(&dials, &gauge, begun);
        let at = |ms| begun + Duration::from_millis(ms);
        sampler.look(at(103));
        assert_eq!(sampler.next_in(at(103)), Duration::from_millis(97));
        assert_eq!(sampler.next_in(at(250)), Duration::ZERO);
    }

    #[test]
    fn tails_are_worked_out_for_those_who_look_alone() {
        let (dials, gauge, begun) = ([Arc::new(Dial::default()), Arc::default()], Gauge::default(), Instant::now());
        let latencies = LatencyCounts::new();
        dials[0].show(&latencies);
        (1..=1000).for_each(|us| latencies.record(us * 1000));
        let mut sampler = Sampler::new(&dials, &gauge, begun);
        sampler.look(begun + TENTH);
        assert_eq!(gauge.p99_ns(), None, "nobody looks");
        gauge.watch();
        (2..=4).for_each(|tenths| sampler.look(begun + tenths * TENTH));
        let p99_ns = gauge.p99_ns().unwrap();
        assert!((989_000..=990_000).contains(&p99_ns), "{p99_ns}");
        sampler.end(begun + 5 * TENTH);
        assert_eq!(gauge.p99_ns(), None, "nothing goes on any more");
    }

    #[test]
    fn what_was_no_io_is_taken_back() {
        let dial = Dial::default();
        dial.add(32);
        dial.take_back();
        assert_eq!(dial.ios(), 31);
    }

    #[test]
    fn a_dial_shares_no_cache_line() {
        assert_eq!((align_of::<Dial>(), size_of::<Dial>()), (128, 128));
    }
}
