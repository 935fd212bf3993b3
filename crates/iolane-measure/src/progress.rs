//! Rate and tail latency of a run while it runs. Each engine counts its I/Os and latencies in shared counters; the
//! coordinator samples them ten times a second and stores the result for a display. Per I/O, nothing here takes a lock or
//! reads a clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::latencies::LatencyCounts;

/// Interval between samples.
pub(crate) const TENTH: Duration = Duration::from_millis(100);

/// What one thread has done. Only that thread writes, so plain loads and stores are enough. The counters have cache lines
/// of their own (two, which processors prefetch as a pair), so that reading them disturbs no other thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    ios: AtomicU64,
    /// Latencies of the current phase. The thread allocates them, so that they lie in memory near it.
    latencies: OnceLock<LatencyCounts>,
    /// Those of the writes of a mix.
    writes: OnceLock<LatencyCounts>,
}

impl ThreadCounters {
    /// Makes the latencies readable by the sampler.
    pub(crate) fn share(&self, latencies: &LatencyCounts, writes: Option<&LatencyCounts>) {
        let _ = self.latencies.set(latencies.clone());
        if let Some(writes) = writes {
            let _ = self.writes.set(writes.clone());
        }
    }

    /// Counts a batch of completions.
    #[inline(always)]
    pub(crate) fn add(&self, ios: usize) {
        self.ios.store(self.ios().wrapping_add(ios as u64), Ordering::Relaxed);
    }

    /// Uncounts one completion of a batch that was no I/O: a failed request, or an fsync.
    #[cold]
    pub(crate) fn uncount(&self) {
        self.ios.store(self.ios().wrapping_sub(1), Ordering::Relaxed);
    }

    #[inline(always)]
    fn ios(&self) -> u64 {
        self.ios.load(Ordering::Relaxed)
    }
}

/// Rate and tail latency of the current run, for display.
#[derive(Debug)]
pub struct RunProgress {
    iops: AtomicU64,
    p99_ns: AtomicU64,
    wants_p99: AtomicBool,
}

/// Stands for no value: no rate has these bits, and no latency is as long.
const NONE: u64 = u64::MAX;

impl Default for RunProgress {
    fn default() -> Self {
        Self { iops: AtomicU64::new(NONE), p99_ns: AtomicU64::new(NONE), wants_p99: AtomicBool::new(false) }
    }
}

impl RunProgress {
    /// Computes the tail latency from now on. It is off by default, since it walks the latency counts of every thread.
    pub fn enable_p99(&self) {
        self.wants_p99.store(true, Ordering::Relaxed);
    }

    /// I/Os per second in the last tenth of a second; `None` while nothing runs, or in virtual time.
    pub fn iops(&self) -> Option<f64> {
        let bits = self.iops.load(Ordering::Relaxed);
        (bits != NONE).then(|| f64::from_bits(bits))
    }

    /// The 99th percentile of latency in the current phase, in nanoseconds; `None` as for [`iops`](Self::iops), or if it is
    /// not enabled.
    pub fn p99_ns(&self) -> Option<u64> {
        Some(self.p99_ns.load(Ordering::Relaxed)).filter(|ns| *ns != NONE)
    }

    fn set(&self, iops: Option<f64>, p99_ns: Option<u64>) {
        self.iops.store(iops.map_or(NONE, f64::to_bits), Ordering::Relaxed);
        self.p99_ns.store(p99_ns.unwrap_or(NONE), Ordering::Relaxed);
    }
}

/// Samples the counters of a run ten times a second.
pub(crate) struct Sampler<'a> {
    counters: &'a [Arc<ThreadCounters>],
    progress: &'a RunProgress,
    begun: Instant,
    /// Time since `begun` and I/Os at the last sample.
    last: (Duration, u64),
    rates: Vec<f64>,
    samples: usize,
    /// The longest time between two samples.
    gap: Duration,
}

/// What was sampled.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sampled {
    /// I/Os per second in each tenth of a second.
    pub(crate) rates: Vec<f64>,
    /// The longest time without a sample. The thread that samples only sleeps: for longer than a second it is late only if the program was
    /// stopped, or the machine.
    pub(crate) gap: Duration,
}

/// The tail is computed once per this number of samples: reading it takes cache lines away from the threads.
const SAMPLES_PER_P99: usize = 3;

/// The share of a tenth of a second that counts as a whole one at the end of a run, which is a little early or late.
const NEARLY: f64 = 0.9;

impl<'a> Sampler<'a> {
    pub(crate) fn new(counters: &'a [Arc<ThreadCounters>], progress: &'a RunProgress, begun: Instant) -> Self {
        let ios = total(counters);
        Self {
            counters,
            progress,
            begun,
            last: (Duration::ZERO, ios),
            rates: Vec::new(),
            samples: 0,
            gap: Duration::ZERO,
        }
    }

    /// Time from `now` to the next sample.
    pub(crate) fn next_in(&self, now: Instant) -> Duration {
        (TENTH * (self.rates.len() as u32 + 1)).saturating_sub(now - self.begun)
    }

    pub(crate) fn sample(&mut self, now: Instant) {
        self.note(now - self.begun, total(self.counters));
    }

    /// Ends the sampling.
    pub(crate) fn end(mut self, now: Instant) -> Sampled {
        let at = now - self.begun;
        assert!(self.last.0 <= at, "samples are in order of time");
        self.gap = self.gap.max(at - self.last.0);
        if (at - self.last.0).as_secs_f64() >= NEARLY * TENTH.as_secs_f64() {
            self.note(at, total(self.counters));
        }
        self.progress.set(None, None);
        Sampled { rates: self.rates, gap: self.gap }
    }

