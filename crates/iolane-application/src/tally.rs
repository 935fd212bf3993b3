//! What one thread of an application did in the measured phase.

use std::time::Duration;

use hdrhistogram::Histogram;
use iolane_measure::latencies::new_histogram;

/// Counts and latencies.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Keys, blocks, records: what the application counts.
    pub(crate) operations: u64,
    /// Bytes of data that were processed: decompressed, found, merged.
    pub(crate) bytes: u64,
    /// Latencies in nanoseconds; operations that are done together have one.
    pub(crate) latency: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { operations: 0, bytes: 0, latency: new_histogram() }
    }

    /// Counts operations that took a time together, which is one latency, and the bytes that they processed.
    pub(crate) fn note(&mut self, operations: u64, bytes: usize, took: Duration) {
        self.operations += operations;
        self.bytes += bytes as u64;
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(nanoseconds.max(1));
    }

    /// Forgets everything, at the end of the warm-up.
    pub(crate) fn reset(&mut self) {
        self.operations = 0;
        self.bytes = 0;
        self.latency.reset();
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        // All histograms have the same bounds, so adding cannot fail.
        let _ = self.latency.add(&other.latency);
    }
}
