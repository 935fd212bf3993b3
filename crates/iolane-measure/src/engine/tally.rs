//! What a phase of an engine did: counts and histograms.

use hdrhistogram::Histogram;

use crate::latencies::new_histogram;

/// What one phase of one engine did; merged, of all engines of a run.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Reads and writes that completed without an error.
    pub ios: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Requests among them that moved fewer bytes than requested.
    pub short: u64,
    /// Reads whose content was compared with the expected content and matched.
    pub verified: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The first failure, as text.
    pub first_error: Option<String>,
    /// Latencies of the syncs that succeeded, in nanoseconds.
    pub syncs: Histogram<u64>,
    /// From the start of the first write that a sync covers (with a rate: its scheduled start) to the completion of the sync,
    /// in nanoseconds.
    pub commits: Histogram<u64>,
    /// With a rate: requests that were due but had not started when the phase ended.
    pub late: u64,
    /// Of a phase that only reads: whether every block that was read last, as many as are in flight, holds nothing but zeroes.
    pub only_zeroes: bool,
    /// System calls of the queue; `None` where it cannot count them.
    pub syscalls: Option<u64>,
    /// Times the thread slept because no request was due: a system call each, which is none of the queue's.
    pub sleeps: u64,
    /// When the phase began and when its last request completed, in nanoseconds of the run's clock.
    pub window_ns: (u64, u64),
    /// From a request's start (with a rate: its scheduled start) to its completion, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Of a mix of reads and writes, the writes among these; empty otherwise.
    pub writes: Histogram<u64>,
    /// With a rate: from the time a request was handed to the queue to its completion, without the time it waited for its
    /// turn.
    pub service: Histogram<u64>,
    /// With a rate: how late requests were started by a thread that waited for their time and had nothing else to do.
    pub lateness: Histogram<u64>,
    /// Submission time per batch in nanoseconds; only in phases that measure it.
    pub submit: Histogram<u64>,
}

impl Tally {
    /// An empty tally. It allocates, so it is made before a phase begins.
    pub(crate) fn new() -> Self {
        Self {
            ios: 0,
            bytes: 0,
            short: 0,
            verified: 0,
            errors: 0,
            first_error: None,
            syncs: new_histogram(),
            commits: new_histogram(),
            late: 0,
            only_zeroes: true,
            syscalls: None,
            sleeps: 0,
            window_ns: (0, 0),
            latency: new_histogram(),
            writes: new_histogram(),
            service: new_histogram(),
            lateness: new_histogram(),
            submit: new_histogram(),
        }
    }

    pub fn elapsed_ns(&self) -> u64 {
        assert!(self.window_ns.0 <= self.window_ns.1, "a phase ends after it begins: {:?}", self.window_ns);
        self.window_ns.1 - self.window_ns.0
    }

    /// Adds what another engine did in the same phase.
    pub fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.short += other.short;
        self.verified += other.verified;
        self.errors += other.errors;
        self.late += other.late;
        self.only_zeroes &= other.only_zeroes;
        self.syscalls = self.syscalls.zip(other.syscalls).map(|(a, b)| a + b);
        // From the first start to the last end, since threads that share CPUs may not have run at the same time.
        self.window_ns = (self.window_ns.0.min(other.window_ns.0), self.window_ns.1.max(other.window_ns.1));
        self.first_error = self.first_error.take().or_else(|| other.first_error.clone());
        self.sleeps += other.sleeps;
        // All histograms have the same bounds, so adding cannot fail.
        let _ = self.latency.add(&other.latency);
        let _ = self.writes.add(&other.writes);
        let _ = self.syncs.add(&other.syncs);
        let _ = self.commits.add(&other.commits);
        let _ = self.service.add(&other.service);
        let _ = self.lateness.add(&other.lateness);
        let _ = self.submit.add(&other.submit);
    }
}
