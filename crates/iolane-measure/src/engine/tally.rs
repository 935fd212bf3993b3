//! What a phase of an engine did: counts and histograms.

use hdrhistogram::Histogram;

use iolane::{Choices, IoPath};

use crate::latencies::new_histogram;

/// How long submissions took.
#[derive(Debug, Clone)]
pub struct Submissions {
    /// Time per request in nanoseconds: that of a call that submits, divided by the number of requests it took.
    pub per_request: Histogram<u64>,
    /// The number of such calls.
    pub calls: u64,
}

impl Submissions {
    pub(crate) fn new() -> Self {
        Self { per_request: new_histogram(), calls: 0 }
    }

    /// Adds a call that took `requests` requests.
    pub(crate) fn record(&mut self, requests: usize, elapsed_ns: u64) {
        if requests > 0 {
            self.per_request.saturating_record_n(elapsed_ns / requests as u64, requests as u64);
            self.calls += 1;
        }
    }

    /// Requests per call; `None` without a submission.
    pub fn batch(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.per_request.len() as f64 / self.calls as f64)
    }

    /// Adds those of another engine.
    pub(crate) fn merge(&mut self, other: &Self) {
        // All histograms have the same bounds, so adding cannot fail.
        let _ = self.per_request.add(&other.per_request);
        self.calls += other.calls;
    }
}

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
    /// The paths that a queue which chooses among them took, each with its requests; empty for a queue of one path.
    pub paths: Vec<(IoPath, u64)>,
    /// What each such queue chose since it was opened, and why.
    pub choices: Vec<Choices>,
    /// Submissions; only in phases that time them.
    pub submissions: Submissions,
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
            paths: Vec::new(),
            choices: Vec::new(),
            submissions: Submissions::new(),
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
        self.submissions.merge(&other.submissions);
        self.add_paths(&other.paths);
        self.choices.extend_from_slice(&other.choices);
    }

    /// Adds requests that completed on these paths.
    pub fn add_paths(&mut self, paths: &[(IoPath, u64)]) {
        for (path, ios) in paths {
            match self.paths.iter_mut().find(|(known, _)| known == path) {
                Some((_, sum)) => *sum += ios,
                None => self.paths.push((path.clone(), *ios)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_submission_is_shared_by_its_requests() {
        let mut submissions = Submissions::new();
        assert_eq!(submissions.batch(), None);
        submissions.record(0, 500);
        submissions.record(4, 8000);
        let mut others = Submissions::new();
        others.record(1, 5000);
        submissions.merge(&others);
        assert_eq!(submissions.batch(), Some(2.5));
        let count = |ns| submissions.per_request.count_at(ns);
        assert_eq!((count(2000), count(5000), submissions.per_request.len()), (4, 1, 5));
    }
}