    /// Gives each tenth of a second since the last sample the mean rate since then. There are several of them if a sample is
    /// late, as on a busy machine.
    fn note(&mut self, at: Duration, ios: u64) {
        let (last_at, last_ios) = self.last;
        let since = at.saturating_sub(last_at);
        self.gap = self.gap.max(since);
        let since_s = since.as_secs_f64();
        if since_s <= 0.0 {
            return;
        }
        let rate = ios.wrapping_sub(last_ios) as f64 / since_s;
        let tenths = (at.as_secs_f64() / TENTH.as_secs_f64() + (1.0 - NEARLY)) as usize;
        self.rates.resize(tenths.max(self.rates.len()), rate);
        self.last = (at, ios);
        self.samples += 1;
        let is_due = self.progress.wants_p99.load(Ordering::Relaxed) && self.samples % SAMPLES_PER_P99 == 1;
        let latencies =
            || self.counters.iter().flat_map(|thread| [&thread.latencies, &thread.writes]).filter_map(OnceLock::get);
        let p99_ns = if is_due { LatencyCounts::quantile_ns(latencies(), 0.99) } else { self.progress.p99_ns() };
        self.progress.set(Some(rate), p99_ns);
    }
}

fn total(counters: &[Arc<ThreadCounters>]) -> u64 {
    counters.iter().fold(0, |total, thread| total.wrapping_add(thread.ios()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that follow from samples at these milliseconds, each with the I/Os done by then; the last is the end.
    fn rates(samples: &[(u64, usize)]) -> (Vec<f64>, Option<f64>) {
        let (counters, progress, begun) =
            ([Arc::new(ThreadCounters::default())], RunProgress::default(), Instant::now());
        counters[0].add(1000);
        let mut sampler = Sampler::new(&counters, &progress, begun);
        let ((end_ms, end_ios), samples) = samples.split_last().unwrap();
        let mut seen = None;
        let mut done = 0;
        for (ms, ios) in samples {
            counters[0].add(ios - done);
            done = *ios;
            sampler.sample(begun + Duration::from_millis(*ms));
            seen = progress.iops();
        }
        counters[0].add(end_ios - done);
        let rates = sampler.end(begun + Duration::from_millis(*end_ms)).rates;
        assert_eq!(progress.iops(), None, "the run has ended");
        (rates.iter().map(|rate| rate.round()).collect(), seen)
    }

    #[test]
    fn each_tenth_of_a_second_has_its_rate_and_earlier_ios_count_in_none() {
        assert_eq!(rates(&[(100, 10), (200, 30), (300, 30)]), (vec![100.0, 200.0, 0.0], Some(200.0)));
    }

    #[test]
    fn a_late_sample_gives_its_mean_rate_to_each_tenth_it_missed() {
        assert_eq!(rates(&[(100, 10), (400, 40), (401, 40)]).0, [100.0; 4]);
    }

    #[test]
    fn the_longest_gap_may_be_between_two_samples_or_before_the_end() {
        let gap = |samples_ms: &[u64], end_ms: u64| {
            let (counters, progress, begun) = ([], RunProgress::default(), Instant::now());
            let mut sampler = Sampler::new(&counters, &progress, begun);
            samples_ms.iter().for_each(|ms| sampler.sample(begun + Duration::from_millis(*ms)));
            sampler.end(begun + Duration::from_millis(end_ms)).gap.as_millis()
        };
        assert_eq!(gap(&[100, 3400, 3500], 3600), 3300);
        assert_eq!(gap(&[100, 200], 2000), 1800);
        assert_eq!(gap(&[], 50), 50);
    }

    #[test]
    fn the_last_tenth_counts_where_it_is_nearly_whole() {
        assert_eq!(rates(&[(100, 10), (195, 29)]).0.len(), 2);
        assert_eq!(rates(&[(100, 10), (150, 20)]).0, [100.0]);
        assert_eq!(rates(&[(40, 20)]).0, [0.0; 0]);
    }

    #[test]
    fn a_late_sample_does_not_delay_the_next() {
        let (counters, progress, begun) = ([], RunProgress::default(), Instant::now());
        let mut sampler = Sampler::new(&counters, &progress, begun);
        let at = |ms| begun + Duration::from_millis(ms);
        sampler.sample(at(103));
        assert_eq!(sampler.next_in(at(103)), Duration::from_millis(97));
        assert_eq!(sampler.next_in(at(250)), Duration::ZERO);
    }

    #[test]
    fn the_tail_is_computed_only_once_it_is_enabled() {
        let (counters, progress, begun) =
            ([Arc::new(ThreadCounters::default()), Arc::default()], RunProgress::default(), Instant::now());
        let latencies = LatencyCounts::new();
        counters[0].share(&latencies, None);
        (1..=1000).for_each(|us| latencies.record(us * 1000));
        let mut sampler = Sampler::new(&counters, &progress, begun);
        sampler.sample(begun + TENTH);
        assert_eq!(progress.p99_ns(), None, "not enabled");
        progress.enable_p99();
        (2..=4).for_each(|tenths| sampler.sample(begun + tenths * TENTH));
        let p99_ns = progress.p99_ns().unwrap();
        assert!((989_000..=990_000).contains(&p99_ns), "{p99_ns}");
        sampler.end(begun + 5 * TENTH);
        assert_eq!(progress.p99_ns(), None, "the run has ended");
    }

    #[test]
    fn a_completion_that_was_no_io_is_uncounted() {
        let thread = ThreadCounters::default();
        thread.add(32);
        thread.uncount();
        assert_eq!(thread.ios(), 31);
    }

    #[test]
    fn thread_counters_share_no_cache_line() {
        assert_eq!((align_of::<ThreadCounters>(), size_of::<ThreadCounters>()), (128, 128));
    }
}
