//! How fast a run is while it goes on. Each engine counts its I/Os where others can look; the runner looks ten times a
//! second, and leaves the latest rate where a screen finds it. Nothing here takes a lock or reads a clock for an I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// From one look to the next.
pub(crate) const TENTH: Duration = Duration::from_millis(100);

/// The I/Os that one thread has done. Its owner alone writes it, so that plain loads and stores are enough; it has cache
/// lines of its own (two, which processors fetch as a pair), so that a look at it disturbs no other thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Odometer(AtomicU64);

impl Odometer {
    /// Notes a batch of I/Os that have ended.
    #[inline(always)]
    pub(crate) fn add(&self, ios: usize) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(ios as u64), Ordering::Relaxed);
    }

    /// Takes one back that was noted with its batch and is no I/O: a failed one, or an fsync.
    #[cold]
    pub(crate) fn take_back(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    fn ios(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How fast the run that goes on is now, for whoever shows it.
#[derive(Debug)]
pub struct Gauge(AtomicU64);

/// No rate has these bits.
const NONE: u64 = u64::MAX;

impl Default for Gauge {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Gauge {
    /// I/Os per second in the last tenth of a second; `None` while nothing is measured, or time is not real.
    pub fn iops(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != NONE).then(|| f64::from_bits(bits))
    }

    pub(crate) fn set(&self, iops: Option<f64>) {
        self.0.store(iops.map_or(NONE, f64::to_bits), Ordering::Relaxed);
    }
}

/// Looks at the odometers of a run ten times a second.
pub(crate) struct Sampler<'a> {
    odometers: &'a [Arc<Odometer>],
    gauge: &'a Gauge,
    begun: Instant,
    /// When it looked last, and what it saw.
    last: (Duration, u64),
    rates: Vec<f64>,
}

/// So much of a tenth of a second stands for a whole one at a run's end, which comes a little early or late.
const NEARLY: f64 = 0.9;

impl<'a> Sampler<'a> {
    /// One that begins to look now.
    pub(crate) fn new(odometers: &'a [Arc<Odometer>], gauge: &'a Gauge, begun: Instant) -> Self {
        let ios = total(odometers);
        Self { odometers, gauge, begun, last: (Duration::ZERO, ios), rates: Vec::new() }
    }

    /// How long it is from then until the next look.
    pub(crate) fn next_in(&self, now: Instant) -> Duration {
        (TENTH * (self.rates.len() as u32 + 1)).saturating_sub(now - self.begun)
    }

    /// Looks, now that this is the time.
    pub(crate) fn look(&mut self, now: Instant) {
        self.note(now - self.begun, total(self.odometers));
    }

    /// I/Os per second of each tenth of a second, now that the run has ended.
    pub(crate) fn end(mut self, now: Instant) -> Vec<f64> {
        let at = now - self.begun;
        if (at - self.last.0).as_secs_f64() >= NEARLY * TENTH.as_secs_f64() {
            self.note(at, total(self.odometers));
        }
        self.gauge.set(None);
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
        self.gauge.set(Some(rate));
    }
}

fn total(odometers: &[Arc<Odometer>]) -> u64 {
    odometers.iter().fold(0, |total, odometer| total.wrapping_add(odometer.ios()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of looks after so many milliseconds, each with the I/Os done by then; the last is the end.
    fn rates(looks: &[(u64, usize)]) -> (Vec<f64>, Option<f64>) {
        let (odometers, gauge, begun) = ([Arc::new(Odometer::default())], Gauge::default(), Instant::now());
        odometers[0].add(1000);
        let mut sampler = Sampler::new(&odometers, &gauge, begun);
        let ((end_ms, end_ios), looks) = looks.split_last().unwrap();
        let mut seen = None;
        let mut done = 0;
        for (ms, ios) in looks {
            odometers[0].add(ios - done);
            done = *ios;
            sampler.look(begun + Duration::from_millis(*ms));
            seen = gauge.iops();
        }
        odometers[0].add(end_ios - done);
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
        let (odometers, gauge, begun) = ([], Gauge::default(), Instant::now());
        let mut sampler = Sampler::new(&odometers, &gauge, begun);
        let at = |ms| begun + Duration::from_millis(ms);
        sampler.look(at(103));
        assert_eq!(sampler.next_in(at(103)), Duration::from_millis(97));
        assert_eq!(sampler.next_in(at(250)), Duration::ZERO);
    }

    #[test]
    fn what_was_no_io_is_taken_back() {
        let odometer = Odometer::default();
        odometer.add(32);
        odometer.take_back();
        assert_eq!(odometer.ios(), 31);
    }

    #[test]
    fn an_odometer_shares_no_cache_line() {
        assert_eq!((align_of::<Odometer>(), size_of::<Odometer>()), (128, 128));
    }
}
