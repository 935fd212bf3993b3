//! The syncs that follow writes: when one is due, and the commits that it completes.

use iolane::{Buffer, Operations, Request};

use crate::workload::Workload;

/// The syncs of one engine, of which one at a time is in flight.
///
/// A sync makes durable what completed before it was submitted (fsync(2)). A commit is the write that waited longest for
/// that, with its sync: from the start of the write, with a rate its scheduled start, to the completion of the sync.
pub(super) struct Syncs {
    /// Writes from one sync to the next.
    every: u32,
    /// fdatasync instead of fsync.
    data_only: bool,
    /// Writes started since the last sync.
    writes: u32,
    /// When the first of the writes began that have completed and that no sync covers.
    uncovered_ns: Option<u64>,
    in_flight: Option<InFlight>,
}

struct InFlight {
    /// The tag and the buffer that it occupies.
    tag: u32,
    buffer: Buffer,
    start_ns: u64,
    /// When the first of the writes began that it covers; `None` if it covers none.
    covers_ns: Option<u64>,
}

/// A sync that has completed.
pub(super) struct EndedSync {
    pub(super) tag: u32,
    pub(super) buffer: Buffer,
    /// How long it took.
    pub(super) sync_ns: u64,
    /// How long the commit took that it completes; `None` if it covers no write.
    pub(super) commit_ns: Option<u64>,
}

impl Syncs {
    /// `None` of a workload without syncs.
    pub(super) fn of(workload: &Workload) -> Option<Self> {
        let (every, data_only) = (workload.sync_every()?, workload.fsync_every.is_none());
        Some(Self { every, data_only, writes: 0, uncovered_ns: None, in_flight: None })
    }

    /// The operation that a path has to offer.
    pub(super) fn operation(&self) -> Operations {
        if self.data_only { Operations::FDATASYNC } else { Operations::FSYNC }
    }

    pub(super) fn is_due(&self) -> bool {
        self.writes >= self.every && self.in_flight.is_none()
    }

    /// A write was started.
    pub(super) fn begin_write(&mut self) {
        self.writes += 1;
    }

    /// A write that began then has completed.
    pub(super) fn end_write(&mut self, start_ns: u64) {
        self.uncovered_ns = Some(self.uncovered_ns.map_or(start_ns, |first_ns| first_ns.min(start_ns)));
    }

    pub(super) fn begin(&mut self, tag: u32, buffer: Buffer, start_ns: u64) -> Request {
        debug_assert!(self.is_due(), "one sync is in flight at a time");
        self.writes = 0;
        self.in_flight = Some(InFlight { tag, buffer, start_ns, covers_ns: self.uncovered_ns.take() });
        match self.data_only {
            true => Request::fdatasync(tag.into()),
            false => Request::fsync(tag.into()),
        }
    }

    /// The sync in flight has completed.
    pub(super) fn end(&mut self, now_ns: u64) -> Option<EndedSync> {
        let InFlight { tag, buffer, start_ns, covers_ns } = self.in_flight.take()?;
        let commit_ns = covers_ns.map(|covers_ns| now_ns - covers_ns);
        Some(EndedSync { tag, buffer, sync_ns: now_ns - start_ns, commit_ns })
    }

    /// No commit spans two phases.
    pub(super) fn end_phase(&mut self) {
        assert!(self.in_flight.is_none(), "a phase ends with nothing in flight");
        self.uncovered_ns = None;
    }
}
